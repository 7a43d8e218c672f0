"""Services made up to be compared, of which it is known what changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.trials import Windows
from sidelight.verdicts.cells import Load
from sidelight.verdicts.history import History

F64 = NDArray[np.float64]

MINUTES_OF_DAY: Final = 1440
Together = Literal["same time", "apart", "same hours", "a week apart"]
"""Both at once (a canary), one after the other, or at the same hours of two days, or of two weeks."""


class How(TypedDict):
    """What a comparison is told of its sides, as `compared` takes it."""

    same_time: bool
    other_days: bool
    same_pods: bool
    load: Load


@dataclass(frozen=True, slots=True)
class World:
    """Two sides of a service; times are in windows (of a minute), spreads are deviations of logarithms.

    `load` is shared by all pods and resembles itself for `load_windows`; `own` is each pod's, for
    `own_windows`. `day` is how far the day swings load. In a share `bursts` of its windows a pod takes three
    times what it else does. `samples` is how many a window of a pod has on average. `history`: of so many
    ranges of A's pods before A the rates are known, or of one of `every` so many. `alike`: load is said to be
    alike.
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
    history: int = 0
    every: int = 1
    alike: bool = False

    @property
    def between(self) -> int:
        """So many windows after A began B began."""
        apart = {"apart": self.windows, "same hours": MINUTES_OF_DAY, "a week apart": 7 * MINUTES_OF_DAY}
        return apart.get(self.together, 0)

    @property
    def how(self) -> How:
        """What a comparison is told of it."""
        return {
            "same_time": self.together != "apart",
            "other_days": self.together in ("same hours", "a week apart"),
            "same_pods": self.same_pods,
            "load": Load.ALIKE if self.alike else Load.UNKNOWN,
        }


def draw(world: World, luck: np.random.Generator) -> tuple[Windows, Windows, History | None]:
    """Both sides, of one quantity, and what came before; B's changed as the world says."""
    *sides, earlier = (luck.poisson(world.samples * factor).astype(float) for factor in means(world, luck))
    a, b = (Windows(np.full(side.shape, 60.0), side[None]) for side in sides)
    if not world.history:
        return a, b, None
    rates = earlier.reshape(world.pods_a, world.history, world.windows).sum((0, 2))
    starts = np.arange(world.history) - float(world.history)
    at = np.zeros(1), np.array([world.between / world.windows])
    latest = slice(None, None, -world.every)
    return a, b, History(rates[latest], starts[latest], at, MINUTES_OF_DAY / world.windows)


def means(world: World, luck: np.random.Generator) -> tuple[F64, F64, F64]:
    """By how much each pod and window of A, of B and of what came before A takes more than the average one:
    (P, N) each."""
    count, before = world.windows, world.history * world.windows
    line = slow(luck, (1, before + count + world.between), world.load_windows)[0]
    load = np.stack([line[at : at + count] for at in (before, before + world.between)])
    hours = luck.uniform(0, 2 * np.pi) + np.arange(before + count) * (2 * np.pi / MINUTES_OF_DAY)
    later = hours[before:] + world.between * (2 * np.pi / MINUTES_OF_DAY)
    load = load * world.load + np.log1p(world.day * np.sin([hours[before:], later]))
    spread = luck.normal(0, world.pod_spread, world.pods_a)
    sides = []
    for side, (pods, factor) in enumerate(((world.pods_a, 1.0), (world.pods_b, 1 + world.change))):
        if side and not world.same_pods:
            spread = luck.normal(0, world.pod_spread, pods)
        sides.append(factor * _pods(world, luck, spread, load[side]))
        if not side and before:
            earlier = line[:before] * world.load + np.log1p(world.day * np.sin(hours[:before]))
            known = _pods(world, luck, spread, earlier)
    return sides[0], sides[1], known if before else np.zeros((world.pods_a, 0))


def _pods(world: World, luck: np.random.Generator, spread: F64, load: F64) -> F64:
    """What pods take with this load (N,), which differ for good by `spread` (P,)."""
    shape = len(spread), len(load)
    own = slow(luck, shape, world.own_windows) * world.own
    bursts = np.where(luck.random(shape) < world.bursts, np.log(3.0), 0.0)
    found: F64 = np.exp(spread[:, None] + own + bursts + load)
    return found


def slow(luck: np.random.Generator, shape: tuple[int, int], windows: float) -> F64:
    """Rows of mean 0 and variance 1 that resemble themselves for so many windows: each value keeps of the
    last."""
    keeps = float(np.exp(-1 / windows)) if windows > 0 else 0.0
    rows: F64 = luck.standard_normal(shape)
    rows[:, 1:] *= np.sqrt(1 - keeps * keeps)
    step = 1
    while step < shape[1]:  # each has what it keeps of so many before it, then of twice as many
        rows[:, step:] += keeps**step * rows[:, :-step].copy()
        step *= 2
    return rows
