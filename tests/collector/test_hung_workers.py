"""Real workers that hang are replaced, and the log has their stacks."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from sidelight_model.window import Window, encode_windows
from tests.collector.hanging_workers import HANGS
from tests.collector.processes import Process, metric, post, stored
from tests.collector.test_workers import is_worker
from tests.processes import Running, eventually, running

SECONDS = 300.0


def events(text: str, name: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
    return [event for event in lines if event["event"] == name]


def workers(supervisor: int) -> list[psutil.Process]:
    """The workers of a supervisor, the oldest first."""
    found = [child for child in psutil.Process(supervisor).children() if is_worker(child)]
    return sorted(found, key=lambda child: child.create_time())


@pytest.mark.long
def test_each_kind_of_hung_worker_is_replaced_and_a_slow_one_is_not(tmp_path: Path) -> None:
    """Busy in Python, busy in C with the GIL, blocked in a system call, and stopped."""

    def replaced(supervisor: Running) -> bool:
        assert supervisor.alive(), supervisor.said()
        return len(events(supervisor.said(), "worker died")) == len(HANGS)

    command = [sys.executable, "-m", "tests.collector.hanging_workers", str(tmp_path)]
    with running(tmp_path / "log", *command) as supervisor:
        eventually("all hung workers are killed", lambda: replaced(supervisor), SECONDS)
        eventually("others took their places", lambda: len(workers(supervisor.pid)) == len(HANGS) + 1)
        assert supervisor.end(seconds=SECONDS) == 0, supervisor.said()
        said = supervisor.said()
    assert {event["worker"] for event in events(said, "worker died")} == set(HANGS)
    assert {event["status"] for event in events(said, "worker died")} == {-signal.SIGKILL}
    stacks = {event["worker"]: event["stack"] for event in events(said, "hung worker killed")}
    assert stacks.keys() == set(HANGS)
    assert all("in serve" in stack and "hanging_workers.py" in stack for stack in stacks.values()), stacks
    assert "in spin" in stacks["python"]
    assert (said.count("hang\n"), said.count("death\n")) == (len(HANGS), len(HANGS))


def test_a_collector_replaces_a_stopped_worker_and_counts_it(
    start: Callable[..., Process], tmp_path: Path, make_window: Callable[..., Window]
) -> None:
    root = tmp_path / "store"
    process = start(str(root), "--workers", "2", "--worker-heartbeat-timeout-seconds", "30")
    port = process.port()
    os.kill(workers(process.process.pid)[0].pid, signal.SIGSTOP)
    eventually("it is killed", lambda: events(process.log.read_text(), "worker died"), SECONDS)
    eventually("another serves", lambda: metric(port, "sidelight_workers") == 2, SECONDS)
    assert metric(port, "sidelight_worker_hangs_total") == 1
    assert metric(port, "sidelight_worker_restarts_total") == 1
    [hung] = events(process.log.read_text(), "hung worker killed")
    assert "run_event_loop" in hung["stack"]
    windows = [make_window(pod=f"p{number}") for number in range(8)]
    for window in windows:
        assert post(port, encode_windows([window]))[0] == 200
    assert stored(root) == {window.id for window in windows}
    process.process.terminate()
    assert process.ended()[0] == 0
