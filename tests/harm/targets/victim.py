"""A program that notices what is done to it, and says so in a file that it shares with the test.

Usage: victim.py FILE LIBRARY SECONDS. The file is laid out as `tests/harm/victims.py` says. The main thread
works (functions and generators) and counts its rounds; a second thread works half of the time. Four threads
wait in C without ever coming back to Python, four come back after each wait, and four are unknown to Python.
Every real-time signal is counted by its value. Runs on Python 3.8 and later, for SECONDS.
"""

import ctypes
import mmap
import sys
import threading
import time
from pathlib import Path

KINDS = 4
WAIT_MS = 50
# Of the shared file: see tests/harm/victims.py.
FLAVOURS_AT, WAITS_BYTES, SIGNALS_AT = 64, 24, 4096


def leaf(value):
    return sum(range(value))


def generate(depth):
    if depth == 0:
        yield leaf(20)
    else:
        yield from generate(depth - 1)


def call(depth):
    return leaf(20) if depth == 0 else call(depth - 1)


def work(rounds, until):
    while time.monotonic() < until:
        for _ in range(50):
            call(10)
            for _ in generate(10):
                pass
            rounds.value += 1


def work_half(until):
    while time.monotonic() < until:
        for _ in range(100):
            call(5)
        time.sleep(0.005)


def wait_inside(library, waits, kind):
    library.wait_times(waits, kind, library.silence(kind, WAIT_MS), WAIT_MS, ctypes.c_long(-1))


def wait_again(library, waits, kind, until):
    fd = library.silence(kind, WAIT_MS)
    while time.monotonic() < until:
        library.wait_times(waits, kind, fd, WAIT_MS, ctypes.c_long(1))


def main():
    path, library_path, seconds = sys.argv[1:4]
    until = time.monotonic() + float(seconds)
    with Path(path).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 0)
    start = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    library = ctypes.CDLL(library_path)

    def waits(flavour, kind):
        return ctypes.c_void_p(start + FLAVOURS_AT + (flavour * KINDS + kind) * WAITS_BYTES)

    library.count_signals(ctypes.c_void_p(start + SIGNALS_AT), ctypes.c_long(len(shared) - SIGNALS_AT))
    library.start_waiters(waits(0, 0), WAIT_MS)
    for kind in range(KINDS):
        for target, *arguments in (
            (wait_inside, library, waits(1, kind), kind),
            (wait_again, library, waits(2, kind), kind, until),
        ):
            threading.Thread(target=target, args=arguments, daemon=True).start()
    threading.Thread(target=work_half, args=(until,), daemon=True).start()
    print("ready", flush=True)
    work(ctypes.c_long.from_address(start), until)


main()
