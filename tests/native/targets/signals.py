"""Answers each SIGUSR1 with a line, busy in between. Ends at end of input, or after a minute."""

import os
import signal
import sys
import threading
import time


def answer(_number: int, _frame: object) -> None:
    os.write(1, b"got\n")


def watch_input() -> None:
    sys.stdin.read()
    os._exit(0)


signal.signal(signal.SIGUSR1, answer)
threading.Thread(target=watch_input, daemon=True).start()
END = time.monotonic() + 60
os.write(1, b"ready\n")
while time.monotonic() < END:
    pass
