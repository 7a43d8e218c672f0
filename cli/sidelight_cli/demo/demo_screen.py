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

PLAIN_SECONDS = 5.0


class Screen:
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
        self._redraws = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
        desktop = stream.isatty() and bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
        self._browser = browser and desktop
        self._clock = clock
        self._size = size
        self._block = ""
        self._printed: float | None = None

    @property
    def columns(self) -> int | None:
        """The width of the terminal in characters; None without a terminal."""
        return self._size().columns if self._redraws else None

    def say(self, line: str) -> None:
        """Write a line that stays, above the block."""
        block = f"{self._block}\n" if self._redraws and self._block else ""
        self._write(f"{self._up()}{line}\n{block}")

    def show(self, block: str, *, passing: bool = False) -> None:
        """Write a block in the place of the one before.

        Without a terminal a `passing` block is printed only when it is new and the last block is
        PLAIN_SECONDS old.
        """
        if passing and (block == self._block or not self._due()):
            return
        self._write(f"{self._up()}{block}\n")
        self._printed = self._clock()
        self._block = block

    def leave(self) -> None:
        """Let the block stand: what follows is written below it."""
        self._block = ""

    def open(self, url: str) -> None:
        """Open a page on a desktop, if `browser` allows it; a browser that fails is no failure."""
        if self._browser:
            try:
                webbrowser.open(url)
            except (webbrowser.Error, OSError) as error:
                self.say(f"(no browser could be started: {error})")

    def _due(self) -> bool:
        return self._redraws or self._printed is None or self._clock() >= self._printed + PLAIN_SECONDS

    def _up(self) -> str:
        """The codes that delete the block of a terminal."""
        if not self._redraws or not self._block:
            return ""
        columns = max(1, self._size().columns)
        height = sum(max(1, -(-len(line) // columns)) for line in self._block.split("\n"))
        return f"\x1b[{height}F\x1b[J"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
