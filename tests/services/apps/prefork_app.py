"""A master that forks its workers in a loop around os.fork, as Japronto's does: `prefork_app.py PORT`."""

import ctypes
import os
import signal
import sys

import tiny
from work import burn

WORKERS = 2
PR_SET_PDEATHSIG = 1


def work(sock) -> None:
    # Nobody is left behind when the master is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    tiny.serve(sock, burn)


if __name__ == "__main__":
    sock = tiny.listening(int(sys.argv[1]))
    for _ in range(WORKERS):
        if os.fork() == 0:
            work(sock)
    while True:
        os.wait()
