"""What is read off a profile besides its tree: depths, and the functions that cost most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sidelight_model.tree import StackRow


@dataclass(frozen=True, slots=True)
class DepthDistribution:
    """How many samples were how deep; `samples` maps depth (frames) to samples, ascending."""

    samples: Mapping[int, int]

    @property
    def total(self) -> int:
        return sum(self.samples.values())

    @property
    def mean(self) -> float | None:
        """The mean depth of a sample; None without samples."""
        total = self.total
        return sum(depth * count for depth, count in self.samples.items()) / total if total else None

    @property
    def max(self) -> int | None:
        return max(self.samples, default=None)

    def quantile(self, q: float) -> int | None:
        """The smallest depth that at least the share `q` of the samples does not exceed."""
        needed, seen = q * self.total, 0
        for depth, count in self.samples.items():
            seen += count
            if seen >= needed:
                return depth
        return self.max


def count_depths(rows: Iterable[StackRow]) -> DepthDistribution:
    """The depth distribution of a profile's samples."""
    counted: dict[int, int] = {}
    for frames, samples, _ in rows:
        counted[len(frames)] = counted.get(len(frames), 0) + samples
    return DepthDistribution(dict(sorted(counted.items())))


def find_largest_gap(a: DepthDistribution, b: DepthDistribution) -> tuple[int, float] | None:
    """The depth at which two distributions differ most, and by what share of samples.

    The share is the largest difference of the two cumulative distributions (the Kolmogorov-Smirnov
    statistic), positive where more of `a` than of `b` is at most that deep. None if a side is empty.
    """
    if not a.total or not b.total:
        return None
    best, below_a, below_b = (0, 0.0), 0, 0
    for depth in sorted(set(a.samples) | set(b.samples)):
        below_a += a.samples.get(depth, 0)
        below_b += b.samples.get(depth, 0)
        gap = below_a / a.total - below_b / b.total
        if abs(gap) > abs(best[1]):
            best = (depth, gap)
    return best


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """What one function cost on one side; `total` counts a stack once however often it recurs."""

    self_samples: int = 0
    total_samples: int = 0
    self_ns: int = 0
    total_ns: int = 0


def rank_functions(sides: Sequence[Iterable[StackRow]]) -> dict[str, tuple[FunctionCost, ...]]:
    """The cost of every frame on every side, heaviest total (of any side) first."""
    found: dict[str, list[list[int]]] = {}
    for side, rows in enumerate(sides):
        for frames, samples, ns in rows:
            for frame in set(frames):
                costs = found.setdefault(frame, [[0, 0, 0, 0] for _ in sides])
                costs[side][1] += samples
                costs[side][3] += ns
            leaf = found[frames[-1]][side]
            leaf[0] += samples
            leaf[2] += ns
    heaviest = sorted(found.items(), key=lambda item: (-max(cost[3] for cost in item[1]), item[0]))
    return {frame: tuple(FunctionCost(*cost) for cost in costs) for frame, costs in heaviest}
