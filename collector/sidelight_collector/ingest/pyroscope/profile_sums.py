"""Sum the samples of a profile by label set and stack.

There are two implementations with identical results: the native kernel, which reads pprof without making text
of each sample, and the Python reference.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from sidelight_collector.ingest.pyroscope.sample_rounding import (
    MAX_SAMPLES,
    MAX_THREAD_TIME_NS,
    choose_period,
    round_rows,
)
from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.stack_hashing import HashedStacks, PackedStacks, build_hashed_stacks, hash_stack
from sidelight_model.counts import STATES, Counts
from sidelight_model.errors import LimitExceeded, Reason, SidelightError
from sidelight_model.folded import Stack, split_stack
from sidelight_model.frames import truncate_stack
from sidelight_model.import_formats.pprof_profile import (
    STATE_LABEL,
    PprofHeader,
    PprofProfile,
    PprofSample,
    TooManyEntries,
    ValueType,
)
from sidelight_model.import_formats.protobuf_wire import DamagedMessage

LabelSet = tuple[tuple[str, str], ...]
WeighedSample = tuple[LabelSet, Stack, Sequence[int]]
"""The labels of a sample, its stack, and its nanoseconds in each state."""

ENTRY_BYTES: Final = 64
"""A field of a profile counts as at least this size, as a line of folded text does."""
MAX_LABEL_SETS: Final = 64
"""Windows that a profile becomes at most."""
_SIZE_HINT: Final = "Upload more often, or raise the collector's --max-body-bytes."


class BadProfile(SidelightError):
    """A profile cannot be read."""

    reason = Reason.BAD_PROFILE

    def __init__(self, problem: str, hint: str = "Send the profile whole, as its profiler wrote it.") -> None:
        super().__init__(f"the profile cannot be read: {problem}", hint=hint)


@dataclass(frozen=True, slots=True)
class ProfileLimits:
    """Limits of one profile.

    `labels` bounds the label names of its samples, `groups` their label sets.
    """

    entries: int
    text_bytes: int
    stacks: int
    depth: int
    groups: int
    labels: int

    def to_native(self) -> tuple[int, int, int, int, int, int]:
        return self.entries, self.text_bytes, self.stacks, self.depth, self.groups, self.labels


@dataclass(frozen=True, slots=True)
class SampleValues:
    """The meaning of the values of a profile.

    `states` has pairs of a value's index and the state (its number in STATES) that it counts for. `whole` is
    the value of which those are a part, and the state of the rest. `count` is the value that counts samples.
    """

    states: tuple[tuple[int, int], ...]
    whole: tuple[int, int] | None
    count: int | None
    unit_ns: int
    period_ns: int


@dataclass(frozen=True, slots=True)
class SampleGroup:
    """The stacks of the samples with one label set."""

    labels: Mapping[str, str]
    stacks: HashedStacks


@dataclass(frozen=True, slots=True)
class ProfileSums:
    """The samples of a profile by label set, and the labels that were dropped."""

    groups: Sequence[SampleGroup]
    period_ns: int
    dropped: frozenset[str]
    text_bytes: int


def read_pprof_header(content: bytes, limits: ProfileLimits, native: Any | None = NATIVE) -> PprofHeader:
    """Read the properties of a profile. Raises BadProfile, LimitExceeded."""
    try:
        if native is None:
            return PprofProfile(content, limits.entries).header
        types, period_type, *numbers = native.read_pprof_header(content, limits.to_native())
        return PprofHeader([ValueType(*one) for one in types], ValueType(*period_type), *numbers)
    except ValueError as error:
        _raise_refusal(error, limits)


def sum_pprof(
    content: bytes,
    values: SampleValues,
    dropped: Iterable[str],
    limits: ProfileLimits,
    native: Any | None = NATIVE,
) -> ProfileSums:
    """Sum the samples of a profile; `dropped` are names of labels that make no group.

    Raises BadProfile, LimitExceeded.
    """
    try:
        if native is None:
            return _sum_in_python(content, values, frozenset(dropped), limits)
        groups, period_ns, names, text_bytes = native.sum_pprof(
            content,
            limits.to_native(),
            states=list(values.states),
            whole=values.whole,
            count=values.count,
            unit_ns=values.unit_ns,
            period_ns=values.period_ns,
            dropped=list(dropped),
        )
    except ValueError as error:
        _raise_refusal(error, limits)
    return ProfileSums(
        [
            SampleGroup(
                dict(labels),
                HashedStacks(
                    array("Q", hashes),
                    tuple(array("q", one) for one in counts),
                    PackedStacks(*stacks),
                    samples,
                    truncated,
                ),
            )
            for labels, hashes, counts, stacks, samples, truncated in groups
        ],
        period_ns,
        frozenset(names),
        text_bytes,
    )


def sum_weighed_samples(
    samples: Sequence[WeighedSample], total_samples: int, period_ns: int, limits: ProfileLimits
) -> tuple[list[SampleGroup], int]:
    """Sum samples in whole samples, and return the groups and their period.

    `total_samples` is the sender's own count, or 0. Raises LimitExceeded.
    """
    try:
        return _sum_weighed_samples(samples, total_samples, period_ns, limits)
    except _Refused as error:
        _raise_refusal(error, limits)


def too_much_text(limits: ProfileLimits) -> LimitExceeded:
    """Build the error for stacks with more text than allowed."""
    return LimitExceeded(
        f"the stacks of the profile have more than {limits.text_bytes} bytes of text", hint=_SIZE_HINT
    )


def _sum_weighed_samples(
    samples: Sequence[WeighedSample], total_samples: int, period_ns: int, limits: ProfileLimits
) -> tuple[list[SampleGroup], int]:
    total_ns = sum(sum(ns) for _, _, ns in samples)
    period = choose_period(total_ns, total_samples, period_ns)
    if total_ns > MAX_THREAD_TIME_NS or max(total_samples, period.samples) > MAX_SAMPLES:
        raise _Refused("time")
    sums: dict[LabelSet, dict[Stack, list[int]]] = {}
    for labels, stack, ns in samples:
        row = sums.setdefault(labels, {}).setdefault(stack, [0] * len(STATES))
        for state, added in enumerate(ns):
            row[state] += added
    if any(len(stacks) > limits.stacks for stacks in sums.values()):
        raise _Refused("stacks")
    rows = [
        (labels, stack, ns)
        for labels, stacks in sorted(sums.items())
        for stack, ns in sorted(stacks.items(), key=lambda item: (hash_stack(item[0]), item[0]))
    ]
    counts: dict[LabelSet, dict[Stack, Counts]] = {}
    rounded = round_rows([ns for _, _, ns in rows], total_ns, period.samples)
    for (labels, stack, _), row in zip(rows, rounded, strict=True):
        counts.setdefault(labels, {})[stack] = Counts(*row)
    groups = [SampleGroup(dict(labels), build_hashed_stacks(stacks)) for labels, stacks in counts.items()]
    return [group for group in groups if group.stacks.samples], period.ns


class _Refused(ValueError):
    """Why a profile is refused: a word, and what is damaged."""

    def __init__(self, word: str, problem: str = "") -> None:
        super().__init__(word, problem)


def _raise_refusal(error: ValueError, limits: ProfileLimits) -> NoReturn:
    if isinstance(error, DamagedMessage):
        raise BadProfile(str(error)) from error
    if isinstance(error, TooManyEntries):
        error = _Refused("entries")
    word, problem = error.args
    if word == "damaged":
        raise BadProfile(problem) from error
    if word == "stacks":
        raise LimitExceeded(
            f"more than {limits.stacks} different stacks in one profile",
            reason=Reason.TOO_MANY_STACKS,
            hint="Upload more often, or raise the collector's --max-stacks.",
        ) from error
    if word == "text":
        raise too_much_text(limits) from error
    if word == "time":
        raise LimitExceeded(
            f"the profile claims more than {MAX_THREAD_TIME_NS:.0e} ns of thread time",
            hint="Check the unit and the period of its values.",
        ) from error
    raise LimitExceeded(
        f"the profile has more than {limits.entries} samples, locations, functions and strings",
        hint=_SIZE_HINT,
    ) from error


def _sum_in_python(
    content: bytes, values: SampleValues, dropped: frozenset[str], limits: ProfileLimits
) -> ProfileSums:
    profile = PprofProfile(content, limits.entries)
    dropped_names: set[str] = set()
    stacks: dict[tuple[int, ...], Stack] = {}
    samples: list[WeighedSample] = []
    text_bytes = total_samples = 0
    for sample in profile.iter_samples():
        labels, state = _split_labels(sample.labels, dropped, dropped_names)
        ns = _weigh(sample, values, state)
        if not sum(ns):
            continue
        if values.count is not None:
            total_samples += max(_get_value(sample, values.count), 0)
        if sample.locations not in stacks:
            stack = profile.join_stack(sample.locations)
            text_bytes += len(stack.encode()) + 1
            if text_bytes > limits.text_bytes:
                raise _Refused("text")
            stacks[sample.locations] = Stack(";".join(truncate_stack(split_stack(stack), limits.depth)))
        samples.append((labels, stacks[sample.locations], ns))
    samples = _limit_labels(samples, limits, dropped_names)
    groups, period_ns = _sum_weighed_samples(samples, total_samples, values.period_ns, limits)
    return ProfileSums(groups, period_ns, frozenset(dropped_names), text_bytes)


def _split_labels(
    labels: Iterable[tuple[str, str]], dropped: frozenset[str], dropped_names: set[str]
) -> tuple[LabelSet, int | None]:
    """Return the labels that make a group, and the state; add the names of others."""
    state, kept = None, dict[str, str]()
    for name, value in labels:
        if name == STATE_LABEL and value in STATES:
            state = STATES.index(value)
        elif name in dropped or not (value or name.startswith("__")):
            # Labels with a number instead of a text belong to single requests, or to sizes of objects.
            dropped_names.add(name)
        elif not name.startswith("__"):
            kept[name] = value
    return tuple(sorted(kept.items())), state


def _weigh(sample: PprofSample, values: SampleValues, state: int | None) -> list[int]:
    """Return the nanoseconds of a sample in each state."""
    ns = [0] * len(STATES)
    for at, own in values.states:
        ns[own] += max(_get_value(sample, at), 0) * values.unit_ns
    if values.whole is not None:
        at, rest = values.whole
        ns[rest] += max(max(_get_value(sample, at), 0) * values.unit_ns - sum(ns), 0)
    if state is not None:
        ns = [sum(ns) if number == state else 0 for number in range(len(STATES))]
    return ns


def _get_value(sample: PprofSample, at: int) -> int:
    if at >= len(sample.values):
        raise DamagedMessage("a sample has too few values")
    return sample.values[at]


def _limit_labels(
    samples: Sequence[WeighedSample], limits: ProfileLimits, dropped_names: set[str]
) -> list[WeighedSample]:
    """Drop the labels with the most values until there are few enough names and sets."""
    values: dict[str, set[str]] = {}
    for labels, _, _ in samples:
        for name, value in labels:
            values.setdefault(name, set()).add(value)
    names = sorted(values, key=lambda name: (-len(values[name]), name))
    at = 0
    while at < len(names) and (len(values[names[at]]) > limits.groups or len(names) - at > limits.labels):
        at += 1
    while True:
        kept = frozenset(names[at:])
        sets = {tuple(pair for pair in labels if pair[0] in kept) for labels, _, _ in samples}
        if at == len(names) or len(sets) <= limits.groups:
            break
        at += 1
    dropped_names.update(names[:at])
    return [(tuple(pair for pair in labels if pair[0] in kept), stack, ns) for labels, stack, ns in samples]
