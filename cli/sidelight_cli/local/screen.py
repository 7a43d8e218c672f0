"""A terminal as a page that is drawn over and over, and given back as it was found."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import termios
import tty
from collections.abc import Sequence
from enum import StrEnum
from types import TracebackType
from typing import Any

_ENTER = "\x1b[?1049h\x1b[?25l"  # the other page, without a cursor
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|O.|.)?", re.DOTALL)
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Style(StrEnum):
    """How a line is set; no colours, which are read badly on some ground or other."""

    PLAIN = ""
    BOLD = "\x1b[1m"
    REVERSED = "\x1b[7m"


StyledLine = tuple[str, Style]


class TerminalScreen:
    """While entered, the terminal belongs to us: `draw` pages, read `read_keys`."""

    def __init__(self) -> None:
        self._out = sys.stdout.fileno()
        self._in = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else -1
        self._encoding = sys.stdout.encoding or "utf-8"
        self._previous_mode: list[Any] | None = None

    def __enter__(self) -> TerminalScreen:
        self.enter_page()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    @property
    def input_files(self) -> list[int]:
        """The files that keys come from."""
        return [] if self._in < 0 else [self._in]

    def enter_page(self) -> None:
        if self._in >= 0:
            self._previous_mode = termios.tcgetattr(self._in)
            tty.setcbreak(self._in)  # keys one by one and unseen; Ctrl-C and Ctrl-Z stay signals
        self._write(_ENTER)

    def restore(self) -> None:
        """Everything as it was; does not fail where the terminal has gone."""
        with contextlib.suppress(OSError):
            self._write(_LEAVE)
        if self._previous_mode is not None:
            before, self._previous_mode = self._previous_mode, None
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._in, termios.TCSADRAIN, before)

    def get_size(self) -> tuple[int, int]:
        """Columns and rows now."""
        try:
            found = os.get_terminal_size(self._out)
        except OSError:
            return 80, 24
        # A terminal that does not know its size says 0.
        return found.columns or 80, found.lines or 24

    def draw(self, lines: Sequence[StyledLine]) -> None:
        """Show these lines and nothing else; they were made to fit the size."""
        # Cleared before it is written: behind a full line the cursor still stands on its last letter.
        shown = [
            f"{_CLEAR_LINE}{style}{text}\x1b[0m" if style else _CLEAR_LINE + text for text, style in lines
        ]
        self._write(_HOME + "\r\n".join(shown) + _CLEAR_BELOW)

    def read_keys(self) -> str:
        """The letters typed since the last time; what arrow and function keys send is passed over."""
        if self._in < 0:
            return ""
        typed = os.read(self._in, 1024)
        if not typed:
            self._in = -1  # nobody is there any more
            return ""
        return _SEQUENCE.sub("", typed.decode(errors="replace"))

    def _write(self, text: str) -> None:
        left = text.encode(self._encoding, "replace")
        while left:
            left = left[os.write(self._out, left) :]
