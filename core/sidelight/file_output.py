"""Output files that are complete or absent, also when the disk is full."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def write_output_file(path: Path, content: bytes) -> None:
    """Write a file; an existing file is replaced once the new one is complete.

    A link is followed. A device, a pipe, or a file in a directory without write permission is written in
    place. Raises OSError, and leaves no partial file.
    """
    if is_special_file(path) or (path.exists() and not os.access(path.resolve().parent, os.W_OK)):
        path.write_bytes(content)
    else:
        replace_file(path.resolve(), content)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that readers never see it incomplete.

    Raises OSError, and leaves no temporary file.
    """
    partial = path.with_name(f".sidelight-{os.getpid()}-{os.urandom(4).hex()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def is_special_file(path: Path) -> bool:
    """Whether the path is a device or pipe, which must be written to, not replaced."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
