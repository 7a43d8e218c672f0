"""The native kernel reads a body as the reference does, and refuses what it refuses in the same words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sidelight_collector.ingest import parsing
from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.stack_hashing import MAX_SAMPLES, hash_stack
from sidelight_model.counts import STATES, Counts
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.import_formats.folded_input import PYSPY_COMMENT_PREFIX, is_plain_folded, read_folded
from sidelight_model.window import WindowLimits, encode_windows
from tests.collector.stored_windows import window
from tests.model.strategies import deep, stacks
from tests.model.strategies import windows as any_windows

Read = TypeVar("Read")

LIMITS = WindowLimits(max_windows=3, max_stacks=6, max_depth=4)
WIDE = WindowLimits()
HEADER = encode_windows([replace(window(), id=f"{0:026d}", counts={})]).rstrip(b"\n")

counts = st.one_of(
    st.integers(0, 9).map(str),
    st.sampled_from(
        ["999999999999999", "1000000000000000", "9223372036854775807", "007", "-1", "1.5", "", "²", "٣"]
    ),
)
states = st.sampled_from(["", "", ";[idle]", ";[gil]", ";[gil];[idle]", "[idle]", "[gil]"])
odd = st.sampled_from(
    [
        *("", "\r", " ", "\t", "a", " 1", "  1", ";a 1", "a; 1", "a;;b 1", "a;b;c;;d;e 1", ";;;;;;;;;;; 1"),
        *("[idle] 1", ";[idle] 1", "a;[idle];b 2", "(truncated) 3", "a;(truncated);b 4", "a(truncated) 5"),
        *(
            "py-spy> 5 samples",
            "py-spy> 5 \udcff",
            "#",
            "# {}",
            " # 1",
            "a 1 2",
            "a\xa01",
            "a\x0b1 \x851",
            "\udcff 1",
            "é\udce9 1",
        ),
        *(f"{'f;' * 9}leaf 1", "a;b;c;d 1", "a;b;c;d;e 1", "a;b;(truncated);e 1", "a;b;(truncated);d 2"),
    ]
)
lines = st.one_of(
    st.builds("{}{} {}{}".format, stacks, states, counts, st.sampled_from(["", "", "\r", " "])), odd
).map(lambda line: line.encode(errors="surrogateescape"))
headers = st.one_of(
    any_windows.map(lambda one: encode_windows([replace(one, counts={})]).rstrip(b"\n")),
    st.sampled_from([HEADER, HEADER + b"\r", HEADER[:-1], HEADER.replace(b'"shop"', b'""'), b"# []", b"#"]),
)
bodies = st.lists(st.one_of(headers, lines, lines), max_size=12).map(b"\n".join)
plain_bodies = st.lists(lines, max_size=12).map(b"\n".join)


def outcome(read: Callable[[], Read]) -> Read | tuple[type, str, str, str]:
    try:
        return read()
    except SidelightError as refused:
        return type(refused), refused.message, refused.hint, refused.reason


def is_the_same(body: bytes, limits: WindowLimits) -> None:
    assert NATIVE is not None
    assert outcome(lambda: parsing.parse_windows(body, limits, NATIVE)) == outcome(
        lambda: parsing.parse_windows(body, limits, None)
    )
    assert outcome(lambda: parsing.parse_folded_profile(body, limits, NATIVE)) == outcome(
        lambda: parsing.parse_folded_profile(body, limits, None)
    )


@given(st.lists(any_windows, max_size=4), st.sampled_from([LIMITS, WIDE]))
def test_windows_are_read_as_the_reference_reads_them(windows: list[object], limits: WindowLimits) -> None:
    is_the_same(encode_windows(windows), limits)  # type: ignore[arg-type]


@given(bodies, st.sampled_from([LIMITS, WIDE, replace(LIMITS, max_depth=1)]))
@example(HEADER + b"\n" + b"a 999999999999999\n" * 20_000, WIDE)
@example(b"main 0\n  1", WIDE)
@example(HEADER + b"\n" + b"a;(truncated) 999999999999999\n" * 20_000, WIDE)
@example(HEADER + f"\na {MAX_SAMPLES}".encode(), WIDE)
@example(HEADER + f"\na {MAX_SAMPLES}\nb 1".encode(), WIDE)
@example(b"\n \n\t\r\n" + HEADER + b"\na 1", WIDE)
@example(b"\n \n" + b" " + HEADER, WIDE)
@example(b"", WIDE)
@example(b"\n\n", WIDE)
@example(HEADER, WIDE)
@example(b"\n".join([HEADER] * 4), LIMITS)
@example(b"\n".join([HEADER, b"a 1", HEADER, b"a;\xc3\n\xa9 1"]), WIDE)
def test_any_body_is_read_or_refused_as_by_the_reference(body: bytes, limits: WindowLimits) -> None:
    is_the_same(body, limits)


@pytest.mark.parametrize(
    "depth", [LIMITS.max_depth - 1, LIMITS.max_depth, LIMITS.max_depth + 1, 4096, 4097, 20_000]
)
def test_stacks_at_the_limit_of_depth_are_read_as_by_the_reference(depth: int) -> None:
    body = f"{deep(depth)};[gil] 3\n{deep(depth, 'other')} 4\n".encode()
    for limits in (LIMITS, WIDE, replace(WIDE, max_depth=depth)):
        is_the_same(HEADER + b"\n" + body, limits)
    first, *_ = parsing.parse_folded_profile(body, replace(WIDE, max_depth=depth)).stacks.stacks
    assert len(first.split(";")) == depth


@given(plain_bodies)
def test_the_kernel_refuses_what_the_reference_refuses_and_nothing_else(body: bytes) -> None:
    """Else the reference would read it again in silence: right, and slow."""
    assert NATIVE is not None
    assume(is_plain_folded(body))
    # A count without a stack is rare, and only the reference reads it.
    assume(not any(line.strip().isdigit() for line in body.split(b"\n")))
    limits = {"max_stacks": LIMITS.max_stacks, "max_depth": LIMITS.max_depth}
    by_reference = outcome(lambda: read_folded(body, **limits))
    try:
        NATIVE.fold(
            body, remark=PYSPY_COMMENT_PREFIX, max_stacks=LIMITS.max_stacks, max_depth=LIMITS.max_depth
        )
    except ValueError:
        assert isinstance(by_reference, tuple)
    else:
        assert not isinstance(by_reference, tuple)


@pytest.mark.parametrize("native", [NATIVE, None], ids=["native", "reference"])
def test_counts_of_any_size_are_added_up_or_refused(native: object) -> None:
    body = b"a 999999999999999\n" * 20_000 + b"b 1\n"
    counted = parsing.parse_folded_profile(body, WIDE, native).stacks
    assert counted.samples == 20_000 * 999_999_999_999_999 + 1 > 2**63
    assert dict(zip(counted.stacks, counted.counts[STATES.index("running")], strict=True)) == {
        "a": 2**63 - 1,
        "b": 1,
    }
    with pytest.raises(SidelightError) as refused:
        parsing.parse_windows(HEADER + b"\n" + body, WIDE, native)
    assert refused.value.reason is Reason.TOO_LARGE
    assert str(counted.samples) in refused.value.message


@pytest.mark.parametrize("native", [NATIVE, None], ids=["native", "reference"])
def test_rows_come_in_the_order_of_their_hashes_which_are_those_of_the_text(native: object) -> None:
    text = "größe;b 1\nb 0\na;[idle] 2\nz 3\n"
    counted = parsing.parse_folded_profile(text.encode(), WIDE, native).stacks
    assert list(counted.hashes) == sorted(map(hash_stack, ["größe;b", "a", "z"]))
    assert [hash_stack(stack) for stack in counted.stacks] == list(counted.hashes)
    assert tuple(map(sum, counted.counts)) == Counts(2, 4, 0)
