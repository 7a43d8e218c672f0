"""Burns CPU in `busy` called from `work`, and sleeps a little in between; prints `ready` first."""

import time


def busy() -> int:
    return sum(range(1_000_000))


def work() -> None:
    while True:
        busy()
        time.sleep(0.001)


print("ready", flush=True)
work()
