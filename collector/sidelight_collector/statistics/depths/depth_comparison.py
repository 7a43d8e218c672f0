"""Compare the stack depths of two sides.

The input is the number of samples by stack depth, (D, P, T) over depths, pods and blocks. A sample is the
unit, so the depth of a side does not depend on its number of samples per second. The mean is a ratio (frames
over samples) and is tested like every rate (see `effect_size`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.depths.largest_gap import LargestGap, find_largest_gap
from sidelight_collector.statistics.depths.quantile_shift import compare_quantiles
from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.effect_size import Effects, compute_effects
from sidelight_collector.statistics.inference.sample_shares import (
    build_per_sample_design,
    compute_share_effects,
)

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DepthComparison:
    """The comparison of stack depths.

    `mean` (1,) and `quantiles` (3,) are effects in frames. `max_depths` are the deepest stacks of A and B
    in frames.
    """

    mean: Effects
    quantiles: Effects
    max_depths: tuple[int, int]
    gap: LargestGap


def compare_depths(design: Design, depth_values: I64, a: F64, b: F64) -> DepthComparison | None:
    """Compare the samples of both sides by stack depth.

    `a` and `b` are the samples, (D, P, T) of each side; `depth_values` are the D depths, ascending. The
    smallest relevant size of `design` is in frames. Returns None if a side has no samples.
    """
    if not a.sum() or not b.sum():
        return None
    per_sample = build_per_sample_design(design, a.sum(0), b.sum(0))
    value = depth_values.astype(np.float64)[:, None, None]
    mean = compute_effects(
        per_sample,
        (a * value).sum(0)[None],
        (b * value).sum(0)[None],
        _compute_mean_sample_size(depth_values, a),
        _compute_mean_sample_size(depth_values, b),
    )
    deeper = compute_share_effects(per_sample, _count_deeper_samples(a), _count_deeper_samples(b))
    return DepthComparison(
        mean,
        compare_quantiles(design, depth_values, deeper),
        (_find_max_depth(depth_values, a), _find_max_depth(depth_values, b)),
        find_largest_gap(design, depth_values, deeper),
    )


def _compute_mean_sample_size(depth: I64, cells: F64) -> F64:
    """Return the size of a count that scatters as much as the mean depth, (1,).

    The relative variance of the mean of n samples is variance/(n mean²), that of a count is its inverse.
    """
    weight = cells.sum((1, 2))
    mean = float(weight @ depth / weight.sum())
    variance = float(weight @ (depth - mean) ** 2 / weight.sum())
    return np.array([weight.sum() * mean**2 / variance if variance else np.inf])


def _count_deeper_samples(cells: F64) -> F64:
    """Count the samples deeper than each depth, in each cell."""
    deeper: F64 = cells.sum(0) - np.cumsum(cells, 0)
    return np.maximum(deeper, 0.0)


def _find_max_depth(depth: I64, cells: F64) -> int:
    return int(depth[np.flatnonzero(cells.sum((1, 2)))[-1]])
