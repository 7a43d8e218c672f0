"""A hundred threads that wait, and one that works, for argv[1] seconds."""

import sys
import threading
import time

UNTIL = time.monotonic() + float(sys.argv[1])
DONE = threading.Event()


def call(depth):
    return sum(range(50)) if depth == 0 else call(depth - 1)


def work():
    while time.monotonic() < UNTIL:
        for depth in range(30):
            call(depth)


for _ in range(100):
    threading.Thread(target=DONE.wait, daemon=True).start()
print("ready", flush=True)
work()
