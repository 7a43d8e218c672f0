"""Threads that wait in C calls which return EINTR when disturbed, beside one that computes.

Usage: waits.py SECONDS. Ends by itself, or when its standard input does, and prints as JSON how often each
call returned and how often it was interrupted.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
WAIT_MS = 20


def epoll_wait() -> int:
    return libc.epoll_wait(EPOLL.fileno(), ctypes.create_string_buffer(64), 4, WAIT_MS)


def poll() -> int:
    return libc.poll(ctypes.create_string_buffer(struct.pack("ihh", SILENT.fileno(), 1, 0)), 1, WAIT_MS)


def recv() -> int:
    result = libc.recv(SILENT.fileno(), ctypes.create_string_buffer(16), 16, 0)
    return 0 if result < 0 and ctypes.get_errno() == errno.EAGAIN else result


def nanosleep() -> int:
    return libc.nanosleep(ctypes.byref((ctypes.c_long * 2)(0, WAIT_MS * 1_000_000)), None)


def repeat(call: Callable[[], int], counts: list[int]) -> None:
    while not OVER.is_set():
        interrupted = call() < 0 and ctypes.get_errno() == errno.EINTR
        counts[interrupted] += 1


def compute() -> int:
    return sum(range(2000))


def until_stdin_ends() -> None:
    while os.read(0, 1):
        pass
    OVER.set()


EPOLL = select.epoll()
SILENT, OTHER_END = socket.socketpair()
SILENT.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, WAIT_MS * 1000))
EPOLL.register(SILENT.fileno())
EPOLL.modify(SILENT.fileno(), 0)
OVER = threading.Event()
CALLS = {call.__name__: (call, [0, 0]) for call in (epoll_wait, poll, recv, nanosleep)}

threads = [threading.Thread(target=repeat, args=call) for call in CALLS.values()]
threads.append(threading.Thread(target=until_stdin_ends, daemon=True))
for thread in threads:
    thread.start()
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and not OVER.is_set():
    compute()
OVER.set()
for thread in threads[:-1]:
    thread.join()
print(json.dumps({name: counts for name, (_, counts) in CALLS.items()}), flush=True)
os._exit(0)
