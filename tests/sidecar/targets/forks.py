"""A parent that forks one worker, and another whenever the last has ended; prints the workers' pids."""

import os
import time


def worker_loop(parent: int) -> None:
    while os.getppid() == parent:
        sum(range(50_000))
        time.sleep(0.001)


print("ready", flush=True)
while True:
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        worker_loop(parent)
        os._exit(0)
    print("worker", child, flush=True)
    os.waitpid(child, 0)
