"""A master that forks N workers at once when SIGUSR1 arrives."""

import os
import signal
import sys
import time


def serve(master: int) -> None:
    while os.getppid() == master:
        sum(range(2_000))
        time.sleep(0.01)


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("ready", flush=True)
signal.sigwait({signal.SIGUSR1})
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        serve(os.getppid())
        os._exit(0)
while True:
    time.sleep(0.01)
