"""The same promises on recordings of real services, cut at random into sides that are equal or changed by
hand."""

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
"""What a sample stands for, unless its sidecar saved CPU time."""
DAY: Final = round(DAY_SECONDS / SECONDS)
"""Windows of a day."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A recording as pods by windows of five seconds: what was watched (P, N), and samples (1 + 2F, P, N) of
    the whole, of each function by itself, and with what it calls.

    Samples are as many as there would have been at 100 a second, as sidecars that save CPU time take fewer.
    `clock` (P, N) are the microseconds of CPU time by the kernel's clock: so many that counting them says
    nothing.
    """

    watched: F64
    clock: F64
    samples: F64
    functions: int

    def alone(self) -> Grid:
        """The whole without functions."""
        return replace(self, samples=self.samples[:1], functions=0)

    def clocked(self) -> Grid:
        """The whole by the kernel's clock."""
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
    """How many samples at 100 a second one of each window stands for: 1, or more to two digits."""
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
    """Other pods at the same time, for so many windows, or else between one day and all there is."""
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
    """How often the whole is said to have changed, which is where the interval does not hold 0, and the
    change that is detectable in the median trial."""
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
    """A change is planted by keeping each of A's samples with a chance, so that counting noise stays true."""
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
