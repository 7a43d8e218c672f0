from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.terminal_width import (
    ELLIPSIS,
    escape_unprintable,
    fit_to_width,
    measure_width,
    truncate_to_width,
)

ANYTHING = st.text(st.characters())


@given(ANYTHING)
def test_what_is_shown_can_neither_act_nor_break_a_line(text: str) -> None:
    assert all(letter.isprintable() or letter in "\u200c\u200d" for letter in escape_unprintable(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain (a.py:1)", "plain (a.py:1)"),
        ("größe 計算", "größe 計算"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\nb\r", r"a\nb\r"),
        ("\u202eevil", r"\u202eevil"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_would_act_is_written_as_python_writes_it(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown


@given(ANYTHING.map(escape_unprintable), st.integers(0, 12))
def test_a_text_is_cut_to_the_cells_there_are_and_says_so(text: str, cells: int) -> None:
    short = truncate_to_width(text, cells)
    assert measure_width(short) <= cells
    assert short == text or cells == 0 or short.endswith(ELLIPSIS)
    assert measure_width(fit_to_width(text, cells)) == cells


def test_wide_letters_take_two_cells_and_combining_marks_none() -> None:
    assert [measure_width(text) for text in ("abc", "計算", "e\u0301", "a\u200db")] == [3, 4, 1, 2]
    assert truncate_to_width("計算計算", 5) == "計算" + ELLIPSIS
    assert truncate_to_width("計算計算", 4) == "計" + ELLIPSIS
