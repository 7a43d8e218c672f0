"""Burns about a third of a core in `busy` called from `work`, and sleeps in between; prints `ready` first."""

import time


def busy() -> int:
    return sum(range(300_000))


def work() -> None:
    while True:
        busy()
        time.sleep(0.01)


print("ready", flush=True)
work()
