"""Sleeps and works at the bottom of 300 calls."""

import time


def down(levels: int) -> None:
    if levels:
        down(levels - 1)
        return
    print("ready", flush=True)
    while True:
        sum(range(50_000))
        time.sleep(0.001)


down(300)
