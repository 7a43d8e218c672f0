"""A program with two workers by multiprocessing's `spawn`, `forkserver` or `fork`."""

import multiprocessing
import os
import sys
import time


def work() -> None:
    # In one write: the other worker has the same file.
    os.write(1, f"worker {os.getpid()}\n".encode())
    while multiprocessing.parent_process().is_alive():
        sum(range(20_000))
        time.sleep(0.002)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    for _ in range(2):
        context.Process(target=work, daemon=True).start()
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
