"""A real terminal (a pseudo-terminal) with a command in it."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import eventually, sidelight

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Terminal:
    """A terminal of a size of its own with a command in it; what it shows is read all the time."""

    def __init__(
        self,
        argv: list[str],
        columns: int = 100,
        rows: int = 24,
        term: str = "xterm",
        cwd: Path | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": term},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._theirs = theirs
        self.text = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # A read may end within a letter.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while True:
            try:
                self.text += decoder.decode(os.read(self._ours, 65536))
            except OSError:
                return

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def page(self) -> list[str]:
        """The lines of the last whole page."""
        pages = self.text.rpartition("\x1b[J")[0].split("\x1b[H")
        return [CODES.sub("", line).rstrip("\r") for line in pages[-1].split("\n")]

    def shows(self, *words: str) -> list[str]:
        """Wait until a page has all of these words; returns its lines."""

        def found() -> list[str] | None:
            assert self.process.poll() is None, self.text
            page = self.page()
            return page if all(any(word in line for line in page) for word in words) else None

        return eventually(f"the page shows {words}", found)

    def fits(self, columns: int, rows: int) -> bool:
        page = self.page()
        return len(page) == rows and all(len(line) <= columns for line in page)

    def attributes(self) -> list[object]:
        return termios.tcgetattr(self._theirs)

    def ended(self) -> int:
        code = eventually(
            "it ends", lambda: None if self.process.poll() is None else (self.process.returncode,)
        )[0]
        eventually("all of it was read", lambda: LEAVE in self.text or ENTER not in self.text)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._theirs)
        self._reader.join(10)
        os.close(self._ours)


@contextmanager
def terminal(*argv: str, **options: object) -> Iterator[Terminal]:
    """`sidelight …` in a terminal; whatever happens, it is gone afterwards."""
    one = Terminal(sidelight(*argv), **options)  # type: ignore[arg-type]
    try:
        yield one
    finally:
        one.close()
