"""Files that are written whole or not at all, also after a crash.

Windows are compressed into such files.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

import zstandard

from sidelight_model.window import Window, encode_windows

_MAX_RAW_BYTES = 256 << 20


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically, over an earlier one of this name; raises OSError."""
    write_temporary_file(path, content).rename(path)
    sync_directory(path.parent)


def write_temporary_file(path: Path, content: bytes) -> Path:
    """Write and sync the content for `path` beside it; the caller renames the file."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def lock_directory(folder: Path) -> IO[str]:
    """Create a folder and lock it until the returned file is closed.

    Raises BlockingIOError if another process holds the lock.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = (folder / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise
    return lock


def sync_directory(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def compress_window(window: Window) -> bytes:
    """Encode a window as a file of the spool: zstd with a checksum."""
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(encode_windows([window]))


def decompress_window(compressed: bytes) -> bytes:
    """Return the wire form of a window from `compress_window`.

    Raises ValueError or ZstdError for other bytes.
    """
    # zstd allocates the size that a frame claims before it checks anything, even in a damaged file.
    if not 0 <= zstandard.frame_content_size(compressed) <= _MAX_RAW_BYTES:
        raise ValueError("no plausible size")
    return zstandard.ZstdDecompressor().decompress(compressed)
