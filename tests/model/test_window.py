from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.counts import FURTHER_STATES, Counts
from sidelight_model.errors import BadFolded, BadHeader, BadLabel, LimitExceeded
from sidelight_model.folded import parse_folded
from sidelight_model.labels import LabelLimits, Labels
from sidelight_model.window import Quality, Window, WindowLimits, decode_windows, encode_windows
from tests.model.strategies import FEWER, deep, windows

ULID = "01JD5B9Y3M5XQK3V0R8N2T7W4E"
GOLDEN = Path(__file__).parent / "golden" / "window-format-1.txt"
WINDOW = Window(
    ULID,
    Labels({"service": "shop"}),
    10**18,
    10**10,
    10**7,
    parse_folded("main;work 3"),
    Quality(attempts=1000),
)


@FEWER
@given(st.lists(windows, max_size=4))
def test_decoding_undoes_encoding(some: list[Window]) -> None:
    assert decode_windows(encode_windows(some)) == some


@FEWER
@given(windows)
def test_equal_windows_give_equal_bytes(window: Window) -> None:
    shuffled = Window(
        window.id,
        Labels(dict(list(window.labels.items())[::-1])),
        window.start_ns,
        window.duration_ns,
        window.period_ns,
        dict(reversed(window.counts.items())),
        window.quality,
    )
    assert encode_windows([shuffled]) == encode_windows([window])


@FEWER
@given(st.lists(windows, min_size=1, max_size=3))
def test_tools_that_read_folded_text_see_every_stack_and_pass_over_the_headers(some: list[Window]) -> None:
    body = encode_windows(some).decode()
    folded = "\n".join(line for line in body.split("\n") if not line.startswith("#"))
    assert sum(c.wall for c in parse_folded(folded).values()) == sum(window.total.wall for window in some)


def header(**changes: object) -> bytes:
    fields = {
        "format": 1,
        "id": ULID,
        "labels": {"service": "shop"},
        "start_ns": 10**18,
        "duration_ns": 10**10,
        "period_ns": 10**7,
        "quality": {},
    }
    fields |= changes
    return f"# {json.dumps({name: value for name, value in fields.items() if value is not None})}\n".encode()


@pytest.mark.parametrize(
    "body",
    [
        b"# not json\n",
        b"# []\n",
        header(format=4),
        header(format=2, tasks={}),
        header(format=3, tasks=[]),
        header(format=3, tasks={"readings": -1}),
        header(format=3, tasks={"tasks": 10**12 + 1}),
        header(format=3, tasks={"loop": 1}),
        header(format=True),
        header(states=["cpu_wait"]),
        header(format=2, states="cpu_wait"),
        header(format=2, states=["disk"]),
        header(format=2, states=[[]]),
        header(id=None),
        header(id="short"),
        header(id=ULID.lower()),
        header(start_ns=-1),
        header(start_ns=1.5),
        header(start_ns=True),
        header(start_ns=2**63),
        header(duration_ns=0),
        header(duration_ns=3600 * 10**9 + 1),
        header(period_ns=0),
        header(quality=3),
        header(quality={"attempts": "many"}),
        header(quality={"surprise": 1}),
        header(quality={"errors": {"read": -1}}),
        header(quality={"mode": "x" * 65}),
        header(quality={"missing_states": "idle"}),
        header(quality={"missing_states": ["idle"] * 33}),
        header(quality={"reduced": "cpu"}),
        header(quality={"reduced": ["cpu"] * 33}),
        header(quality={"reduced": [1]}),
        header(quality={"reader": 1}),
        header(quality={"stopped_ns": -1}),
        header(quality={"errors": {f"kind{n}": 1 for n in range(33)}}),
        header(extra=1),
        b"main 1\n" + header(),
        b"# " + b"[" * 50_000 + b"\n",
    ],
)
def test_a_bad_header_is_refused_with_its_line(body: bytes) -> None:
    with pytest.raises(BadHeader) as refused:
        decode_windows(body)
    assert refused.value.line == 1
    assert refused.value.hint


def test_a_bad_header_later_in_the_body_names_its_own_line() -> None:
    with pytest.raises(BadHeader) as refused:
        decode_windows(header() + b"main 1\n\n# {}\n")
    assert refused.value.line == 4


def test_a_bad_folded_line_is_counted_from_the_start_of_the_body() -> None:
    with pytest.raises(BadFolded) as refused:
        decode_windows(header() + b"main 1\n" + header() + b"main one\n")
    assert refused.value.line == 4


def test_a_body_without_windows_is_no_windows() -> None:
    assert decode_windows(b"\n") == []


def test_as_many_windows_as_allowed_are_read_and_not_one_more() -> None:
    assert len(decode_windows(header() * 3, WindowLimits(max_windows=3))) == 3
    with pytest.raises(LimitExceeded) as refused:
        decode_windows(header() * 4, WindowLimits(max_windows=3))
    assert refused.value.reason == "too_many_windows"


def test_stacks_cut_at_the_door_are_counted_as_truncated() -> None:
    (window,) = decode_windows(header() + f"{deep(9)} 5\nmain 2\n".encode(), WindowLimits(max_depth=8))
    assert window.quality.truncated == 5
    assert decode_windows(encode_windows([window])) == [window]


@pytest.mark.parametrize(
    "labels",
    [
        None,
        [],
        {},
        {"service": ""},
        {"version": "1"},
        {"service": 1},
        {"service": "a\nb"},
        {"service": "x" * 257},
        {"service": "shop", "9lives": "x"},
        {"service": "shop", "ünï": "x"},
        {"service": "shop", "n" * 65: "x"},
    ],
)
def test_bad_or_missing_labels_are_refused(labels: object) -> None:
    with pytest.raises(BadLabel) as refused:
        decode_windows(header(labels=labels))
    assert refused.value.hint


def test_labels_are_allowed_up_to_their_limits() -> None:
    limits = LabelLimits(max_labels=2, max_name_bytes=7, max_value_bytes=4)
    assert Labels.parse({"service": "shöp"[:3], "team": "blue"}, limits)
    with pytest.raises(LimitExceeded):
        Labels.parse({"service": "shop", "team": "blue", "c": ""}, limits)
    with pytest.raises(BadLabel):
        Labels.parse({"service": "shöp"}, limits)


def test_an_empty_label_is_an_absent_one() -> None:
    assert Labels({"service": "shop", "version": ""}) == Labels({"service": "shop"})


def test_a_window_says_its_samples_by_state() -> None:
    table = parse_folded("a 1\na;[idle] 2\nb;[gil] 4")
    assert Window(ULID, WINDOW.labels, 0, 1, 1, table).total == Counts(2, 1, 4)


def test_the_first_released_format_is_still_read() -> None:
    (window,) = decode_windows(GOLDEN.read_bytes())
    quality = replace(WINDOW.quality, missing_states=FURTHER_STATES)
    assert window == replace(WINDOW, quality=quality)
    assert encode_windows([window]) == GOLDEN.read_bytes()


def test_a_window_names_the_states_that_format_1_does_not_have() -> None:
    window = replace(WINDOW, counts={"main;work": Counts(1, 2, 3, 4, 5, 6, 7, 8, 9)})
    body = encode_windows([window])
    assert b'"format":2' in body
    assert b'"states":["cpu_wait","gil_wait","lock","poll","io","sleep"]' in body
    assert b"main;work;[cpu_wait] 4\nmain;work;[gil_wait] 5\nmain;work;[lock] 6\n" in body
    assert decode_windows(body) == [window]
    (without,) = decode_windows(header(format=2, states=[]))
    assert without.quality.missing_states == FURTHER_STATES
    (earlier,) = decode_windows(header(format=2, states=["cpu_wait", "gil_wait"]))
    assert earlier.quality.missing_states == ("lock", "poll", "io", "sleep")
