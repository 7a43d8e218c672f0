"""Runs on CPU argv[2] alone.

argv[1] is `spins`, or `pool`: workers that wait for short jobs, and a thread that wakes up often.
"""

import os
import sys
import threading
import time


def spins() -> None:
    while True:
        sum(range(1000))


def worker(called: threading.Event) -> None:
    while True:
        called.wait()
        called.clear()
        sum(range(3000))


def polls() -> None:
    never = threading.Event()
    while True:
        never.wait(0.003)


def pool() -> None:
    calls = [threading.Event() for _ in range(4)]
    for called in calls:
        threading.Thread(target=worker, args=(called,), daemon=True).start()
    threading.Thread(target=polls, daemon=True).start()
    print("ready", flush=True)
    while True:
        time.sleep(0.004)
        for called in calls:
            called.set()


os.sched_setaffinity(0, {int(sys.argv[2])})
if sys.argv[1] == "pool":
    pool()
else:
    print("ready", flush=True)
    spins()
