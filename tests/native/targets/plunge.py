"""Waits for a line, then stands 5,000 calls deep for ten seconds."""

import sys
import time

sys.setrecursionlimit(6000)


def descend(left: int) -> None:
    if left == 0:
        time.sleep(10)
    else:
        descend(left - 1)


def wait() -> None:
    sys.stdin.readline()


print("ready", flush=True)
wait()
descend(5000)
