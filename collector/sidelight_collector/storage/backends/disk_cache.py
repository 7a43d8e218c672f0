"""An object store with copies of its immutable objects on a local disk; those used least recently go first.

What is below v1/l0/ and v1/raw/ never changes under its name, so a copy is as good as the object. Which of it
counts is said by listings and manifests, and those are always asked of the store itself: a copy of what has
been deleted there is read by nobody who began to ask after that, and makes room in time.

A copy is a file named by the hash of store and key, with a checksum before the content: one that was cut
short or changed is removed, and the object is fetched anew. It is written beside and renamed, and not synced:
a copy that a power cut damages is no loss.

Several processes may share the folder. Who writes holds flock(2), makes room, says in `used` how many bytes
there will be, and then writes, so the bound holds whenever a process dies; what `used` says may be too much,
and never too little. Readers hold nothing. Trouble with the disk is counted, told once, and fails no query:
everything is in the store.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import structlog
import xxhash

from sidelight_collector.metrics import Metrics
from sidelight_collector.storage import manifest, segments
from sidelight_collector.storage.checksum import is_intact
from sidelight_collector.storage.objects import ObjectEntry, ObjectStore

FOLDER: Final = "sidelight-objects"
BLOCK_BYTES: Final = 4096
"""A file takes whole blocks."""
MAX_PENDING_BYTES: Final = 64 << 20
"""Most bytes that wait to be written; what comes then is not kept this time."""
EVICTION_TARGET: Final = 0.9
"""Where room is made, so much of the bound is left at most, or it would have to be made for each file."""
LOCK_TIMEOUT_SECONDS: Final = 1.0
LOCK_RETRY_SECONDS: Final = 0.005

_IMMUTABLE: Final = (segments.ROOT, manifest.BLOCK_ROOT)
_COPY_NAME: Final = re.compile(r"[0-9a-f]{32}")
_CHECKSUM_BYTES: Final = 16
_log = structlog.get_logger(__name__)


class _LockTimeout(Exception):
    """Another process writes into the folder, and for long."""


class DiskCachedStore:
    """Another store, whose immutable objects are read from a folder once they have been read.

    For queries, and not for what changes the store. Copies are written by a thread of its own; `close` waits
    for it.
    """

    def __init__(self, store: ObjectStore, folder: Path, max_bytes: int, metrics: Metrics) -> None:
        """Copies lie below `folder`; `max_bytes` bounds them, those of all processes together."""
        self._store = store
        self._folder = folder.absolute() / FOLDER
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._write_executor = ThreadPoolExecutor(1, thread_name_prefix="disk-cache")
        self._lock = threading.Lock()
        self._pending_bytes = 0
        self._has_warned = False
        self._can_wait_for_lock = True
        self._is_usable = False
        with self._suppress_disk_errors("create"):
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._ensure_folder()
            self._is_usable = True
            self._write_executor.submit(self._enforce_limit)

    @property
    def kind(self) -> str:
        return self._store.kind

    @property
    def location(self) -> str:
        return self._store.location

    def get(self, key: str) -> bytes:
        if not (self._is_usable and key.startswith(_IMMUTABLE)):
            return self._store.get(key)
        path = self._path(key)
        content = self._read_copy(path)
        self._metrics.disk_cache_reads.labels("miss" if content is None else "hit").inc()
        if content is None:
            content = self._store.get(key)
            if is_intact(content):
                self._write_later(path, content)
        return content

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        return self._store.get_with_etag(key)

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        return self._store.put(key, content, if_absent=if_absent, if_match=if_match)

    def delete(self, key: str) -> None:
        self._store.delete(key)
        self.invalidate(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        return self._store.list(prefix, start_after)

    def invalidate(self, key: str) -> None:
        """Remove the copy of an object that is not what it should be: it may be mended in the store."""
        if self._is_usable and key.startswith(_IMMUTABLE):
            self._write_executor.submit(
                self._remove, self._path(key)
            )  # after it is written, if it waits to be

    def close(self) -> None:
        """Wait until the copies that are to be written are; nothing is read after that."""
        self._write_executor.shutdown()

    def _path(self, key: str) -> Path:
        return self._folder / xxhash.xxh3_128_hexdigest(f"{self._store.location}\0{key}".encode())

    def _read_copy(self, path: Path) -> bytes | None:
        """What a copy holds, which is used now; None if there is none that is whole."""
        with self._suppress_disk_errors("read"):
            try:
                with path.open("rb", buffering=0) as file:
                    checksum, content = file.read(_CHECKSUM_BYTES), file.readall()
            except FileNotFoundError:
                return None
            if checksum == _checksum(path, content):
                with suppress(OSError):
                    os.utime(path)
                return content
            self._metrics.disk_cache_reads.labels("damaged").inc()
            _log.warning("damaged copy of an object removed", path=str(path))
            path.unlink(missing_ok=True)
        return None

    def _write_later(self, path: Path, content: bytes) -> None:
        if BLOCK_BYTES + _compute_disk_size(content) > self._max_bytes:
            return
        with self._lock:
            kept = self._pending_bytes + len(content) <= MAX_PENDING_BYTES
            if kept:
                self._pending_bytes += len(content)
        if kept:
            self._write_executor.submit(self._write, path, content)
        else:
            self._metrics.disk_cache_skipped.inc()

    def _write(self, path: Path, content: bytes) -> None:
        try:
            with self._suppress_disk_errors("write"), self._lock_exclusively() as writing:
                if path.exists():
                    return
                self._reserve_space(_compute_disk_size(content))
                descriptor = os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(descriptor, "wb") as file:  # noqa: PTH123
                    file.write(_checksum(path, content))
                    file.write(content)
                writing.rename(path)
                self._metrics.disk_cache_written_bytes.inc(len(content))
        except _LockTimeout:
            self._metrics.disk_cache_skipped.inc()
        finally:
            with self._lock:
                self._pending_bytes -= len(content)

    def _remove(self, path: Path) -> None:
        with self._suppress_disk_errors("remove"):
            path.unlink(missing_ok=True)

    def _enforce_limit(self) -> None:
        """Go back within the bound, which may have been another, and remove what a process left that died."""
        with suppress(_LockTimeout), self._suppress_disk_errors("clean"), self._lock_exclusively():
            self._evict(0)

    def _reserve_space(self, size: int) -> None:
        try:
            used = int((self._folder / "used").read_bytes())
        except (FileNotFoundError, ValueError):
            used = self._max_bytes
        if used + size > self._max_bytes:
            self._evict(size)
        else:
            self._record_usage(used + size)

    def _evict(self, size: int) -> None:
        """Remove copies, those used least recently first, until `size` bytes more are within the bound."""
        copies = sorted(self._list_copies())
        used = BLOCK_BYTES + sum(taken for _, taken, _ in copies)
        if used + size > self._max_bytes:
            most = min(self._max_bytes * EVICTION_TARGET, self._max_bytes - size)
            for _, taken, path in copies:
                if used <= most:
                    break
                path.unlink(missing_ok=True)
                used -= taken
        self._record_usage(used + size)

    def _list_copies(self) -> Iterator[tuple[float, int, Path]]:
        """When each was last used, and the bytes that it takes."""
        with os.scandir(self._folder) as found:
            for entry in found:
                if _COPY_NAME.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        known = entry.stat(follow_symlinks=False)
                        yield known.st_mtime, _round_up_to_blocks(known.st_size), Path(entry.path)

    def _record_usage(self, used: int) -> None:
        # A process that dies in the middle leaves no number at all: then all is counted again.
        (self._folder / "used").write_bytes(b"%d" % used)
        self._metrics.disk_cache_bytes.set(used)

    def _ensure_folder(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        known = self._folder.lstat()
        if known.st_uid != os.geteuid() or not stat.S_ISDIR(known.st_mode):
            raise PermissionError(errno.EPERM, "it is not a directory of this user", str(self._folder))
        if stat.S_IMODE(known.st_mode) != 0o700:
            self._folder.chmod(0o700)

    @contextmanager
    def _lock_exclusively(self) -> Iterator[Path]:
        """Be the only one who writes, in all processes; gives the file that becomes a copy. Raises _Busy."""
        self._ensure_folder()  # somebody may have removed everything
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._acquire_lock(lock)
            writing = self._folder / "writing"
            writing.unlink(missing_ok=True)
            try:
                yield writing
            finally:
                writing.unlink(missing_ok=True)
        finally:
            os.close(lock)

    def _acquire_lock(self, lock: int) -> None:
        """A process that was stopped may hold it for ever: then each is waited for once, and no longer."""
        end = time.monotonic() + (LOCK_TIMEOUT_SECONDS if self._can_wait_for_lock else 0.0)
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._can_wait_for_lock = time.monotonic() < end
                if not self._can_wait_for_lock:
                    raise _LockTimeout from None
                time.sleep(LOCK_RETRY_SECONDS)
            else:
                self._can_wait_for_lock = True
                return

    @contextmanager
    def _suppress_disk_errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._metrics.disk_cache_errors.labels(operation).inc()
            with self._lock:
                first, self._has_warned = not self._has_warned, True
            if first:
                _log.warning(
                    "trouble with the disk cache: queries read from the store",
                    operation=operation,
                    folder=str(self._folder),
                    cause=str(error),
                    hint="Make room there, or choose another --cache-dir.",
                )


def _checksum(path: Path, content: bytes) -> bytes:
    """Of the content, and of the name that it was stored under."""
    return xxhash.xxh3_128_digest(path.name.encode() + xxhash.xxh3_128_digest(content))


def _compute_disk_size(content: bytes) -> int:
    return _round_up_to_blocks(_CHECKSUM_BYTES + len(content))


def _round_up_to_blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
