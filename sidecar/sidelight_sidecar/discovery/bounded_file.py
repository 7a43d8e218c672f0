"""Read files of a target without waiting, up to a limit.

A container chooses what lies below its root. Opening a FIFO there would wait for a writer forever.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CHUNK = 1 << 16


def read_bounded(path: str | Path, max_bytes: int) -> str:
    """Return the first bytes of a regular file as text.

    Raises OSError, also if it is no regular file.
    """
    with _open_regular(path) as descriptor:
        return b"".join(_read_chunks(descriptor, max_bytes)).decode(errors="replace")


def read_lines(path: str | Path, max_bytes: int) -> Iterator[str]:
    """Yield groups of whole lines of a regular file, up to a limit.

    The last line may be cut. Raises OSError, also if it is no regular file.
    """
    with _open_regular(path) as descriptor:
        rest = b""
        for chunk in _read_chunks(descriptor, max_bytes):
            lines, newline, rest = (rest + chunk).rpartition(b"\n")
            yield (lines + newline).decode(errors="replace")
        yield rest.decode(errors="replace")


@contextmanager
def _open_regular(path: str | Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _read_chunks(descriptor: int, max_bytes: int) -> Iterator[bytes]:
    left = max_bytes
    while left > 0 and (chunk := os.read(descriptor, min(left, _CHUNK))):
        left -= len(chunk)
        yield chunk
