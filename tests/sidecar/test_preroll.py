"""What is kept in memory for a capture: its bounds, and that it is shipped once."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_sidecar.discovery.processes import ProcessKey
from sidelight_sidecar.windows.preroll import AGE, SPACE, BufferedWindows, Preroll
from tests.processes import eventually
from tests.sidecar.conftest import Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector

ONE, TWO = ProcessKey(1, 10), ProcessKey(2, 20)


def kept(key: ProcessKey, end: float, *sizes: int) -> BufferedWindows:
    return BufferedWindows(key, round(end * 1e9), end, tuple(bytes(size) for size in sizes))


def test_what_is_older_than_asked_for_is_dropped_and_counted() -> None:
    preroll = Preroll(20, 1000)
    for end in (10, 20, 30):
        assert preroll.add(kept(ONE, end, 5, 5)) == {AGE: 0, SPACE: 0}
    assert preroll.add(kept(ONE, 40, 5, 5)) == {AGE: 2, SPACE: 0}
    assert [one.ended_at for one in preroll.drain(ONE)] == [20, 30, 40]


def test_the_oldest_of_all_processes_makes_room() -> None:
    preroll = Preroll(100, 100)
    preroll.add(kept(ONE, 10, 60))
    preroll.add(kept(TWO, 11, 40))
    assert preroll.add(kept(TWO, 12, 30)) == {AGE: 0, SPACE: 1}
    assert preroll.drain(ONE) == []
    assert [one.ended_at for one in preroll.drain(TWO)] == [11, 12]


def test_what_is_too_large_by_itself_is_dropped_and_counted() -> None:
    preroll = Preroll(100, 100)
    assert preroll.add(kept(ONE, 10, 101)) == {AGE: 0, SPACE: 1}
    assert (preroll.size, preroll.window_count) == (0, 0)


adding = st.tuples(st.sampled_from([ONE, TWO]), st.floats(0, 30), st.lists(st.integers(0, 60), max_size=2))


@given(st.lists(adding, max_size=40))
def test_bounds_hold_and_every_window_is_kept_dropped_or_drained_once(
    steps: list[tuple[ProcessKey, float, list[int]]],
) -> None:
    preroll, now, added, out = Preroll(50, 100), 0.0, 0, 0
    for number, (key, seconds, sizes) in enumerate(steps):
        now += seconds
        added += len(sizes)
        out += sum(preroll.add(kept(key, now, *sizes)).values())
        if number % 7 == 6:
            out += sum(len(one.compressed) for one in preroll.drain(key))
        assert preroll.size <= 100
        assert preroll.window_count == added - out
    found = [*preroll.drain(ONE), *preroll.drain(TWO)]
    assert all(one.ended_at >= now - 50 for one in found)
    assert out + sum(len(one.compressed) for one in found) == added
    assert (preroll.size, preroll.window_count) == (0, 0)


def test_a_capture_ships_what_was_sampled_just_before_it_and_ships_it_once(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand", "--preroll-seconds", "600")
    eventually("windows are kept", lambda: sidecar.metric("preroll_windows") >= 3)
    assert collector.requests == []
    first = sidecar.post("/capture", b'{"seconds": 0.6}')[1][-1]
    (process,) = first["processes"]
    assert process["preroll_windows"] >= 3
    total = process["windows"] + process["preroll_windows"]
    eventually("all arrive", lambda: len(collector.taken) == total)
    assert {window.labels["capture"] for window in collector.taken} == {first["id"]}
    assert process["covered_since"] is not None
    earliest = collector.taken[0]
    assert earliest.quality.attempts > 0
    for earlier, later in pairwise(collector.taken):
        assert later.start_ns >= earlier.start_ns + earlier.duration_ns - 5_000_000
    eventually("more is kept", lambda: sidecar.metric("preroll_windows") >= 1)
    second = sidecar.post("/capture", b'{"seconds": 0.6}')[1][-1]
    both = total + second["processes"][0]["windows"] + second["processes"][0]["preroll_windows"]
    eventually("the second's arrive", lambda: len(collector.taken) == both)
    starts = [window.start_ns for window in collector.taken]
    assert len(set(starts)) == len(starts)


def test_between_scheduled_windows_a_capture_finds_what_they_left_out(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar(
        "--pid",
        str(target.pid),
        "--interval-seconds",
        "600",
        "--jitter-seconds",
        "0",
        "--preroll-seconds",
        "60",
    )
    eventually("the scheduled window arrives", lambda: collector.taken)
    eventually("windows are kept", lambda: sidecar.metric("preroll_windows") >= 2)
    last = sidecar.post("/capture", b'{"seconds": 0.5}')[1][-1]
    (process,) = last["processes"]
    total = 1 + process["windows"] + process["preroll_windows"]
    eventually("all arrive", lambda: len(collector.taken) == total)
    scheduled, *captured = collector.taken
    assert "capture" not in scheduled.labels
    assert {window.labels["capture"] for window in captured} == {last["id"]}
    gap = captured[0].start_ns - scheduled.start_ns - scheduled.duration_ns
    assert -5_000_000 <= gap < 600 * 10**9


def test_without_a_gap_a_capture_says_since_when_windows_cover_the_service(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--preroll-seconds", "60")
    eventually("two windows arrive", lambda: len(collector.taken) >= 2)
    assert sidecar.metric("preroll_windows") == 0
    (process,) = sidecar.post("/capture", b'{"seconds": 0.3}')[1][-1]["processes"]
    assert process["preroll_windows"] == 0
    since = datetime.fromisoformat(process["covered_since"]).timestamp()
    assert since == pytest.approx(collector.taken[0].start_ns / 1e9, abs=0.002)
