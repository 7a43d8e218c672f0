"""What there is to count in a recording: samples in all, by state, by function and by depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.folded import Stack, split
from sidelight_model.frames import Frame, unescape, without_line

Name = tuple[str, str]
"""A function and its file."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A recording's samples of one type; `states` are those of all types.

    `stacks` are the functions of each stack, the root first, and its samples. In `total` a function counts
    once per stack, however often it stands in it.
    """

    name: str
    samples: int
    states: Counts
    own: Mapping[Name, int]
    total: Mapping[Name, int]
    depths: Mapping[int, int]
    stacks: Sequence[tuple[Sequence[Name], int]]

    def matching(self, accepts: Callable[[str, str], bool], *, own: bool) -> int:
        """Samples of stacks with a function that is accepted, or with one as their last frame."""
        chosen = {name for name in self.total if accepts(*name)}
        if own:
            return sum(self.own.get(name, 0) for name in chosen)
        return sum(count for names, count in self.stacks if not chosen.isdisjoint(names))


def count(name: str, stacks: Mapping[Stack, Counts], kind: ProfileType) -> Counted:
    """Count the samples of a recording."""
    own: Counter[Name] = Counter()
    total: Counter[Name] = Counter()
    depths: Counter[int] = Counter()
    names: dict[str, Name] = {}
    kept = []
    states = ZERO
    for stack, counts in stacks.items():
        states = states.plus(counts)
        if not (samples := counts.of(kind)):
            continue
        frames = []
        for frame in split(stack):
            if frame not in names:
                names[frame] = _name(frame)
            frames.append(names[frame])
        kept.append((frames, samples))
        own[frames[-1]] += samples
        depths[len(frames)] += samples
        for one in set(frames):
            total[one] += samples
    return Counted(name, sum(samples for _, samples in kept), states, own, total, depths, kept)


def _name(frame: str) -> Name:
    found = Frame.parse(without_line(unescape(frame)))
    return found.function, found.file
