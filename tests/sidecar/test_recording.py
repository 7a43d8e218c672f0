"""Recordings: samples in the order of time, within bounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sidelight.settings import BadSetting
from sidelight_sidecar.samplers.timed_samples import TimedSamples, decode_timed_samples, encode_timed_samples
from sidelight_sidecar.settings import parse_sidecar_settings
from sidelight_sidecar.windows.timeline_recording import (
    EncodedRecording,
    RecordingBudget,
    RecordingSource,
    encode_recording,
)

ABOUT = RecordingSource("c_1", "01A", {"service": "shop"}, 7)
START, MONOTONIC = 1_795_000_000 * 10**9, 5_000 * 10**9
PERIOD = 10_000_000
ENOUGH = 1 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """A timeline as the extension gives it."""

    start_ns: int
    monotonic_ns: int
    threads: Sequence[str]
    stacks: Sequence[str]
    samples: Sequence[tuple[int, int, int, int]]
    dropped: int = 0


def line(
    *ticks: Sequence[tuple[str, str, int]], first: int = 0, step_ns: int = PERIOD, skewed_ns: int = 0
) -> Line:
    """A timeline with a tick every period from tick `first` on; each has threads with stack and state."""
    threads: list[str] = []
    stacks: list[str] = []
    samples = []
    for at, tick in enumerate(ticks):
        for thread, stack, state in tick:
            threads += [] if thread in threads else [thread]
            stacks += [] if stack in stacks else [stack]
            samples.append((at * step_ns, threads.index(thread), stacks.index(stack), state))
    began = first * step_ns
    return Line(START + began + skewed_ns, MONOTONIC + began, threads, stacks, samples)


def written(document: EncodedRecording | None) -> dict[str, Any]:
    assert document is not None
    told: dict[str, Any] = json.loads(zstandard.ZstdDecompressor().decompress(document.body))
    return told


def rows(recording: dict[str, Any]) -> dict[str, list[tuple[int, str, int]]]:
    """Each thread's samples, with their stacks as text."""
    texts = [";".join(recording["frames"][at] for at in stack) for stack in recording["stacks"]]
    return {
        thread["name"]: [
            (at, texts[stack], state)
            for at, stack, state in zip(thread["at_us"], thread["stack"], thread["state"], strict=True)
        ]
        for thread in recording["threads"]
    }


names = st.sampled_from(["MainThread", "pool", "a b", "ü", ""])
frames = st.lists(st.sampled_from(["f (a.py:1)", "g (a.py:2)", "h%3B (b.py)"]), min_size=1, max_size=4)
samples = st.tuples(names, frames.map(";".join), st.integers(0, 2))
lines = st.lists(st.lists(samples, max_size=4), max_size=6)


@given(lines)
def test_what_is_packed_is_unpacked_as_it_was(ticks: list[list[tuple[str, str, int]]]) -> None:
    one = line(*ticks)
    moments = encode_timed_samples(one, PERIOD, dropped=3)
    some = decode_timed_samples(moments)
    assert (moments.samples, moments.dropped, moments.period_ns) == (len(one.samples), 3, PERIOD)
    assert list(zip(some.offsets_ns, some.thread, some.stack, some.state, strict=True)) == list(one.samples)
    assert (some.threads, some.stacks) == (one.threads, one.stacks)
    assert (some.start_ns, some.monotonic_ns) == (one.start_ns, one.monotonic_ns)


@given(st.lists(lines, max_size=4), st.integers(0, 2000))
def test_a_document_has_the_newest_samples_that_fit_in_their_order(
    turns: list[list[list[tuple[str, str, int]]]], max_bytes: int
) -> None:
    kept: list[TimedSamples] = []
    ever: list[tuple[int, str, str, int]] = []
    first = 0
    for ticks in turns:
        # The wall clock is set between two takes, which changes no distance.
        kept.append(encode_timed_samples(line(*ticks, first=first, skewed_ns=first * 10**9), PERIOD))
        ever += [((first + at) * 10_000, *one) for at, tick in enumerate(ticks) for one in tick]
        first += len(ticks) + 1
    found = encode_recording(kept, ABOUT, dropped=5, max_bytes=max_bytes)
    if found is None:
        return
    assert len(found.body) <= max_bytes
    told = written(found)
    told_rows = rows(told)
    count = sum(map(len, told_rows.values()))
    assert (count, told["dropped"]) == (found.samples, found.dropped)
    assert count + found.dropped == len(ever) + 5
    newest = ever[len(ever) - count :]
    began = newest[0][0]
    expected = sorted((at - began, stack, state) for at, _, stack, state in newest)
    assert sorted(one for row in told_rows.values() for one in row) == expected
    for row in told_rows.values():
        assert all(one[0] < two[0] for one, two in pairwise(row))
    assert {name.partition(" (")[0] for name in told_rows} == {thread for _, thread, _, _ in newest}


def test_a_document_with_room_has_all_and_says_whose_it_is() -> None:
    kept = [
        encode_timed_samples(line([("main", "f;g", 2)], [("main", "f", 0)]), PERIOD),
        encode_timed_samples(line([("main", "f;g", 1), ("io", "h", 0)], first=50), 2 * PERIOD),
    ]
    assert written(encode_recording(kept, ABOUT, dropped=0, max_bytes=ENOUGH)) == {
        "v": 1,
        "capture": "c_1",
        "agent": "01A",
        "labels": {"service": "shop"},
        "pid": 7,
        "start_ns": START,
        "period_us": 10_000,
        "periods": [[0, 10_000], [500_000, 20_000]],
        "dropped": 0,
        "frames": ["f", "g", "h"],
        "stacks": [[0, 1], [0], [2]],
        "threads": [
            {"name": "io", "at_us": [500_000], "stack": [2], "state": [0]},
            {"name": "main", "at_us": [0, 10_000, 500_000], "stack": [0, 1, 0], "state": [2, 0, 1]},
        ],
    }


def test_two_threads_of_one_name_are_two_rows() -> None:
    kept = [
        encode_timed_samples(line([("w", "a", 0), ("w", "b", 1)], [("w", "a", 0), ("w", "b", 1)]), PERIOD)
    ]
    assert rows(written(encode_recording(kept, ABOUT, dropped=0, max_bytes=ENOUGH))) == {
        "w": [(0, "a", 0), (10_000, "a", 0)],
        "w (2)": [(0, "b", 1), (10_000, "b", 1)],
    }


def test_a_document_that_just_fits_is_whole_and_a_byte_less_leaves_out_the_oldest() -> None:
    kept = [
        encode_timed_samples(line(*[[("main", f"f{at};g{at * 7919}", at % 3)] for at in range(300)]), PERIOD)
    ]
    whole = encode_recording(kept, ABOUT, dropped=0, max_bytes=ENOUGH)
    assert whole is not None
    same = encode_recording(kept, ABOUT, dropped=0, max_bytes=len(whole.body))
    assert same == whole
    less = encode_recording(kept, ABOUT, dropped=0, max_bytes=len(whole.body) - 1)
    assert less is not None
    assert 0 < less.samples < 300
    assert rows(written(less))["main"][-1][1] == "f299;g2367781"
    text = len(zstandard.ZstdDecompressor().decompress(whole.body))
    assert encode_recording(kept, ABOUT, dropped=0, max_bytes=ENOUGH, max_text_bytes=text) == whole
    shorter = encode_recording(kept, ABOUT, dropped=0, max_bytes=ENOUGH, max_text_bytes=text - 1)
    assert shorter is not None
    assert shorter.samples < 300
    assert encode_recording(kept, ABOUT, dropped=0, max_bytes=10) is None
    assert encode_recording([], ABOUT, dropped=0, max_bytes=ENOUGH) is None


def test_recordings_share_their_room_and_the_largest_gives_way() -> None:
    used: list[int] = []
    one = encode_timed_samples(line([("main", "f", 0)]), PERIOD)
    room = RecordingBudget(5 * one.size, used.append)
    first, second = room.open_recording(), room.open_recording()
    for _ in range(4):
        first.add(one)
    second.add(one)
    assert (first.samples, second.samples, room.used_bytes) == (4, 1, 5 * one.size)
    second.add(one)
    assert (first.samples, first.dropped) == (3, 1)
    assert (second.samples, second.dropped) == (2, 0)
    second.add(encode_timed_samples(line(), PERIOD, dropped=9))
    assert (second.samples, second.dropped) == (2, 9)
    first.close()
    first.close()
    assert used[-1] == room.used_bytes == 2 * one.size
    assert max(used) <= 5 * one.size


@pytest.mark.parametrize(
    ("flag", "good", "bad"),
    [
        ("--timeline-recording-max-bytes", ("64k", "64M"), ("65535", "67108865")),
        ("--timeline-recording-memory-bytes", ("1M",), ("1048575",)),
        ("--timeline-recording-retry-seconds", ("0.1",), ("0",)),
        ("--capture-poll-timeout-seconds", ("0.1", "300"), ("0", "300.1")),
    ],
)
def test_settings_of_recordings_have_bounds(flag: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    given = ["--collector", "http://c", "--service", "s", "--all"]
    for value in good:
        parse_sidecar_settings([*given, flag, value], {})
    for value in bad:
        with pytest.raises(BadSetting, match=flag):
            parse_sidecar_settings([*given, flag, value], {})
