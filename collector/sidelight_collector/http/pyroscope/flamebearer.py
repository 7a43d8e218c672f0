"""A call tree as levels of bars: the flame graph of Pyroscope and Grafana.

A bar of one side is four numbers: the distance to the end of the previous bar of its level, its total, its
self value, and the index of its name. A bar of two sides has the first three for each side. Values are in
nanoseconds. Bars lie inside the bar of their parent, whose own time is to their right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidelight_collector.answers.flame import FlameGraph

NS_PER_US: Final = 1000


@dataclass(frozen=True, slots=True)
class Flamebearer:
    """Names and levels of a flame graph, totals of its sides, largest self value."""

    names: Sequence[str]
    levels: Sequence[Sequence[int]]
    totals: Sequence[int]
    max_self: int


def build_flamebearer(graph: FlameGraph) -> Flamebearer:
    """Lay out the nodes of a flame graph, which are in pre-order."""
    parents = _find_parents(graph["level"])
    sides = [
        _lay_out(parents, [us * NS_PER_US for us in side["self_us"]], graph["level"])
        for side in graph["sides"]
    ]
    levels: list[list[int]] = [[] for _ in range(max(graph["level"], default=-1) + 1)]
    for node, (level, name) in enumerate(zip(graph["level"], graph["name"], strict=True)):
        row = levels[level]
        for gaps, totals, own in sides:
            row += (gaps[node], totals[node], own[node])
        row.append(name)
    return Flamebearer(
        graph["names"],
        levels,
        [totals[0] if totals else 0 for _, totals, _ in sides],
        max((max(own, default=0) for _, _, own in sides), default=0),
    )


def _find_parents(levels: Sequence[int]) -> list[int]:
    """Return the parent of each node; -1 for the root."""
    parents: list[int] = []
    last = [-1] * (max(levels, default=0) + 2)
    for node, level in enumerate(levels):
        parents.append(last[level])
        last[level + 1] = node
    return parents


def _lay_out(
    parents: Sequence[int], own: Sequence[int], levels: Sequence[int]
) -> tuple[list[int], list[int], Sequence[int]]:
    """Return the gap to the previous bar, the total and the self value of each node."""
    totals = list(own)
    for node in range(len(parents) - 1, 0, -1):
        totals[parents[node]] += totals[node]
    gaps, starts, free = ([0] * len(parents) for _ in range(3))
    ends = [0] * (max(levels, default=0) + 1)
    for node, (parent, level) in enumerate(zip(parents, levels, strict=True)):
        if parent >= 0:
            starts[node] = free[parent]
            free[parent] += totals[node]
        free[node] = starts[node]
        gaps[node] = starts[node] - ends[level]
        ends[level] = starts[node] + totals[node]
    return gaps, totals, own
