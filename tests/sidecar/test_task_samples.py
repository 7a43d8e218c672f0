"""Tasks become samples whose time is tasks times seconds, whatever the rates."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import pytest

from sidelight_model.counts import ProfileType
from sidelight_model.folded import Stack
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, TaskReadings, decode_windows, encode_windows
from sidelight_sidecar.samplers.sampler import SampleBatch
from sidelight_sidecar.samplers.task_samples import TaskSamples, add_tasks, count_tasks, read_task_samples
from sidelight_sidecar.shipping.merge import merge_windows
from sidelight_sidecar.windows.window_builder import TargetLabels, WindowContext, build_windows

ULIDS = ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW")
WAITS, RUNS = (Stack("main;wait"), "task_waiting"), (Stack("main"), "task_running")


@dataclass
class NativeTasks:
    rows: list[tuple[str, str, float]] = field(default_factory=list)
    readings: int = 50
    failed: int = 2
    tasks: float = 620.4
    ready: float = 3.0
    longest_ready_ns: int = 7_000_000
    loops: int = 1


@dataclass
class NativeBatch:
    tasks: NativeTasks | None


def read(readings: int, *rows: tuple[str, str, float]) -> TaskSamples:
    samples = read_task_samples(NativeBatch(NativeTasks(list(rows), readings)))
    assert samples is not None
    return samples


@pytest.mark.parametrize("period_ns", [10_000_000, 1_000_000])
def test_samples_times_period_is_tasks_times_seconds(period_ns: int) -> None:
    tasks = read(50, ("main;wait", "task_waiting", 620.0), ("main", "task_running", 25.0))
    counts = count_tasks(tasks, 10 * 10**9, period_ns, seed=3)
    seconds = {stack: count.for_type(ProfileType.TASKS) * period_ns / 1e9 for stack, count in counts.items()}
    assert seconds == {"main;wait": pytest.approx(124, abs=0.01), "main": pytest.approx(5, abs=0.01)}
    assert all(count.wall == 0 for count in counts.values())


def test_rare_tasks_are_rounded_without_bias() -> None:
    """A weight of 0.3 samples gives one in three tenths of windows, and sums lose at most one sample."""
    rows = [(f"main;f{at}", "task_waiting", 0.3) for at in range(10)]
    counted = [count_tasks(read(1, *rows), 1000, 1000, seed) for seed in range(2000)]
    assert all(abs(sum(count.task_waiting for count in counts.values()) - 3) <= 1 for counts in counted)
    for stack, _, _ in rows:
        mean = Fraction(sum(Stack(stack) in counts for counts in counted), 2000)
        assert abs(mean - Fraction(3, 10)) < Fraction(6, 100)


def test_batches_add_up_and_more_stacks_than_allowed_are_other() -> None:
    both = add_tasks(
        read(2, ("a", "task_ready", 1.0)), read(3, ("a", "task_ready", 2.0), ("b", "task_ready", 5.0)), 1
    )
    assert both is not None
    assert both.weights == {("a", "task_ready"): 3.0, ("(other)", "task_ready"): 5.0}
    assert both.readings == TaskReadings(5, 4, 1240, 6, 7_000_000, 1)
    assert add_tasks(None, both) is add_tasks(both, None) is both
    assert read_task_samples(object()) is read_task_samples(NativeBatch(None)) is None


def test_the_first_window_of_a_process_carries_its_tasks_and_merging_keeps_them() -> None:
    tasks = TaskSamples({WAITS: 20.0, RUNS: 1.0}, TaskReadings(10, 0, 21, 0, 5, 1))
    batch = SampleBatch({"other": {}, "main": {}}, 1000, 10**9, Quality(mode="gil"), tasks=tasks)
    ids = iter(ULIDS)
    labels = TargetLabels(Labels({"service": "shop"}), "main", 1)
    (first,) = build_windows(batch, labels, WindowContext(100, 1.0), lambda _: next(ids))
    assert first.tasks == tasks.readings
    assert (first.counts[WAITS[0]].task_waiting, first.total.wall) == (pytest.approx(200, abs=1), 0)
    assert decode_windows(encode_windows([first])) == [first]
    merged = merge_windows([first, first], lambda _: ULIDS[1])
    assert (merged.tasks, merged.total) == (tasks.readings.plus(tasks.readings), first.total.times(2))
