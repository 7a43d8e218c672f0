"""Replaces itself by another Python when it reads a line, which then waits to be ended."""

import os
import sys
import threading

print("ready", flush=True)
# If nobody writes, a timer ends the process.
timer = threading.Timer(60, os._exit, [0])
timer.daemon = True
timer.start()
sys.stdin.readline()
code = "import time; print('replaced', flush=True); time.sleep(60)"
os.execv(sys.executable, [sys.executable, "-c", code])
