"""Samples a process when told to, in children of its own, so that one can be killed at any moment.

Reads lines `PID RATE MODE`. For each it forks a child that samples, tasks too, and prints the child's process
id as soon as that has attached, or why it could not. A child that gets a SIGTERM prints what it counted, as
JSON, and ends. Children end by themselves after a minute; the parent, at the end of its input.
"""

import json
import os
import signal
import sys

from sidelight_native import Engine

SECONDS = 60


def sample(pid: int, rate: float, mode: str) -> None:
    signal.alarm(SECONDS)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    session = None
    while session is None:
        try:
            session = Engine().attach(pid, rate_hz=rate, mode=mode, tasks_hz=rate)
        except RuntimeError as error:
            # A busy machine may take a while.
            if "max-stop-ms" not in str(error):
                tell({"refused": str(error)})
                return
        except (OSError, ValueError) as error:
            tell({"refused": str(error)})
            return
    tell({"pid": os.getpid()})
    signal.sigwait({signal.SIGTERM})
    ended = session.ended
    batch = session.stop()
    told = {name: getattr(batch, name) for name in ("attempts", "samples", "errors", "longest_stop_ns")}
    tell({**told, "ended": ended, "mode": session.mode, "stacks": [row[1] for row in batch.counts]})


def tell(what: object) -> None:
    """One line in one write, whoever else writes to the same pipe (long ones are read from a file)."""
    os.write(1, json.dumps(what).encode() + b"\n")


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        pid, rate, mode = line.split()
        if os.fork() == 0:
            sample(int(pid), float(rate), mode)
            os._exit(0)


main()
