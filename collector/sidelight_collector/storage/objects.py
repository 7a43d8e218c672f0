"""The interface of an object store, and its errors.

StoreError
├── ObjectMissing      get of a key that does not exist
├── ObjectExists       put with if_absent, and the key exists
├── ObjectChanged      put with if_match, and the object has another etag
├── ObjectDamaged      an object's content is not what was written
├── StoreUnavailable   the store cannot be reached or fails internally: try again later
├── StoreRefused       the store refuses the request: wrong name, no permission, no space
└── StoreIncompatible  the store works, but this version must not touch its content
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from sidelight_model.errors import Reason, SidelightError

DELETE_CONCURRENCY: Final = 8
"""Objects that one task deletes at once."""
MAX_KEY_BYTES: Final = 1024  # the limit of S3


class StoreError(SidelightError):
    """An operation of an object store failed."""

    reason = Reason.STORE_UNAVAILABLE


class ObjectMissing(StoreError):
    """No object has this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no object {key!r} in the store")
        self.key = key


class ObjectExists(StoreError):
    """An object could not be created because its key exists."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the object {key!r} is already in the store")
        self.key = key


class ObjectChanged(StoreError):
    """An object could not be replaced because another writer changed it."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the object {key!r} has been changed by another writer")
        self.key = key


class ObjectDamaged(StoreError):
    """An object's content is not what was written."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"the object {key!r} is damaged: {problem}")
        self.key = key


class StoreUnavailable(StoreError):
    """The store cannot be reached, or fails temporarily."""


class StoreRefused(StoreError):
    """The store refuses the request; a retry would not help."""


class StoreIncompatible(StoreError):
    """The store works, but this version cannot use its content."""

    reason = Reason.STORE_FORMAT


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """One object in a listing: `size` in bytes, `modified` in Unix seconds.

    `etag` is the etag that get_with_etag returns; None in a store whose listings have no etags.
    """

    key: str
    size: int
    modified: float
    etag: str | None = None


class ObjectStore(Protocol):
    """A flat map of keys to immutable bytes, shared by any number of processes.

    Keys are relative paths of 1 to 1,024 bytes such as `v1/l0/2026-11-21/a/samples.parquet`. An empty, `.`
    or `..` part raises ValueError. Callers never use both a key and a key below it (`n` and `n/x`).

    Every implementation keeps these promises; tests/collector/test_store_promises.py checks them:

    - A put is durable once it returns: a crash of any process or of the machine does not undo it.
    - A reader sees an object whole or not at all. Every request that starts after a put, delete or list has
      returned sees its result.
    - If several writers use if_absent on one key, exactly one succeeds and the others get ObjectExists.
    - If several writers use the same if_match, exactly one succeeds and the others get ObjectChanged. If
      the network loses the response, the successful writer may get the error too.
    - An etag changes when the bytes change.
    - Every call ends within a bounded time, and every failure is a StoreError.

    Calls block, so callers make them in threads. All methods are thread-safe.
    """

    @property
    def kind(self) -> str:
        """The kind of store: memory, directory or s3."""

    @property
    def location(self) -> str:
        """The location as an operator would write it, without secrets."""

    def get(self, key: str) -> bytes:
        """Return the bytes of one object. Raises ObjectMissing."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes of one object from `start` up to `end`, which is excluded.

        They are fewer if the object ends before. Raises ObjectMissing, and ValueError for an empty range.
        """

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        """Return the bytes of one object and the etag of exactly these bytes.

        Raises ObjectMissing.
        """

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object atomically and return its etag.

        With `if_absent` the object is only created: raises ObjectExists if the key exists. With `if_match`
        it is only replaced while it has that etag: raises ObjectChanged if it has another or no longer
        exists. A call gives at most one of the two.
        """

    def delete(self, key: str) -> None:
        """Delete one object; a missing object is no error."""

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        """Iterate over objects by `prefix`, in order of key, after `start_after`.

        `start_after` is exclusive. Keys are ordered by their UTF-8 bytes. An object created or deleted
        meanwhile may or may not be included.
        """


@runtime_checkable
class GroupWriter(Protocol):
    """A store that writes several objects together; on a full disk, none of them."""

    def put_all(self, contents: Mapping[str, bytes], *, last_if_absent: bool = False) -> None:
        """Write objects, and the last one after all others, with `if_absent` on request."""


def put_all(store: ObjectStore, contents: Mapping[str, bytes], *, last_if_absent: bool = False) -> None:
    """Write objects, and the last one after all others; together if the store can.

    Nothing is being written when it ends. Raises StoreError, and ObjectExists if the last one is `if_absent`
    and exists.
    """
    if isinstance(store, GroupWriter):
        store.put_all(contents, last_if_absent=last_if_absent)
    else:
        put_each(store, contents, last_if_absent=last_if_absent)


def put_each(store: ObjectStore, contents: Mapping[str, bytes], *, last_if_absent: bool) -> None:
    """Write objects one after the other, as `put_all` does."""
    *_, last = contents
    for key, content in contents.items():
        store.put(key, content, if_absent=last_if_absent and key == last)


def check_key(key: str) -> str:
    """Return the key. Raises ValueError if it is invalid."""
    if not 0 < len(key.encode()) <= MAX_KEY_BYTES:
        raise ValueError(f"a key has 1 to {MAX_KEY_BYTES} bytes: {key[:80]!r}")
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise ValueError(f"a key has no empty, '.' or '..' part: {key!r}")
    if "\0" in key:
        raise ValueError("a key has no NUL character")
    return key


def check_range(start: int, end: int) -> None:
    """Raise ValueError if a range of bytes is empty or begins before 0."""
    if not 0 <= start < end:
        raise ValueError(f"a range has a byte at least, and begins at 0 or later: {start} to {end}")


def check_condition(*, if_absent: bool, if_match: str | None) -> None:
    """Raise ValueError if a put gives both conditions."""
    if if_absent and if_match is not None:
        raise ValueError("a put is if_absent or if_match, not both")
