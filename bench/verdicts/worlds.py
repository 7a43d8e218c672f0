"""Services made up to be compared, of which it is known what changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

Together = Literal["same time", "apart", "same hours"]
"""Both at once (a canary), one after the other, or at the same hours of two days."""


@dataclass(frozen=True, slots=True)
class World:
    """Two sides of a service; times are in windows (of a minute), spreads are standard deviations of logarithms.

    `load` is shared by all pods and resembles itself for `load_windows`; `own` is each pod's, for `own_windows`.
    `day` is how far the day swings load, in windows 24 · 60 long. In a share `bursts` of its windows a pod takes
    three times what it else does. `samples` is how many a pod's window has on average.
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


@dataclass(frozen=True, slots=True)
class Drawn:
    """Samples of one side, (P, N) of pods by windows."""

    samples: F64


def draw(world: World, luck: np.random.Generator) -> tuple[F64, F64]:
    """The samples of A and of B, (P, N) each, B's changed as the world says."""
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
        mean = world.samples * factor * np.exp(spread[:, None] + own + bursts + load[side])
        sides.append(luck.poisson(mean).astype(float))
    return sides[0], sides[1]


def slow(luck: np.random.Generator, shape: tuple[int, int], windows: float) -> F64:
    """Rows that resemble themselves for so many windows: of mean 0 and variance 1, each value remembers the last."""
    keeps = float(np.exp(-1 / windows)) if windows > 0 else 0.0
    noise = luck.standard_normal(shape)
    rows = np.empty(shape)
    rows[:, 0] = noise[:, 0]
    for at in range(1, shape[1]):
        rows[:, at] = keeps * rows[:, at - 1] + np.sqrt(1 - keeps * keeps) * noise[:, at]
    return rows
