"""The difference between two sides in words and as text; levels of many tests.

The UI writes numbers in the same way; the test vectors in `web/test/vectors/changes.json` check both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Final


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
class RelevantSizes:
    """The smallest relevant changes, of a share of the profile and of depth in frames."""

    share: float = 0.01
    depth: float = 0.1


DEFAULT_SIZES: Final = RelevantSizes()


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
