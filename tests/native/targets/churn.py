"""Threads that live for moments, and child processes.

Ends after argv[1] seconds, or when its standard input does, with a line "done".
"""

import select
import subprocess
import sys
import threading
import time


def moment() -> None:
    sum(range(20_000))


def main() -> None:
    end = time.monotonic() + float(sys.argv[1])
    print("ready", flush=True)
    while time.monotonic() < end and not select.select([sys.stdin], [], [], 0)[0]:
        threads = [threading.Thread(target=moment) for _ in range(4)]
        for thread in threads:
            thread.start()
        subprocess.run(["true"], check=True)
        for thread in threads:
            thread.join()
    print("done", flush=True)


main()
