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

    SAME = "unchanged"
    MORE = "increased"
    LESS = "decreased"
    NEW = "new"
    GONE = "removed"
    UNCLEAR = "inconclusive"
    UNKNOWN = "no_data"
    INCOMPARABLE = "not_comparable"


@dataclass(frozen=True, slots=True)
class Change:
    """B minus A, on one scale; `least` is what a difference must exceed to count as a change."""

    delta: float
    direction: Direction
    least: float
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class SideTime:
    """The time and samples of one side as a whole, how long its pods were watched, and states it lacks."""

    seconds: float
    samples: int
    pod_seconds: float
    missing_states: Sequence[str] = ()


def change(us: Sequence[float], samples: Sequence[int], divisors: Sequence[float]) -> Change:
    """The change of something that took these microseconds in these samples, divided by these."""
    a, b = (_over(value, divisor) for value, divisor in zip(us, divisors, strict=True))
    least = 2 * _noise(us, samples, divisors)
    return Change(b - a, _direction(us, divisors, b - a, least), least, a, b)


def change_words(found: Change) -> str:
    """A change in words; a profile cannot tell slower from called more often."""
    if found.direction is Direction.SAME:
        return "within counting noise"
    if found.direction is Direction.UNKNOWN:
        return "not comparable: one side has no samples"
    if found.direction in (Direction.NEW, Direction.GONE):
        return f"{'new' if found.direction is Direction.NEW else 'removed'} in B"
    part = found.b / found.a - 1
    sign = "▲ takes more" if part >= 0 else "▼ takes less"
    return f"{sign} time in B ({signed(percent(part), part)})"


def verdict(sides: Sequence[SideTime], kind: ProfileType) -> tuple[str, Direction]:
    """The whole difference in one sentence, and its direction."""
    a, b = sides
    what = _WHAT[kind]
    unwatched = [name for name, side in zip("AB", sides, strict=True) if side.pod_seconds <= 0]
    if unwatched:
        have = "have" if len(unwatched) > 1 else "has"
        return (
            f"{' and '.join(unwatched)} {have} no windows here, so there is nothing to compare.",
            Direction.UNKNOWN,
        )
    needed = _NEEDED[kind]
    blind = [name for name, side in zip("AB", sides, strict=True) if needed in side.missing_states]
    if blind:
        said = f"{what} cannot be compared: {' and '.join(blind)} recorded no {needed} samples."
        return said, Direction.UNKNOWN
    if not a.samples and not b.samples:
        return f"Neither side took any {what}.", Direction.SAME
    found = change(
        [a.seconds * 1e6, b.seconds * 1e6], [a.samples, b.samples], [a.pod_seconds * 1e6, b.pod_seconds * 1e6]
    )
    numbers = f"{short(found.a)} → {short(found.b)} seconds per pod-second"
    if found.direction is Direction.SAME:
        unseen = percent(found.least / (max(found.a, found.b) or 1.0), 0)
        return (
            f"{what}: no difference beyond counting noise ({numbers}; "
            f"with these samples a change under about {unseen} would not show).",
            found.direction,
        )
    if found.direction is Direction.NEW:
        return f"B takes {what}, A took none ({numbers}).", found.direction
    if found.direction is Direction.GONE:
        return f"B takes no {what}, A did ({numbers}).", found.direction
    part = found.b / found.a - 1
    more = "more" if part > 0 else "less"
    return f"B takes {percent(abs(part))} {more} {what} than A ({numbers}).", found.direction


_WHAT: Final = {
    ProfileType.CPU: "CPU time",
    ProfileType.WALL: "thread time",
    ProfileType.GIL: "GIL time",
}
_NEEDED: Final = {ProfileType.CPU: "", ProfileType.WALL: "idle", ProfileType.GIL: "gil"}
"""The state without whose samples a type reads too low."""


def short(value: float) -> str:
    """Three significant digits, no exponent for what a profile holds."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{math.floor(value + 0.5):,}"
    return fixed(
        value, 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.01 else 5
    )


def percent(part: float, digits: int = 1) -> str:
    """A part as a percentage."""
    return f"{fixed(part * 100, 3 if part != 0 and abs(part) < 0.001 else digits)} %"


def signed(text: str, value: float) -> str:
    """A number's text with its sign, the minus as it is printed."""
    return f"+{text}" if value > 0 else text.replace("-", "\u2212", 1)


def fixed(value: float, digits: int) -> str:
    """A number with so many decimals, halves away from zero, as browsers round."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def _over(value: float, divisor: float) -> float:
    return value / divisor if divisor > 0 else 0.0


def _direction(us: Sequence[float], divisors: Sequence[float], delta: float, least: float) -> Direction:
    if min(divisors) <= 0:
        return Direction.UNKNOWN
    if abs(delta) <= least:
        return Direction.SAME
    if us[0] == 0:
        return Direction.NEW
    if us[1] == 0:
        return Direction.GONE
    return Direction.MORE if delta > 0 else Direction.LESS


def _noise(us: Sequence[float], samples: Sequence[int], divisors: Sequence[float]) -> float:
    """The standard deviation of the difference, from the counts; a side with no sample counts as one."""
    whole = sum(samples)
    if not whole:
        return 0.0
    per_sample = sum(us) / whole
    variance = 0.0
    for own_us, own, divisor in zip(us, samples, divisors, strict=True):
        each = own_us / own if own > 0 else per_sample
        variance += max(own, 1) * _over(each, divisor) ** 2
    return math.sqrt(variance)
