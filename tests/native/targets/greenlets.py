"""gevent: two greenlets that compute and sleep by turns. Ends after argv[1] seconds."""

import sys
import time

import gevent


def compute() -> None:
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        pass


def handle(end: float) -> None:
    while time.monotonic() < end:
        compute()
        gevent.sleep(0.1)


def main() -> None:
    end = time.monotonic() + float(sys.argv[1])
    print("ready", flush=True)
    gevent.joinall([gevent.spawn(handle, end) for _ in range(2)])


main()
