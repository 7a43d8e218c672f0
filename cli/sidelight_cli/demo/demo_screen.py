"""Terminal output of the demo: permanent lines above one block that is redrawn.

Without a terminal each block is printed once, and progress blocks only every few seconds.
"""

from __future__ import annotations

import os
import shutil
import time
import webbrowser
from collections.abc import Callable, Mapping
from typing import TextIO

from sidelight.terminal_output import TerminalSequence

PLAIN_INTERVAL_SECONDS = 5.0


class DemoScreen:
    """Output of permanent lines with one redrawn block below them."""

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
        """Write a permanent line above the block."""
        block = f"{self._block}\n" if self._can_redraw and self._block else ""
        self._erase_block()
        self._write(f"{line}\n{block}")

    def show_block(self, block: str, *, is_progress: bool = False) -> None:
        """Replace the block.

        A progress block (`is_progress`) is written only if it differs from the last block. Without a
        terminal, the last block must also be `PLAIN_INTERVAL_SECONDS` old.
        """
        if is_progress and (block == self._block or not self._is_due()):
            return
        self._erase_block()
        self._write(f"{block}\n")
        self._printed_at = self._clock()
        self._block = block

    def release_block(self) -> None:
        """Make the current block permanent: later output is written below it."""
        self._block = ""

    def open_page(self, url: str) -> None:
        """Open a page on a desktop, if `browser` allows it.

        A browser that cannot be started is reported, but is no error.
        """
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

    def _erase_block(self) -> None:
        """Erase the block on a terminal."""
        if not self._can_redraw or not self._block:
            return
        columns = max(1, self._get_size().columns)
        height = sum(max(1, -(-len(line) // columns)) for line in self._block.split("\n"))
        self._stream.write(TerminalSequence(f"\x1b[{height}F\x1b[J"))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
