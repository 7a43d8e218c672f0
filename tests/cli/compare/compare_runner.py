"""Run `sidelight compare` to its end."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass

from sidelight import main

SIDES = ("--baseline", "version:1", "--comparison", "version:2", '{service="shop"}')


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code of a command and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def compare(*argv: str, url: str = "") -> Ended:
    """Run the command in this process; `url` is the collector's.

    Its exit codes, signals and terminal output as a process of its own are tested in `test_waiting`,
    `test_compare_collector` and `test_ci_docs`.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with _environment(url), redirect_stdout(out), redirect_stderr(err):
        try:
            code = main.run(["compare", *argv])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
    return Ended(code, *(_text(stream) for stream in (out, err)))


@contextmanager
def _environment(url: str) -> Iterator[None]:
    """An environment without settings but the collector's address, on a terminal of 100 columns."""
    before = dict(os.environ)
    for name in before:
        if name.startswith("SIDELIGHT_"):
            del os.environ[name]
    os.environ["COLUMNS"] = "100"
    if url:
        os.environ["SIDELIGHT_COLLECTOR"] = url
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    content: bytes = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return content.decode()
