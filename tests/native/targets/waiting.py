"""Threads that wait for good, each in its own way. Ends after argv[1] seconds."""

import os
import select
import sys
import threading
import time

SECONDS = float(sys.argv[1])
LOCK = threading.Lock()


def read_nothing() -> None:
    os.read(os.pipe()[0], 1)


def poll_nothing() -> None:
    select.epoll().poll(SECONDS)


LOCK.acquire()
for wait in (LOCK.acquire, threading.Event().wait, read_nothing, poll_nothing):
    threading.Thread(target=wait, daemon=True).start()
print("ready", flush=True)
time.sleep(SECONDS)
os._exit(0)
