"""Captures in the object store, shared by any number of collectors.

    v1/captures/c_01M7…/state.json                        the request, its claims, its outcome
    v1/captures/c_01M7…/parts/01M8….json                  the last report of one sidecar
    v1/captures/c_01M7…/recordings/01M8…-12.json.zst      timeline recording of one process
    v1/captures/c_01M7…/recordings/01M8…-12.json          its summary
    v1/agents/3f0c5d2a9be81746.json.zst                   the sidecars that poll one collector process

Ids are ULIDs, so keys sort by time. A state is created only if absent, and replaced only if it has not
changed since it was read; otherwise the collector reads it again. All calls block.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import orjson
import zstandard
from ulid import ULID

from sidelight_collector.captures.capture import CAPTURE_ID_PATTERN, Capture, CapturePart, is_newer_report
from sidelight_collector.captures.capture_codec import (
    decode_capture,
    decode_part,
    encode_capture,
    encode_part,
)
from sidelight_collector.decompress import decompress_body
from sidelight_collector.storage.documents import READ_CONCURRENCY, DocumentCollection
from sidelight_collector.storage.objects import (
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
)
from sidelight_model.errors import Reason, SidelightError

ROOT: Final = "v1/captures/"
AGENTS_ROOT: Final = "v1/agents/"
MAX_AGENTS_BYTES: Final = 64 << 20
"""Maximum size of a decompressed list of sidecars."""
CACHE_BYTES: Final = 4 << 20
MEMORY_BYTES_PER_JSON_BYTE: Final = 4
"""Memory that a capture takes, as a multiple of the size of its JSON."""
_DAY_SECONDS: Final = 86_400
_STATE_KEY_PATTERN: Final = re.compile(rf"{ROOT}(?P<id>{CAPTURE_ID_PATTERN.pattern})/state\.json")
_PART_KEY_PATTERN: Final = re.compile(
    rf"{ROOT}{CAPTURE_ID_PATTERN.pattern}/parts/[A-Za-z0-9_.-]{{1,64}}\.json"
)
_RECORDING_SUMMARY_KEY_PATTERN: Final = re.compile(
    rf"{ROOT}{CAPTURE_ID_PATTERN.pattern}/recordings/(?P<name>[A-Za-z0-9_.-]{{1,80}})\.json"
)
_CAPTURE_KEY_PATTERN: Final = re.compile(rf"{ROOT}(?P<id>{CAPTURE_ID_PATTERN.pattern})/.+", re.DOTALL)
_AGENTS_KEY_PATTERN: Final = re.compile(rf"{AGENTS_ROOT}[0-9a-f]{{16}}\.json\.zst")

CaptureChange = Callable[[Capture], Capture | None]
"""Returns the changed capture, or None to leave it as it is."""


class CaptureNotFound(SidelightError):
    """There is no capture with this id, or it has expired."""

    reason = Reason.NOT_FOUND

    def __init__(self, capture_id: str) -> None:
        super().__init__(
            f"there is no capture {capture_id[:64]!r}",
            hint="It was deleted or has expired, or the id is not whole; GET /api/v1/captures lists them.",
        )


class AgentRepository:
    """The lists of sidecars that processes of collectors publish for each other.

    `load_contents` reads objects side by side.
    """

    def __init__(
        self, store: ObjectStore, load_contents: Callable[[Iterable[str]], Iterator[bytes | None]]
    ) -> None:
        self._store = store
        self._load_contents = load_contents

    def put(self, instance_id: str, document: Mapping[str, object]) -> None:
        """Publish the list of sidecars that poll this process."""
        content = zstandard.ZstdCompressor(level=3).compress(orjson.dumps(document))
        self._store.put(f"{AGENTS_ROOT}{instance_id}.json.zst", content)

    def delete(self, instance_id: str) -> None:
        """Delete the list of sidecars that poll this process."""
        self._store.delete(f"{AGENTS_ROOT}{instance_id}.json.zst")

    def list_remote(self, excluded_instance: str, since: float) -> list[Mapping[str, object]]:
        """Return the lists that other processes published since `since` (Unix seconds)."""
        entries = [entry for entry in self._store.list(AGENTS_ROOT) if entry.modified >= since]
        keys = [entry.key for entry in entries if entry.key != f"{AGENTS_ROOT}{excluded_instance}.json.zst"]
        documents: list[Mapping[str, object]] = []
        for content in self._load_contents(keys):
            with suppress(SidelightError, ValueError):
                if content is not None:
                    documents.append(orjson.loads(decompress_body(content, "zstd", MAX_AGENTS_BYTES)))
        return documents


class CaptureRepository:
    """The captures in a store. Safe to use from many threads."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._captures = DocumentCollection(
            store,
            encode_capture,
            decode_capture,
            name="captures",
            cache_bytes=CACHE_BYTES,
            measure=lambda _, size: size * MEMORY_BYTES_PER_JSON_BYTE,
        )
        self._parts = DocumentCollection(store, encode_part, decode_part, name="capture-parts")
        self.agents = AgentRepository(store, self._captures.load_contents)

    def close(self) -> None:
        """Stop the reading threads."""
        self._captures.close()
        self._parts.close()

    def create(self, capture: Capture) -> None:
        """Write a new capture. Raises ObjectExists."""
        key = _state_key(capture.id)
        if self._captures.commit(key, capture, None) is None:
            raise ObjectExists(key)

    def get(self, capture_id: str) -> Capture:
        """Return a capture.

        Raises CaptureNotFound.
        """
        try:
            return self._captures.load(_checked_state_key(capture_id)).document
        except ObjectMissing:
            raise CaptureNotFound(capture_id) from None

    def get_with_parts(self, capture_id: str) -> tuple[Capture, dict[str, CapturePart]]:
        """Return a capture and the last reports of its sidecars, by agent.

        Raises CaptureNotFound.
        """
        capture = self.get(capture_id)
        keys = [entry.key for entry in self._store.list(f"{ROOT}{capture_id}/parts/")]
        parts = self._parts.load_all(key for key in keys if _PART_KEY_PATTERN.fullmatch(key))
        return capture, {part.agent: part for part in parts}

    def update(self, capture_id: str, change: CaptureChange) -> Capture:
        """Change a capture and return it.

        `change` is called again after a faster collector. Raises CaptureNotFound, and StoreUnavailable when
        others are faster again and again.
        """
        try:
            return self._captures.update(_checked_state_key(capture_id), change)
        except ObjectMissing:
            raise CaptureNotFound(capture_id) from None

    def put_part(self, capture_id: str, part: CapturePart) -> None:
        """Write a report of a sidecar, unless a later one is stored."""
        self._parts.upsert(
            f"{ROOT}{capture_id}/parts/{part.agent}.json",
            lambda stored: part if is_newer_report(stored, part) else None,
        )

    def list_since(self, since_unix: float) -> list[Capture]:
        """Captures made after this moment, the oldest first; damaged ones are left out."""
        after = f"{ROOT}c_{ULID.from_timestamp(max(0.0, since_unix))}"
        return list(self._captures.load_listed(self._list_states(after)))

    def list_newest(self, limit: int, predicate: Callable[[Capture], bool]) -> list[Capture]:
        """At most `limit` captures for which `predicate` holds, newest first."""
        states = list(self._list_states(""))
        newest: list[Capture] = []
        while states and len(newest) < limit:
            size = min(len(states), max(READ_CONCURRENCY, limit - len(newest)))
            batch = [states.pop() for _ in range(size)]
            newest += [capture for capture in self._captures.load_listed(batch) if predicate(capture)]
        return newest[:limit]

    def delete(self, capture_id: str) -> None:
        """Delete a capture with all its objects.

        Raises CaptureNotFound.
        """
        self.get(capture_id)
        self._delete_objects(capture_id)

    def put_recording(self, capture_id: str, name: str, content: bytes, summary: bytes) -> None:
        """Store a timeline recording and its summary."""
        key = f"{ROOT}{capture_id}/recordings/{name}.json"
        self._store.put(f"{key}.zst", content)
        self._store.put(key, summary)

    def list_recordings(self, capture_id: str) -> list[tuple[str, bytes]]:
        """List the names and summaries of a capture's recordings, sorted by name."""
        names = self._list_recording_names(f"{ROOT}{capture_id}/recordings/")
        keys = [f"{ROOT}{capture_id}/recordings/{name}.json" for name in names]
        contents = zip(names, self._captures.load_contents(keys), strict=True)
        return [(name, content) for name, content in contents if content is not None]

    def list_recording_names(self, capture_id: str, agent: str) -> list[str]:
        """List the names of the recordings that a sidecar sent of a capture."""
        # The name of another sidecar may begin with this one and a dash.
        names = self._list_recording_names(f"{ROOT}{capture_id}/recordings/{agent}-")
        return [name for name in names if name.rpartition("-")[0] == agent]

    def get_recording(self, capture_id: str, name: str) -> bytes:
        """Return a stored recording, compressed with zstd.

        Raises SidelightError (`not_found`).
        """
        try:
            return self._store.get(f"{ROOT}{capture_id}/recordings/{name}.json.zst")
        except (ObjectMissing, ValueError):
            raise SidelightError(
                f"there is no recording {name[:80]!r} of {capture_id[:64]!r}",
                reason=Reason.NOT_FOUND,
                hint=f"GET /api/v1/captures/{capture_id[:64]}/recordings lists those there are.",
            ) from None

    def delete_expired(self, now: float, days: float, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Delete captures older than `days`, and outdated lists of sidecars.

        Returns the number of objects deleted.
        """
        oldest = str(ULID.from_timestamp(max(0.0, now - days * _DAY_SECONDS)))
        keys = [entry.key for entry in self._store.list(AGENTS_ROOT) if entry.modified < now - _DAY_SECONDS]
        for entry in self._store.list(ROOT):
            match = _CAPTURE_KEY_PATTERN.fullmatch(entry.key)
            if match and match["id"] >= f"c_{oldest}":
                break
            keys += [entry.key] if match else []
        for gone, key in enumerate(keys):
            if should_stop():
                return gone
            self._store.delete(key)
        return len(keys)

    def _list_recording_names(self, prefix: str) -> list[str]:
        matches = map(
            _RECORDING_SUMMARY_KEY_PATTERN.fullmatch, (entry.key for entry in self._store.list(prefix))
        )
        return [match["name"] for match in matches if match]

    def _delete_objects(self, capture_id: str) -> None:
        # The state goes first: without it there is no capture, and nobody adds to it.
        self._store.delete(_state_key(capture_id))
        for entry in list(self._store.list(f"{ROOT}{capture_id}/")):
            self._store.delete(entry.key)

    def _list_states(self, after: str) -> Iterator[ObjectEntry]:
        return (entry for entry in self._store.list(ROOT, after) if _STATE_KEY_PATTERN.fullmatch(entry.key))


def is_capture_key(key: str) -> bool:
    """Return whether an object belongs to captures, and is deleted with them."""
    return bool(_CAPTURE_KEY_PATTERN.fullmatch(key) or _AGENTS_KEY_PATTERN.fullmatch(key))


def generate_capture_id(now: float) -> str:
    """Generate the id of a capture created at `now`."""
    return f"c_{ULID.from_timestamp(now)}"


def unix_now() -> float:
    """Return the Unix time, rounded to milliseconds."""
    return round(time.time(), 3)


def _checked_state_key(capture_id: str) -> str:
    if not CAPTURE_ID_PATTERN.fullmatch(capture_id):
        raise CaptureNotFound(capture_id)
    return _state_key(capture_id)


def _state_key(capture_id: str) -> str:
    return f"{ROOT}{capture_id}/state.json"
