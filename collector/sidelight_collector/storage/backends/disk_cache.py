"""An object store with an LRU cache of its immutable objects on a local disk.

Objects below v1/l0/, v1/raw/ and v1/rollup/ never change, so a copy is equivalent to the object. Listings
and manifests determine which of them count, and are always read from the store itself. Queries that start
after an object was deleted therefore never read its copy, which is evicted later. A collector that writes
through the cache does not request its own objects again.

A copy is a file named by the hash of store and key, with a checksum before the content. A truncated or
changed copy is removed, and the object is fetched again. Copies are written to a temporary file and
renamed, but not synced: losing a copy in a power cut does no harm.

Several processes may share the folder. A writer holds flock(2), evicts copies if necessary, records the
resulting size in the file `used`, and then writes. The size limit therefore holds even if a process dies at
any point; `used` may be too high, but never too low. Readers hold no lock. Disk errors are counted, logged
once, and fail no query, because the store has all objects.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import structlog
import xxhash

from sidelight_collector.metrics import Metrics
from sidelight_collector.storage import manifest, segments
from sidelight_collector.storage.checksum import is_intact
from sidelight_collector.storage.objects import ObjectEntry, ObjectStore, check_range, put_all

FOLDER: Final = "sidelight-objects"
BLOCK_BYTES: Final = 4096
"""Size of a file system block; files take whole blocks."""
MAX_PENDING_BYTES: Final = 64 << 20
"""Limit of bytes that wait to be written; beyond it objects are not cached."""
EVICTION_TARGET: Final = 0.9
"""Share of the limit that an eviction leaves at most.

A full cache would otherwise have to evict for each write.
"""
LOCK_TIMEOUT_SECONDS: Final = 1.0
LOCK_RETRY_SECONDS: Final = 0.005

_IMMUTABLE: Final = (segments.ROOT, manifest.BLOCK_ROOT, manifest.ROLLUP_ROOT)
_COPY_NAME: Final = re.compile(r"[0-9a-f]{32}")
_CHECKSUM_BYTES: Final = 16
_log = structlog.get_logger(__name__)


class _LockTimeout(Exception):
    """Another process holds the write lock of the folder for too long."""


class DiskCachedStore:
    """A wrapper that keeps copies of the immutable objects of a store in a folder.

    Objects that are read or written through it are copied. A separate thread writes the copies; `close` waits
    for it.
    """

    def __init__(self, store: ObjectStore, folder: Path, max_bytes: int, metrics: Metrics) -> None:
        """`max_bytes` limits the copies below `folder`, of all processes together."""
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

    def get_range(self, key: str, start: int, end: int) -> bytes:
        # Of a copy only its own bytes are read. They are not checked here: readers of ranges do that.
        check_range(start, end)
        if self._is_usable and key.startswith(_IMMUTABLE):
            with self._suppress_disk_errors("read"), suppress(FileNotFoundError):
                path = self._path(key)
                with path.open("rb", buffering=0) as file:
                    file.seek(_CHECKSUM_BYTES + start)
                    content = file.read(end - start)
                os.utime(path)
                self._metrics.disk_cache_reads.labels("hit").inc()
                return content
            self._metrics.disk_cache_reads.labels("miss").inc()
        return self._store.get_range(key, start, end)

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        return self._store.get_with_etag(key)

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        etag = self._store.put(key, content, if_absent=if_absent, if_match=if_match)
        self._keep(key, content)
        return etag

    def put_all(self, contents: Mapping[str, bytes], *, last_if_absent: bool = False) -> None:
        put_all(self._store, contents, last_if_absent=last_if_absent)
        for key, content in contents.items():
            self._keep(key, content)

    def delete(self, key: str) -> None:
        self._store.delete(key)
        self.invalidate(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        return self._store.list(prefix, start_after)

    def invalidate(self, key: str) -> None:
        """Remove the copy of a damaged object, which may be repaired in the store."""
        if self._is_usable and key.startswith(_IMMUTABLE):
            # In the writing thread: the copy may still wait to be written.
            self._write_executor.submit(self._remove, self._path(key))

    def close(self) -> None:
        """Wait until pending copies are written; no more are then read or written."""
        self._is_usable = False
        self._write_executor.shutdown()

    def _path(self, key: str) -> Path:
        return self._folder / xxhash.xxh3_128_hexdigest(f"{self._store.location}\0{key}".encode())

    def _read_copy(self, path: Path) -> bytes | None:
        """Return the content of a copy and mark it as used; None if missing or damaged."""
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

    def _keep(self, key: str, content: bytes) -> None:
        if self._is_usable and key.startswith(_IMMUTABLE):
            self._write_later(self._path(key), content)

    def _write_later(self, path: Path, content: bytes) -> None:
        if BLOCK_BYTES + _compute_disk_size(content) > self._max_bytes:
            return
        with self._lock:
            is_accepted = self._pending_bytes + len(content) <= MAX_PENDING_BYTES
            if is_accepted:
                self._pending_bytes += len(content)
        if is_accepted:
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
        """Evict down to the limit, which may have been lowered.

        Taking the lock also removes the temporary file of a process that died.
        """
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
        """Remove the least recently used copies until `size` more bytes fit."""
        copies = sorted(self._list_copies())
        used = BLOCK_BYTES + sum(size_on_disk for _, size_on_disk, _ in copies)
        if used + size > self._max_bytes:
            target = min(self._max_bytes * EVICTION_TARGET, self._max_bytes - size)
            for _, size_on_disk, path in copies:
                if used <= target:
                    break
                path.unlink(missing_ok=True)
                used -= size_on_disk
        self._record_usage(used + size)

    def _list_copies(self) -> Iterator[tuple[float, int, Path]]:
        """Iterate over copies as (last use in Unix seconds, bytes on disk, path)."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if _COPY_NAME.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        yield status.st_mtime, _round_up_to_blocks(status.st_size), Path(entry.path)

    def _record_usage(self, used: int) -> None:
        # A process that dies during this write leaves an empty file; the next writer counts all copies again.
        (self._folder / "used").write_bytes(b"%d" % used)
        self._metrics.disk_cache_bytes.set(used)

    def _ensure_folder(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        status = self._folder.lstat()
        if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
            raise PermissionError(errno.EPERM, "it is not a directory of this user", str(self._folder))
        if stat.S_IMODE(status.st_mode) != 0o700:
            self._folder.chmod(0o700)

    @contextmanager
    def _lock_exclusively(self) -> Iterator[Path]:
        """Hold the write lock of all processes; yields the path of the temporary file.

        Raises _LockTimeout.
        """
        self._ensure_folder()  # an operator may have removed it
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
        """Acquire the lock of the folder. Raises _LockTimeout.

        A suspended process may hold the lock forever. After one timeout, later calls do not wait until the
        lock has been acquired again.
        """
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
    """Compute the checksum of a copy from its content and file name."""
    return xxhash.xxh3_128_digest(path.name.encode() + xxhash.xxh3_128_digest(content))


def _compute_disk_size(content: bytes) -> int:
    return _round_up_to_blocks(_CHECKSUM_BYTES + len(content))


def _round_up_to_blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
