"""An object store in a directory of a local file system.

Each object is a file, its path the key with every part percent-encoded so that no part begins with a dot;
what begins with a dot (files being written, the lock) is therefore never an object. A write goes to a
temporary file, is synced, and appears by one rename(2), or by link(2) where it must not replace anything;
then the directories above it are synced, so that a power cut does not undo it.

Several processes of one machine may share the directory: what compares and then replaces holds flock(2)
exclusively, every other change holds it shared.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final
from urllib.parse import quote, unquote

import xxhash

from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    check_condition,
    check_key,
)

STALE_TEMP_FILE_SECONDS: Final = 3600.0
_ATTEMPTS: Final = 100
_DISK_FULL_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT)
_PERMISSION_ERRNOS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class DirectoryStore:
    """Keeps objects as files below a directory, which is created when it is not there.

    With `read_only` it must be there, and nothing may be written.
    """

    kind = "directory"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self._root = root.absolute()
        self._temp_dir = self._root / ".writing"
        self._lock_file = self._root / ".lock"
        if read_only:
            with self._translate_errors("look"):
                os.scandir(self._root).close()
            return
        with self._translate_errors("create"):
            self._temp_dir.mkdir(parents=True, exist_ok=True)
            self._lock_file.touch()
            self._remove_stale_temp_files(time.time() - STALE_TEMP_FILE_SECONDS)

    @property
    def location(self) -> str:
        return str(self._root)

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with self._translate_errors("read"):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise ObjectMissing(key) from None

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        content = self.get(key)
        return content, _etag(content)

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        check_condition(if_absent=if_absent, if_match=if_match)
        path = self._path(key)
        with self._translate_errors("write"):
            written = self._temp_dir / token_hex(16)
            try:
                _write_durably(written, content)
                with self._acquire_lock(exclusive=if_match is not None):
                    if if_match is not None:
                        self._require_etag(key, if_match)
                    self._publish(key, written, path, replace=not if_absent)
                    self._fsync_up_to_root(path.parent)
            finally:
                written.unlink(missing_ok=True)
        return _etag(content)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with self._translate_errors("delete"), self._acquire_lock(exclusive=False):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return
            with suppress(FileNotFoundError):
                _fsync_directory(path.parent)
            for directory in path.parents:
                if directory == self._root or not _remove_if_empty(directory):
                    break

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        # Without etags: they are made of the content, and nothing else of a file always changes with it.
        with self._translate_errors("list"):
            yield from self._walk(self._root, "", prefix, start_after)

    def _walk(self, directory: Path, parent_key: str, prefix: str, start_after: str) -> Iterator[ObjectEntry]:
        for name, entry in _list_in_key_order(directory):
            key = parent_key + name
            if not (key.startswith(prefix) or prefix.startswith(key)):
                continue
            if name.endswith("/"):
                if key > start_after or start_after.startswith(key):
                    yield from self._walk(Path(entry.path), key, prefix, start_after)
            elif key.startswith(prefix) and key > start_after:
                with suppress(FileNotFoundError):
                    stat = entry.stat()
                    yield ObjectEntry(key, stat.st_size, stat.st_mtime)

    def _path(self, key: str) -> Path:
        return self._root.joinpath(*map(_file_name, check_key(key).split("/")))

    def _require_etag(self, key: str, etag: str) -> None:
        try:
            changed = self.get_with_etag(key)[1] != etag
        except ObjectMissing:
            changed = True
        if changed:
            raise ObjectChanged(key)

    def _publish(self, key: str, temp_file: Path, path: Path, *, replace: bool) -> None:
        for _ in range(_ATTEMPTS):
            if not _ensure_directory(path.parent):
                continue  # a delete removed the directory, empty for a moment
            try:
                if replace:
                    temp_file.rename(path)
                else:
                    path.hardlink_to(temp_file)
                return
            except FileExistsError:
                raise ObjectExists(key) from None
            except FileNotFoundError:
                continue
        raise StoreUnavailable(f"the directory of {key!r} keeps disappearing from {self.location}")

    def _fsync_up_to_root(self, directory: Path) -> None:
        # Directories that another writer has just made need not be durable yet, so all are synced.
        while directory != self._root:
            _fsync_directory(directory)
            directory = directory.parent
        _fsync_directory(self._root)

    def _remove_stale_temp_files(self, modified_before: float) -> None:
        for path in self._temp_dir.iterdir():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < modified_before:
                    path.unlink()

    @contextmanager
    def _acquire_lock(self, *, exclusive: bool) -> Iterator[None]:
        with self._lock_file.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield

    @contextmanager
    def _translate_errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _to_store_error(operation, self.location, error) from error


def _to_store_error(operation: str, location: str, error: OSError) -> StoreError:
    message = f"cannot {operation} in the store directory {location}: {error.strerror}"
    if error.errno in _DISK_FULL_ERRNOS:
        return StoreUnavailable(
            message, hint="Free space on that file system, or shorten --retention-raw-days."
        )
    if error.errno in _PERMISSION_ERRNOS:
        return StoreRefused(message, hint=f"Let user {os.geteuid()} write there, or choose another --store.")
    return StoreUnavailable(
        message, hint="--store is a directory on a local file system, or s3://bucket/prefix."
    )


def _etag(content: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(content)


def _file_name(part: str) -> str:
    name = quote(part, safe=" =+,@:~")
    return "%2E" + name[1:] if name.startswith(".") else name


def _list_in_key_order(directory: Path) -> list[tuple[str, os.DirEntry[str]]]:
    """What lies in a directory: key parts, those of directories with their `/`, which counts in the order."""
    try:
        with os.scandir(directory) as found:
            entries = [entry for entry in found if not entry.name.startswith(".")]
            named = [(unquote(entry.name) + ("/" if entry.is_dir() else ""), entry) for entry in entries]
    except FileNotFoundError:
        return []
    return sorted(named, key=lambda pair: pair[0])


def _ensure_directory(directory: Path) -> bool:
    """Whether the directory stands there now; false if it appeared and was removed while it was looked at."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:
        return False  # the directory it was to stand in
    except FileExistsError:
        # One look: it may come and go any number of times.
        if not _is_file(directory):
            return False
        raise
    return True


def _is_file(path: Path) -> bool:
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _remove_if_empty(directory: Path) -> bool:
    try:
        directory.rmdir()
    except OSError:
        return False
    return True


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
