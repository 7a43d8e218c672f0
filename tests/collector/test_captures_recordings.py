"""What recordings of a capture tell: offsets and spans against brute force, and how long loops were held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.captures.recordings.loop_blocking import LoopBlocking, measure_loop_blocking
from sidelight_collector.captures.recordings.recording_files import CaptureRecording, RecordedThread
from sidelight_collector.captures.recordings.subsecond_heatmap import (
    CaptureRecordings,
    RecordingFlameOptions,
    StoredRecording,
    build_recording_flame,
    build_subsecond_heatmap,
    parse_offset_us,
    parse_step,
)
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.times import format_rfc3339
from sidelight_model.counts import STATES, STATES_BY_TYPE, Counts, ProfileType
from sidelight_model.labels import Labels
from tests.collector.conftest import Serve
from tests.collector.fake_sidecars import Sidecar, started
from tests.collector.test_captures_api import QUICK, held_to

CPU, WALL, GIL = ProfileType.CPU, ProfileType.WALL, ProfileType.GIL
START = 1_795_253_400
FRAMES = ("main (a.py:1)", "f (a.py:10)", "f (a.py:11)", "g%3B (b.py)")
STACKS = ((0,), (0, 1), (0, 2), (0, 1, 3))


def recorded(
    *threads: Sequence[tuple[int, int, int]],
    start_ns: int = START * 10**9,
    pid: int = 12,
    periods: Sequence[tuple[int, int]] = (),
) -> StoredRecording:
    """A recording of threads with (microseconds, stack, state) in order."""
    rows = [
        RecordedThread(f"t{at}", *map(list, zip(*row, strict=True))) for at, row in enumerate(threads) if row
    ]
    recording = CaptureRecording(
        "c_1", "a", Labels({"service": "shop"}), pid, start_ns, 10_000, 3, FRAMES, STACKS, rows, periods
    )
    return StoredRecording(f"a-{pid}", {"start": format_rfc3339(start_ns)}, lambda: recording)


def cells(answer: Any) -> dict[tuple[int, int], tuple[int, int]]:
    columns = (answer[name] for name in ("second", "bucket", "samples", "all_samples"))
    return {(second, bucket): both for second, bucket, *both in zip(*columns, strict=True)}  # type: ignore[misc]


def stacks(answer: Any, side_at: int = 0) -> dict[str, tuple[int, int]]:
    """Where samples ended: the call path as text, with samples and microseconds."""
    side = answer["sides"][side_at]
    path: list[str] = []
    found = {}
    rows = zip(answer["level"], answer["name"], side["self_samples"], side["self_us"], strict=True)
    for level, name, samples, us in rows:
        path[level:] = [answer["names"][name]]
        if samples:
            found[" > ".join(path[1:])] = (samples, us)
    return found


def test_samples_are_counted_by_second_of_the_clock_and_step() -> None:
    half = recorded(
        [(0, 0, 0), (19_999, 1, 1), (20_000, 1, 2), (499_999, 1, 1), (500_000, 1, 1)],
        [(500_001, 0, 0)],
        start_ns=START * 10**9 + 500_000_000,
    )
    answer = build_subsecond_heatmap(CaptureRecordings.select("c_1", [half]), CPU, 20)
    assert cells(answer) == {(0, 25): [1, 2], (0, 26): [1, 1], (0, 49): [1, 1], (1, 0): [1, 2]}
    assert (answer["start"], answer["seconds"], answer["step_ms"]) == (START, 2, 20)
    assert answer["recordings"] == [
        {
            "name": "a-12",
            "labels": {"service": "shop"},
            "pid": 12,
            "samples": 6,
            "dropped": 3,
            "from_us": 500_000,
            "until_us": 1_010_001,
        }
    ]


def test_two_processes_lie_on_one_clock_and_each_can_be_asked_for() -> None:
    kept = [
        recorded([(0, 1, 2)], start_ns=(START + 3) * 10**9 + 7),
        recorded([(0, 1, 2)], pid=13, start_ns=START * 10**9 + 40_000_000),
    ]
    both = build_subsecond_heatmap(CaptureRecordings.select("c_1", kept), GIL, 20)
    assert cells(both) == {(0, 2): [1, 1], (3, 0): [1, 1]}
    one = build_subsecond_heatmap(CaptureRecordings.select("c_1", kept, "a-12"), GIL, 20)
    assert (one["start"], cells(one)) == (START, {(3, 0): [1, 1]})


def test_a_span_is_drawn_without_its_end_and_with_lines_if_asked_for() -> None:
    kept = [recorded([(0, 0, 0), (10_000, 1, 1), (20_000, 2, 2), (30_000, 3, 2)])]
    found = CaptureRecordings.select("c_1", kept)
    draw = lambda kind, begin, end, *, lines=False: stacks(  # noqa: E731
        build_recording_flame(found, kind, begin, end, RecordingFlameOptions(100, by_line=lines))
    )
    assert draw(CPU, 10_000, 30_000) == {"main (a.py) > f (a.py)": (2, 20_000)}
    assert draw(CPU, 10_000, 30_000, lines=True) == {
        "main (a.py:1) > f (a.py:10)": (1, 10_000),
        "main (a.py:1) > f (a.py:11)": (1, 10_000),
    }
    assert draw(WALL, 0, 1) == {"main (a.py)": (1, 10_000)}
    assert draw(GIL, 30_000, 10**9) == {"main (a.py) > f (a.py) > g; (b.py)": (1, 10_000)}
    assert draw(CPU, 40_000, 10**9) == {}
    side = build_recording_flame(found, CPU, 0, 10**9, RecordingFlameOptions(100))["sides"][0]
    assert (side["states"], side["samples"], side["seconds"]) == (
        Counts(idle=1, running=1, gil=2)._asdict(),
        3,
        0.03,
    )


def test_a_sample_stands_for_as_long_as_the_rate_said_when_it_was_taken() -> None:
    kept = [recorded([(0, 1, 2), (10_000, 1, 2), (50_000, 1, 2)], periods=[(0, 10_000), (50_000, 40_000)])]
    answer = build_recording_flame(
        CaptureRecordings.select("c_1", kept), CPU, 0, 10**9, RecordingFlameOptions(100)
    )
    assert stacks(answer) == {"main (a.py) > f (a.py)": (3, 60_000)}


def test_the_rest_of_a_capture_stands_beside_a_span_with_the_time_each_was_watched() -> None:
    kept = [recorded([(at * 10_000, at % 2, 2) for at in range(10)])]
    answer = build_recording_flame(
        CaptureRecordings.select("c_1", kept),
        CPU,
        20_000,
        50_000,
        RecordingFlameOptions(100, includes_outside=True),
    )
    assert stacks(answer, 0) == {"main (a.py)": (3, 30_000), "main (a.py) > f (a.py)": (4, 40_000)}
    assert stacks(answer, 1) == {"main (a.py)": (2, 20_000), "main (a.py) > f (a.py)": (1, 10_000)}
    assert [side["pod_seconds"] for side in answer["sides"]] == [0.07, 0.03]
    whole = build_recording_flame(
        CaptureRecordings.select("c_1", kept),
        CPU,
        0,
        10**9,
        RecordingFlameOptions(100, includes_outside=True),
    )
    assert [side["pod_seconds"] for side in whole["sides"]] == [0, 0.1]


def test_a_tree_that_is_too_large_is_pruned_and_keeps_its_total() -> None:
    kept = [recorded([(at * 10_000, at % 4, 1) for at in range(40)])]
    answer = build_recording_flame(
        CaptureRecordings.select("c_1", kept), CPU, 0, 10**9, RecordingFlameOptions(100, 3, by_line=True)
    )
    assert answer["pruned"] == {"nodes": 2, "limit": 3}
    assert sum(answer["sides"][0]["self_samples"]) == 40
    whole = build_recording_flame(
        CaptureRecordings.select("c_1", kept), CPU, 0, 10**9, RecordingFlameOptions(5, by_line=True)
    )
    assert whole["pruned"] == {"nodes": 0, "limit": None}
    most = build_recording_flame(
        CaptureRecordings.select("c_1", kept), CPU, 0, 10**9, RecordingFlameOptions(4, by_line=True)
    )
    assert most["pruned"] == {"nodes": 1, "limit": 4}


moments = st.lists(
    st.tuples(st.integers(0, 3_000_000), st.integers(0, 3), st.integers(0, 2)), max_size=30
).map(sorted)


@given(
    st.lists(st.tuples(st.lists(moments, max_size=3), st.integers(0, 3 * 10**9)), min_size=1, max_size=3),
    st.sampled_from(list(ProfileType)),
    st.sampled_from([5, 20, 125, 1000]),
    st.integers(0, 4_000_000),
    st.integers(1, 4_000_000),
)
def test_cells_and_spans_are_those_of_every_sample_by_itself(
    processes: list[tuple[list[Any], int]], kind: ProfileType, step_ms: int, begin: int, length: int
) -> None:
    kept = [
        recorded(*threads, start_ns=START * 10**9 + ahead, pid=at)
        for at, (threads, ahead) in enumerate(processes)
    ]
    found = CaptureRecordings.select("c_1", kept)
    states = [STATES.index(state) for state in STATES_BY_TYPE[kind]]
    ever = [
        (((START - found.start) * 10**9 + ahead) // 1000 + at, stack, state)
        for threads, ahead in processes
        for row in threads
        for at, stack, state in row
    ]
    answer = build_subsecond_heatmap(found, kind, step_ms)
    sampled = Counter(divmod(at // (step_ms * 1000), 1000 // step_ms) for at, _, _ in ever)
    wanted = Counter(divmod(at // (step_ms * 1000), 1000 // step_ms) for at, _, s in ever if s in states)
    assert cells(answer) == {cell: [wanted[cell], sampled[cell]] for cell in sampled}
    span = build_recording_flame(
        found,
        kind,
        begin,
        begin + length,
        RecordingFlameOptions(100, by_line=True, by_state=True, includes_outside=True),
    )
    inside = [(stack, state) for at, stack, state in ever if begin <= at < begin + length]
    expected = Counter(stack for stack, state in inside if state in states)
    rest, side = span["sides"]
    assert sum(side["self_samples"]) == expected.total()
    assert sorted(count for count, _ in stacks(span, 1).values()) == sorted(expected.values())
    for one, many in ((side, len(inside)), (rest, len(ever) - len(inside))):
        assert sum(one["states"].values()) == many  # type: ignore[arg-type]
        for state, name in enumerate(("idle", "running", "gil")):
            own = one["self_samples_by_state"][name]
            assert sum(own) == (one["states"][name] if state in states else 0)  # type: ignore[literal-required]
        by_state = zip(*one["self_us_by_state"].values(), strict=True)
        assert list(map(sum, by_state)) == list(one["self_us"])
    assert sum(rest["self_samples"]) + expected.total() == sum(wanted.values())
    ends = [max((row[-1][0] + 10_000 for row in threads if row), default=0) for threads, _ in processes]
    assert rest["pod_seconds"] + side["pod_seconds"] <= 2 * max(ends) / 1e6


def test_cells_and_steps_have_bounds() -> None:
    kept = [recorded([(at * 20_000, 0, 1) for at in range(10)])]
    found = CaptureRecordings.select("c_1", kept)
    assert len(cells(build_subsecond_heatmap(found, CPU, 20, max_cells=10))) == 10
    with pytest.raises(BadParameter, match="more than 9 cells"):
        build_subsecond_heatmap(found, CPU, 20, max_cells=9)
    assert [parse_step(text) for text in ("", "5", "1000")] == [20, 5, 1000]
    for text in ("4", "0", "1001", "30", "-5", "1e2", "10000"):
        with pytest.raises(BadParameter, match="step_ms"):
            parse_step(text)
    assert [parse_offset_us("from_us", text, 7) for text in ("", "0", str(2**53))] == [7, 0, 2**53]
    for text in ("-1", "1.5", str(2**53 + 1), "9" * 40, "٣"):
        with pytest.raises(BadParameter, match="from_us"):
            parse_offset_us("from_us", text, 7)


async def test_offsets_and_spans_are_answered_as_documented(serving: Serve) -> None:
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        path = f"captures/{made['id']}"
        for below in ("subsecond-heatmap", "flamegraph"):
            nothing = await collector.get(f"{path}/{below}", {})
            assert (nothing.status, nothing.reason) == (404, "not_found")
            assert "has no recordings" in nothing.json["message"]
        for pid in (7, 12):
            assert (await sidecar.record(made["id"], pid)).status == 201
        whole = await collector.get(f"{path}/subsecond-heatmap", {"type": "cpu"})
        held_to("/api/v1/captures/{id}/subsecond-heatmap", "get", 200, whole.json)
        assert cells(whole.json) == {(0, 0): [2, 4], (0, 1): [2, 2], (0, 5): [2, 2]}
        one = {"type": "cpu", "recording": f"{sidecar.agent}-12", "from_us": "15000", "until_us": "100000"}
        span = await collector.get(f"{path}/flamegraph", {**one, "nodes": "10", "lines": "1", "states": "1"})
        held_to("/api/v1/captures/{id}/flamegraph", "get", 200, span.json)
        assert stacks(span.json) == {"main (app.py:1) > total (cart.py:10)": (1, 10_000)}
        both = await collector.get(f"{path}/flamegraph", {**one, "exclude_span": "1"})
        held_to("/api/v1/captures/{id}/flamegraph", "get", 200, both.json)
        assert stacks(both.json, 1) == {"main (app.py) > total (cart.py)": (1, 10_000)}
        bad = [
            ("subsecond-heatmap", {"step_ms": "7"}, 400),
            ("subsecond-heatmap", {"type": "fun"}, 400),
            ("subsecond-heatmap", {"from": "-1h"}, 400),
            ("subsecond-heatmap", {"recording": "x-1"}, 404),
            ("flamegraph", {"from_us": "5", "until_us": "5"}, 400),
            ("flamegraph", {"from_us": "x"}, 400),
            ("flamegraph", {"nodes": "0"}, 400),
            ("flamegraph", {"exclude_span": "2"}, 400),
        ]
        for below, given, status in bad:
            assert (await collector.get(f"{path}/{below}", given)).status == status, (below, given)
        assert (await collector.get("captures/c_x/subsecond-heatmap", {})).status == 404


PERIOD_US = 10_000
LOOP = (
    "main (a.py:1)",
    "run_forever (asyncio/base_events.py:600)",
    "_run_once (asyncio/base_events.py:1900)",
)
CALLBACK = (*LOOP, "_run (asyncio/events.py:80)")
LOOP_STACKS = {
    "w": (*LOOP, "select (selectors.py:450)"),
    "f": (*CALLBACK, "f (a.py:3)"),
    "F": (*CALLBACK, "f (a.py:4)", "deep (b.py:1)"),
    "g": (*CALLBACK, "g (a.py:9)"),
    "-": ("_bootstrap (threading.py:9)", "work (a.py:20)"),
}
ORDER = list(LOOP_STACKS)
LOOP_FRAMES = sorted({frame for stack in LOOP_STACKS.values() for frame in stack})


def looped(*threads: str, pid: int = 7, start_us: int = 0, jitter: Sequence[int] = ()) -> StoredRecording:
    """A recording with a sample in each period: a letter for its stack, a space where there is none."""
    rows = []
    for at, text in enumerate(threads):
        seen = [(tick, one) for tick, one in enumerate(text) if one != " "]
        times = [tick * PERIOD_US + (jitter[tick] if jitter else 0) for tick, _ in seen]
        rows.append(RecordedThread(f"t{at}", times, [ORDER.index(one) for _, one in seen], [2] * len(seen)))
    stacks = [[LOOP_FRAMES.index(frame) for frame in stack] for stack in LOOP_STACKS.values()]
    start_ns = START * 10**9 + start_us * 1000
    recording = CaptureRecording(
        "c_1", "a", Labels({"service": "shop"}), pid, start_ns, PERIOD_US, 0, LOOP_FRAMES, stacks, rows
    )
    return StoredRecording(f"a-{pid}", {"start": format_rfc3339(start_ns)}, lambda: recording)


def held_by(*kept: StoredRecording, limit: int = 20) -> LoopBlocking:
    return measure_loop_blocking(CaptureRecordings.select("c_1", kept), limit)


def stretches(found: LoopBlocking) -> list[tuple[str, int, int]]:
    spans = found["blocking_spans"]
    return [(one["function"], one["from_us"] // 1000, one["until_us"] // 1000) for one in spans]


def test_the_longest_stretches_are_told_with_whose_they_were() -> None:
    found = held_by(looped("wfFfwwggw", "---------"))
    assert stretches(found) == [("f", 10, 40), ("g", 60, 80)]
    (thread,) = found["threads"]
    assert thread == {
        "recording": "a-7",
        "thread": "t0",
        "observed_us": 90_000,
        "busy_us": 50_000,
        "longest_busy_us": 30_000,
    }


def test_callbacks_in_a_row_are_each_their_own_and_one_time_without_waiting() -> None:
    found = held_by(looped("wffggw"))
    assert stretches(found) == [("f", 10, 30), ("g", 30, 50)]
    assert found["threads"][0]["longest_busy_us"] == 40_000


def test_a_stretch_is_over_where_samples_are_missing() -> None:
    assert stretches(held_by(looped("wff   fffw"))) == [("f", 60, 90), ("f", 10, 30)]


def test_times_count_from_the_start_that_all_recordings_have() -> None:
    found = held_by(looped("wfw"), looped("wggw", pid=12, start_us=500_000))
    assert stretches(found) == [("g", 510, 530), ("f", 10, 20)]
    assert [one["recording"] for one in found["threads"]] == ["a-12", "a-7"]


def test_no_more_stretches_are_listed_than_asked_for() -> None:
    assert stretches(held_by(looped("wfwggwfffw"), limit=2)) == [("f", 60, 90), ("g", 30, 50)]


def test_a_process_without_a_loop_has_none() -> None:
    found = held_by(looped("-----"))
    assert (found["threads"], found["blocking_spans"]) == ([], [])
    assert len(found["recordings"]) == 1


@given(st.text("wfFg ", min_size=1, max_size=30).filter(str.strip))
def test_stretches_add_up_to_the_time_that_the_loop_was_held(text: str) -> None:
    found = held_by(looped(text), limit=1000)
    (thread,) = found["threads"]
    held = sum(one["until_us"] - one["from_us"] for one in found["blocking_spans"])
    assert thread["busy_us"] == held <= thread["observed_us"]
    # One sample is a period; one that is missing between two is counted with that before it.
    assert held >= sum(one in "fFg" for one in text) * PERIOD_US
    runs = "".join(one.lower() for one in text).replace("f", "x").replace("g", "x").split("w")
    longest = max((len(part) for run in runs for part in run.split()), default=0)
    assert thread["longest_busy_us"] >= longest * PERIOD_US


async def test_loops_of_a_capture_are_answered_as_documented(serving: Serve) -> None:
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        path = f"captures/{made['id']}/loops"
        assert (await collector.get(path, {})).status == 404
        assert (
            await sidecar.record(made["id"], 7, {"frames": LOOP_FRAMES, **_parts("wfFfwg")})
        ).status == 201
        found = await collector.get(path, {"limit": "1", "recording": f"{sidecar.agent}-7"})
        held_to("/api/v1/captures/{id}/loops", "get", 200, found.json)
        assert [one["function"] for one in found.json["blocking_spans"]] == ["f"]
        assert found.json["threads"][0]["longest_busy_us"] == 30_000
        for given_, status in (({"limit": "0"}, 400), ({"recording": "x"}, 404), ({"type": "cpu"}, 400)):
            assert (await collector.get(path, given_)).status == status, given_


def _parts(text: str) -> dict[str, object]:
    recording = looped(text).load()
    (thread,) = recording.threads
    sent = {"name": thread.name, "at_us": thread.at_us, "stack": thread.stack, "state": thread.state}
    return {"stacks": recording.stacks, "threads": [sent]}
