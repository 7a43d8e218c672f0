"""Profiles: stacks with weights in samples (for statistics) and in nanoseconds.

Windows sampled at 99 Hz and at 100 Hz add up exactly, because each sample is multiplied by its period
before the addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.folded import Stack, split_stack
from sidelight_model.frames import strip_line_number
from sidelight_model.tree import StackRow


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples and nanoseconds of each stack by state.

    Both mappings have the same stacks.
    """

    samples: Mapping[Stack, Counts] = field(default_factory=dict)
    times_ns: Mapping[Stack, Counts] = field(default_factory=dict)

    def total(self) -> Counts:
        """Samples by state, over all stacks."""
        return _sum_counts(self.samples)

    def total_ns(self) -> Counts:
        """Nanoseconds by state, over all stacks."""
        return _sum_counts(self.times_ns)

    def rows(self, kind: ProfileType, *, lines: bool = True) -> Iterator[StackRow]:
        """Yield (frames, samples, nanoseconds) for each stack with samples of type `kind`.

        With `lines` false the frames have no line numbers, so the same stack may be yielded more than once.
        """
        for stack, counts in self.samples.items():
            if samples := counts.for_type(kind):
                frames = split_stack(stack)
                yield (
                    frames if lines else [strip_line_number(frame) for frame in frames],
                    samples,
                    self.times_ns[stack].for_type(kind),
                )


def _sum_counts(counts: Mapping[Stack, Counts]) -> Counts:
    total = ZERO
    for stack_counts in counts.values():
        total = total.plus(stack_counts)
    return total
