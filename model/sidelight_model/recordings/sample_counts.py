"""Count a recording's samples: in total, by state, by function and by depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.folded import Stack, split_stack
from sidelight_model.frames import Frame, strip_line_number, unescape_frame

FunctionKey = tuple[str, str]
"""Function name and file."""


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """A recording's samples of one profile type.

    `states` counts the samples of all states. `stacks` holds pairs of a stack's functions, root first, and
    its samples. A recursive function counts once per stack in `total_samples`.
    """

    name: str
    samples: int
    states: Counts
    self_samples: Mapping[FunctionKey, int]
    total_samples: Mapping[FunctionKey, int]
    samples_by_depth: Mapping[int, int]
    stacks: Sequence[tuple[Sequence[FunctionKey], int]]

    def count_matching(self, accepts: Callable[[str, str], bool], *, self_only: bool) -> int:
        """Count the samples whose stack contains an accepted function.

        With `self_only`, only the last frame is considered. `accepts` takes a function name and a file.
        """
        accepted = {name for name in self.total_samples if accepts(*name)}
        if self_only:
            return sum(self.self_samples.get(name, 0) for name in accepted)
        return sum(count for names, count in self.stacks if not accepted.isdisjoint(names))


def count_samples(name: str, stacks: Mapping[Stack, Counts], kind: ProfileType) -> SampleCounts:
    """Count the samples of profile type `kind` in a recording."""
    self_samples: Counter[FunctionKey] = Counter()
    total_samples: Counter[FunctionKey] = Counter()
    samples_by_depth: Counter[int] = Counter()
    names: dict[str, FunctionKey] = {}
    stack_samples = []
    states = ZERO
    for stack, counts in stacks.items():
        states = states.plus(counts)
        if not (samples := counts.for_type(kind)):
            continue
        frames = []
        for frame in split_stack(stack):
            if frame not in names:
                names[frame] = _parse_function(frame)
            frames.append(names[frame])
        stack_samples.append((frames, samples))
        self_samples[frames[-1]] += samples
        samples_by_depth[len(frames)] += samples
        for function in set(frames):
            total_samples[function] += samples
    return SampleCounts(
        name,
        sum(samples for _, samples in stack_samples),
        states,
        self_samples,
        total_samples,
        samples_by_depth,
        stack_samples,
    )


def _parse_function(frame: str) -> FunctionKey:
    parsed = Frame.parse(strip_line_number(unescape_frame(frame)))
    return parsed.function, parsed.file
