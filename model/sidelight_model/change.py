"""The difference between two sides, as numbers and in the words of the UI.

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
from typing import Final

from sidelight_model.counts import ProfileType


class Direction(StrEnum):
    """How the comparison differs from the baseline.

    `no_data`: a side has no windows. `inconclusive`: there is not enough data. `not_comparable`: the sides
    were sampled so differently that a difference would mean nothing. `sidelight_collector.statistics`
    reports the last two; this module does not.
    """

    UNCHANGED = "unchanged"
    INCREASED = "increased"
    DECREASED = "decreased"
    NEW = "new"
    REMOVED = "removed"
    INCONCLUSIVE = "inconclusive"
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


@dataclass(frozen=True, slots=True)
class SideTotals:
    """The totals of one side.

    `seconds` is sampled time, `pod_seconds` is the time its pods were observed, and `missing_states` are
    the states that it did not record.
    """

    seconds: float
    samples: int
    pod_seconds: float
    missing_states: Sequence[str] = ()


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


def describe_change(measured: ProfileChange) -> str:
    """Describe a change in words.

    The words say "takes more time", because a profile cannot tell slower code from more frequent calls.
    """
    if measured.direction is Direction.UNCHANGED:
        return "within counting noise"
    if measured.direction is Direction.NO_DATA:
        return "not comparable: one side has no samples"
    if measured.direction in (Direction.NEW, Direction.REMOVED):
        return f"{'new' if measured.direction is Direction.NEW else 'removed'} in B"
    part = measured.comparison / measured.baseline - 1
    sign = "▲ takes more" if part >= 0 else "▼ takes less"
    return f"{sign} time in B ({format_signed(format_percent(part), part)})"


def describe_total_change(sides: Sequence[SideTotals], kind: ProfileType) -> tuple[str, Direction]:
    """Describe the difference of the totals in one sentence, and return its direction."""
    a, b = sides
    type_name = _TYPE_NAMES[kind]
    unwatched = [name for name, side in zip("AB", sides, strict=True) if side.pod_seconds <= 0]
    if unwatched:
        have = "have" if len(unwatched) > 1 else "has"
        return (
            f"{' and '.join(unwatched)} {have} no windows here, so there is nothing to compare.",
            Direction.NO_DATA,
        )
    needed = _REQUIRED_STATES[kind]
    blind = [name for name, side in zip("AB", sides, strict=True) if needed in side.missing_states]
    if blind:
        sentence = f"{type_name} cannot be compared: {' and '.join(blind)} recorded no {needed} samples."
        return sentence, Direction.NO_DATA
    if not a.samples and not b.samples:
        return f"Neither side took any {type_name}.", Direction.UNCHANGED
    change = compute_change(
        [a.seconds * 1e6, b.seconds * 1e6], [a.samples, b.samples], [a.pod_seconds * 1e6, b.pod_seconds * 1e6]
    )
    numbers = f"{format_number(change.baseline)} → {format_number(change.comparison)} seconds per pod-second"
    if change.direction is Direction.UNCHANGED:
        min_change = format_percent(change.noise_limit / (max(change.baseline, change.comparison) or 1.0), 0)
        return (
            f"{type_name}: no difference beyond counting noise ({numbers}; "
            f"with these samples a change under about {min_change} would not show).",
            change.direction,
        )
    if change.direction is Direction.NEW:
        return f"B takes {type_name}, A took none ({numbers}).", change.direction
    if change.direction is Direction.REMOVED:
        return f"B takes no {type_name}, A did ({numbers}).", change.direction
    part = change.comparison / change.baseline - 1
    more = "more" if part > 0 else "less"
    return f"B takes {format_percent(abs(part))} {more} {type_name} than A ({numbers}).", change.direction


_TYPE_NAMES: Final = {
    ProfileType.CPU: "CPU time",
    ProfileType.WALL: "thread time",
    ProfileType.GIL: "GIL time",
}
_REQUIRED_STATES: Final = {ProfileType.CPU: "", ProfileType.WALL: "idle", ProfileType.GIL: "gil"}
"""The state that a profile type needs: without its samples the type reads too low."""


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
