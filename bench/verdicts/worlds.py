"""Services made up to be compared, of which it is known what changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.trials import Windows

F64 = NDArray[np.float64]

Together = Literal["same time", "apart", "same hours"]
"""Both at once (a canary), one after the other, or at the same hours of two days."""


@dataclass(frozen=True, slots=True)
class World:
    """Two sides of a service; times are in windows (of a minute), spreads are deviations of logarithms.

    `load` is shared by all pods and resembles itself for `load_windows`; `own` is each pod's, for
    `own_windows`. `day` is how far the day swings load. In a share `bursts` of its windows a pod takes three
    times what it else does. `samples` is how many a window of a pod has on average.
    """

    pods_a: int = 4
    pods_b: int = 4
    windows: int = 60
    together: Together = "same time"
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
    def how(self) -> dict[str, bool]:
        """What a comparison is told of it."""
        return {
            "same_time": self.together != "apart",
            "other_days": self.together == "same hours",
            "same_pods": self.same_pods,
        }


def draw(world: World, luck: np.random.Generator) -> tuple[Windows, Windows]:
    """Both sides, of one quantity; B's changed as the world says."""
    factors = means(world, luck)
    sides = [luck.poisson(world.samples * factor).astype(float) for factor in factors]
    a, b = (Windows(np.full(side.shape, 60.0), side[None]) for side in sides)
    return a, b


def means(world: World, luck: np.random.Generator) -> tuple[F64, F64]:
    """By how much each pod and window of A and of B takes more than the average one: (P, N) each."""
    count = world.windows
    load = slow(luck, (2, count) if world.together == "same hours" else (1, 2 * count), world.load_windows)
    load = load.reshape(2, count) * world.load
    hours = luck.uniform(0, 2 * np.pi) + np.arange(2 * count).reshape(2, count) * (2 * np.pi / 1440)
    if world.together != "apart":
        hours[1] = hours[0]
    if world.together == "same time":
        load[1] = load[0]
    load = load + np.log1p(world.day * np.sin(hours))
    spread = luck.normal(0, world.pod_spread, world.pods_a)
    sides = []
    for side, (pods, factor) in enumerate(((world.pods_a, 1.0), (world.pods_b, 1 + world.change))):
        if side and not world.same_pods:
            spread = luck.normal(0, world.pod_spread, pods)
        own = slow(luck, (pods, count), world.own_windows) * world.own
        bursts = np.where(luck.random((pods, count)) < world.bursts, np.log(3.0), 0.0)
        sides.append(factor * np.exp(spread[:, None] + own + bursts + load[side]))
    return sides[0], sides[1]


def slow(luck: np.random.Generator, shape: tuple[int, int], windows: float) -> F64:
    """Rows of mean 0 and variance 1 that resemble themselves for so many windows: each value keeps of the
    last."""
    keeps = float(np.exp(-1 / windows)) if windows > 0 else 0.0
    noise = luck.standard_normal(shape)
    rows = np.empty(shape)
    rows[:, 0] = noise[:, 0]
    for at in range(1, shape[1]):
        rows[:, at] = keeps * rows[:, at - 1] + np.sqrt(1 - keeps * keeps) * noise[:, at]
    return rows
