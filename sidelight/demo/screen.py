"""What the demo prints: plain lines, and on a terminal one block at the end that is redrawn in place."""

from __future__ import annotations

import os
import shutil
import webbrowser
from collections.abc import Mapping
from typing import TextIO


class Screen:
    """Writes to one stream; a terminal gets its last block redrawn, anything else gets every block."""

    def __init__(
        self, stream: TextIO, environ: Mapping[str, str] = os.environ, *, browser: bool = True
    ) -> None:
        self._stream = stream
        self._redraws = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
        desktop = stream.isatty() and bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
        self._browser = browser and desktop
        self._height = 0

    def say(self, line: str) -> None:
        """Write a line that stays."""
        self._height = 0
        self._write(line + "\n")

    def show(self, block: str) -> None:
        """Write a block of lines in the place of the one before, if nothing was said since."""
        up = f"\x1b[{self._height}F\x1b[J" if self._redraws and self._height else ""
        self._write(f"{up}{block}\n")
        columns = shutil.get_terminal_size().columns
        self._height = sum(max(1, -(-len(line) // columns)) for line in block.split("\n"))

    def open(self, url: str) -> None:
        """Open a page where there is a desktop and `browser` allows it; a browser that fails is no failure."""
        if self._browser:
            try:
                webbrowser.open(url)
            except (webbrowser.Error, OSError) as error:
                self.say(f"(no browser could be started: {error})")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
