"""Files that are there whole or not at all, also after a crash, and windows packed into them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

import zstandard

from sidelight_model.window import Window, encode_windows

_MAX_RAW_BYTES = 256 << 20


def write_file(path: Path, content: bytes) -> None:
    """Put a file in place; an earlier one of this name is replaced. Raises OSError."""
    write_temporary_file(path, content).rename(path)
    sync_directory(path.parent)


def write_temporary_file(path: Path, content: bytes) -> Path:
    """Write what shall be at `path` beside it, on the disk for good; the caller renames it."""
    beside = path.with_name(f"{path.name}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return beside


def lock_directory(folder: Path) -> IO[str]:
    """Make a folder, and hold it until the file is closed; raises BlockingIOError when another has it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = (folder / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise
    return lock


def sync_directory(folder: Path) -> None:
    """Make renames in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def compress_window(window: Window) -> bytes:
    """A window as a file of the spool: zstd with a checksum."""
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(encode_windows([window]))


def decompress_window(compressed: bytes) -> bytes:
    """The window's wire form; raises ValueError or ZstdError for what `compress_window` did not write."""
    # The size a damaged frame claims would be allocated before anything is checked.
    if not 0 <= zstandard.frame_content_size(compressed) <= _MAX_RAW_BYTES:
        raise ValueError("no plausible size")
    return zstandard.ZstdDecompressor().decompress(compressed)
