"""Starts a child for each line read, prints its pid, and prints its exit status as soon as it has it.

The child computes for a moment when it has read a line, and exits.
"""

import os
import sys
import time

print("ready", flush=True)
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        sys.stdin.readline()
        end = time.monotonic() + 0.2 + os.getpid() % 10 / 1000
        while time.monotonic() < end:
            sum(range(50))
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
