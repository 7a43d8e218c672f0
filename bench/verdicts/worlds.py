"""Simulated services with a known change: a program, its load, and two sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.trials import Windows
from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.inference.design import MAX_BLOCKS
from sidelight_collector.statistics.preorder import compute_parents_and_ends

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

BLOCKS_OF_DAY = 6 * MAX_BLOCKS
"""Sides of four hours are a sixth of a day."""


@dataclass(frozen=True, slots=True)
class World:
    """Two sides of a service, observed for `minutes` in blocks of a sixteenth of that.

    Times are in blocks; spreads are standard deviations of logarithms. All pods share `load`, which is
    autocorrelated over `load_blocks`; each pod has its own load `own`, and differs permanently by
    `pod_spread`. `day` is the amplitude of the daily load. Each function differs by `function_spread` from
    pod to pod and by `drift` from block to block, autocorrelated over `drift_blocks`, the same in all pods.
    B's load is `load_ratio` times A's; the time of a share `background` of the functions does not depend on
    load. `samples` is the mean number per pod and minute. Concurrent sides share load and drift; others
    follow each other.
    """

    pods: tuple[int, int] = (3, 3)
    minutes: int = 60
    pod_spread: float = 0.03
    load: float = 0.2
    load_blocks: float = 1.5
    own: float = 0.05
    day: float = 0.0
    function_spread: float = 0.03
    drift: float = 0.03
    drift_blocks: float = 1.5
    load_ratio: float = 1.0
    background: float = 0.0
    samples: float = 95.0


@dataclass(frozen=True, slots=True)
class Program:
    """A call tree in pre-order, with each node's function and share of self time."""

    level: I32
    parent: I64
    function: I64
    weight: F64
    functions: int

    def sum_subtrees(self, own: F64) -> F64:
        """Compute the total of each node from the self values, (N, ...)."""
        end = compute_parents_and_ends(self.level.astype(np.int64))[1]
        sums = np.concatenate([np.zeros((1, *own.shape[1:])), np.cumsum(own, 0)])
        total: F64 = sums[end] - sums[:-1]
        return total

    def sum_by_function(self, own: F64) -> tuple[F64, F64]:
        """Compute self and total of each function, (F, ...).

        A stack counts once, even if a function recurs in it.
        """
        alone, total = np.zeros((2, self.functions, *own.shape[1:]))
        np.add.at(alone, self.function, own)
        outermost = self._find_outermost()
        np.add.at(total, self.function[outermost], self.sum_subtrees(own)[outermost])
        return alone, total

    def _find_outermost(self) -> I64:
        """Find the nodes whose function is not among their ancestors."""
        nodes: list[int] = []
        path: list[int] = []
        for node, level in enumerate(self.level.tolist()):
            del path[level:]
            if self.function[node] not in path:
                nodes.append(node)
            path.append(int(self.function[node]))
        return np.array(nodes)


SINGLE_FUNCTION: Final = Program(np.zeros(1, np.int32), np.full(1, -1), np.zeros(1, np.int64), np.ones(1), 1)


def draw_program(rng: np.random.Generator, nodes: int = 600, functions: int = 200) -> Program:
    """Draw a call tree like that of real programs.

    It has mostly chains and some branches, and a tenth of its nodes take most of the time.
    """
    level = np.zeros(nodes, np.int32)
    for node in range(1, nodes):
        up = int(rng.geometric(0.45)) - 1
        level[node] = max(1, level[node - 1] + 1 - up)
    weight = np.exp(rng.normal(0, 1.5, nodes)) * (rng.random(nodes) < 0.3)
    parents = compute_parents_and_ends(level.astype(np.int64))[0]
    return Program(level, parents, rng.integers(0, functions, nodes), weight / weight.sum(), functions)


def draw_sides(
    world: World, program: Program, factors: F64, basis: Basis, rng: np.random.Generator
) -> tuple[Windows, Windows]:
    """Draw both sides of a world.

    The self time of B's functions takes `factors` (F,) times as long. The exposure of a comparison per
    request is the number of requests: the load, without background work.
    """
    is_concurrent = basis is Basis.CONCURRENT
    count = MAX_BLOCKS if is_concurrent else 2 * MAX_BLOCKS
    at = rng.uniform(0, 2 * np.pi) + np.arange(count) * (2 * np.pi / BLOCKS_OF_DAY)
    load = world.load * draw_series(rng, (1, count), world.load_blocks)[0] + np.log1p(world.day * np.sin(at))
    drift = world.drift * draw_series(rng, (program.functions, count), world.drift_blocks)
    is_background = rng.random(program.functions) < world.background
    seconds = world.minutes * 60.0 / MAX_BLOCKS
    sides = []
    for side, pods in enumerate(world.pods):
        own_blocks = slice(0 if is_concurrent else side * MAX_BLOCKS, None)
        shared = (load + (np.log(world.load_ratio) if side else 0.0))[own_blocks][:MAX_BLOCKS]
        each = rng.normal(0, world.pod_spread, (pods, 1))
        each = each + world.own * draw_series(rng, (pods, MAX_BLOCKS), 1.0)
        busy = np.exp(shared + each)
        spread = rng.normal(0, world.function_spread, (program.functions, pods, 1))
        rate = np.exp(spread + drift[:, None, own_blocks][:, :, :MAX_BLOCKS])
        rate = rate * np.where(is_background[:, None, None], 1.0, busy)
        if side:
            rate = rate * factors[:, None, None]
        mean = world.samples * world.minutes / MAX_BLOCKS * program.weight
        own = rng.poisson(mean[:, None, None] * rate[program.function]).astype(np.float64)
        alone, total = program.sum_by_function(own)
        samples = np.concatenate([own.sum(0)[None], alone, total, program.sum_subtrees(own)])
        exposure = 1000 * busy if basis is Basis.PER_REQUEST else np.full(busy.shape, seconds)
        sides.append(Windows(exposure, samples, program.functions, seconds))
    return sides[0], sides[1]


def draw_series(rng: np.random.Generator, shape: tuple[int, int], correlation: float) -> F64:
    """Draw first-order autoregressions of mean 0 and variance 1.

    Values are autocorrelated over `correlation` steps.
    """
    factor = float(np.exp(-1 / correlation)) if correlation > 0 else 0.0
    rows: F64 = rng.standard_normal(shape)
    for at in range(1, shape[1]):
        rows[:, at] = factor * rows[:, at - 1] + np.sqrt(1 - factor * factor) * rows[:, at]
    return rows
