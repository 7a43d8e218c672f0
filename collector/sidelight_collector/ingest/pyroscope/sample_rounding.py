"""Turn the time of stacks into whole samples of one period.

Some senders report time that is no multiple of their period. Each stack rounds to whole samples and carries
its rounding error to the next one, state by state. The period is then the total divided by the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_THREAD_TIME_NS = 10**17
MAX_SAMPLES = 10**12


@dataclass(frozen=True, slots=True)
class Period:
    """A period and a number of samples, whose product is the time of a profile."""

    ns: int
    samples: int


def choose_period(total_ns: int, total_samples: int, period_ns: int) -> Period:
    """Choose the period that keeps the total.

    `total_samples` is the sender's own count, 0 if it sends none: then `period_ns` determines it.
    """
    samples = total_samples or _round_ratio(total_ns, max(period_ns, 1))
    samples = min(max(samples, 1), max(total_ns, 1))
    return Period(max(_round_ratio(total_ns, samples), 1), samples)


def round_rows(rows: Sequence[Sequence[int]], total_ns: int, samples: int) -> list[list[int]]:
    """Return the whole samples of rows of times by state, whose sum is `total_ns`.

    The states are rounded one after the other: the sum of each is right to less than a sample.
    """
    carried_ns = carried_samples = 0
    counts: list[list[int]] = [[] for _ in rows]
    for times in zip(*rows, strict=True):
        for row, ns in zip(counts, times, strict=True):
            carried_ns += ns
            until = _round_ratio(carried_ns * samples, total_ns) if ns else carried_samples
            row.append(until - carried_samples)
            carried_samples = until
    return counts


def _round_ratio(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
