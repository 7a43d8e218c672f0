"""Real recordings, of which random pods and random periods become two sides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.recordings import Recording, load
from bench.verdicts.trials import Windows
from bench.verdicts.weather import DAY_SECONDS
from sidelight_collector.statistics.basis import Basis

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

SECONDS: Final = 5.0
PERIOD_SECONDS: Final = 0.01
"""The time that a sample stands for, unless its sidecar lowered the rate."""
DAY: Final = round(DAY_SECONDS / SECONDS)
"""The number of windows in a day."""
WAITING: Final = ("SyncWorker.wait (", "_worker (concurrent/", "EpollSelector.select (")
"""Functions that wait: their samples are runnable threads that had no CPU, and follow contention."""
LOAD_SHARE: Final = 0.3
"""The part of a recording with the least load and the one with the most: two loads that differ by three."""
LOAD_WINDOWS: Final = 9
GROWING: Final = ("counted (feed.py)",)
"""A request whose cost grows during the recording, with the items that were posted: a real change."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A recording as pods by windows of five seconds.

    `watched` is the observed time (P, N), `requests` (P, N) their number. `samples` is (1 + 2F, P, N): the
    whole, self of each function, and total of each function. They are scaled to 100 samples per second,
    because sidecars that save CPU time take fewer. `names` are the functions.
    """

    watched: F64
    requests: F64
    samples: F64
    names: tuple[str, ...]

    def cut(self, pods: I64, windows: slice | I64, basis: Basis) -> Windows:
        exposure = (self.requests if basis is Basis.PER_REQUEST else self.watched)[pods][:, windows]
        return Windows(exposure, self.samples[:, pods][:, :, windows], len(self.names), SECONDS)


def build_grid(recording: Recording) -> Grid:
    at = (recording.start // SECONDS).astype(int)
    alone, total = recording.self_samples(), recording.total_samples()
    scale = np.round(recording.period / PERIOD_SECONDS, 2)
    every = np.column_stack([recording.samples(), alone, total]) * scale[:, None]
    samples = np.zeros((len(recording.pods), int(at.max()) + 1, every.shape[1]))
    watched, requests = np.zeros((2, *samples.shape[:2]))
    np.add.at(samples, (recording.pod, at), every)
    np.add.at(watched, (recording.pod, at), recording.watched)
    np.add.at(requests, (recording.pod, at), recording.requests)
    return Grid(watched, requests, np.ascontiguousarray(samples.transpose(2, 0, 1)), recording.functions)


@lru_cache
def load_grid(name: str, *, with_waits: bool) -> Grid:
    """Load a recording without stacks that change during it.

    Functions that wait are left out too, unless `with_waits`.
    """
    recording = load(name)
    is_growing = np.array([name in GROWING for name in recording.functions])[recording.function]
    for node, parent in enumerate(recording.parent.tolist()):
        is_growing[node] |= parent >= 0 and is_growing[parent]
    is_waiting = np.array([name.startswith(WAITING) for name in recording.functions])[recording.function]
    is_removed = is_growing if with_waits else is_growing | is_waiting
    kept = ~is_removed[recording.node]
    columns = {name: getattr(recording, name)[kept] for name in ("window", "node", "cpu", "idle")}
    return build_grid(replace(recording, **columns))


def draw_sides(grid: Grid, pods: int, basis: Basis, rng: np.random.Generator) -> tuple[Windows, Windows]:
    """Draw two sides of different pods.

    They have different periods unless they are concurrent. A period has one day to half of the recording,
    at random; both sides last as long.
    """
    order = rng.permutation(len(grid.watched))
    count = grid.watched.shape[1]
    length = int(rng.integers(DAY, count // 2 + 1))
    first = int(rng.integers(0, count - (1 if basis is Basis.CONCURRENT else 2) * length + 1))
    second = first if basis is Basis.CONCURRENT else int(rng.integers(first + length, count - length + 1))
    a, b = (
        grid.cut(order[at : at + pods], slice(start, start + length), basis)
        for at, start in ((0, first), (pods, second))
    )
    return (a, b) if rng.random() < 0.5 else (b, a)


def draw_loads(grid: Grid, pods: int, basis: Basis, rng: np.random.Generator) -> tuple[Windows, Windows]:
    """Draw two sides of different pods, one from the times of least load and one from those of most."""
    order, near = rng.permutation(len(grid.watched)), np.ones(LOAD_WINDOWS)
    load = np.convolve(grid.requests.sum(0), near, "same") / np.convolve(grid.watched.sum(0), near, "same")
    few = np.flatnonzero(load <= np.quantile(load, LOAD_SHARE))
    many = np.flatnonzero(load >= np.quantile(load, 1 - LOAD_SHARE))
    a, b = (grid.cut(order[at : at + pods], of, basis) for at, of in ((0, few), (pods, many)))
    return (a, b) if rng.random() < 0.5 else (b, a)


def plant(
    a: Windows, b: Windows, functions: I64, factors: F64, rng: np.random.Generator
) -> tuple[Windows, Windows]:
    """Thin out the self samples of functions in A.

    B then takes `factors` (K,) times as much. Counting noise stays that of counts. The totals of callers
    keep the lost samples.
    """
    samples = a.samples.copy()
    at = 1 + functions
    kept = rng.binomial(np.rint(samples[at]).astype(int), 1 / factors[:, None, None]).astype(np.float64)
    samples[0] -= (samples[at] - kept).sum(0)
    samples[at] = kept
    return Windows(a.exposure, samples, a.functions, a.seconds), b
