"""The demo's options, and what it prints where."""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path

import pytest

from sidelight.settings import BadSetting, parse_settings
from sidelight_cli.demo.command import DESCRIPTION, provide_directory
from sidelight_cli.demo.demo_run import build_url_host, is_port_free
from sidelight_cli.demo.demo_screen import DemoScreen
from sidelight_cli.demo.settings import DemoSettings


def options(*argv: str, **environ: str) -> DemoSettings:
    return parse_settings(DemoSettings, "demo", DESCRIPTION, argv, environ)


def test_without_seconds_the_demo_is_live_and_ends_by_itself_after_a_day() -> None:
    settings = options()
    assert settings.is_live
    assert settings.browser
    assert settings.round_seconds * settings.round_count == 24 * 3600
    assert settings.window_seconds == 2.0
    assert settings.listen_address == ("127.0.0.1", 8080)


def test_with_seconds_it_measures_once() -> None:
    settings = options("--seconds", "5", "--no-browser", "--report", "out.json", "--rate", "90")
    assert not settings.is_live
    assert not settings.browser
    assert (settings.round_count, settings.round_seconds, settings.rate) == (1, 5.0, 90.0)
    assert settings.window_seconds == 1.25, "four windows fit into any round"


def test_every_option_is_a_variable_too() -> None:
    settings = options(SIDELIGHT_SECONDS="7", SIDELIGHT_BROWSER="false", SIDELIGHT_LISTEN="127.0.0.1:0")
    assert (settings.seconds, settings.browser, settings.listen_address) == (7.0, False, ("127.0.0.1", 0))


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--seconds", "1"), "from 2 to 3600"),
        (("--seconds", "soon"), "not a number"),
        (("--rate", "5000"), "from 2 to 2000"),
        (("--sample-rate", "2000"), "at most 1000"),
        (("--listen", "8080"), "not HOST:PORT"),
        (("--report", "/nowhere/out.json"), "no directory /nowhere"),
        (("--fast",), "unrecognized"),
    ],
)
def test_a_wrong_option_is_refused_with_the_reason(argv: tuple[str, ...], says: str) -> None:
    with pytest.raises(BadSetting, match=says):
        options(*argv)


def test_what_is_not_kept_is_deleted() -> None:
    with provide_directory(None) as temporary:
        (temporary / "file").touch()
    assert not temporary.exists()


def test_what_is_kept_goes_into_a_new_or_empty_directory(tmp_path: Path) -> None:
    with provide_directory(tmp_path / "new") as kept:
        (kept / "file").touch()
    assert (tmp_path / "new" / "file").exists()
    with pytest.raises(BadSetting, match="is not empty"), provide_directory(tmp_path / "new"):
        pass
    with (
        pytest.raises(BadSetting, match="Not a directory"),
        provide_directory(tmp_path / "new" / "file" / "below"),
    ):
        pass


def test_a_port_that_somebody_serves_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_port_free("127.0.0.1", port)
    assert is_port_free("127.0.0.1", 0)


def test_a_url_names_a_host_that_can_be_reached() -> None:
    assert [build_url_host(host) for host in ("0.0.0.0", "::1", "10.0.0.1")] == [
        "127.0.0.1",
        "[::1]",
        "10.0.0.1",
    ]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(columns: int = 80) -> tuple[Terminal, DemoScreen]:
    stream = Terminal()
    return stream, DemoScreen(stream, {"TERM": "xterm"}, size=lambda: os.terminal_size((columns, 24)))


def test_a_terminal_gets_its_block_redrawn_in_place_below_the_lines() -> None:
    stream, screen = terminal()
    screen.show_block("one\ntwo")
    screen.show_block("three")
    screen.print_line("line")
    assert stream.getvalue() == "one\ntwo\n\x1b[2F\x1b[Jthree\n\x1b[1F\x1b[Jline\nthree\n"


def test_a_terminal_keeps_a_block_that_is_left() -> None:
    stream, screen = terminal()
    screen.show_block("one")
    screen.release_block()
    screen.print_line("done")
    screen.show_block("two")
    assert stream.getvalue() == "one\ndone\ntwo\n"


def test_a_terminal_gets_every_new_block_and_no_block_twice() -> None:
    stream, screen = terminal()
    for block in ("one", "one", "two"):
        screen.show_block(block, is_progress=True)
    assert stream.getvalue() == "one\n\x1b[1F\x1b[Jtwo\n"


def test_a_block_wider_than_the_terminal_is_deleted_with_its_wrapped_lines() -> None:
    stream, screen = terminal(columns=4)
    screen.show_block("12345678\n123456789")
    screen.show_block("x")
    assert stream.getvalue().endswith("\x1b[5F\x1b[Jx\n")


def test_a_file_gets_plain_lines_and_a_passing_block_every_five_seconds_at_most() -> None:
    stream, now = io.StringIO(), [100.0]
    screen = DemoScreen(stream, {"TERM": "xterm"}, clock=lambda: now[0])
    assert screen.columns is None
    screen.show_block("one", is_progress=True)
    for now[0], block in [(101.0, "two"), (104.9, "three"), (105.0, "four"), (120.0, "four")]:
        screen.show_block(block, is_progress=True)
    screen.print_line("line")
    screen.show_block("last")
    assert stream.getvalue() == "one\nfour\nline\nlast\n"


def test_a_browser_is_opened_on_a_desktop_alone_and_unless_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    DemoScreen(io.StringIO(), {"DISPLAY": ":0"}).open_page("http://x")
    DemoScreen(Terminal(), {}).open_page("http://x")
    DemoScreen(Terminal(), {"DISPLAY": ":0"}, browser=False).open_page("http://x")
    assert opened == []
    DemoScreen(Terminal(), {"DISPLAY": ":0"}).open_page("http://x")
    assert opened == ["http://x"]
