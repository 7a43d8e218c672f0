"""A supervisor whose workers hang, each in its own way: `python -m tests.collector.hanging_workers DIR`.

A worker hangs once. The process that replaces it, and the slow worker, are healthy.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from sidelight import logs
from sidelight.loop_watchdog import run_beside
from sidelight_collector.runtime.heartbeat import Heartbeat, HeartbeatMonitor, compute_interval
from sidelight_collector.runtime.supervisor import SIGNALS, CrashLoopGuard, supervise

TIMEOUT_SECONDS = 10.0
SLOW_SECONDS = 1.0
PR_SET_PDEATHSIG = 1
SLOW = "slow"


def spin() -> None:
    while True:
        pass


HANGS: dict[str, Callable[[], object]] = {
    "python": spin,
    "c-code": lambda: sum(itertools.repeat(0)),
    "system-call": lambda: time.sleep(3600),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


def work(name: str, directory: Path, pipe: Connection) -> None:
    # Whatever happens to the supervisor, no worker goes on: they cannot notice it while they hang.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    heartbeat = Heartbeat(pipe)

    async def serve() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, stop.set)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        heartbeat.send_ready()
        await asyncio.sleep(0)
        marker = directory / f"{name}.started"
        if name in HANGS and not marker.exists():
            marker.touch()
            HANGS[name]()
        while name == SLOW and not stop.is_set():
            time.sleep(SLOW_SECONDS)
            await asyncio.sleep(0)
        await stop.wait()

    asyncio.run(run_beside(heartbeat.run(compute_interval(TIMEOUT_SECONDS)), serve()))


class Events:
    def on_running(self, names: object) -> None: ...

    def on_hang(self) -> None:
        print("hang", flush=True)

    def on_death(self) -> None:
        print("death", flush=True)

    def on_shutdown(self) -> None: ...


if __name__ == "__main__":
    logs.configure(json=True)
    folder = Path(sys.argv[1])
    supervise(
        {name: partial(work, name, folder) for name in (*HANGS, SLOW)},
        CrashLoopGuard(len(HANGS), 3600.0),
        Events(),
        HeartbeatMonitor(TIMEOUT_SECONDS),
        folder,
        stop_seconds=60.0,
    )
