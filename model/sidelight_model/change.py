"""The difference between two sides, in numbers and words; levels of many tests.

The UI implements the same rules in `flamegraph/tree/compare.ts` and
`flamegraph/analysis/frameDescription.ts`; the test vectors in `web/test/vectors/changes.json` check both. A
side's time is divided by the time its pods were observed, so unchanged code keeps its rate when other code
grows. A difference counts as a change only beyond twice the counting noise: n samples scatter by about √n,
so a value v measured from n samples is accurate to within v/√n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum


class Direction(StrEnum):
    """How the comparison differs from the baseline.

    `minor`: beyond chance, but smaller than the smallest relevant size. `inconclusive`: there is not enough
    data. `not_judged`: load alone may explain the difference. `not_comparable`: the sides were sampled so
    differently that a difference would mean nothing. Only `sidelight_collector.statistics` reports these
    four. `no_data`: a side has no windows.
    """

    UNCHANGED = "unchanged"
    INCREASED = "increased"
    DECREASED = "decreased"
    NEW = "new"
    REMOVED = "removed"
    MINOR = "minor"
    INCONCLUSIVE = "inconclusive"
    NOT_JUDGED = "not_judged"
    NO_DATA = "no_data"
    NOT_COMPARABLE = "not_comparable"


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """B minus A on one scale.

    A difference counts as a change if it exceeds `noise_limit`.
    """

    delta: float
    direction: Direction
    noise_limit: float
    baseline: float
    comparison: float


def compute_change(
    times_us: Sequence[float], samples: Sequence[int], divisors: Sequence[float]
) -> ProfileChange:
    """Compute the change of a measured time, baseline first in every argument.

    Each side's time in microseconds is divided by its divisor; `samples` gives the counting noise.
    """
    a, b = (_divide(value, divisor) for value, divisor in zip(times_us, divisors, strict=True))
    noise_limit = 2 * _estimate_noise(times_us, samples, divisors)
    direction = _compute_direction(times_us, divisors, b - a, noise_limit)
    return ProfileChange(b - a, direction, noise_limit, a, b)


def spend_alpha(alpha: float, analysis_index: int) -> float:
    """Return the part of `alpha` that an analysis spends.

    A single analysis (index 0) spends all of it. In a series the k-th spends alpha/(k(k+1)), which adds up
    to alpha over any number of analyses.
    """
    return alpha / (analysis_index * (analysis_index + 1)) if analysis_index else alpha


def compute_q_values(p_values: Sequence[float]) -> list[float]:
    """Return the q-value of each p-value, in the same order; NaN counts as 1.

    Rejecting q <= 5 % leaves on average 5 % of the rejections false. Benjamini and Hochberg (1995); it also
    holds for quantities that rise and fall together (Benjamini and Yekutieli, 2001).
    """
    values = [1.0 if math.isnan(p) else p for p in p_values]
    q_values, smallest = values[:], 1.0
    order = sorted(range(len(values)), key=values.__getitem__, reverse=True)
    for rank, at in zip(range(len(values), 0, -1), order, strict=True):
        q_values[at] = smallest = min(smallest, values[at] * len(values) / rank)
    return q_values


def format_number(value: float) -> str:
    """Format a number with about three significant digits and without an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{math.floor(value + 0.5):,}"
    return format_fixed(
        value, 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.01 else 5
    )


def format_percent(share: float, digits: int = 1) -> str:
    """Format a share (0 to 1) as a percentage."""
    return f"{format_fixed(share * 100, 3 if share != 0 and abs(share) < 0.001 else digits)} %"


def format_signed(text: str, value: float) -> str:
    """Add a sign to a number's text, with the typographic minus (U+2212)."""
    return f"+{text}" if value > 0 else text.replace("-", "\u2212", 1)


def format_fixed(value: float, digits: int) -> str:
    """Format a number with `digits` decimals.

    Halves are rounded away from zero, as browsers do.
    """
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def _divide(value: float, divisor: float) -> float:
    return value / divisor if divisor > 0 else 0.0


def _compute_direction(
    times_us: Sequence[float], divisors: Sequence[float], delta: float, noise_limit: float
) -> Direction:
    if min(divisors) <= 0:
        return Direction.NO_DATA
    if abs(delta) <= noise_limit:
        return Direction.UNCHANGED
    if times_us[0] == 0:
        return Direction.NEW
    if times_us[1] == 0:
        return Direction.REMOVED
    return Direction.INCREASED if delta > 0 else Direction.DECREASED


def _estimate_noise(times_us: Sequence[float], samples: Sequence[int], divisors: Sequence[float]) -> float:
    """Estimate the standard deviation of the difference from the sample counts.

    A side without samples counts as one sample.
    """
    whole = sum(samples)
    if not whole:
        return 0.0
    per_sample = sum(times_us) / whole
    variance = 0.0
    for own_us, own, divisor in zip(times_us, samples, divisors, strict=True):
        weight = own_us / own if own > 0 else per_sample
        variance += max(own, 1) * _divide(weight, divisor) ** 2
    return math.sqrt(variance)
