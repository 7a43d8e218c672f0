"""The await stacks of asyncio tasks agree with what the process itself says about them."""

import json
import math
import re
import subprocess
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from sidelight_native import Engine, TaskBatch

from tests.native.conftest import PYTHONS, Start, wait_until

VERSIONS = [version for version in PYTHONS if version.split(".")[1] in ("11", "12", "13", "14", "15")]
PROFILER = ("-m", "profiling.sampling", "attach", "--async-aware", "--async-mode", "all", "--collapsed")
MARKERS = ("%5Bsleep]", "%5Block]", "[queue]", "[future]", "[task")


def readings(pid: int, count: int, tasks_max: int) -> list[TaskBatch]:
    """Take until there are so many readings. Others have no time on a busy machine."""
    session = Engine().attach(pid, rate_hz=200, tasks_hz=100, tasks_max=tasks_max)
    taken: list[TaskBatch] = []

    def enough() -> bool:
        if tasks := session.take().tasks:
            taken.append(tasks)
        return sum(batch.readings for batch in taken) >= count

    wait_until(enough)
    if tasks := session.stop().tasks:
        taken.append(tasks)
    return [batch for batch in taken if batch.readings]


def functions(stack: str) -> list[str]:
    """The functions of a stack, without lines, files, and what is awaited."""
    return [frame.split(" (")[0] for frame in stack.split(";") if not frame.startswith(MARKERS)]


def function_and_line(stack: str) -> list[str]:
    frames = [frame for frame in stack.split(";") if not frame.startswith(MARKERS)]
    return [f"{frame.split(' (')[0]}:{frame.rsplit(':', 1)[1].removesuffix(')')}" for frame in frames]


@pytest.mark.parametrize("version", VERSIONS)
def test_stacks_lines_and_states_of_all_tasks_are_those_of_the_process(
    start: Start, tmp_path: Path, version: str
) -> None:
    truth = tmp_path / "truth.json"
    target = start("awaits", 3, truth, "still", python=str(PYTHONS[version]))
    expected = Counter(
        (state, ";".join(frames))
        for state, frames in json.loads(truth.read_text())
        if state != "task_running"
    )
    for batch in readings(target.pid, 3, 1000):
        assert batch.loops == 1
        found = Counter[tuple[str, str]]()
        for stack, state, weight in batch.rows:
            if state != "task_running":
                found[state, ";".join(function_and_line(stack))] += round(weight / batch.readings)
        assert found == expected
        # Down to the function that runs.
        running = [
            (functions(stack), weight) for stack, state, weight in batch.rows if state == "task_running"
        ]
        assert running == [(["stay", "stand_still"], batch.readings)]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version.startswith("3.15")])
def test_the_profiler_of_cpython_finds_the_same_tasks(start: Start, tmp_path: Path, version: str) -> None:
    python = str(PYTHONS[version])
    target = start("awaits", 80, tmp_path / "truth.json", "still", python=python)
    found, batch = Counter[tuple[str, ...]](), readings(target.pid, 1, 2000)[0]
    for stack, _, weight in batch.rows:
        frames = function_and_line(stack)
        # That profiler sees neither generators nor the functions that a running task called.
        ends = (n for n, frame in enumerate(frames) if frame.startswith(("numbers", "by_gen", "stand_still")))
        found[tuple(frames[: next(ends, None)])] += round(weight / batch.readings)
    subprocess.run(
        [python, *PROFILER, "-o", tmp_path / "stacks", "-r", "20", "-d", "1", str(target.pid)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    # A line is a task behind those that wait for it, which have other lines too if they wait for several.
    tasks = dict[str, tuple[str, ...]]()
    for line in (tmp_path / "stacks").read_text().splitlines():
        waiters = re.split(";<task>:", line.rpartition(" ")[0])[1:]
        for n, waiter in enumerate(waiters):
            name, *frames = waiter.split(";")
            tasks[name if n + 1 < len(waiters) else line] = tuple(frame.split(":", 1)[1] for frame in frames)
    expected = Counter(tasks.values())
    assert expected.total() > 1000
    # Nor does it see the one task that is implemented in Python.
    assert found - expected == Counter([next(frames for frames in found if frames[0].startswith("outer"))])
    assert not expected - found


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_task_waits_for_is_the_last_frame(start: Start, tmp_path: Path, version: str) -> None:
    target = start("awaits", 1, tmp_path / "truth.json", "still", python=str(PYTHONS[version]))
    rows = [row for batch in readings(target.pid, 1, 1000) for row in batch.rows]
    last = {stack.split(" (")[0]: stack.rsplit(";", 1)[1] for stack, *_ in rows if ";" in stack}
    assert last["sleeps"] == "%5Bsleep]"
    assert last["gets"] == "[queue]"
    assert last["outer"] == "%5Block]"
    assert last["old_style"] == "[future]"
    assert last["joins"] == "[task the child]"


@pytest.mark.parametrize("each", [63, 625])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_subset_stands_for_all_tasks(start: Start, tmp_path: Path, version: str, each: int) -> None:
    truth = tmp_path / "truth.json"
    target = start("awaits", each, truth, "still", python=str(PYTHONS[version]))
    expected = len(json.loads(truth.read_text()))
    assert expected > 16 * each
    batches = readings(target.pid, 40, 64)
    count = sum(batch.readings for batch in batches)
    # One more where the running task was not in the subset.
    for batch in batches:
        assert expected - each / 3 <= batch.tasks / batch.readings <= expected + 1
    shares = defaultdict[str, float](float)
    for batch in batches:
        for stack, _, weight in batch.rows:
            shares[functions(stack)[0]] += weight / count
    share = each / expected
    deviation = expected * math.sqrt(share * (1 - share) / (64 * count))
    assert abs(shares["sleeps"] - each) < 6 * deviation


POSSIBLE = {
    ("stay",),
    ("outer", "middle", "leaf", "Event.wait"),
    ("turns",),
    ("turns", "turn"),
    ("turns", "turn", "sleep"),
    ("turns", "turn", "sleep", "__sleep0"),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_loop_that_never_rests_gives_no_impossible_stack(
    start: Start, tmp_path: Path, version: str
) -> None:
    target = start("awaits", 20, tmp_path / "truth.json", "moving", python=str(PYTHONS[version]))
    batches = readings(target.pid, 100, 1000)
    assert {tuple(functions(stack)) for batch in batches for stack, *_ in batch.rows} <= POSSIBLE
    for batch in batches:
        assert batch.tasks == 41 * batch.readings


@pytest.mark.parametrize("version", VERSIONS)
def test_ten_thousand_tasks_of_a_loop_that_never_rests_are_read_in_short_stops(
    start: Start, tmp_path: Path, version: str
) -> None:
    target = start("awaits", 5000, tmp_path / "truth.json", "moving", python=str(PYTHONS[version]))
    batches = readings(target.pid, 40, 64)
    assert {tuple(functions(stack)) for batch in batches for stack, *_ in batch.rows} <= POSSIBLE
    for batch in batches:
        assert batch.tasks == pytest.approx(10_001 * batch.readings, rel=0.02)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_lag_of_a_loop_is_seen_though_few_of_all_tasks_are_its_own(
    start: Start, tmp_path: Path, version: str
) -> None:
    began = tmp_path / "began"
    target = start("loops", 1000, began, python=str(PYTHONS[version]))
    session = Engine().attach(target.pid, rate_hz=200, tasks_hz=50, tasks_max=64)
    seen: list[TaskBatch] = []

    def late() -> bool:
        if tasks := session.take().tasks:
            seen.append(tasks)
        return bool(seen) and seen[-1].longest_ready_ns >= 300_000_000 and seen[-1].loops == 2

    wait_until(late)
    blocked_ns = time.monotonic_ns() - int(began.read_text())
    session.stop()
    assert seen[-1].longest_ready_ns <= blocked_ns
