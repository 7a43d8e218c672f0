"""Forks as a program does that embeds Python: in C, so that the interpreter in the child is not told.

Usage: forks_in_c.py SECONDS. Prints `ready`, then the child's pid; the child waits, and both end by
themselves.
"""

import ctypes
import os
import sys
import time


def waiting(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)


print("ready", flush=True)
# PyDLL keeps the GIL: the child begins with it, as uWSGI's workers do.
child = ctypes.PyDLL(None).fork()
if child:
    print(child, flush=True)
    os.waitpid(child, 0)
else:
    waiting(float(sys.argv[1]))
    os._exit(0)
