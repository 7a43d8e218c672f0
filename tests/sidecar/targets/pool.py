"""A program with two workers by multiprocessing's `spawn`, `forkserver` or `fork`."""

import multiprocessing
import sys
import time


def work() -> None:
    print("worker", multiprocessing.current_process().pid, flush=True)
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
