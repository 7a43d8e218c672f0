"""Threads that wait, each for one reason, in functions of that name. Ends when its standard input does.

One thread waits for each of four reasons in turn. A line of standard input is answered by the seconds that
it has spent on each so far. "nobody" as an argument: as another user.
"""

import ctypes
import fcntl
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

PR_SET_DUMPABLE = 4
HELD = threading.Lock()
SPENT = dict.fromkeys(("lock", "poll", "io", "sleep"), 0.0)
LOCK_FILE, PATH = tempfile.mkstemp()
SAME_FILE = os.open(PATH, os.O_RDONLY)
Path(PATH).unlink()


def waiting_for_lock():
    HELD.acquire()


def waiting_for_lock_with_timeout():
    HELD.acquire(timeout=1e6)


def waiting_for_file_lock():
    fcntl.flock(SAME_FILE, fcntl.LOCK_EX)


def waiting_for_socket():
    one, other = socket.socketpair()
    one.recv(1)
    other.close()


def waiting_for_pipe():
    os.read(os.pipe()[0], 1)


def waiting_for_client():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    server.accept()


def waiting_in_select():
    select.select([os.pipe()[0]], [], [])


def waiting_in_epoll():
    poll = select.epoll()
    poll.register(os.pipe()[0])
    poll.poll()


def sleeping():
    time.sleep(1e6)


def sleeping_in_select():
    select.select([], [], [], 1e6)


def waiting_for_signal():
    signal.sigwait({signal.SIGUSR1})


def spend(state, wait, mean_seconds):
    began = time.monotonic()
    # Other than the sampler's ticks, these have no period.
    wait(random.uniform(0.5, 1.5) * mean_seconds)
    SPENT[state] += time.monotonic() - began


def waiting_in_turn():
    pipe = os.pipe()[0]
    one, _other = socket.socketpair()

    def receive(seconds):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, int(seconds * 1e6)))
        with suppress(BlockingIOError):
            one.recv(1)

    while True:
        spend("lock", lambda seconds: HELD.acquire(timeout=seconds), 0.02)
        spend("poll", lambda seconds: select.select([pipe], [], [], seconds), 0.04)
        spend("io", receive, 0.06)
        spend("sleep", time.sleep, 0.08)


def waiting_half_of_the_time():
    while True:
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            pass
        time.sleep(0.05)


if "nobody" in sys.argv:
    os.setuid(65534)
    # As a program that was started by this user.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)
HELD.acquire()
fcntl.flock(LOCK_FILE, fcntl.LOCK_EX)
TARGETS = [value for name, value in list(globals().items()) if name.startswith(("waiting", "sleeping"))]
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
for target in TARGETS:
    threading.Thread(target=target, daemon=True).start()
print("ready", flush=True)
while sys.stdin.readline():
    print(json.dumps(SPENT), flush=True)
os._exit(0)
