from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.frames import (
    TRUNCATED,
    Frame,
    escape_frame,
    strip_line_number,
    truncate_stack,
    unescape_frame,
)
from tests.model.strategies import texts


@given(texts)
def test_escaping_can_be_undone(text: str) -> None:
    assert unescape_frame(escape_frame(text)) == text


@given(texts)
def test_an_escaped_frame_never_ends_a_frame_or_a_line(text: str) -> None:
    assert not set(escape_frame(text)) & {";", "\n", "\r"}


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("handle (app.py:3)", "handle (app.py:3)"),
        ("with spaces (my app.py:3)", "with spaces (my app.py:3)"),
        ("naïve (ünï.py:3)", "naïve (ünï.py:3)"),
        ("100% (a.py:1)", "100% (a.py:1)"),
        ("f (a;b.py:1)", "f (a%3Bb.py:1)"),
        ("f (a\nb.py:1)", "f (a%0Ab.py:1)"),
        ("f (a%3Bb.py:1)", "f (a%253Bb.py:1)"),
        ("[idle]", "%5Bidle]"),
        ("[gil]", "%5Bgil]"),
        ("[cpu_wait]", "%5Bcpu_wait]"),
        ("[gil_wait]", "%5Bgil_wait]"),
        ("[sleep]", "%5Bsleep]"),
        ("[running]", "[running]"),
        ("#comment", "%23comment"),
        ("[other]", "[other]"),
    ],
)
def test_only_what_would_be_misread_is_escaped(text: str, escaped: str) -> None:
    assert escape_frame(text) == escaped


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("handle (app.py:3)", Frame("handle", "app.py", 3)),
        ("<listcomp> (shop/cart (old).py:12)", Frame("<listcomp> (shop/cart", "old).py", 12)),
        ("handle (app.py)", Frame("handle", "app.py")),
        ("epoll_wait", Frame("epoll_wait")),
        ("f (C:12)", Frame("f", "C", 12)),
    ],
)
def test_a_frame_is_read_from_its_text(text: str, frame: Frame) -> None:
    assert Frame.parse(text).text == text
    assert Frame.parse(text).line == frame.line


@given(texts, texts, st.integers(0, 10**6))
def test_folding_lines_away_leaves_function_and_file(function: str, file: str, line: int) -> None:
    assert strip_line_number(Frame(function, file, line).text) == strip_line_number(
        Frame(function, file, line + 1).text
    )


@given(st.lists(st.text("ab", min_size=1, max_size=2), max_size=12), st.integers(1, 12))
def test_clipping_keeps_both_ends_and_shows_the_cut(stack: list[str], depth: int) -> None:
    clipped = truncate_stack(stack, depth)
    assert len(clipped) == min(len(stack), depth)
    if len(stack) <= depth:
        assert list(clipped) == stack
        return
    cut = clipped.index(TRUNCATED)
    assert list(clipped[:cut]) == stack[:cut]
    assert list(clipped[cut + 1 :]) == stack[len(stack) - (depth - cut - 1) :]
    assert 0 <= cut - (depth - 1 - cut) <= 1
