"""The native kernel sums a pprof profile as the Python reference does, and both keep its total."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sidelight_collector.ingest.pyroscope.profile_sums import (
    ProfileLimits,
    ProfileSums,
    SampleValues,
    read_pprof_header,
    sum_pprof,
)
from sidelight_collector.ingest.pyroscope.profile_types import NotStored, choose_values
from sidelight_collector.ingest.pyroscope.sample_rounding import MAX_THREAD_TIME_NS
from sidelight_collector.native_kernel import NATIVE
from sidelight_model.counts import STATES
from sidelight_model.errors import Reason, SidelightError
from tests.collector.pyroscope_bodies import MS, Sample, pprof, sample

IDLE, RUNNING, GIL, *_ = range(len(STATES))
LIMITS = ProfileLimits(entries=1000, text_bytes=100_000, stacks=100, depth=6, groups=4, labels=3)
CPU = SampleValues(((0, RUNNING),), None, None, 1, 10 * MS)
DROPPED = ("span_id", "pid")

texts = st.sampled_from(["f", "g", "h", "", "a;b", "[idle]", "#x", "100%", "%3B", "größe", "(truncated)"])
frames = st.tuples(texts, st.sampled_from(["a.py", "", "b;c.py"]), st.integers(-1, 3))
label_names = st.sampled_from(["endpoint", "span_id", "state", "__x__", "thread", "a.b", "q"])
labels = st.dictionaries(
    label_names, st.one_of(st.sampled_from(["", "/a", "/b", "gil", "idle"]), st.integers(0, 3)), max_size=4
)
usual = st.one_of(st.integers(-5, 5), st.integers(0, 10**9))


def samples_of(values: st.SearchStrategy[int]) -> st.SearchStrategy[list[Sample]]:
    one = st.tuples(values, values, st.integers(-1, 20))
    return st.lists(st.builds(Sample, st.lists(frames, max_size=9), one, labels), max_size=12)


meanings = st.sampled_from(
    [
        CPU,
        SampleValues(((0, RUNNING),), (1, IDLE), None, 1, 10 * MS),
        SampleValues(((1, IDLE),), None, 2, 1000, 1),
        SampleValues(((2, GIL),), None, None, 10 * MS, 10 * MS),
    ]
)
TYPES = (("cpu", "nanoseconds"), ("wall", "nanoseconds"), ("samples", "count"))


def outcome(content: bytes, meaning: SampleValues, limits: ProfileLimits, native: Any) -> object:
    try:
        header = read_pprof_header(content, limits, native)
        sums = sum_pprof(content, meaning, DROPPED, limits, native)
    except SidelightError as refused:
        return refused.reason, refused.message
    return header, [(group.labels, group.stacks) for group in sums.groups], sums.period_ns, sums.dropped


@given(samples_of(usual | st.just(2**62)), meanings, st.integers(0, 400), st.integers(1, 40))
def test_the_native_kernel_sums_as_the_reference(
    taken: list[Sample], meaning: SampleValues, cut: int, stacks: int
) -> None:
    assert NATIVE is not None
    whole = pprof(taken, TYPES)
    limits = ProfileLimits(1000, 100_000, stacks, 6, 4, 3)
    assert outcome(whole, meaning, limits, NATIVE) == outcome(whole, meaning, limits, None)
    damaged = whole[: max(len(whole) - cut, 0)]
    ended = [outcome(damaged, meaning, limits, native) for native in (NATIVE, None)]
    # Where a profile is damaged in two places, each names the first that it reads.
    assert ended[0] == ended[1] or {type(one[0]) for one in ended} == {Reason}  # type: ignore[index]


@given(samples_of(usual), meanings)
def test_samples_times_period_is_the_time_that_was_sent(taken: list[Sample], meaning: SampleValues) -> None:
    sent, of_parts = 0, 0
    for one in taken:
        parts = [max(one.values[at], 0) * meaning.unit_ns for at, _ in meaning.states]
        whole = max(one.values[meaning.whole[0]], 0) * meaning.unit_ns if meaning.whole else 0
        sent += max(sum(parts), whole)
        of_parts += sum(parts)
    assume(sent <= MAX_THREAD_TIME_NS)
    sums = sum_pprof(pprof(taken, TYPES), meaning, DROPPED, LIMITS)
    counted = sum(group.stacks.samples for group in sums.groups)
    assert abs(counted * sums.period_ns - sent) <= counted / 2
    if meaning.whole and not any("state" in one.labels for one in taken):
        # The time of a part, such as CPU time, is right to a sample too.
        parts = [
            sum(group.stacks.counts[at])
            for group in sums.groups
            for at, _ in enumerate(STATES)
            if at != meaning.whole[1]
        ]
        assert abs(sum(parts) * sums.period_ns - of_parts) <= sums.period_ns + counted / 2


def sums(*taken: Sample, limits: ProfileLimits = LIMITS) -> ProfileSums:
    return sum_pprof(pprof(taken), CPU, DROPPED, limits)


def test_samples_without_frames_stay_under_a_placeholder() -> None:
    [group] = sums(sample("", 30 * MS), sample("f;g", 20 * MS)).groups
    assert dict(zip(group.stacks.stacks, group.stacks.counts[RUNNING], strict=True)) == {
        "(no frames)": 3,
        "f (a.py:1);g (a.py:2)": 2,
    }


def test_a_label_with_too_many_values_splits_no_profile() -> None:
    told = sums(*(sample("f", 10 * MS, endpoint=f"/{at}", pod="p", pid="7") for at in range(5)))
    assert [group.labels for group in told.groups] == [{"pod": "p"}]
    assert told.dropped == {"endpoint", "pid"}


@pytest.mark.parametrize("native", [NATIVE, None], ids=["native", "python"])
@pytest.mark.parametrize(
    ("limits", "reason", "word"),
    [
        (ProfileLimits(5, 10**6, 10, 9, 4, 3), Reason.TOO_LARGE, "5 samples, locations"),
        (ProfileLimits(99, 10**6, 1, 9, 4, 3), Reason.TOO_MANY_STACKS, "1 different stacks"),
        (ProfileLimits(99, 2_000, 10, 9, 4, 3), Reason.TOO_LARGE, "2000 bytes of text"),
    ],
)
def test_a_small_profile_that_becomes_large_is_refused(
    limits: ProfileLimits, reason: Reason, word: str, native: Any
) -> None:
    # 200 bytes of locations repeat one name of 1,000 bytes.
    bomb = pprof([Sample([("f" * 1000, "", 0)] * 200, [10 * MS]), sample("g", 10 * MS)])
    with pytest.raises(SidelightError, match=word) as refused:
        sum_pprof(bomb, CPU, DROPPED, limits, native)
    assert refused.value.reason is reason


@pytest.mark.parametrize(
    ("types", "metric", "states", "not_stored"),
    [
        ([("cpu", "nanoseconds")], "process_cpu", {RUNNING}, set()),
        ([("samples", "count"), ("cpu", "nanoseconds")], "process_cpu", {RUNNING}, set()),
        ([("sample", "count"), ("wall", "microseconds")], "wall", {IDLE}, set()),
        ([("wall", "nanoseconds"), ("cpu", "nanoseconds")], "", {IDLE, RUNNING}, set()),
        ([("samples", "count")], "process_cpu", {RUNNING}, set()),
        ([("alloc_space", "bytes"), ("alloc_objects", "count")], "memory", set(), {NotStored.MEMORY}),
        ([("contentions", "count"), ("delay", "nanoseconds")], "mutex", set(), {NotStored.MUTEX}),
        ([("cpu", "nanoseconds"), ("exception", "count")], "", {RUNNING}, {NotStored.EXCEPTION}),
        ([("goroutine", "count")], "goroutine", set(), {NotStored.GOROUTINE}),
        ([("x", "y")], "", set(), {NotStored.OTHER}),
        ([], "", set(), set()),
    ],
)
def test_only_the_time_of_threads_is_stored(
    types: list[tuple[str, str]], metric: str, states: set[int], not_stored: set[NotStored]
) -> None:
    profile = pprof([], types, period_type=("", ""))
    meaning = choose_values(read_pprof_header(profile, LIMITS), metric, 5 * MS)
    assert (set(meaning.states), set(meaning.not_stored)) == (states, not_stored)
