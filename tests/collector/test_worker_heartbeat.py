"""When a worker counts as hung: judged by the time in which the supervisor itself ran."""

from __future__ import annotations

import asyncio
import multiprocessing
from itertools import accumulate, repeat
from pathlib import Path

import pytest

from sidelight_collector.runtime.heartbeat import BEAT, STARTUP_SECONDS, Heartbeat, HeartbeatMonitor
from sidelight_collector.runtime.stack_dump import MAX_STACK_BYTES, read_stacks


def monitor_of(*names: str, timeout: float = 10.0) -> HeartbeatMonitor:
    monitor = HeartbeatMonitor(timeout)
    for name in names:
        monitor.start(name)
        monitor.record_message(name)
    monitor.check(0.0)
    return monitor


def hung_at(monitor: HeartbeatMonitor, times: list[float], *beating: str) -> dict[str, float]:
    """The first time at which each worker hangs, while some send a message before each check."""
    first: dict[str, float] = {}
    for now in times:
        for name in beating:
            monitor.record_message(name)
        for name in monitor.check(now):
            first.setdefault(name, now)
    return first


def test_a_worker_without_messages_hangs_after_the_timeout() -> None:
    assert hung_at(monitor_of("1", "2"), [float(now) for now in range(1, 20)], "2") == {"1": 11.0}


@pytest.mark.parametrize("timeout", [1.0, 10.0, 60.0])
def test_a_supervisor_that_was_stopped_for_an_hour_kills_no_worker_when_it_goes_on(timeout: float) -> None:
    monitor = monitor_of("1", timeout=timeout)
    assert hung_at(monitor, [3600.0, 3600.0]) == {}
    assert hung_at(monitor, [3600.0 + timeout / 5], "1") == {}


def test_late_checks_of_a_crowded_machine_give_workers_more_time() -> None:
    """Every check comes 7 s late; each counts as two intervals of 1 s."""
    times = list(accumulate(repeat(8.0, 10)))
    assert hung_at(monitor_of("1", "2"), times, "2") == {"1": 48.0}


def test_frequent_checks_do_not_shorten_the_timeout() -> None:
    times = [count / 8 for count in range(1, 100)]
    assert hung_at(monitor_of("1", "2"), times, "2") == {"1": 10.125}


def test_a_worker_has_longer_until_its_first_message() -> None:
    monitor = HeartbeatMonitor(10.0)
    monitor.start("1")
    times = [float(now) for now in range(1 + int(STARTUP_SECONDS) + 2)]
    assert hung_at(monitor, times) == {"1": STARTUP_SECONDS + 1}


def test_the_process_that_replaces_a_worker_starts_afresh() -> None:
    monitor = monitor_of("1")
    times = [float(now) for now in range(1, 12)]
    assert hung_at(monitor, times) == {"1": 11.0}
    monitor.remove("1")
    assert hung_at(monitor, [12.0]) == {}
    monitor.start("1")
    assert hung_at(monitor, [float(now) for now in range(13, 40)]) == {}


def test_a_timeout_of_zero_never_finds_a_worker() -> None:
    assert hung_at(monitor_of("1", timeout=0.0), [1e6, 2e6]) == {}


async def test_heartbeats_never_block_when_the_supervisor_reads_none_of_them() -> None:
    here, there = multiprocessing.Pipe(duplex=False)
    with here, there:
        beating = asyncio.create_task(Heartbeat(there).run(0.0))
        for _ in range(20_000):  # more than the pipe takes
            await asyncio.sleep(0)
        assert not beating.done()
        assert here.recv_bytes() == BEAT
        beating.cancel()


def test_the_end_of_very_long_stacks_is_logged(tmp_path: Path) -> None:
    path = tmp_path / "stacks"
    assert read_stacks(path) == ""
    path.write_bytes(b"Thread 1\n" + b"x" * MAX_STACK_BYTES)
    assert read_stacks(path) == "x" * MAX_STACK_BYTES
