"""Asyncio tasks as the extension reads them, as samples of a window."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

from sidelight_model.counts import TASK_STATES, Counts
from sidelight_model.folded import Stack
from sidelight_model.frames import OTHER
from sidelight_model.window import TaskReadings

MAX_TASK_STACKS = 10_000
"""Most distinct pairs of await stack and state between two takes; the rest counts as (other)."""


@dataclass(frozen=True, slots=True)
class TaskSamples:
    """The tasks of a process, added up over several readings.

    weights: the number of tasks by await stack and state, added up over the readings
    """

    weights: Mapping[tuple[Stack, str], float]
    readings: TaskReadings


def read_task_samples(batch: Any) -> TaskSamples | None:
    """Read the tasks of a batch of the extension; None if it saw no event loop."""
    tasks = getattr(batch, "tasks", None)
    if tasks is None:
        return None
    weights: dict[tuple[Stack, str], float] = {}
    _add_weights(weights, {(Stack(stack), state): weight for stack, state, weight in tasks.rows}, None)
    readings = TaskReadings(
        readings=tasks.readings,
        failed=tasks.failed,
        tasks=round(tasks.tasks),
        ready=round(tasks.ready),
        longest_ready_ns=tasks.longest_ready_ns,
        loops=tasks.loops,
    )
    return TaskSamples(weights, readings)


def add_tasks(
    earlier: TaskSamples | None, later: TaskSamples | None, max_stacks: int | None = None
) -> TaskSamples | None:
    """Add the tasks of two batches that follow each other."""
    if earlier is None or later is None:
        return earlier or later
    weights = dict(earlier.weights)
    _add_weights(weights, later.weights, max_stacks)
    return TaskSamples(weights, earlier.readings.plus(later.readings))


def count_tasks(tasks: TaskSamples, duration_ns: int, period_ns: int, seed: int) -> dict[Stack, Counts]:
    """Convert tasks to samples: samples times `period_ns` is tasks times time.

    A reading stands for an equal part of the duration. Counts are rounded without bias: each by less than
    one sample, and so is their sum. `seed` makes the rounding repeatable.
    """
    if not tasks.readings.readings:
        return {}
    factor = duration_ns / (period_ns * tasks.readings.readings)
    rows: dict[Stack, list[int]] = {}
    reached = random.Random(seed).random()
    for (stack, state), weight in sorted(tasks.weights.items()):
        before, reached = reached, reached + weight * factor
        if samples := floor(reached) - floor(before):
            row = rows.setdefault(stack, [0] * len(TASK_STATES))
            row[TASK_STATES.index(state)] += samples
    return {stack: Counts(**dict(zip(TASK_STATES, row, strict=True))) for stack, row in rows.items()}


def _add_weights(
    total: dict[tuple[Stack, str], float], added: Mapping[tuple[Stack, str], float], max_stacks: int | None
) -> None:
    limit = min(MAX_TASK_STACKS, max_stacks or MAX_TASK_STACKS)
    for (stack, state), weight in added.items():
        key = (stack, state) if (stack, state) in total or len(total) < limit else (Stack(OTHER), state)
        total[key] = total.get(key, 0.0) + weight
