"""Simulated services for comparisons, with a known change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.trials import Windows
from sidelight_collector.statistics.inference.design import LoadAssumption

F64 = NDArray[np.float64]

MINUTES_OF_DAY: Final = 1440


class How(TypedDict):
    """The assumptions of a comparison about its sides, as arguments of `compared`."""

    same_time: bool
    same_pods: bool
    load: LoadAssumption


@dataclass(frozen=True, slots=True)
class World:
    """Two sides of a service.

    Times are in windows (of a minute); spreads are standard deviations of logarithms. All pods share
    `load`, which is autocorrelated over `load_windows`; each pod has its own load `own`, autocorrelated
    over `own_windows`. `day` is the amplitude of the daily load. In a share `bursts` of its windows a pod
    takes three times its usual time. `samples` is the mean number of samples per window and pod. Sides that
    are not `concurrent` follow each other, and the comparison assumes equal load.
    """

    pods_a: int = 4
    pods_b: int = 4
    windows: int = 60
    concurrent: bool = True
    same_pods: bool = False
    pod_spread: float = 0.03
    load: float = 0.2
    load_windows: float = 5.0
    own: float = 0.1
    own_windows: float = 2.0
    day: float = 0.0
    bursts: float = 0.0
    samples: float = 300.0
    change: float = 0.0

    @property
    def how(self) -> How:
        """The assumptions of a comparison of these sides."""
        return {
            "same_time": self.concurrent,
            "same_pods": self.same_pods,
            "load": LoadAssumption.UNKNOWN if self.concurrent else LoadAssumption.ASSUMED_EQUAL,
        }


def draw(world: World, luck: np.random.Generator) -> tuple[Windows, Windows]:
    """Draw one quantity of both sides, with the world's change on side B."""
    a, b = (luck.poisson(world.samples * factor).astype(float) for factor in means(world, luck))
    return Windows(np.full(a.shape, 60.0), a[None]), Windows(np.full(b.shape, 60.0), b[None])


def means(world: World, luck: np.random.Generator) -> tuple[F64, F64]:
    """Draw the factor by which each pod and window of A and B differs from the mean.

    Returns an array (P, N) for each side.
    """
    count, between = world.windows, 0 if world.concurrent else world.windows
    line = slow(luck, (1, count + between), world.load_windows)[0]
    load = np.stack([line[:count], line[between : between + count]])
    hours = luck.uniform(0, 2 * np.pi) + np.arange(count) * (2 * np.pi / MINUTES_OF_DAY)
    later = hours + between * (2 * np.pi / MINUTES_OF_DAY)
    load = load * world.load + np.log1p(world.day * np.sin([hours, later]))
    spread = luck.normal(0, world.pod_spread, world.pods_a)
    a = _pods(world, luck, spread, load[0])
    if not world.same_pods:
        spread = luck.normal(0, world.pod_spread, world.pods_b)
    return a, (1 + world.change) * _pods(world, luck, spread, load[1])


def _pods(world: World, luck: np.random.Generator, spread: F64, load: F64) -> F64:
    """Draw what pods take under a load (N,).

    The pods differ permanently by `spread` (P,).
    """
    shape = len(spread), len(load)
    own = slow(luck, shape, world.own_windows) * world.own
    bursts = np.where(luck.random(shape) < world.bursts, np.log(3.0), 0.0)
    found: F64 = np.exp(spread[:, None] + own + bursts + load)
    return found


def slow(luck: np.random.Generator, shape: tuple[int, int], windows: float) -> F64:
    """Draw rows of mean 0 and variance 1, autocorrelated over a number of windows.

    Each row is a first-order autoregression.
    """
    keeps = float(np.exp(-1 / windows)) if windows > 0 else 0.0
    rows: F64 = luck.standard_normal(shape)
    rows[:, 1:] *= np.sqrt(1 - keeps * keeps)
    step = 1
    while step < shape[1]:  # doubling: each value includes `step` values before it, then twice as many
        rows[:, step:] += keeps**step * rows[:, :-step].copy()
        step *= 2
    return rows
