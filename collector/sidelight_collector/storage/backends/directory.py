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

ABANDONED_SECONDS: Final = 3600.0
_ATTEMPTS: Final = 100
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class DirectoryStore:
    """Keeps objects as files below a directory, which is created when it is not there.

    With `read_only` it must be there, and nothing may be written.
    """

    kind = "directory"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self._root = root.absolute()
        self._writing = self._root / ".writing"
        self._lock = self._root / ".lock"
        if read_only:
            with self._explained("look"):
                os.scandir(self._root).close()
            return
        with self._explained("create"):
            self._writing.mkdir(parents=True, exist_ok=True)
            self._lock.touch()
            self._remove_abandoned(time.time() - ABANDONED_SECONDS)

    @property
    def where(self) -> str:
        return str(self._root)

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with self._explained("read"):
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
        with self._explained("write"):
            written = self._writing / token_hex(16)
            try:
                _write(written, content)
                with self._locked(exclusive=if_match is not None):
                    if if_match is not None:
                        self._compare(key, if_match)
                    self._publish(key, written, path, replace=not if_absent)
                    self._sync_upwards(path.parent)
            finally:
                written.unlink(missing_ok=True)
        return _etag(content)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with self._explained("delete"), self._locked(exclusive=False):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return
            with suppress(FileNotFoundError):
                _sync(path.parent)
            for directory in path.parents:
                if directory == self._root or not _removed_empty(directory):
                    break

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        # Without etags: they are made of the content, and nothing else of a file always changes with it.
        with self._explained("list"):
            yield from self._walk(self._root, "", prefix, start_after)

    def _walk(self, directory: Path, above: str, prefix: str, start_after: str) -> Iterator[ObjectEntry]:
        for name, entry in _in_key_order(directory):
            key = above + name
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

    def _compare(self, key: str, etag: str) -> None:
        try:
            changed = self.get_with_etag(key)[1] != etag
        except ObjectMissing:
            changed = True
        if changed:
            raise ObjectChanged(key)

    def _publish(self, key: str, written: Path, path: Path, *, replace: bool) -> None:
        for _ in range(_ATTEMPTS):
            if not _made(path.parent):
                continue  # a delete removed the directory, empty for a moment
            try:
                if replace:
                    written.rename(path)
                else:
                    path.hardlink_to(written)
                return
            except FileExistsError:
                raise ObjectExists(key) from None
            except FileNotFoundError:
                continue
        raise StoreUnavailable(f"the directory of {key!r} keeps disappearing from {self.where}")

    def _sync_upwards(self, directory: Path) -> None:
        # Directories that another writer has just made need not be durable yet, so all are synced.
        while directory != self._root:
            _sync(directory)
            directory = directory.parent
        _sync(self._root)

    def _remove_abandoned(self, before: float) -> None:
        for path in self._writing.iterdir():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    path.unlink()

    @contextmanager
    def _locked(self, *, exclusive: bool) -> Iterator[None]:
        with self._lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _store_error(verb, self.where, error) from error


def _store_error(verb: str, where: str, error: OSError) -> StoreError:
    message = f"cannot {verb} in the store directory {where}: {error.strerror}"
    if error.errno in _FULL:
        return StoreUnavailable(
            message, hint="Free space on that file system, or shorten --retention-raw-days."
        )
    if error.errno in _FORBIDDEN:
        return StoreRefused(message, hint=f"Let user {os.geteuid()} write there, or choose another --store.")
    return StoreUnavailable(
        message, hint="--store is a directory on a local file system, or s3://bucket/prefix."
    )


def _etag(content: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(content)


def _file_name(part: str) -> str:
    name = quote(part, safe=" =+,@:~")
    return "%2E" + name[1:] if name.startswith(".") else name


def _in_key_order(directory: Path) -> list[tuple[str, os.DirEntry[str]]]:
    """What lies in a directory: key parts, those of directories with their `/`, which counts in the order."""
    try:
        with os.scandir(directory) as found:
            entries = [entry for entry in found if not entry.name.startswith(".")]
            named = [(unquote(entry.name) + ("/" if entry.is_dir() else ""), entry) for entry in entries]
    except FileNotFoundError:
        return []
    return sorted(named, key=lambda pair: pair[0])


def _made(directory: Path) -> bool:
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


def _removed_empty(directory: Path) -> bool:
    try:
        directory.rmdir()
    except OSError:
        return False
    return True


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
