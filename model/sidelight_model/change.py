"""What differs between two sides, in numbers and in the words that the pages use.

The twin of the UI's `flamegraph/tree/compare.ts` and `flamegraph/analysis/frameDescription.ts`: the same
vectors are put to both (`web/test/vectors/changes.json`). A side's time is divided by how long its pods were
watched, so code that did not change keeps its rate when something else grows. A difference counts as a change
only beyond twice the counting noise: n samples scatter by about √n, so a value v seen in n samples is known
to within v/√n.
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
    """How the comparison differs from the baseline. A side without windows gives `no_data`.

    `inconclusive` means that there is not enough data, `not_comparable` that the sides were sampled so
    differently that a difference would mean nothing. `sidelight_collector.statistics` reports these two; this
    module does not.
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
    """B minus A, on one scale; `noise_limit` is what a difference must exceed to count as a change."""

    delta: float
    direction: Direction
    noise_limit: float
    baseline: float
    comparison: float


@dataclass(frozen=True, slots=True)
class SideTotals:
    """The time and samples of one side as a whole, how long its pods were watched, and states it lacks."""

    seconds: float
    samples: int
    pod_seconds: float
    missing_states: Sequence[str] = ()


def compute_change(
    times_us: Sequence[float], samples: Sequence[int], divisors: Sequence[float]
) -> ProfileChange:
    """The change of something that took these microseconds in these samples, divided by these."""
    a, b = (_divide(value, divisor) for value, divisor in zip(times_us, divisors, strict=True))
    least = 2 * _estimate_noise(times_us, samples, divisors)
    return ProfileChange(b - a, _compute_direction(times_us, divisors, b - a, least), least, a, b)


def describe_change(measured: ProfileChange) -> str:
    """A change in words; a profile cannot tell slower from called more often."""
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
    """The whole difference in one sentence, and its direction."""
    a, b = sides
    what = _TYPE_NAMES[kind]
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
        said = f"{what} cannot be compared: {' and '.join(blind)} recorded no {needed} samples."
        return said, Direction.NO_DATA
    if not a.samples and not b.samples:
        return f"Neither side took any {what}.", Direction.UNCHANGED
    found = compute_change(
        [a.seconds * 1e6, b.seconds * 1e6], [a.samples, b.samples], [a.pod_seconds * 1e6, b.pod_seconds * 1e6]
    )
    numbers = f"{format_number(found.baseline)} → {format_number(found.comparison)} seconds per pod-second"
    if found.direction is Direction.UNCHANGED:
        unseen = format_percent(found.noise_limit / (max(found.baseline, found.comparison) or 1.0), 0)
        return (
            f"{what}: no difference beyond counting noise ({numbers}; "
            f"with these samples a change under about {unseen} would not show).",
            found.direction,
        )
    if found.direction is Direction.NEW:
        return f"B takes {what}, A took none ({numbers}).", found.direction
    if found.direction is Direction.REMOVED:
        return f"B takes no {what}, A did ({numbers}).", found.direction
    part = found.comparison / found.baseline - 1
    more = "more" if part > 0 else "less"
    return f"B takes {format_percent(abs(part))} {more} {what} than A ({numbers}).", found.direction


_TYPE_NAMES: Final = {
    ProfileType.CPU: "CPU time",
    ProfileType.WALL: "thread time",
    ProfileType.GIL: "GIL time",
}
_REQUIRED_STATES: Final = {ProfileType.CPU: "", ProfileType.WALL: "idle", ProfileType.GIL: "gil"}
"""The state without whose samples a type reads too low."""


def format_number(value: float) -> str:
    """Three significant digits, no exponent for what a profile holds."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{math.floor(value + 0.5):,}"
    return format_fixed(
        value, 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.01 else 5
    )


def format_percent(share: float, digits: int = 1) -> str:
    """A part as a percentage."""
    return f"{format_fixed(share * 100, 3 if share != 0 and abs(share) < 0.001 else digits)} %"


def format_signed(text: str, value: float) -> str:
    """A number's text with its sign, the minus as it is printed."""
    return f"+{text}" if value > 0 else text.replace("-", "\u2212", 1)


def format_fixed(value: float, digits: int) -> str:
    """A number with so many decimals, halves away from zero, as browsers round."""
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
    """The standard deviation of the difference, from the counts; a side with no sample counts as one."""
    whole = sum(samples)
    if not whole:
        return 0.0
    per_sample = sum(times_us) / whole
    variance = 0.0
    for own_us, own, divisor in zip(times_us, samples, divisors, strict=True):
        each = own_us / own if own > 0 else per_sample
        variance += max(own, 1) * _divide(each, divisor) ** 2
    return math.sqrt(variance)
