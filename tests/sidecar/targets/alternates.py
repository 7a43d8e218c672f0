"""Does two things in turn, each for so many milliseconds, and says when each began (Unix nanoseconds)."""

import sys
import threading
import time


def first(until: float) -> None:
    while time.monotonic() < until:
        sum(range(1000))


def second(until: float) -> None:
    while time.monotonic() < until:
        sum(range(1000))


def waits() -> None:
    threading.Event().wait()


seconds = int(sys.argv[1]) / 1000
for name in sys.argv[2:]:
    threading.Thread(target=waits, name=name, daemon=True).start()
print("ready", flush=True)
while True:
    for turn in (first, second):
        print(turn.__name__, time.time_ns(), flush=True)
        turn(time.monotonic() + seconds)
