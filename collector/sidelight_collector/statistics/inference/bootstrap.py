"""Bootstrap intervals of quantities that are not plain differences of rates.

A round draws pods with replacement (Davison and Hinkley, Bootstrap Methods and their Application, 1997,
§3.8), or runs of neighbouring blocks if there are few pods (Politis and Romano, 1992: circular, so that
each block is drawn equally often). A round is a row of weights, so all rounds of all quantities are one
product of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import Design, SideMatrix
from sidelight_collector.statistics.inference.student_t import t_quantile

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]

DEFAULT_ROUNDS: Final = 1000
MIN_PODS: Final = 5
"""If a side has fewer rows, the rounds draw blocks of time instead of pods."""
_CHUNK_QUANTITIES: Final = 4096


@dataclass(frozen=True, slots=True)
class BootstrapWeights:
    """How often each row (or block) of one side is drawn in each round.

    `counts` has shape (rounds, P) or (rounds, T).
    """

    counts: F32
    unit: Literal["pods", "blocks"]

    def resample(self, cells: NDArray[np.floating]) -> F32:
        """Return the sums of K quantities, (K, P, T), in each round: (rounds, K)."""
        sums: F32 = self.counts @ self._sum_cells(cells).T
        return sums

    def resample_chunks(self, cells: NDArray[np.floating]) -> Iterator[tuple[slice, F32]]:
        """Yield the sums of many quantities in chunks.

        Each item is the slice of the quantities and their sums, (rounds, size of the slice).
        """
        summed = self._sum_cells(cells)
        for start in range(0, len(summed), _CHUNK_QUANTITIES):
            part = slice(start, start + _CHUNK_QUANTITIES)
            yield part, self.counts @ summed[part].T

    def resample_exposure(self, side: SideMatrix) -> F32:
        """Return the exposure of the side in each round: (rounds,).

        It may be 0 where blocks were not observed.
        """
        return self.resample(side.exposure[None])[:, 0]

    def _sum_cells(self, cells: NDArray[np.floating]) -> F32:
        summed: F32 = cells.sum(2 if self.unit == "pods" else 1, dtype=np.float32)
        return summed


@dataclass(frozen=True, slots=True)
class BootstrapRounds:
    """The rounds of both sides.

    `unit` is what the rounds draw. `width_factor` corrects percentiles, which few pods make too narrow.
    """

    a: BootstrapWeights
    b: BootstrapWeights
    unit: Literal["pods", "blocks"]
    width_factor: float
    alpha: float

    def interval(self, estimate: float, round_estimates: NDArray[np.floating]) -> tuple[float, float]:
        """Return the interval of an estimate from its value in each round.

        `round_estimates` (rounds,) is NaN in rounds without a value. The interval is that of the
        percentiles, stretched about the estimate by `width_factor`, because the normal quantile is smaller
        than Student's.
        """
        values = round_estimates[np.isfinite(round_estimates)]
        if not len(values):
            return -np.inf, np.inf
        low, high = np.quantile(values, [self.alpha / 2, 1 - self.alpha / 2])
        return estimate + (float(low) - estimate) * self.width_factor, estimate + (
            float(high) - estimate
        ) * self.width_factor


def draw_rounds(design: Design, count: int = DEFAULT_ROUNDS, *, seed: int = 0) -> BootstrapRounds:
    """Draw rounds for both sides.

    Paired rows (or blocks) are drawn together: both sides have the same weights.
    """
    rng = np.random.default_rng(seed)
    pods = min(design.a.row_count, design.b.row_count) >= MIN_PODS
    unit: Literal["pods", "blocks"] = "pods" if pods else "blocks"
    if pods:
        paired = design.same_pods
        drawn = [_draw_rows(side, count, rng) for side in ([design.a] if paired else [design.a, design.b])]
        df = sum(side.row_count - 1 for side in ([design.a] if paired else [design.a, design.b]))
        fewest = min(design.a.row_count, design.b.row_count)
    else:
        paired = design.same_time
        drawn = [_draw_blocks(side, count, rng) for side in ([design.a] if paired else [design.a, design.b])]
        df = max(design.frequency_count, 1) * len(drawn)
        fewest = min(design.a.block_count, design.b.block_count)
    level = 1 - design.alpha / 2
    stretch = float(t_quantile(level, df) / t_quantile(level, 1e6)) * (fewest / max(fewest - 1, 1)) ** 0.5
    return BootstrapRounds(
        BootstrapWeights(drawn[0], unit), BootstrapWeights(drawn[-1], unit), unit, stretch, design.alpha
    )


def compute_seed(*arrays: NDArray[np.generic]) -> int:
    """Compute a seed from the data alone: equal requests get equal responses."""
    hashed = blake2b(digest_size=8)
    for array in arrays:
        hashed.update(np.ascontiguousarray(array).tobytes())
    return int.from_bytes(hashed.digest(), "big")


def _draw_rows(side: SideMatrix, count: int, rng: np.random.Generator) -> F32:
    """Draw observed rows with replacement, as many as there are."""
    seen = np.flatnonzero(side.exposure.sum(1) > 0)
    weights = np.zeros((count, len(side.exposure)), np.float32)
    weights[:, seen] = rng.multinomial(len(seen), np.full(len(seen), 1 / len(seen)), count)
    return weights


def _draw_blocks(side: SideMatrix, count: int, rng: np.random.Generator) -> F32:
    """Draw circular runs of blocks, as many blocks in total as there are."""
    blocks = side.exposure.shape[1]
    run = max(1, round(blocks ** (1 / 3)))
    starts = rng.integers(0, blocks, (count, -(-blocks // run)))
    drawn = ((starts[:, :, None] + np.arange(run)) % blocks).reshape(count, -1)[:, :blocks]
    weights = np.zeros((count, blocks), np.float32)
    np.add.at(weights, (np.arange(count)[:, None], drawn), 1.0)
    return weights
