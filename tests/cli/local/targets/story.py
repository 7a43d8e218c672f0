"""Works and waits by turns in a thread named `größe;1`, in the main thread and in as many children as asked.

story.py [CPU_SECONDS [CHILDREN [EXIT_CODE]]]

It ends by its own CPU time, so that there is always something to see of it, however busy the machine is;
and when its parent has ended, so that nothing of it is left behind.
"""

import multiprocessing
import os
import sys
import threading
import time


def compute(until: float) -> None:
    while time.monotonic() < until:
        sum(range(50))


def rest(seconds: float) -> None:
    time.sleep(seconds)


def work(until: float) -> None:
    parent = os.getppid()
    while time.process_time() < until and os.getppid() == parent:
        compute(time.monotonic() + 0.02)
        rest(0.02)


def child_work(until: float) -> None:
    work(until)


def main() -> None:
    until = float(sys.argv[1]) if len(sys.argv) > 1 else 600
    context = multiprocessing.get_context("fork")
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 0):
        context.Process(target=child_work, args=(until,), daemon=True).start()
    threading.Thread(target=work, args=(until,), name="größe;1", daemon=True).start()
    print("ready", flush=True)
    work(until)
    sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)


if __name__ == "__main__":
    main()
