"""Turn the weights of a recording into numbers of samples.

A comparison of recordings knows their counting noise, and that is the noise of samples. Microseconds,
nanoseconds or cycles that count as samples would make every difference significant.

Folded text does not say what its weights are. In order:

1. `--sample-weight`, if given.
2. Weights that are all multiples of one number are samples of that weight, unless so many counts would be
   multiples by chance more often than `MAX_CHANCE` (`perf record -e cpu-clock`: 10101010 ns at 99 Hz).
3. Weights of ten or more stacks, nine tenths of which are at least `LEAST_WEIGHT`, are no counts: a profile
   has many rare stacks. They are refused.
4. Others are numbers of samples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sidelight_model.counts import STATE_FRAMES, STATES, Counts
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.folded import Stack
from sidelight_model.import_formats.folded_input import NO_UNREADABLE_LINES, UnreadableLines
from sidelight_model.import_formats.weighted_stack import WeightedStack

MAX_CHANCE: Final = 1e-6
LEAST_WEIGHT: Final = 100
MIN_STACKS: Final = 10
MAX_SAMPLES: Final = 1e15


class UnknownSampleWeight(SidelightError):
    """The weights of a file are no samples, and the weight of one is unknown."""

    reason = Reason.BAD_FOLDED

    def __init__(self, file_name: str, problem: str) -> None:
        super().__init__(
            f"{file_name}: its weights are no numbers of samples: {problem}",
            hint="Give the weight of one sample with --sample-weight, such as 10000 for microseconds at "
            "100 Hz, or 1 if they are numbers of samples.",
        )


@dataclass(frozen=True, slots=True)
class RecordedSamples:
    """The samples of a recording by stack.

    `derived_weight` is the weight of one sample if it was derived from the weights themselves, else 1.
    """

    stacks: Mapping[Stack, Counts]
    derived_weight: int = 1
    unreadable_lines: UnreadableLines = NO_UNREADABLE_LINES
    damaged_parts: int = 0
    """Events and samples of other files than text that were left out."""


def count_folded_samples(
    file_name: str, counts: Mapping[Stack, Counts], sample_weight: float | None
) -> RecordedSamples:
    """Return the numbers of samples of folded stacks, whatever their weights are.

    Raises UnknownSampleWeight.
    """
    weights = [weight for values in counts.values() for weight in values if weight]
    derived_weight = 1 if sample_weight else find_sample_weight(file_name, weights)
    size = sample_weight or derived_weight
    if size == 1:
        return RecordedSamples(counts)
    stacks = {
        stack: Counts(*(_divide(weight, size) for weight in values)) for stack, values in counts.items()
    }
    return RecordedSamples(stacks, derived_weight)


def find_sample_weight(file_name: str, weights: Sequence[int]) -> int:
    """Return the weight of one sample; 1 if `weights` are numbers of samples.

    Raises UnknownSampleWeight if they are not, and have no unit in common.
    """
    divisor = math.gcd(*weights)
    if divisor > 1 and len(weights) * math.log(divisor) > -math.log(MAX_CHANCE):
        return divisor
    if len(weights) >= MIN_STACKS and (low := sorted(weights)[len(weights) // 10]) >= LEAST_WEIGHT:
        raise UnknownSampleWeight(
            file_name,
            f"nine tenths of {len(weights):,} stacks weigh {low:,} or more, and nothing divides them all",
        )
    return 1


def count_weighted_samples(entries: Iterable[WeightedStack], sample_weight: float) -> dict[Stack, Counts]:
    """Convert weights to whole samples by stack, at least 1 for each stack and state.

    Raises ValueError for too many.
    """
    sums: Counter[tuple[Stack, str]] = Counter()
    for entry in entries:
        sums[entry.stack, entry.state] += entry.weight  # type: ignore[assignment]
    counts: dict[Stack, Counts] = {}
    for (stack, state), weight in sums.items():
        number = _divide(weight, sample_weight)
        if number >= MAX_SAMPLES:
            raise ValueError(f"a stack has {MAX_SAMPLES:,.0f} samples or more")
        added = Counts(**{STATES[STATE_FRAMES.index(state)]: number})
        counts[stack] = counts.get(stack, Counts()).plus(added)
    return counts


def _divide(weight: float, sample_weight: float) -> int:
    """Raises ValueError for a weight that is beyond all numbers of samples."""
    try:
        return max(round(weight / sample_weight), 1) if weight else 0
    except OverflowError as error:
        raise ValueError("a weight is too large") from error
