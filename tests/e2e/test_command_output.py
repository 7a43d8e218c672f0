"""What a command cannot write or encode is an error or a replacement, never a traceback."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.open_store import verify_store

FOLDED = "main (a.py:1);größe (a.py:2) 30\nmain (a.py:1);wait (a.py:3) 30\n"
OTHER = "main (a.py:1);größe (a.py:2) 90\nmain (a.py:1);wait (a.py:3) 30\n"
BUSY = "import time\nwhile time.process_time() < 2: pass"
COMMANDS = {
    "help": ("--help",),
    "version": ("--version",),
    "help of a command": ("compare", "--help"),
    "report": ("compare", "old", "new"),
    "report as JSON": ("compare", "old", "new", "--json", "-"),
    "report as Markdown": ("compare", "old", "new", "--markdown", "-"),
    "report as XML": ("compare", "old", "new", "--junit", "-", "--fail-on", "function:wait>+90%"),
    "doctor": ("doctor", "--store", "store"),
    "doctor as JSON": ("doctor", "--store", "store", "--json"),
    "storage": ("storage", "pins", "--store", "store"),
    "recording": ("record", "-o", "-", "--", sys.executable, "-c", BUSY),
    "table": ("top", "--once", "--", sys.executable, "-c", BUSY),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outputs")
    (path / "old").write_text(FOLDED)
    (path / "new").write_text(OTHER)
    verify_store(DirectoryStore(path / "store"))
    return path


def sidelight(folder: Path, *argv: str, stdout: int, **variables: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "sidelight.main", *argv]
    environment = {**os.environ, "COLUMNS": "100", **variables}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_an_error_in_a_line(folder: Path, name: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = sidelight(folder, *COMMANDS[name], stdout=full.fileno())
    said = done.stderr.decode()
    assert "error: cannot write to standard output: No space left on device\n" in said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert done.returncode in (1, 73)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_reader_that_goes_away_is_no_error(folder: Path, name: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = sidelight(folder, *COMMANDS[name], stdout=writing)
    finally:
        os.close(writing)
    said = done.stderr.decode()
    assert "error:" not in said
    assert "Exception ignored" not in said
    assert done.returncode in (0, 1 if name.startswith("doctor") else 0)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_closed_standard_output_is_no_error(folder: Path, name: str) -> None:
    command = shlex.join([sys.executable, "-m", "sidelight.main", *COMMANDS[name]])
    done = subprocess.run(
        ["sh", "-c", f"exec {command} >&-"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode in (0, 1 if name.startswith("doctor") else 0)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize("name", ["report", "report as JSON", "report as Markdown", "report as XML", "table"])
def test_any_encoding_gives_the_result_with_similar_characters(
    folder: Path, name: str, encoding: str
) -> None:
    done = sidelight(folder, *COMMANDS[name], stdout=subprocess.PIPE, PYTHONIOENCODING=encoding)
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    is_document = name.startswith("report as")
    text = done.stdout.decode("utf-8" if is_document else encoding)
    if name != "table":
        assert "gr" in text
        assert ("größe" in text) is (is_document or encoding != "ascii")
    if name == "report" and encoding == "ascii":
        assert "gr??e" in text
        assert "-25" in text  # the minus is U+2212 elsewhere
