"""The promise about functions and call paths: the share of false changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.verdicts import trials
from bench.verdicts.page import Table, share
from bench.verdicts.trials import Windows
from bench.verdicts.worlds import World, means
from sidelight_collector.statistics.inference.fdr import (
    benjamini_hochberg,
    compute_parents_and_ends,
    tree_rejections,
)

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Code:
    """A program: its call tree in pre-order, with each node's function and self time."""

    level: NDArray[np.int32]
    parent: I64
    function: I64
    weight: F64


@dataclass(frozen=True, slots=True)
class Family:
    """The counts of one trial: reported and false changes, and found and planted ones."""

    named: int
    false: int
    found: int
    planted: int


def program(luck: np.random.Generator, nodes: int, functions: int) -> Code:
    """Generate a call tree like that of real programs.

    It has mostly chains and some branches, and a tenth of its nodes take most of the time.
    """
    level = np.zeros(nodes, np.int32)
    for node in range(1, nodes):
        up = int(luck.geometric(0.45)) - 1
        level[node] = max(1, level[node - 1] + 1 - up)
    weight = np.exp(luck.normal(0, 2.0, nodes)) * (luck.random(nodes) < 0.3)
    return Code(
        level,
        compute_parents_and_ends(level.astype(np.int64))[0],
        luck.integers(0, functions, nodes),
        weight / weight.sum(),
    )


def sums_below(code: Code, own: F64) -> F64:
    """Compute the total of each node from the self values, (N, ...)."""
    whole = own.copy()
    for node in range(len(own) - 1, 0, -1):
        whole[code.parent[node]] += whole[node]
    return whole


def by_function(code: Code, own: F64, functions: int) -> tuple[F64, F64]:
    """Compute self and total of each function, (F, ...).

    A stack counts once, even if a function recurs in it.
    """
    alone = np.zeros((functions, *own.shape[1:]))
    np.add.at(alone, code.function, own)
    under = sums_below(code, own)
    total = np.zeros_like(alone)
    path: list[int] = []
    for node, level in enumerate(code.level.tolist()):
        del path[level:]
        if code.function[node] not in path:
            total[code.function[node]] += under[node]
        path.append(int(code.function[node]))
    return alone, total


def discoveries(count: int, nodes: int = 600, functions: int = 200) -> Table:
    rows = []
    for pods in (2, 4, 10):
        for changes, factor in ((0, 1.0), (3, 1.3), (12, 1.6), (12, 3.0)):
            families: dict[str, list[Family]] = {"self": [], "total": [], "call paths": []}
            luck = np.random.default_rng(7)
            for _ in range(count):
                _trial(luck, pods, nodes, functions, changes, factor, families)
            for name, of in families.items():
                named = np.array([one.named for one in of])
                rate = np.mean([one.false / max(one.named, 1) for one in of])
                found = sum(one.found for one in of) / max(1, sum(one.planted for one in of))
                what = f"{changes} by {factor}" if changes else "none"
                rows.append([f"{pods} and {pods}", what, name, f"{named.mean():.1f}", share(float(rate)),
                             share(found) if changes else ""])  # fmt: skip
    head = [
        "pods",
        "functions changed",
        "",
        "called changed",
        "of these false (≤ 5 %)",
        "of what changed, found",
    ]
    return Table("Functions and call paths, an hour of a canary", head, rows)


def _trial(
    luck: np.random.Generator, pods: int, nodes: int, functions: int, changes: int, factor: float,
    families: dict[str, list[Family]],
) -> None:  # fmt: skip
    code = program(luck, nodes, functions)
    world = World(pods_a=pods, pods_b=pods)
    factors = np.ones(nodes)
    heavy = np.flatnonzero(code.weight > 0.001)
    chosen = np.unique(code.function[luck.choice(heavy, min(changes, len(heavy)), replace=False)])
    factors[np.isin(code.function, chosen)] = factor
    sides = []
    for side, mean in enumerate(means(world, luck)):
        # The frequency of calls differs between pods, so each function varies by pod.
        own = np.exp(luck.normal(0, 0.05, (functions, pods)))[code.function]
        weight = code.weight * (factors if side else 1.0)
        samples = luck.poisson(1800 * weight[:, None, None] * own[:, :, None] * _blocks(mean)).astype(float)
        sides.append(samples)
    told = []
    for samples in sides:
        under = sums_below(code, samples)
        alone, total = by_function(code, samples, functions)
        kept = [samples.sum(0)[None], alone, total, under]
        told.append(Windows(np.full(samples.shape[1:], 240.0), np.concatenate(kept), 240.0))
    own_p, total_p, path_p = trials.families(*told, functions, same_time=True)
    own_truth = np.where(factors == 1, 0.0, code.weight)
    alone_truth, total_truth = by_function(code, own_truth, functions)
    families["self"].append(_family(benjamini_hochberg(own_p) <= 0.05, alone_truth > 0))
    families["total"].append(_family(benjamini_hochberg(total_p) <= 0.05, total_truth > 0))
    paths = tree_rejections(code.level, path_p)
    families["call paths"].append(_family(paths, sums_below(code, own_truth) > 0))


def _blocks(mean: F64) -> F64:
    return np.add.reduceat(mean, np.arange(0, mean.shape[1], 4), axis=1) / 1.0


def _family(named: Flags, truth: Flags) -> Family:
    return Family(int(named.sum()), int((named & ~truth).sum()), int((named & truth).sum()), int(truth.sum()))
