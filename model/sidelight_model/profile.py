"""A profile is stacks with weights: samples for statistics, nanoseconds for time.

Windows sampled at 99 Hz and at 100 Hz add exactly, because each sample's period is multiplied in
before anything is added. `merge` is associative and commutative, and EMPTY changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.folded import Stack, split
from sidelight_model.frames import without_line
from sidelight_model.tree import Row, Tree, build
from sidelight_model.window import Window


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples and nanoseconds of each stack, by state. Both mappings have the same stacks."""

    samples: Mapping[Stack, Counts] = field(default_factory=dict)
    times_ns: Mapping[Stack, Counts] = field(default_factory=dict)

    @classmethod
    def of(cls, window: Window) -> Profile:
        """One window as a profile."""
        times = {stack: counts.times(window.period_ns) for stack, counts in window.counts.items()}
        return cls(dict(window.counts), times)

    def total(self) -> Counts:
        """Samples by state, over all stacks."""
        return _sum(self.samples)

    def total_ns(self) -> Counts:
        """Nanoseconds by state, over all stacks."""
        return _sum(self.times_ns)

    def rows(self, kind: ProfileType, *, lines: bool = True) -> Iterator[Row]:
        """(frames, samples, nanoseconds) of each stack that has samples of this type.

        Without `lines` the frames carry no line numbers, so a stack may come more than once.
        """
        for stack, counts in self.samples.items():
            if samples := counts.of(kind):
                frames = split(stack)
                yield (
                    frames if lines else [without_line(frame) for frame in frames],
                    samples,
                    self.times_ns[stack].of(kind),
                )


EMPTY = Profile()


def merge(*profiles: Profile) -> Profile:
    """The sum of profiles."""
    samples: dict[Stack, Counts] = {}
    times: dict[Stack, Counts] = {}
    for profile in profiles:
        for stack, counts in profile.samples.items():
            samples[stack] = samples.get(stack, ZERO).plus(counts)
            times[stack] = times.get(stack, ZERO).plus(profile.times_ns[stack])
    return Profile(samples, times)


def tree(profile: Profile, kind: ProfileType = ProfileType.WALL, *, lines: bool = False) -> Tree:
    """The call tree of one profile."""
    return build([profile.rows(kind, lines=lines)])


def compare(
    baseline: Profile, comparison: Profile, kind: ProfileType = ProfileType.WALL, *, lines: bool = False
) -> Tree:
    """The call tree of two profiles, each call path with both sides' numbers."""
    return build([baseline.rows(kind, lines=lines), comparison.rows(kind, lines=lines)])


def _sum(counts: Mapping[Stack, Counts]) -> Counts:
    total = ZERO
    for one in counts.values():
        total = total.plus(one)
    return total
