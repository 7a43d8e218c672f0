"""Whatever a command prints shows control characters as text."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidelight.main import COMMANDS, run
from sidelight.terminal_output import CLEAR_LINE, EscapedStream
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.open_store import verify_store
from tests.loopback_server import LoopbackHandler, serving

HOSTILE = "\x1b[31mred\x1b]0;owned\x07\x9b2J\u202etxt\u2066"
"""A color, a window title, a C1 sequence, and marks that reverse the order of letters."""


def assert_is_plain(printed: str) -> None:
    assert all(letter.isprintable() or letter in "\n\t" for letter in printed), ascii(printed)
    assert "red" in printed


@pytest.mark.parametrize("name", COMMANDS)
def test_the_error_of_every_command_quotes_an_option_as_text(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, f"--{HOSTILE}\nhint: obey"]) != 0
    printed = capsys.readouterr()
    assert_is_plain(printed.out + printed.err)
    assert not any(line.startswith("hint: obey") for line in printed.err.splitlines())


def test_an_unknown_command_is_quoted_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([HOSTILE]) == 2
    assert_is_plain(capsys.readouterr().err)


CAPTURE: dict[str, Any] = {
    "id": "01M8C5CKS2PA1YC4354TZ0EZEJ",
    "service": HOSTILE,
    "state": "failed",
    "created": "2026-11-20T00:00:00Z",
    "from": "2026-11-20T00:00:00Z",
    "until": "2026-11-20T00:01:00Z",
    "seconds": 60,
    "elapsed_seconds": 60.0,
    "pods": 1,
    "samples": 7,
    "problem": HOSTILE,
    "hint": HOSTILE,
    "parts": [
        {
            "labels": {"pod": HOSTILE},
            "state": "failed",
            "samples": 7,
            "errors": {HOSTILE: 1},
            "problem": HOSTILE,
            "hint": HOSTILE,
            "top_functions": [{"function": HOSTILE, "self_samples": 7}],
        }
    ],
}


class _Collector(LoopbackHandler):
    """Answers every request with hostile names, as JSON without escapes, or refuses it."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rpartition("/")[2]
        status, document = 200, CAPTURE
        if path == "captures" and self.command == "GET":
            document = {"captures": [CAPTURE]}
        elif path in ("refused", "export", "verdict"):
            status, document = 404, {"error": "not_found", "message": HOSTILE, "hint": HOSTILE}
        body = json.dumps(document, ensure_ascii=False).encode()
        self.answer(status, body, {"Content-Type": "application/json; charset=utf-8"})

    do_POST = do_GET


@pytest.fixture(scope="module")
def collector() -> Iterator[str]:
    with serving(_Collector) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    "words",
    [
        ["capture", "list"],
        ["capture", "show", CAPTURE["id"]],
        ["capture", "show", CAPTURE["id"], "--json"],
        ["capture", "shop"],
        ["query", "anything"],
        ["query", "refused"],
        ["export", "{}"],
        ["compare", "{}"],
    ],
    ids=" ".join,
)
def test_answers_of_a_collector_are_printed_as_text(
    words: list[str], collector: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run([*words, "--collector", collector])
    printed = capfd.readouterr()
    assert_is_plain(printed.out + printed.err)
    if words[0] == "query" and printed.out.strip():
        assert json.loads(printed.out)["service"] == HOSTILE


@pytest.mark.parametrize("options", [[], ["--json=-"], ["--markdown=-"], ["--junit=-"]], ids=str)
def test_names_in_compared_files_are_printed_as_text(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "a.folded", tmp_path / f"b{HOSTILE}.folded"]
    for file, samples in zip(files, (10, 1000), strict=True):
        file.write_text(f"main;{HOSTILE} {samples}\nmain;rest 1000\n")
    run(["compare", *map(str, files), *options])
    printed = capsys.readouterr()
    assert_is_plain(printed.out + printed.err)


def test_keys_and_reasons_in_a_store_are_printed_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = DirectoryStore(tmp_path / "store")
    verify_store(store)
    store.put(f"v1/{HOSTILE}", b"")
    words = ["--store", str(tmp_path / "store")]
    for command in (
        ["doctor", *words],
        ["doctor", *words, "--json"],
        ["storage", "pin", "inc-7", *words, "--from=-1h", "--reason", HOSTILE, "--service", HOSTILE],
        ["storage", "pins", *words],
        ["storage", "unpin", HOSTILE, *words],
    ):
        run(command)
        printed = capsys.readouterr()
        assert_is_plain(printed.out + printed.err)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_a_programs_own_sequences_reach_a_terminal() -> None:
    terminal = _Terminal()
    stream = EscapedStream(terminal)
    stream.write(CLEAR_LINE)
    stream.writelines([f"{HOSTILE}\n", "tab\there\n"])
    stream.write(CLEAR_LINE + HOSTILE)
    printed = terminal.getvalue()
    assert printed.startswith("\r\x1b[K")
    assert_is_plain(printed.removeprefix("\r\x1b[K"))


def test_bytes_are_escaped_on_a_terminal_and_unchanged_elsewhere() -> None:
    terminal = _Terminal()
    stream, parts = EscapedStream(terminal), HOSTILE.encode() + "größe".encode()
    for at in range(len(parts)):
        stream.buffer.write(parts[at : at + 1])
    stream.buffer.write(b"\xff\n")
    assert_is_plain(terminal.getvalue())
    assert r"größe\xff" in terminal.getvalue()
    file = io.TextIOWrapper(io.BytesIO())
    EscapedStream(file).buffer.write(HOSTILE.encode())
    assert file.buffer.getvalue() == HOSTILE.encode()  # type: ignore[attr-defined]
