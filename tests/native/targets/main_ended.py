"""The main thread ends (pthread_exit), argv[2] says when: at once, or when a line arrives. Another works.

Ends after argv[1] seconds.
"""

import ctypes
import os
import sys
import threading
import time

END = time.monotonic() + float(sys.argv[1])


def work():
    while time.monotonic() < END:
        sum(range(1000))
    os._exit(0)


threading.Thread(target=work).start()
if sys.argv[2] == "later":
    print("ready", flush=True)
    sys.stdin.readline()
elif sys.argv[2] == "now":
    print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)  # ctypes has let go of the GIL
