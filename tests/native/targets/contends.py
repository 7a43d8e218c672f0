"""argv[1] threads that compute, and two that wait for a lock and a timer. Ends when its standard input does.

"isolated" behind it: as many more compute in an interpreter with a GIL of its own. "nobody": as another user.
"""

import ctypes
import os
import sys
import threading
import time

COUNT = int(sys.argv[1])
PR_SET_DUMPABLE = 4
COMPUTE = """
import threading

def computing():
    while True:
        sum(range(500))

for _ in range({}):
    threading.Thread(target=computing).start()
"""
LOCK = threading.Lock()


def locked():
    LOCK.acquire()


def sleeping():
    while True:
        time.sleep(0.02)


if "nobody" in sys.argv:
    os.setuid(65534)
    # As a program that was started by this user.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)
if "isolated" in sys.argv:
    import _interpreters

    assert _interpreters.exec(_interpreters.create(), COMPUTE.format(COUNT)) is None
LOCK.acquire()
for target in (locked, sleeping):
    threading.Thread(target=target).start()
exec(COMPUTE.format(COUNT))
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
