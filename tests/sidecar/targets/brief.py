"""Works for the seconds given, then ends by itself."""

import sys
import time


def briefly(until: float) -> None:
    while time.monotonic() < until:
        sum(range(10_000))


print("ready", flush=True)
briefly(time.monotonic() + float(sys.argv[1]))
