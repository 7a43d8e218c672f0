"""Works in the main thread and in two others, each in a function of its own; prints `ready` first."""

import threading
import time


def in_the_main_thread() -> None:
    sum(range(20_000))
    time.sleep(0.001)


def in_another_thread() -> None:
    while True:
        sum(range(20_000))
        time.sleep(0.001)


for _ in range(2):
    threading.Thread(target=in_another_thread, daemon=True).start()
print("ready", flush=True)
while True:
    in_the_main_thread()
