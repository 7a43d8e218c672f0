from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from sidelight_model.counts import STATES, Counts, ProfileType
from sidelight_model.errors import BadFolded, LimitExceeded
from sidelight_model.folded import Stack, parse_folded, render_folded, split_stack
from sidelight_model.frames import TRUNCATED, Frame, unescape_frame
from tests.model.strategies import deep, tables

GOLDEN = Path(__file__).parent / "golden"


@given(tables)
def test_reading_undoes_writing(table: dict[Stack, Counts]) -> None:
    assert parse_folded(render_folded(table, None)) == table
    assert parse_folded(render_folded(table, None).encode()) == table


@given(tables)
def test_equal_counts_give_equal_text(table: dict[Stack, Counts]) -> None:
    assert render_folded(dict(reversed(table.items()))) == render_folded(table)


@given(tables)
def test_each_type_writes_its_own_samples(table: dict[Stack, Counts]) -> None:
    for kind in ProfileType:
        for states in (True, False):
            written = parse_folded(render_folded(table, kind, states=states))
            assert sum(sum(count) for count in written.values()) == sum(
                c.for_type(kind) for c in table.values()
            )


def test_the_state_is_a_last_pseudo_frame() -> None:
    text = (
        "main;work;[idle] 5\nmain;work 3\nmain;work;[gil] 2\nmain;work;[cpu_wait] 1\nmain;work;[gil_wait] 7\n"
        "main;work;[lock] 6\nmain;work;[poll] 4\nmain;work;[io] 8\nmain;work;[sleep] 9\n"
    )
    table = parse_folded(text)
    assert table == {"main;work": Counts(5, 3, 2, 1, 7, 6, 4, 8, 9)}
    assert render_folded(table) == text


def test_each_state_counts_in_the_profile_types_of_its_time() -> None:
    counts = Counts(*(1 << at for at in range(len(STATES))))
    assert {kind: counts.for_type(kind) for kind in ProfileType} == {
        ProfileType.WALL: 511,
        ProfileType.CPU: 6,
        ProfileType.GIL: 4,
        ProfileType.GIL_WAIT: 16,
        ProfileType.OFF_CPU: 1 + 32 + 64 + 128 + 256,
        ProfileType.TASKS: 512 + 1024 + 2048,
    }
    assert counts.plus(counts) == counts.times(2) == Counts(*(2 << at for at in range(len(STATES))))


def test_the_count_is_what_follows_the_last_space() -> None:
    assert parse_folded("my func (my app.py:3);other 1 (x.py:2) 7") == {
        "my func (my app.py:3);other 1 (x.py:2)": Counts(running=7)
    }


def test_only_a_newline_ends_a_line() -> None:
    name = "a\u2028b\x0bc\x85d"
    assert parse_folded(f"{name} 1\r\n{name} 2\n\n") == {name: Counts(running=3)}


@pytest.mark.parametrize(
    "bad",
    [
        "main",
        "main x",
        "main -1",
        "main 1.5",
        "main ²",
        " 5",
        "a;;b 1",
        ";a 1",
        "a; 1",
        "[idle] 3",
        "[cpu_wait] 3",
        "[gil_wait] 3",
    ],
)
def test_a_malformed_line_is_refused_with_its_number(bad: str) -> None:
    with pytest.raises(BadFolded) as refused:
        parse_folded(f"main 1\nmain;work 2\n{bad}\nmain 1\n")
    assert refused.value.line == 3
    assert "line 3" in refused.value.message
    assert refused.value.hint


def test_bytes_that_are_not_utf8_are_refused_with_their_line() -> None:
    with pytest.raises(BadFolded) as refused:
        parse_folded(b"main 1\nm\xffain 1\n")
    assert refused.value.line == 2


def test_as_many_stacks_as_allowed_are_read_and_not_one_more() -> None:
    assert len(parse_folded("a 1\nb 1\na 1\n", max_stacks=2)) == 2
    with pytest.raises(LimitExceeded) as refused:
        parse_folded("a 1\nb 1\nc 1\n", max_stacks=2)
    assert refused.value.reason == "too_many_stacks"


def test_a_stack_as_deep_as_allowed_is_kept_and_a_deeper_one_is_cut_visibly() -> None:
    (whole,) = parse_folded(f"{deep(100)} 1", max_depth=100)
    assert TRUNCATED not in split_stack(whole)
    (cut,) = parse_folded(f"{deep(101)} 1", max_depth=100)
    assert split_stack(cut)[50] == TRUNCATED
    assert len(split_stack(cut)) == 100


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.folded")), ids=lambda path: path.stem)
def test_what_py_spy_really_writes_is_read_without_losing_a_sample(path: Path) -> None:
    text = path.read_text()
    table = parse_folded(text)
    expected = sum(int(line.rpartition(" ")[2]) for line in text.split("\n") if line)
    assert sum(count.wall for count in table.values()) == expected > 0
    assert parse_folded(render_folded(table)) == table


def golden(name: str) -> dict[Stack, Counts]:
    return parse_folded((GOLDEN / f"{name}.folded").read_bytes())


def test_golden_files_cover_every_trap() -> None:
    names = {path.stem.partition("-")[2] for path in GOLDEN.glob("*.folded")}
    assert {"threads", "recursion", "asyncio", "gevent", "non-ascii", "spaces", "newlines"} <= names


@pytest.mark.parametrize("name", ["newlines", "thread-newlines"])
def test_a_newline_that_py_spy_wrote_into_a_name_is_refused_and_ours_is_not(name: str) -> None:
    with pytest.raises(BadFolded):
        parse_folded((GOLDEN / f"pyspy-{name}.txt").read_bytes())
    assert golden(f"native-{name}")


def test_escaped_names_are_whole_frames_where_py_spy_cuts_them() -> None:
    files = {Frame.parse(unescape_frame(split_stack(stack)[-1])).file for stack in golden("native-newlines")}
    assert {"my app; v 2.py", "line\nend\r.py", "100%3B.py"} <= files


def test_recursion_a_thousand_deep_is_whole() -> None:
    assert max(len(split_stack(stack)) for stack in golden("native-recursion")) > 1000
    assert max(len(split_stack(stack)) for stack in golden("pyspy-recursion")) > 1000
