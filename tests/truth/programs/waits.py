"""A thread that waits for one reason after another, the GIL included.

For a lock, a socket, a file (FIFO) and a point in time, and beside a thread that computes for the GIL.
"""

import os
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from telling import LUCK, Diary, Run, length, spin_until

RUN = Run()
HELD = threading.Lock()
CONTEND = threading.Event()
FIFO = str(Path(RUN.path).with_name("fifo"))


def lock(seconds):
    HELD.acquire(timeout=seconds)


def receive(seconds):
    RECEIVER.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, int(seconds * 1e6) or 1))
    with suppress(BlockingIOError):
        RECEIVER.recv(1)


def read(seconds):
    os.write(ORDERS[1], struct.pack("d", seconds))
    os.read(READER, 1)


def sleep(seconds):
    time.sleep(seconds)


def compute(seconds):
    spin_until(time.perf_counter() + seconds)


def compute_against():
    while True:
        CONTEND.wait()
        spin_until(time.perf_counter() + 0.0001)


def write_on_time():
    """A process of its own: it needs no GIL to write a byte when it is asked to."""
    os.close(1)
    os.close(ORDERS[1])
    writer = os.open(FIFO, os.O_WRONLY)
    while True:
        order = os.read(ORDERS[0], 8)
        if not order:
            os._exit(0)
        time.sleep(struct.unpack("d", order)[0])
        os.write(writer, b"x")


WAITS = [(lock, 0.004), (receive, 0.012), (read, 0.006), (sleep, 0.008), (compute, 0.016)]
ORDERS = os.pipe()
os.mkfifo(FIFO)
if os.fork() == 0:
    write_on_time()
READER = os.open(FIFO, os.O_RDONLY)
RECEIVER, _SENDER = socket.socketpair()
HELD.acquire()
threading.Thread(target=compute_against, daemon=True).start()
diary = Diary("main", [wait.__name__ for wait, _ in WAITS])
RUN.ready()
while RUN.on():
    number = LUCK.randrange(len(WAITS))
    wait, mean_seconds = WAITS[number]
    seconds = length(mean_seconds)
    if wait is compute:
        CONTEND.set()
    diary.begin(number)
    wait(seconds)
    diary.end()
    CONTEND.clear()
RUN.leave(diary)
