"""Terminal output of the demo: lines that stay, and below them one block that is redrawn in place.

Without a terminal every block is printed once, and a passing one only some seconds after the one before.
"""

from __future__ import annotations

import os
import shutil
import time
import webbrowser
from collections.abc import Callable, Mapping
from typing import TextIO

PLAIN_INTERVAL_SECONDS = 5.0


class DemoScreen:
    """A stream with lines and one block below them; `columns` is the width that text should fit."""

    def __init__(
        self,
        stream: TextIO,
        environ: Mapping[str, str] = os.environ,
        *,
        browser: bool = True,
        clock: Callable[[], float] = time.monotonic,
        size: Callable[[], os.terminal_size] = shutil.get_terminal_size,
    ) -> None:
        self._stream = stream
        self._can_redraw = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
        desktop = stream.isatty() and bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
        self._may_open_browser = browser and desktop
        self._clock = clock
        self._get_size = size
        self._block = ""
        self._printed_at: float | None = None

    @property
    def columns(self) -> int | None:
        """The width of the terminal in characters; None without a terminal."""
        return self._get_size().columns if self._can_redraw else None

    def print_line(self, line: str) -> None:
        """Write a line that stays, above the block."""
        block = f"{self._block}\n" if self._can_redraw and self._block else ""
        self._write(f"{self._build_erase_codes()}{line}\n{block}")

    def show_block(self, block: str, *, is_progress: bool = False) -> None:
        """Write a block in the place of the one before.

        Without a terminal a `is_progress` block is printed only when it is new and the last block is
        PLAIN_SECONDS old.
        """
        if is_progress and (block == self._block or not self._is_due()):
            return
        self._write(f"{self._build_erase_codes()}{block}\n")
        self._printed_at = self._clock()
        self._block = block

    def release_block(self) -> None:
        """Let the block stand: what follows is written below it."""
        self._block = ""

    def open_page(self, url: str) -> None:
        """Open a page on a desktop, if `browser` allows it; a browser that fails is no failure."""
        if self._may_open_browser:
            try:
                webbrowser.open(url)
            except (webbrowser.Error, OSError) as error:
                self.print_line(f"(no browser could be started: {error})")

    def _is_due(self) -> bool:
        return (
            self._can_redraw
            or self._printed_at is None
            or self._clock() >= self._printed_at + PLAIN_INTERVAL_SECONDS
        )

    def _build_erase_codes(self) -> str:
        """The codes that delete the block of a terminal."""
        if not self._can_redraw or not self._block:
            return ""
        columns = max(1, self._get_size().columns)
        height = sum(max(1, -(-len(line) // columns)) for line in self._block.split("\n"))
        return f"\x1b[{height}F\x1b[J"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
