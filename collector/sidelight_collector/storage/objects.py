"""What the collector asks of an object store, and what a store may answer.

StoreError
├── ObjectMissing      get of a key that is not there
├── ObjectExists       put with if_absent, and the key is taken
├── ObjectChanged      put with if_match, and the object has another etag by now
├── ObjectDamaged      what lies under a key is not what was written there
├── StoreUnavailable   the store cannot be reached, or fails for a reason of its own: try again later
├── StoreRefused       the store answers that it will not: wrong name, no permission, no space
└── StoreIncompatible  the store works and holds something this version must not touch
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from sidelight_model.errors import Reason, SidelightError

MAX_KEY_BYTES: Final = 1024  # the limit of S3


class StoreError(SidelightError):
    """Something an object store did not do."""

    reason = Reason.STORE_UNAVAILABLE


class ObjectMissing(StoreError):
    """There is no object under this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no object {key!r} in the store")
        self.key = key


class ObjectExists(StoreError):
    """An object was to be created, and there is one already."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the object {key!r} is already in the store")
        self.key = key


class ObjectChanged(StoreError):
    """An object was to be replaced, and it is no longer the one that was read."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the object {key!r} has been changed by another writer")
        self.key = key


class ObjectDamaged(StoreError):
    """An object is not what was written."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"the object {key!r} is damaged: {problem}")
        self.key = key


class StoreUnavailable(StoreError):
    """The store cannot be reached or fails at the moment."""


class StoreRefused(StoreError):
    """The store answers, and what it says will not change by asking again."""


class StoreIncompatible(StoreError):
    """The store works, and what is in it cannot be used by this version."""

    reason = Reason.STORE_FORMAT


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """One object as a listing shows it: size in bytes, modified in Unix seconds.

    `etag` is that of its content, as get_with_etag gives it; None in a store whose listings do not have it.
    """

    key: str
    size: int
    modified: float
    etag: str | None = None


class ObjectStore(Protocol):
    """A flat map of keys to immutable bytes, shared by any number of processes.

    Keys are relative paths of one to 1,024 bytes such as `v1/l0/2026-11-21/a/samples.parquet`: no empty,
    `.` or `..` part (ValueError). A key and a key below it (`n` and `n/x`) are never both used.

    Promises, held by every implementation and by the suite in tests/collector/test_store_promises.py:

    - what put returned for is durable: a crash of any process or of the machine does not undo it;
    - a reader sees an object whole or not at all, and a put, delete or list that has returned is seen by
      whoever asks afterwards;
    - of any number of writers with if_absent on one key exactly one succeeds, the others get ObjectExists;
    - of any number of writers with the same if_match exactly one succeeds, the others get ObjectChanged;
      (where an answer is lost on a network, the one that succeeded may be told the same as the others)
    - an etag changes when the bytes do;
    - every call ends within a bounded time, and every failure is a StoreError.

    Calls block: they are made in threads, and every method may be called from many threads at once.
    """

    @property
    def kind(self) -> str:
        """One word: memory, directory or s3."""

    @property
    def location(self) -> str:
        """The place as an operator would write it, without secrets."""

    def get(self, key: str) -> bytes:
        """The bytes of one object. Raises ObjectMissing."""

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        """The bytes of one object and the etag of exactly these bytes. Raises ObjectMissing."""

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object whole and return its etag.

        With if_absent it is only created (ObjectExists); with if_match it is only replaced while it still has
        that etag (ObjectChanged, also when it is gone). The two are not given together.
        """

    def delete(self, key: str) -> None:
        """Remove one object; one that is not there is fine."""

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        """Objects whose key begins with the prefix and is greater than start_after, in order of key.

        Order is that of the UTF-8 bytes. An object created or deleted meanwhile may or may not be in it.
        """


def check_key(key: str) -> str:
    """The key itself; ValueError when it is not one."""
    if not 0 < len(key.encode()) <= MAX_KEY_BYTES:
        raise ValueError(f"a key has 1 to {MAX_KEY_BYTES} bytes: {key[:80]!r}")
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise ValueError(f"a key has no empty, '.' or '..' part: {key!r}")
    if "\0" in key:
        raise ValueError("a key has no NUL character")
    return key


def check_condition(*, if_absent: bool, if_match: str | None) -> None:
    """ValueError when a put asks for both conditions."""
    if if_absent and if_match is not None:
        raise ValueError("a put is if_absent or if_match, not both")
