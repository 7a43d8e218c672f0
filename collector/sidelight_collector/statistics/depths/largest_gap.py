"""The depth at which two distributions differ most.

The gap is the greatest difference of the two cumulative distributions (Kolmogorov's distance). Its band
covers all of their differences: the inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant
(Annals of Probability 18, 1990), for as many independent samples as the most uncertain share has.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.effect_size import Effects
from sidelight_collector.statistics.inference.student_t import MAX_DF, t_quantile

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LargestGap:
    """The depth at which the distributions are farthest apart.

    `gap` is the share of B's samples deeper than `depth` minus the same share of A's. `low` and `high` are
    its interval.
    """

    depth: int
    gap: float
    low: float
    high: float


def find_largest_gap(design: Design, depth: I64, deeper: Effects) -> LargestGap:
    """Find the largest gap from the shares of deeper samples.

    It is positive where more of B is deeper.
    """
    place = int(np.argmax(np.abs(deeper.delta)))
    gap, band = float(deeper.delta[place]), _compute_band(deeper, design.alpha)
    return LargestGap(int(depth[place]), gap, max(gap - band, -1.0), min(gap + band, 1.0))


def _compute_band(deeper: Effects, alpha: float) -> float:
    """Return the half-width of the band around all differences of shares.

    A share of n independent samples has a variance of at most 1/(4 n), and no share of them is off by more
    than sqrt(log(2/alpha)/(2 n)). Few pods make it wider, as Student's t is wider than the normal.
    """
    level = 1 - alpha / 2
    stretch = t_quantile(level, deeper.df) / t_quantile(level, MAX_DF)
    return float(np.sqrt(2 * log(2 / alpha)) * (stretch * np.sqrt(deeper.variance)).max())
