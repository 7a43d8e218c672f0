"""The work of every service here: a wait of 10 ms, as for a backend, then 4 ms of computing in `burn`.

`burn` ends by the CPU time of its own thread, so that what it takes is known on any machine.
The services run on Python 3.6 and later, with nothing of this project installed.
"""

import time

WAIT_SECONDS = 0.010
BURN_SECONDS = 0.004


def burn() -> int:
    """Take BURN_SECONDS of CPU time, in this frame."""
    until = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) + BURN_SECONDS
    turns = 0
    while time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) < until:
        turns += 1
    return turns


def wait_for_backend() -> None:
    """Wait as blocking code does."""
    time.sleep(WAIT_SECONDS)
