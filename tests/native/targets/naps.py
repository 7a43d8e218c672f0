"""Sleeps in `first` and in `second`, a tenth of a second each in turn. Ends after argv[1] seconds."""

import sys
import time


def first() -> None:
    time.sleep(0.1)


def second() -> None:
    time.sleep(0.1)


def main() -> None:
    end = time.monotonic() + float(sys.argv[1])
    print("ready", flush=True)
    while time.monotonic() < end:
        first()
        second()


main()
