"""Summaries of a profile besides its tree: stack depths and function costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sidelight_model.tree import StackRow


@dataclass(frozen=True, slots=True)
class DepthDistribution:
    """The number of samples at each stack depth.

    `samples` maps depth (frames) to samples, in ascending order of depth.
    """

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
        needed, cumulative = q * self.total, 0
        for depth, count in self.samples.items():
            cumulative += count
            if cumulative >= needed:
                return depth
        return self.max


def find_largest_gap(a: DepthDistribution, b: DepthDistribution) -> tuple[int, float] | None:
    """Find the depth at which two distributions differ most, and the difference.

    The difference is a share of samples: the largest gap between the two cumulative distributions (the
    Kolmogorov-Smirnov statistic). It is positive where a larger share of `a` than of `b` is at most that
    deep. Returns None if a side is empty.
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
    """The cost of one function on one side.

    The totals count a stack once, however often the function recurs in it.
    """

    self_samples: int = 0
    total_samples: int = 0
    self_ns: int = 0
    total_ns: int = 0


def rank_functions(sides: Sequence[Iterable[StackRow]]) -> dict[str, tuple[FunctionCost, ...]]:
    """Compute the cost of every frame on every side.

    The frames are sorted by their largest total time on any side, heaviest first.
    """
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
