"""The same promises on recordings of real services, cut at random into sides that are equal or changed by
hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.page import Table, share
from bench.verdicts.recordings import Recording, load, names
from bench.verdicts.trials import Windows, compared
from sidelight.verdicts.discovery import benjamini_hochberg

F64 = NDArray[np.float64]

SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Grid:
    """A recording as pods by windows of five seconds: what was watched (P, N), and samples (1 + 2F, P, N) of
    the whole, of each function by itself, and with what it calls."""

    watched: F64
    samples: F64
    functions: int

    def part(self, pods: NDArray[np.int64], windows: slice) -> Windows:
        return Windows(self.watched[pods, windows], self.samples[:, pods, windows], SECONDS)


def grid(recording: Recording) -> Grid:
    at = (recording.start // SECONDS).astype(int)
    alone, total = recording.self_samples(), recording.total_samples()
    every = np.column_stack([recording.samples(), alone, total])
    samples = np.zeros((len(recording.pods), int(at.max()) + 1, every.shape[1]))
    watched = np.zeros(samples.shape[:2])
    np.add.at(samples, (recording.pod, at), every)
    np.add.at(watched, (recording.pod, at), recording.watched)
    return Grid(watched, np.ascontiguousarray(samples.transpose(2, 0, 1)), alone.shape[1])


def recorded(trials: int) -> list[Table]:
    equal, planted = [], []
    for name in names():
        whole = grid(load(name))
        for what, how in _CUTS.items():
            equal += [
                [name, what, f"{pods} and {pods}", *_equal(whole, what, how, pods, trials)]
                for pods in (2, 4, 5)
            ]
        planted += [[name, "5 and 5", *row] for row in _planted(whole, 5, trials)]
    head = ["recording", "", "pods", "false change (≤ 5 %)", "interval holds the truth", "detectable",
            "functions: any false change"]  # fmt: skip
    return [
        Table("Real recordings cut at random into equal sides", head, equal),
        Table(
            "Real recordings at the same time, A's samples thinned out, so that B takes more",
            ["recording", "pods", "planted, of the median detectable", "found", "interval holds it"],
            planted,
        ),
    ]


_CUTS: Mapping[str, Mapping[str, bool]] = {
    "same time": {"same_time": True},
    "apart": {},
    "apart, the same pods": {"same_pods": True},
}


def _sides(whole: Grid, what: str, pods: int, luck: np.random.Generator) -> tuple[Windows, Windows]:
    """Other pods (or the same), at the same time or one after the other, for between a quarter and all there
    is."""
    order = luck.permutation(len(whole.watched))
    count = whole.watched.shape[1]
    length = int(luck.integers(count // 4, count // (1 if what == "same time" else 2) + 1))
    if what == "same time":
        start = int(luck.integers(0, count - length + 1))
        starts = start, start
    else:
        first = int(luck.integers(0, count - 2 * length + 1))
        starts = first, int(luck.integers(first + length, count - length + 1))
    of = order[:pods], order[:pods] if "same pods" in what else order[pods : 2 * pods]
    a, b = (whole.part(rows, slice(at, at + length)) for rows, at in zip(of, starts, strict=True))
    return (a, b) if luck.random() < 0.5 else (b, a)


def _equal(whole: Grid, what: str, how: Mapping[str, bool], pods: int, trials: int) -> list[str]:
    luck = np.random.default_rng(11)
    seen = np.empty((trials, 4))
    for trial in range(trials):
        _, found = compared(*_sides(whole, what, pods, luck), **how)
        families = found.p[1 : 1 + whole.functions], found.p[1 + whole.functions :]
        some = any((benjamini_hochberg(family) <= 0.05).any() for family in families)
        held = found.relative_low[0] <= 0 <= found.relative_high[0]
        seen[trial] = found.p[0] <= 0.05, held, found.detectable[0], some
    changed, held, _, some = seen.mean(0)
    return [share(changed), share(held), share(float(np.median(seen[:, 2]))), share(some)]


def _planted(whole: Grid, pods: int, trials: int) -> list[list[str]]:
    """A change is planted by keeping each of A's samples with a chance, so that counting noise stays true."""
    luck = np.random.default_rng(12)
    only = Grid(whole.watched, whole.samples[:1], 0)
    aims = [
        compared(*_sides(only, "same time", pods, luck), same_time=True)[1].detectable[0]
        for _ in range(trials)
    ]
    aim = float(np.median(aims))
    rows = []
    for part in (0.5, 1.0, 1.5):
        change = part * aim
        seen = np.empty((trials, 2))
        for trial in range(trials):
            a, b = _sides(only, "same time", pods, luck)
            thinned = luck.binomial(a.samples.astype(int), 1 / (1 + change)).astype(float)
            _, found = compared(Windows(a.watched, thinned, a.seconds), b, same_time=True)
            seen[trial] = found.p[0] <= 0.05, found.relative_low[0] <= change <= found.relative_high[0]
        rows.append([f"{share(change)}: {part} times", *map(share, seen.mean(0))])
    return rows
