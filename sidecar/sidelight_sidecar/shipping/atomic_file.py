"""Files that are written whole or not at all, also after a crash.

Windows are compressed into such files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import IO

import zstandard

from sidelight_model.window import Window, encode_windows

_MAX_RAW_BYTES = 256 << 20
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeDirectory(OSError):
    """A folder that another user can change or replace."""


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically, over an earlier one of this name.

    Raises OSError; then there is no file of this name.
    """
    temporary = write_temporary_file(path, content)
    try:
        temporary.rename(path)
        sync_directory(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise


def write_temporary_file(path: Path, content: bytes) -> Path:
    """Write and sync the content for `path` beside it; the caller renames the file."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, _CREATE_FLAGS, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file.

    It follows no link and waits for no writer. Raises OSError, with EFBIG for more than `max_bytes`.
    """
    with os.fdopen(_open_regular(path, os.O_RDONLY), "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def lock_directory(folder: Path) -> IO[bytes]:
    """Create a private folder, and lock it until the returned file is closed.

    Raises BlockingIOError if another process holds the lock, UnsafeDirectory if another user could change
    the folder.
    """
    make_private_directory(folder)
    check_directory(folder)
    lock = os.fdopen(_open_regular(folder / "lock", os.O_RDWR | os.O_CREAT), "r+b")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise
    return lock


def make_private_directory(folder: Path) -> None:
    """Create a folder and its missing parents, each with mode 0700."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def check_directory(folder: Path) -> None:
    """Raise UnsafeDirectory for a link or a folder that others can change.

    The folder and all above it must belong to this user or to root. Other users may write only to a sticky
    folder above it, such as /tmp, and to the mount point of a volume: Kubernetes mounts an emptyDir with
    mode 0777, and only this container sees it.
    """
    if folder.is_symlink():
        raise UnsafeDirectory(f"{folder} is a symbolic link")
    folder = folder.resolve()
    for path in (folder, *folder.parents):
        status = path.stat()
        if status.st_uid not in (0, os.geteuid()):
            raise UnsafeDirectory(f"{path} belongs to user {status.st_uid}")
        is_sticky = bool(status.st_mode & stat.S_ISVTX)
        shared = status.st_mode & (0o022 if path == folder else 0o002)
        is_allowed = path != folder if is_sticky else _is_mount_point(path)
        if shared and not is_allowed:
            raise UnsafeDirectory(
                f"other users may write to {path} (mode {stat.S_IMODE(status.st_mode):04o})"
            )


def _is_mount_point(path: Path) -> bool:
    """Return whether a file system is mounted here (proc(5), /proc/PID/mountinfo).

    `Path.is_mount` misses a bind mount of a folder on the same file system, as volumes of a pod can be.
    """
    mounts = (line.split(b" ")[4] for line in Path("/proc/self/mountinfo").read_bytes().splitlines())
    return os.fsencode(path) in (mount.decode("unicode_escape").encode("latin-1") for mount in mounts)


def _open_regular(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


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
