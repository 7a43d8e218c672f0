"""Works for the seconds of CPU time given, then ends by itself.

On a busy machine it takes longer, so that a sampler that starts as slowly still finds it working.
"""

import sys
import time


def briefly(until: float) -> None:
    while time.process_time() < until:
        sum(range(10_000))


print("ready", flush=True)
briefly(time.process_time() + float(sys.argv[1]))
