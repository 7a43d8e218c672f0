"""An object store in a directory of a local file system.

Each object is a file. Its path is the key, with every part percent-encoded so that no part begins with a
dot. Files that begin with a dot (temporary files, the lock) are therefore never objects. A put writes and
syncs a temporary file, then publishes it with rename(2), or with link(2) if it must not replace an object.
Then it syncs the directories above, so that a power cut does not undo the put.

Directories that the store creates have mode 0700, files 0600. The mode of an existing directory stays.

Several processes of one machine may share the directory. A put with `if_match` holds flock(2) exclusively;
every other change holds it shared.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
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
    check_range,
)

STALE_TEMP_FILE_SECONDS: Final = 3600.0
PRIVATE_DIRECTORY_HINT: Final = "Let only the collector's user write there: chmod go-w."
_ATTEMPTS: Final = 100
_DISK_FULL_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT)
_PERMISSION_ERRNOS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class DirectoryStore:
    """An object store below a directory, which is created if it does not exist.

    With `read_only` the directory must exist, and nothing may be written.
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
            _create_private_directories(self._temp_dir)
            self._lock_file.touch(mode=0o600)
            self._remove_stale_temp_files(time.time() - STALE_TEMP_FILE_SECONDS)

    @property
    def location(self) -> str:
        return str(self._root)

    def get(self, key: str) -> bytes:
        with self._open(key) as file:
            return file.readall()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        check_range(start, end)
        with self._open(key) as file:
            file.seek(start)
            return file.read(end - start)

    @contextmanager
    def _open(self, key: str) -> Iterator[FileIO]:
        path = self._path(key)
        with self._translate_errors("read"):
            try:
                file = path.open("rb", buffering=0)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise ObjectMissing(key) from None
            with file:
                yield file

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        content = self.get(key)
        return content, _etag(content)

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        check_condition(if_absent=if_absent, if_match=if_match)
        path = self._path(key)
        with self._translate_errors("write"):
            temp_file = self._temp_dir / token_hex(16)
            try:
                _write_durably(temp_file, content)
                with self._acquire_lock(exclusive=if_match is not None):
                    if if_match is not None:
                        self._require_etag(key, if_match)
                    self._publish(key, temp_file, path, replace=not if_absent)
                    self._fsync_up_to_root(path.parent)
            finally:
                temp_file.unlink(missing_ok=True)
        return _etag(content)

    def put_all(self, contents: Mapping[str, bytes], *, last_if_absent: bool = False) -> None:
        """Write objects in this order.

        All are temporary files first: a full disk then leaves none of them.
        """
        paths = {key: self._path(key) for key in contents}
        temp_files = {key: self._temp_dir / token_hex(16) for key in contents}
        *_, last = contents
        with self._translate_errors("write"):
            try:
                for key, content in contents.items():
                    _write_durably(temp_files[key], content)
                with self._acquire_lock(exclusive=False):
                    for key, path in paths.items():
                        replace = not (last_if_absent and key == last)
                        self._publish(key, temp_files[key], path, replace=replace)
                        # In this order: the last object counts only with the others.
                        self._fsync_up_to_root(path.parent)
            finally:
                for temp_file in temp_files.values():
                    temp_file.unlink(missing_ok=True)

    def describe_shared_directory(self) -> str:
        """Describe a directory of the store that other users may change.

        It is empty without one. The mount point of a volume does not count: Kubernetes lets a group write to
        it, and only the pod sees it.
        """
        for path in (self._root, self._temp_dir):
            with suppress(FileNotFoundError, NotADirectoryError):
                mode = stat.S_IMODE(path.stat().st_mode)
                if mode & 0o022 and not path.is_mount():
                    return f"other users may write to {path} (mode {mode:04o})"
        return ""

    def delete(self, key: str) -> None:
        path = self._path(key)
        with self._translate_errors("delete"), self._acquire_lock(exclusive=False):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return
            with suppress(FileNotFoundError, NotADirectoryError):
                _fsync_directory(path.parent)
            for directory in path.parents:
                if directory == self._root or not _remove_if_empty(directory):
                    break

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        # Without etags: they need the content, because no attribute of a file always changes with it.
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
                continue  # a concurrent delete removed the empty directory
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
        # All directories: one that another writer has just created may not be durable yet.
        while directory != self._root:
            _fsync_directory(directory)
            directory = directory.parent
        _fsync_directory(self._root)

    def _remove_stale_temp_files(self, modified_before: float) -> None:
        for path in self._temp_dir.iterdir():
            with suppress(FileNotFoundError, NotADirectoryError):
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
    """List a directory as (key part, entry), in order of keys.

    Parts of directories end with `/`, which counts in the order.
    """
    try:
        with os.scandir(directory) as scan:
            entries = [entry for entry in scan if not entry.name.startswith(".")]
            parts = [(unquote(entry.name) + ("/" if entry.is_dir() else ""), entry) for entry in entries]
    except FileNotFoundError:
        return []
    return sorted(parts, key=lambda pair: pair[0])


def _ensure_directory(directory: Path) -> bool:
    """Create a directory and its parents if necessary; returns whether it exists.

    Returns false if another process created or removed directories meanwhile. Raises FileExistsError if the
    path is a file.
    """
    try:
        _create_private_directories(directory)
    except FileNotFoundError:
        return False  # another process removed a parent
    except FileExistsError:
        # One check only: other processes may create and remove the directory any number of times.
        if not _is_file(directory):
            return False
        raise
    return True


def _create_private_directories(directory: Path) -> None:
    """Create a directory and its missing parents, all with mode 0700."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        if directory.parent == directory:
            raise
        _create_private_directories(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


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
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
