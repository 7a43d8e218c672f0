"""A second thread computes until a line is read, and then puts another program in the place of all."""

import os
import sys
import threading
import time

END = time.monotonic() + 60
READ = threading.Event()


def compute_and_replace() -> None:
    while time.monotonic() < END and not READ.is_set():
        sum(range(500))
    os.execv("/bin/echo", ["echo", "replaced"])


threading.Thread(target=compute_and_replace, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
READ.set()
time.sleep(60)
