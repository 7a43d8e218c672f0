"""Full-screen terminal output that restores the terminal afterwards."""

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

_ENTER = "\x1b[?1049h\x1b[?25l"  # alternate screen, hidden cursor
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|O.|.)?", re.DOTALL)
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Style(StrEnum):
    """Text attributes of a line.

    There are no colours, because some are unreadable on some backgrounds.
    """

    PLAIN = ""
    BOLD = "\x1b[1m"
    REVERSED = "\x1b[7m"


StyledLine = tuple[str, Style]


class TerminalScreen:
    """Full-screen terminal output as a context manager.

    Inside the context, `draw` shows a page and `read_keys` reads the keys typed.
    """

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
        """File descriptors to read keys from; empty without a terminal."""
        return [] if self._in < 0 else [self._in]

    def enter_page(self) -> None:
        if self._in >= 0:
            self._previous_mode = termios.tcgetattr(self._in)
            tty.setcbreak(self._in)  # unbuffered keys without echo; Ctrl-C and Ctrl-Z stay signals
        self._write(_ENTER)

    def restore(self) -> None:
        """Restore the terminal's screen and mode; errors of a closed terminal are ignored."""
        with contextlib.suppress(OSError):
            self._write(_LEAVE)
        if self._previous_mode is not None:
            previous_mode, self._previous_mode = self._previous_mode, None
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._in, termios.TCSADRAIN, previous_mode)

    def get_size(self) -> tuple[int, int]:
        """Return the current number of columns and rows, by default 80 and 24."""
        try:
            size = os.get_terminal_size(self._out)
        except OSError:
            return 80, 24
        # A terminal that does not know its size reports 0.
        return size.columns or 80, size.lines or 24

    def draw(self, lines: Sequence[StyledLine]) -> None:
        """Show exactly these lines, which must fit the terminal's size."""
        # Clear a line before writing it: after a full line the cursor is still on its last character.
        shown = [
            f"{_CLEAR_LINE}{style}{text}\x1b[0m" if style else _CLEAR_LINE + text for text, style in lines
        ]
        self._write(_HOME + "\r\n".join(shown) + _CLEAR_BELOW)

    def read_keys(self) -> str:
        """Return the characters typed since the last call.

        Escape sequences of arrow and function keys are dropped.
        """
        if self._in < 0:
            return ""
        typed = os.read(self._in, 1024)
        if not typed:
            self._in = -1  # end of file: the terminal is closed
            return ""
        return _SEQUENCE.sub("", typed.decode(errors="replace"))

    def _write(self, text: str) -> None:
        left = text.encode(self._encoding, "replace")
        while left:
            left = left[os.write(self._out, left) :]
