"""The same question asked of sides drawn anew: intervals of what is no plain difference of rates.

A round draws pods with replacement (Davison and Hinkley, Bootstrap Methods and their Application, 1997,
§3.8), or runs of neighbouring blocks where there are few pods (Politis and Romano, 1992: circular, so that
each block is drawn as often). A round is a row of weights, so all rounds of all quantities are one product of
matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import Design, Side
from sidelight_collector.statistics.inference.student_t import quantile

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]

ROUNDS: Final = 1000
FEWEST_PODS: Final = 5
"""With fewer rows on a side, blocks of time are drawn instead."""
_CHUNK: Final = 4096


@dataclass(frozen=True, slots=True)
class Weights:
    """How often each row (or block) of one side is drawn, in each round: (rounds, P) or (rounds, T)."""

    drawn: F32
    unit: Literal["pods", "blocks"]

    def of(self, cells: NDArray[np.floating]) -> F32:
        """The sums of K quantities, (K, P, T), in each round: (rounds, K)."""
        sums: F32 = self.drawn @ self._summed(cells).T
        return sums

    def chunks(self, cells: NDArray[np.floating]) -> Iterator[tuple[slice, F32]]:
        """The same in parts, for many quantities: which of them, and their sums (rounds, so many)."""
        summed = self._summed(cells)
        for start in range(0, len(summed), _CHUNK):
            part = slice(start, start + _CHUNK)
            yield part, self.drawn @ summed[part].T

    def watched(self, side: Side) -> F32:
        """What was watched of the side in each round: (rounds,). It may be 0 where blocks were not
        watched."""
        return self.of(side.watched[None])[:, 0]

    def _summed(self, cells: NDArray[np.floating]) -> F32:
        summed: F32 = cells.sum(2 if self.unit == "pods" else 1, dtype=np.float32)
        return summed


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds of both sides, what is drawn, and by how much few pods make percentiles too narrow."""

    a: Weights
    b: Weights
    unit: Literal["pods", "blocks"]
    stretch: float
    alpha: float

    def interval(self, estimate: float, seen: NDArray[np.floating]) -> tuple[float, float]:
        """From a value of each round, (rounds,), the interval of what was estimated; rounds without one are
        NaN.

        Percentiles, stretched about the estimate by what the normal quantile lacks of Student's.
        """
        values = seen[np.isfinite(seen)]
        if not len(values):
            return -np.inf, np.inf
        low, high = np.quantile(values, [self.alpha / 2, 1 - self.alpha / 2])
        return estimate + (float(low) - estimate) * self.stretch, estimate + (
            float(high) - estimate
        ) * self.stretch


def rounds(design: Design, count: int = ROUNDS, *, seed: int = 0) -> Rounds:
    """Rounds for both sides. What is paired is drawn together: the same weights on both."""
    luck = np.random.default_rng(seed)
    pods = min(design.a.rows, design.b.rows) >= FEWEST_PODS
    unit: Literal["pods", "blocks"] = "pods" if pods else "blocks"
    if pods:
        paired = design.same_pods
        drawn = [_rows(side, count, luck) for side in ([design.a] if paired else [design.a, design.b])]
        freedom = sum(side.rows - 1 for side in ([design.a] if paired else [design.a, design.b]))
        fewest = min(design.a.rows, design.b.rows)
    else:
        paired = design.same_time
        drawn = [_blocks(side, count, luck) for side in ([design.a] if paired else [design.a, design.b])]
        freedom = max(design.frequencies, 1) * len(drawn)
        fewest = min(design.a.blocks, design.b.blocks)
    level = 1 - design.alpha / 2
    stretch = float(quantile(level, freedom) / quantile(level, 1e6)) * (fewest / max(fewest - 1, 1)) ** 0.5
    return Rounds(Weights(drawn[0], unit), Weights(drawn[-1], unit), unit, stretch, design.alpha)


def seed_of(*arrays: NDArray[np.generic]) -> int:
    """A seed that depends on the data alone: equal questions get equal answers."""
    hashed = blake2b(digest_size=8)
    for array in arrays:
        hashed.update(np.ascontiguousarray(array).tobytes())
    return int.from_bytes(hashed.digest(), "big")


def _rows(side: Side, count: int, luck: np.random.Generator) -> F32:
    """Rows that were watched, drawn with replacement, so many as there are."""
    seen = np.flatnonzero(side.watched.sum(1) > 0)
    weights = np.zeros((count, len(side.watched)), np.float32)
    weights[:, seen] = luck.multinomial(len(seen), np.full(len(seen), 1 / len(seen)), count)
    return weights


def _blocks(side: Side, count: int, luck: np.random.Generator) -> F32:
    """Circular runs of blocks, as many blocks in all as there are."""
    blocks = side.watched.shape[1]
    run = max(1, round(blocks ** (1 / 3)))
    starts = luck.integers(0, blocks, (count, -(-blocks // run)))
    drawn = ((starts[:, :, None] + np.arange(run)) % blocks).reshape(count, -1)[:, :blocks]
    weights = np.zeros((count, blocks), np.float32)
    np.add.at(weights, (np.arange(count)[:, None], drawn), 1.0)
    return weights
