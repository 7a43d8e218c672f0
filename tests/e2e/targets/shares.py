"""Spends 7 parts of its time in `seventy`, 3 in `thirty` and waits for as long as both took, over and over.

Usage: shares.py SECONDS [DEPTH]. Prints `ready` once it has begun and ends by itself; `thirty` calls itself
DEPTH times before it works. Each part is measured from its
own beginning, so that a crowded machine stretches all of them alike, and is long against the time for which a
kernel lets one process run before another: a sampler that must wait for a CPU is late by about as much.
"""

import sys
import time

UNIT = 0.01


def spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def seventy() -> None:
    spin(7 * UNIT)


def thirty(depth: int) -> None:
    if depth:
        thirty(depth - 1)
    else:
        spin(3 * UNIT)


def wait(seconds: float) -> None:
    time.sleep(seconds)


def main(seconds: float, depth: int = 0) -> None:
    print("ready", flush=True)
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        seventy()
        thirty(depth)
        wait(time.perf_counter() - begin)


if __name__ == "__main__":
    main(float(sys.argv[1]), *map(int, sys.argv[2:]))
