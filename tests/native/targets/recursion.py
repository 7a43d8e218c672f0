"""Stands argv[2] calls deep, busy, for argv[1] seconds."""

import sys
import time

SECONDS, DEPTH = float(sys.argv[1]), int(sys.argv[2])
sys.setrecursionlimit(DEPTH + 100)


def work() -> None:
    print("ready", flush=True)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pass


def descend(left: int) -> None:
    if left == 1:
        work()
    else:
        descend(left - 1)


def main() -> None:
    descend(DEPTH)


main()
