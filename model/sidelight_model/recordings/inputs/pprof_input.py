"""Read the samples of a pprof profile.

`sidelight_model.import_formats.pprof_profile` reads the format. A sample has a value for each value type:

- The value of a type `samples` in the unit `count` is a number of samples.
- Without one, a type in units of time is divided by the period, which is the time of one sample.
- Others (bytes, objects) hold no samples and are refused.

The label `state` (idle, gil) is a thread's state, as sidelight writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sidelight_model.counts import STATE_FRAMES, STATES, Counts, ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.folded import Stack
from sidelight_model.import_formats.pprof_profile import (
    NS_PER_TIME_UNIT,
    STATE_LABEL,
    PprofHeader,
    PprofProfile,
)
from sidelight_model.import_formats.weighted_stack import WeightedStack
from sidelight_model.recordings.inputs.sample_weights import UnknownSampleWeight, count_weighted_samples
from sidelight_model.recordings.inputs.speedscope_input import ProfileTypeMismatch

_STATES: Final = dict(zip(STATES, STATE_FRAMES, strict=True))


class BadPprof(SidelightError):
    """A binary file is no pprof profile with samples."""

    reason = Reason.BAD_FOLDED

    def __init__(self, file_name: str, problem: str) -> None:
        super().__init__(
            f"{file_name} is binary, and no pprof profile of samples: {problem}",
            hint="Record a profile of CPU or wall time, or give folded text or speedscope's JSON.",
        )


def parse_pprof(
    file_name: str, content: bytes, kind: ProfileType, sample_weight: float | None
) -> Mapping[Stack, Counts]:
    """Parse the samples of an unpacked profile, as counts by stack.

    `sample_weight` replaces a missing period, in the unit of the values. Raises BadPprof,
    UnknownSampleWeight, or ProfileTypeMismatch if the profile holds another type than `kind`.
    """
    try:
        profile = PprofProfile(content)
        types = profile.header.value_types
        at, size = _choose_values(file_name, profile.header, kind, sample_weight)
        entries = list(_iter_stacks(profile, at))
        has_states = any(entry.state for entry in entries)
        declared = {value_type.name for value_type in types} & {member.value for member in ProfileType}
        if declared and kind.value not in declared and not (has_states and "wall" in declared):
            raise ProfileTypeMismatch(file_name, min(declared), kind.value)
        return count_weighted_samples(entries, size)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise BadPprof(file_name, f"it is cut or damaged ({error})") from error


def _choose_values(
    file_name: str, header: PprofHeader, kind: ProfileType, sample_weight: float | None
) -> tuple[int, float]:
    """Return the index of the values to read, and the value of one sample."""
    types = header.value_types
    preferred = sorted(range(len(types)), key=lambda at: (not types[at].name.startswith(kind.value), at))
    for at in preferred:
        if types[at].is_sample_count:
            return at, 1.0
    for at in preferred:
        if types[at].unit not in NS_PER_TIME_UNIT:
            continue
        if header.period > 0 and header.period_type.unit in NS_PER_TIME_UNIT:
            scale = NS_PER_TIME_UNIT[header.period_type.unit] / NS_PER_TIME_UNIT[types[at].unit]
            return at, header.period * scale
        if sample_weight:
            return at, sample_weight
        raise UnknownSampleWeight(file_name, f"they are {types[at].unit}, and the profile has no period")
    names = ", ".join(f"{value_type.name} in {value_type.unit}" for value_type in types)[:80]
    raise BadPprof(file_name, f"it holds {names or 'nothing'}")


def _iter_stacks(profile: PprofProfile, at: int) -> Iterator[WeightedStack]:
    """Yield the stacks with a value and frames."""
    for sample in profile.iter_samples():
        states = [_STATES.get(text, "") for name, text in sample.labels if name == STATE_LABEL]
        weight = sample.values[at]
        if weight > 0 and sample.locations:
            stack = profile.join_stack(sample.locations)
            yield WeightedStack(stack, states[-1] if states else "", weight)
