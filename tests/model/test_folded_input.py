"""Folded text of other tools: marks, comments, other frames, ids and damaged lines."""

from __future__ import annotations

import pytest

from sidelight_model.errors import BadFolded
from sidelight_model.folded import parse_folded
from sidelight_model.frames import Frame
from sidelight_model.import_formats.folded_input import (
    MAX_LISTED_LINES,
    DifferentialProfile,
    is_plain_folded,
    parse_colon_frame,
    read_folded,
)

TEXT = "main (a.py:1);größe (b.py:2) 3\nmain (a.py:1);[idle] 4\n"
PLAIN = parse_folded(TEXT)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + TEXT.encode(),
        b"\xff\xfe" + TEXT.encode("utf-16-le"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        TEXT.replace("\n", "\r\n").encode(),
        ("# about\n" + TEXT + "# austin: 3.2\n\n").encode(),
        ("py-spy> Sampling process 100 times a second\n" + TEXT).encode(),
    ],
)
def test_marks_comments_and_line_ends_are_no_part_of_stacks(content: bytes) -> None:
    found = read_folded(content)
    assert found.stacks == PLAIN
    assert found.unreadable_lines.count == 0


COLON = (
    "tid:7680;<frozen runpy>:_run_code:87;C:\\spin.py:<module>:7;~:<GC>:0 30\ntid:7681;spin.py:inner:4 5\n"
)


def test_frames_with_colons_are_functions_with_a_file_and_a_line() -> None:
    assert read_folded(COLON.encode()).stacks == parse_folded(
        "_run_code (<frozen runpy>:87);<module> (C:\\spin.py:7);<GC> 30\ninner (spin.py:4) 5"
    )
    assert parse_colon_frame("a.py:f:0") == Frame("f", "a.py")
    assert parse_colon_frame("no place") == Frame("no place")


def test_ids_of_processes_and_threads_are_left_out_and_names_stay() -> None:
    text = (
        'process 12:"python a.py";thread (0x7F12): MainThread;main (a.py:1) 3\n'
        'process 13:"python a.py";thread (0x7F13);main (a.py:1) 4\n'
        "thread (140): worker;main (a.py:1) 5\n"
    )
    assert read_folded(text.encode()).stacks == parse_folded(
        "thread MainThread;main (a.py:1) 3\nmain (a.py:1) 4\nthread worker;main (a.py:1) 5"
    )


def test_a_function_named_like_a_place_among_others_stays_as_it_is() -> None:
    text = "main (a.py:1);Foo::bar:3 1\n"
    assert read_folded(text.encode()).stacks == parse_folded(text)


def damaged(lines: int, *bad: int) -> bytes:
    return b"\n".join(b"main;wo\xffrk" if at in bad else b"main;work 2" for at in range(1, lines + 1))


def test_a_damaged_line_of_a_hundred_is_left_out_and_named() -> None:
    found = read_folded(damaged(100, 40))
    assert found.stacks == parse_folded("main;work 198")
    assert found.unreadable_lines.count == 1
    assert found.unreadable_lines.errors[0].message.startswith("line 40: not UTF-8")
    cut = read_folded(TEXT.encode() * 60 + b"main (a.py:1);wor")
    assert cut.unreadable_lines.count == 1
    assert sum(counts.wall for counts in cut.stacks.values()) == 60 * 7


@pytest.mark.parametrize(("lines", "bad"), [(99, (40,)), (100, (40, 7)), (1, (1,))])
def test_more_damaged_lines_are_refused_with_the_first(lines: int, bad: tuple[int, ...]) -> None:
    with pytest.raises(BadFolded) as refused:
        read_folded(damaged(lines, *bad))
    assert refused.value.line == min(bad)


def test_only_the_first_damaged_lines_are_listed() -> None:
    found = read_folded(damaged(2000, *range(5, 25)))
    assert found.unreadable_lines.count == 20
    assert [error.line for error in found.unreadable_lines.errors] == list(range(5, 5 + MAX_LISTED_LINES))


def test_two_counts_on_each_line_are_no_profile() -> None:
    with pytest.raises(DifferentialProfile) as refused:
        read_folded(b"main;a 3 5\nmain;b 0 2\n")
    assert "two counts" in refused.value.message
    assert read_folded(b"main;version 2 5\nmain;b 2\n").stacks == parse_folded("main;version 2 5\nmain;b 2")


@pytest.mark.parametrize(
    ("content", "is_plain"),
    [
        (TEXT.encode(), True),
        (b"", True),
        (b"# note\na 1\n", False),
        (b"a 1\n# note\n", False),
        (b"\xef\xbb\xbfa 1\n", False),
        (COLON.encode(), False),
        (b"thread (0x1): w;a 1\n", False),
        (b"a 1 2\n", False),
        (b"py-spy> hello\na 1\n", True),
    ],
)
def test_plain_text_needs_no_conversion(content: bytes, is_plain: bool) -> None:
    assert is_plain_folded(content) is is_plain
    if is_plain:
        lines = [line for line in content.decode().split("\n") if not line.startswith("py-spy> ")]
        assert read_folded(content).stacks == parse_folded("\n".join(lines))
