"""The promises on recordings of real services, cut at random into two sides.

The sides are equal, or one of them is changed artificially.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.page import Table, share
from bench.verdicts.recordings import Recording, load, names
from bench.verdicts.trials import Windows, compared, families
from bench.verdicts.weather import DAY_SECONDS
from sidelight_collector.statistics.inference.fdr import benjamini_hochberg

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

SECONDS: Final = 5.0
PERIOD_SECONDS: Final = 0.01
"""The time that a sample stands for, unless its sidecar lowered the rate."""
DAY: Final = round(DAY_SECONDS / SECONDS)
"""The number of windows in a day."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A recording as pods by windows of five seconds.

    `watched` is the observed time (P, N). `samples` is (1 + 2F, P, N): the total, self of each function,
    and total of each function. They are scaled to 100 samples per second, because sidecars that save CPU
    time take fewer. `clock` (P, N) is the CPU time by the kernel's clock, in microseconds: so many that
    counting noise does not matter.
    """

    watched: F64
    clock: F64
    samples: F64
    functions: int

    def alone(self) -> Grid:
        """Return the total without functions."""
        return replace(self, samples=self.samples[:1], functions=0)

    def clocked(self) -> Grid:
        """Return the total by the kernel's clock."""
        return replace(self, samples=self.clock[None], functions=0)

    def part(self, pods: I64, windows: slice) -> Windows:
        return Windows(self.watched[pods, windows], self.samples[:, pods, windows], SECONDS)


def grid(recording: Recording) -> Grid:
    at = (recording.start // SECONDS).astype(int)
    alone, total = recording.self_samples(), recording.total_samples()
    every = np.column_stack([recording.samples(), alone, total]) * _stands_for(recording)[:, None]
    samples = np.zeros((len(recording.pods), int(at.max()) + 1, every.shape[1]))
    watched, clock = np.zeros((2, *samples.shape[:2]))
    np.add.at(samples, (recording.pod, at), every)
    np.add.at(watched, (recording.pod, at), recording.watched)
    np.add.at(clock, (recording.pod, at), 1e6 * recording.clock)
    return Grid(watched, clock, np.ascontiguousarray(samples.transpose(2, 0, 1)), alone.shape[1])


def _stands_for(recording: Recording) -> F64:
    """Return the factor that scales each window's samples to 100 per second.

    The factor is rounded to two decimals.
    """
    found: F64 = np.round(recording.period / PERIOD_SECONDS, 2)
    return found


def recorded(trials: int) -> list[Table]:
    equal, planted = [], []
    for name in names():
        whole = grid(load(name))
        equal += [[name, f"{pods} and {pods}", *_equal(whole, pods, trials)] for pods in (2, 4, 10)]
        planted += [[name, "10 and 10", *row] for row in _planted(whole, 10, trials)]
    head = ["recording", "pods", "false change by samples (≤ 5 %)", "detectable",
            "by the kernel's clock", "detectable", "functions: any false change"]  # fmt: skip
    return [
        Table("Real recordings cut at random into equal sides at the same time", head, equal),
        Table(
            "Two days of real recordings at the same time, A's samples thinned out, so that B takes more",
            ["recording", "pods", "planted, of the median detectable", "found", "interval holds it"],
            planted,
        ),
    ]


def _sides(
    whole: Grid, pods: int, luck: np.random.Generator, length: int | None = None
) -> tuple[Windows, Windows]:
    """Draw two sides of different pods at the same time.

    They have `length` windows, or a random number between one day and the whole recording.
    """
    order = luck.permutation(len(whole.watched))
    count = whole.watched.shape[1]
    length = length or int(luck.integers(DAY, count + 1))
    start = int(luck.integers(0, count - length + 1))
    a, b = (whole.part(order[at : at + pods], slice(start, start + length)) for at in (0, pods))
    return (a, b) if luck.random() < 0.5 else (b, a)


def _equal(whole: Grid, pods: int, trials: int) -> list[str]:
    seen = [_found(grid, pods, trials) for grid in (whole.alone(), whole.clocked())]
    return [cell for each in seen for cell in each] + [_any_function(whole, pods, trials // 5)]


def _found(only: Grid, pods: int, trials: int) -> list[str]:
    """Compare equal sides.

    Returns the share of trials in which the total is reported as changed (the interval excludes 0), and the
    median of the minimum detectable effects.
    """
    luck = np.random.default_rng(11)
    seen = np.empty((trials, 2))
    for trial in range(trials):
        _, found = compared(*_sides(only, pods, luck), same_time=True)
        seen[trial] = found.p[0] <= 0.05, found.min_detectable_effect[0]
    return [share(float(seen[:, 0].mean())), share(float(np.median(seen[:, 1])))]


def _any_function(whole: Grid, pods: int, trials: int) -> str:
    luck = np.random.default_rng(11)
    some = 0
    for _ in range(trials):
        own, total, _ = families(*_sides(whole, pods, luck), whole.functions, same_time=True)
        some += any((benjamini_hochberg(family) <= 0.05).any() for family in (own, total))
    return share(some / trials)


def _planted(whole: Grid, pods: int, trials: int) -> list[list[str]]:
    """Compare sides with a planted change.

    Each of A's samples is retained with a fixed probability, so the counting noise stays realistic.
    """
    luck = np.random.default_rng(12)
    only, length = whole.alone(), 2 * DAY

    def sides() -> tuple[Windows, Windows]:
        return _sides(only, pods, luck, length)

    aims = [compared(*sides(), same_time=True)[1].min_detectable_effect[0] for _ in range(trials)]
    aim = float(np.median(aims))
    rows = []
    for part in (0.5, 1.0, 1.5):
        change = part * aim
        seen = np.empty((trials, 2))
        for trial in range(trials):
            a, b = sides()
            thinned = luck.binomial(a.samples.astype(int), 1 / (1 + change)).astype(float)
            _, found = compared(Windows(a.watched, thinned, a.seconds), b, same_time=True)
            seen[trial] = found.p[0] <= 0.05, found.relative_low[0] <= change <= found.relative_high[0]
        rows.append([f"{share(change)}: {part} times", *map(share, seen.mean(0))])
    return rows
