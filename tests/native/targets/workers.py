"""Three threads: one spins, one waits on a lock, one sleeps. Ends after argv[1] seconds.

The threads' names hold what folded text cannot: `;`, spaces, numbers and, if argv[2] is "newlines", one.
"""

import sys
import threading
import time

SECONDS = float(sys.argv[1])
DONE = threading.Event()


def spinning() -> None:
    while not DONE.is_set():
        sum(range(500))


def waiting() -> None:
    DONE.wait(SECONDS + 30)


def sleeping() -> None:
    while not DONE.is_set():
        time.sleep(0.05)


def main() -> None:
    waits = "wait\ning 7" if "newlines" in sys.argv else "wait ing 7"
    names = {spinning: "spin;ning", waiting: waits, sleeping: "schläft tief 眠る"}
    threads = [threading.Thread(target=run, name=name) for run, name in names.items()]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    time.sleep(SECONDS)
    DONE.set()
    for thread in threads:
        thread.join()


main()
