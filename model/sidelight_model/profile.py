"""Profiles: stacks with weights in samples (for statistics) and in nanoseconds.

Windows sampled at 99 Hz and at 100 Hz add up exactly, because each sample is multiplied by its period
before the addition. `merge_profiles` is associative and commutative, and EMPTY_PROFILE is its neutral
element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.folded import Stack, split_stack
from sidelight_model.frames import strip_line_number
from sidelight_model.tree import StackRow, Tree, build_tree_from_rows
from sidelight_model.window import Window


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples and nanoseconds of each stack by state.

    Both mappings have the same stacks.
    """

    samples: Mapping[Stack, Counts] = field(default_factory=dict)
    times_ns: Mapping[Stack, Counts] = field(default_factory=dict)

    @classmethod
    def from_window(cls, window: Window) -> Profile:
        """Build the profile of one window."""
        times = {stack: counts.times(window.period_ns) for stack, counts in window.counts.items()}
        return cls(dict(window.counts), times)

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


EMPTY_PROFILE = Profile()


def merge_profiles(*profiles: Profile) -> Profile:
    """Add up profiles."""
    samples: dict[Stack, Counts] = {}
    times: dict[Stack, Counts] = {}
    for profile in profiles:
        for stack, counts in profile.samples.items():
            samples[stack] = samples.get(stack, ZERO).plus(counts)
            times[stack] = times.get(stack, ZERO).plus(profile.times_ns[stack])
    return Profile(samples, times)


def build_profile_tree(
    profile: Profile, kind: ProfileType = ProfileType.WALL, *, lines: bool = False
) -> Tree:
    """Build the call tree of one profile."""
    return build_tree_from_rows([profile.rows(kind, lines=lines)])


def build_comparison_tree(
    baseline: Profile, comparison: Profile, kind: ProfileType = ProfileType.WALL, *, lines: bool = False
) -> Tree:
    """Build one call tree with the numbers of two profiles side by side."""
    return build_tree_from_rows([baseline.rows(kind, lines=lines), comparison.rows(kind, lines=lines)])


def _sum_counts(counts: Mapping[Stack, Counts]) -> Counts:
    total = ZERO
    for stack_counts in counts.values():
        total = total.plus(stack_counts)
    return total
