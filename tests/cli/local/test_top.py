"""`sidelight top` in a real terminal and into a pipe."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cli.local.conftest import STORY, Start, Tool, states
from tests.cli.local.terminals import ENTER, LEAVE, Terminal, terminal
from tests.processes import eventually


def top(*argv: str, **options: object) -> AbstractContextManager[Terminal]:
    return terminal("top", *argv, **options)


def test_the_table_is_live_and_q_gives_the_terminal_back(start: Start) -> None:
    target = start()
    with top("--pid", str(target.pid)) as one:
        page = one.shows("compute (story.py:", "mode ", "2 threads", "q quit")
        assert len(page) == 24
        assert all(len(line) <= 100 for line in page)
        assert f"process {target.pid} python" in page[0]
        assert "target lost" in page[1]
        assert "SELF %" in page[4]
        one.shows("compute (story.py:", "last 2 s")
        assert one.attributes() != one.before
        one.type("q")
        assert one.ended() == 0
        assert one.attributes() == one.before
        assert one.text.index(ENTER) < one.text.index(LEAVE)
        assert one.text.rstrip().endswith(LEAVE)
    assert "t" not in states(target.pid).lower()


def test_keys_sort_and_turn_the_table(start: Start) -> None:
    with top("--pid", str(start().pid), "--refresh-seconds", "0.3") as one:
        one.shows("▾SELF %", "are cpu", "compute (story.py:")
        one.type("t")
        page = one.shows("▾TOTAL %")
        assert any("<module>" in line for line in page)
        one.type("c")
        one.shows("are gil ·")
        one.type("c")
        one.shows("are gil_wait")
        one.type("c")
        one.shows("are off_cpu", "rest (story.py:")
        one.type("c")
        one.shows("are wall", "rest (story.py:")
        one.type("a")
        one.shows("since the start")
        one.type(" ")
        one.shows("held")
        one.type("\x1b[A")
        one.type("q")
        assert one.ended() == 0


def test_the_table_follows_the_size_of_the_terminal(start: Start) -> None:
    with top("--pid", str(start().pid), columns=120, rows=30) as one:
        assert len(one.shows("IDLE %", "compute (story.py:")) == 30
        one.resize(44, 8)
        eventually("the page is small", lambda: one.fits(44, 8))
        assert not any("IDLE %" in line for line in one.page())
        one.resize(5, 2)
        eventually("the page is tiny", lambda: one.fits(5, 2))
        one.resize(200, 40)
        one.shows("IDLE %", "compute (story.py:")
        one.type("q")
        assert one.ended() == 0


@pytest.mark.parametrize("ending", ["ctrl-c", "SIGTERM", "SIGHUP"])
def test_however_it_is_ended_the_terminal_is_given_back(start: Start, ending: str) -> None:
    with top("--pid", str(start().pid)) as one:
        one.shows("q quit")
        if ending == "ctrl-c":
            one.type("\x03")
        else:
            os.kill(one.process.pid, signal.Signals[ending])
        assert one.ended() == 0
        assert one.attributes() == one.before
        assert LEAVE in one.text


def test_when_the_target_ends_the_last_table_stays_to_be_read(start: Start) -> None:
    target = start()
    with top("--pid", str(target.pid)) as one:
        one.shows("compute (story.py:")
        target.end()
        assert one.ended() == 0
        eventually("it says so", lambda: "has ended" in one.text)
        assert "compute (story.py:" in one.text.rpartition(LEAVE)[2]
        assert one.attributes() == one.before


def test_suspended_it_gives_the_terminal_back_and_takes_it_again(start: Start) -> None:
    target = start()
    with top("--pid", str(target.pid)) as one:
        one.shows("compute (story.py:")
        one.type("\x1a")
        eventually("it stands still", lambda: set(states(one.process.pid)) == {"T"})
        assert one.attributes() == one.before
        assert "t" not in states(target.pid).lower()
        drawn = one.text.count(ENTER)
        os.kill(one.process.pid, signal.SIGCONT)
        eventually("it draws again", lambda: one.text.count(ENTER) == drawn + 1)
        one.type("q")
        assert one.ended() == 0


def test_a_terminal_that_cannot_be_drawn_on_gets_one_table_after_another(start: Start) -> None:
    with top("--pid", str(start().pid), "--refresh-seconds", "0.5", term="dumb") as one:
        eventually("two tables", lambda: one.text.count("FUNCTION") >= 2)
        one.type("\x03")
        assert one.ended() == 0
        assert "\x1b" not in one.text


def test_into_a_pipe_it_prints_one_table_after_another(start: Start, tool: Tool) -> None:
    printed = tool.begin("top", "-p", str(start().pid), "--refresh-seconds", "0.5", "--lines")
    eventually("two tables", lambda: printed.said().count("FUNCTION") >= 2)
    eventually("one with work", lambda: "compute (story.py:" in printed.said())
    assert printed.end(signal.SIGTERM) == 0
    assert "\x1b" not in printed.said()


def test_once_it_prints_one_table_of_so_many_rows(start: Start, tool: Tool) -> None:
    argv = ("--refresh-seconds", "2", "--once", "--rows", "2", "--sort", "total")
    done = tool.run("top", "--pid", str(start().pid), *argv)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("FUNCTION") == 1
    assert len(done.stdout.splitlines()) == 8


def test_the_time_that_was_given_ends_it(start: Start, tool: Tool) -> None:
    done = tool.run("top", "--pid", str(start().pid), "--seconds", "1.5")
    assert done.returncode == 0, done.stderr
    assert "FUNCTION" in done.stdout


def test_the_end_of_the_target_ends_the_tables(start: Start, tool: Tool) -> None:
    target = start()
    printed = tool.begin("top", "--pid", str(target.pid))
    eventually("a table", lambda: "compute (story.py:" in printed.said())
    target.end()
    assert printed.process.wait(60) == 0, printed.said()
    assert f"process {target.pid} python story.py has ended" in printed.said()


def test_a_program_is_started_shown_and_ended() -> None:
    with top("--", sys.executable, str(STORY)) as one:
        page = one.shows("compute (story.py:")
        pid = int(page[0].split()[1])
        assert "ready" not in one.text
        one.type("q")
        assert one.ended() == 0
        eventually("the program is gone", lambda: not Path(f"/proc/{pid}").exists())


def test_children_are_added_up_when_asked(start: Start) -> None:
    target = start("600", "2")
    with top("--pid", str(target.pid), "-s", "--sort", "total") as one:
        one.shows("and 2 below it", "child_work (story.py:")
        one.type("q")
        assert one.ended() == 0


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ((), 2, "either --pid or a program"),
        (("--", "no-such-program"), 1, "cannot start no-such-program"),
        (("--pid", "4194305"), 1, "there is no process 4194305"),
        (("--pid", "1", "--sort", "colour"), 2, "not one of self, total"),
        (("--pid", "1", "--refresh-seconds", "0"), 2, "not above zero"),
    ],
)
def test_a_mistake_is_told_before_the_terminal_is_taken(argv: tuple[str, ...], code: int, said: str) -> None:
    with top(*argv) as one:
        assert one.ended() == code
        eventually("the error and its hint are shown", lambda: said in one.text and "hint: " in one.text)
        assert ENTER not in one.text
