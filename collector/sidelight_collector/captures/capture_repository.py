"""Where captures lie in the store, and how any number of collectors change them there.

    v1/captures/c_01M7…/state.json                        the request, who took it, how it ended
    v1/captures/c_01M7…/parts/01M8….json                  what one sidecar told last
    v1/captures/c_01M7…/recordings/01M8…-12.json.zst      what a process did, in the order of time
    v1/captures/c_01M7…/recordings/01M8…-12.json          what that is, in short
    v1/agents/3f0c5d2a9be81746.json                       the sidecars that ask one process of a collector

Ids are ULIDs, so that keys are in the order of time. A state is created if absent and replaced only while it
is what was read; whoever finds it changed reads it again. All calls block.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import orjson
import zstandard
from ulid import ULID

from sidelight_collector.captures.capture import ID, Capture, Part, newer
from sidelight_collector.captures.capture_codec import decode, decode_part, encode, encode_part
from sidelight_collector.decompress import unpack
from sidelight_collector.lru import Lru
from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectDamaged,
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreUnavailable,
)
from sidelight_model.errors import Reason, SidelightError

ROOT: Final = "v1/captures/"
AGENTS: Final = "v1/agents/"
TRIES: Final = 20
"""So often a change is tried anew because another collector was faster."""
READS: Final = 8
AGENTS_BYTES: Final = 64 << 20
"""What a list of sidecars may unfold to."""
MEMORY_BYTES: Final = 4 << 20
DECODED: Final = 4
"""So many times its text a capture takes in memory."""
_DAY_SECONDS: Final = 86_400
_STATE: Final = re.compile(rf"{ROOT}(?P<id>{ID.pattern})/state\.json")
_PART: Final = re.compile(rf"{ROOT}{ID.pattern}/parts/[A-Za-z0-9_.-]{{1,64}}\.json")
_SUMMARY: Final = re.compile(rf"{ROOT}{ID.pattern}/recordings/(?P<name>[A-Za-z0-9_.-]{{1,80}})\.json")
_OWN: Final = re.compile(rf"{ROOT}(?P<id>{ID.pattern})/.+", re.DOTALL)
_TOLD: Final = re.compile(rf"{AGENTS}[0-9a-f]{{16}}\.json\.zst")

Change = Callable[[Capture], Capture | None]
"""What becomes of a capture; None if it stays as it is."""


class NoCapture(SidelightError):
    """There is no capture with this id, or it is no longer kept."""

    reason = Reason.NOT_FOUND

    def __init__(self, capture_id: str) -> None:
        super().__init__(
            f"there is no capture {capture_id[:64]!r}",
            hint="It was deleted or has expired, or the id is not whole; GET /api/v1/captures lists them.",
        )


class Shelf:
    """The captures in a store; safe to use from many threads."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._reads = ThreadPoolExecutor(READS, thread_name_prefix="captures-read")
        self._memory: Lru[Capture] = Lru(MEMORY_BYTES)

    def close(self) -> None:
        """End the threads."""
        self._reads.shutdown(cancel_futures=True)

    def create(self, capture: Capture) -> None:
        """Write a new capture."""
        self._store.put(_state(capture.id), encode(capture), if_absent=True)

    def capture(self, capture_id: str) -> Capture:
        """One capture. Raises NoCapture."""
        return self._read(capture_id)[0]

    def whole(self, capture_id: str) -> tuple[Capture, dict[str, Part]]:
        """One capture and what its sidecars told. Raises NoCapture."""
        capture = self.capture(capture_id)
        keys = [entry.key for entry in self._store.list(f"{ROOT}{capture_id}/parts/")]
        found = self._reads.map(self._part, [key for key in keys if _PART.fullmatch(key)])
        return capture, {part.agent: part for part in found if part is not None}

    def change(self, capture_id: str, change: Change) -> Capture:
        """Change a capture; what it is then. `change` is called again when another was faster.

        Raises NoCapture, and StoreUnavailable when others are faster again and again.
        """
        for _ in range(TRIES):
            capture, etag = self._read(capture_id)
            changed = change(capture)
            if changed is None:
                return capture
            try:
                self._store.put(_state(capture_id), encode(changed), if_match=etag)
            except ObjectChanged:
                continue
            return changed
        raise StoreUnavailable(
            f"the capture {capture_id} is changed by others all the time", hint="Ask again."
        )

    def tell(self, capture_id: str, part: Part) -> bool:
        """Write what a sidecar told; False if it was told something later already."""
        key = f"{ROOT}{capture_id}/parts/{part.agent}.json"
        for _ in range(TRIES):
            etag, old = None, None
            with suppress(ObjectMissing):
                content, etag = self._store.get_with_etag(key)
                with suppress(ObjectDamaged):
                    old = decode_part(key, content)
            if not newer(old, part):
                return False
            try:
                self._store.put(key, encode_part(part), if_absent=etag is None, if_match=etag)
            except (ObjectChanged, ObjectExists):
                continue
            return True
        raise StoreUnavailable(f"a part of {capture_id} is changed by others all the time", hint="Ask again.")

    def since(self, unix: float) -> list[Capture]:
        """Captures made after this moment, the oldest first; damaged ones are left out."""
        after = f"{ROOT}c_{ULID.from_timestamp(max(0.0, unix))}"
        states = list(self._states(after))
        return [one for one in self._reads.map(self._kept, states) if one is not None]

    def newest(self, limit: int, wanted: Callable[[Capture], bool]) -> list[Capture]:
        """The newest that are wanted, the newest first."""
        states = list(self._states(""))
        found: list[Capture] = []
        while states and len(found) < limit:
            batch = [states.pop() for _ in range(min(len(states), max(READS, limit - len(found))))]
            kept = self._reads.map(self._kept, batch)
            found += [one for one in kept if one is not None and wanted(one)]
        return found[:limit]

    def delete(self, capture_id: str) -> None:
        """Remove a capture with all that belongs to it. Raises NoCapture."""
        self.capture(capture_id)
        self._remove(capture_id)

    def put_recording(self, capture_id: str, name: str, content: bytes, summary: bytes) -> None:
        """Keep what a process did, and what that is in short."""
        key = f"{ROOT}{capture_id}/recordings/{name}.json"
        self._store.put(f"{key}.zst", content)
        self._store.put(key, summary)

    def recordings(self, capture_id: str) -> list[tuple[str, bytes]]:
        """The names of recordings and what they are in short, in order of names."""
        matches = [_SUMMARY.fullmatch(one.key) for one in self._store.list(f"{ROOT}{capture_id}/recordings/")]
        names = [match["name"] for match in matches if match]
        keys = [f"{ROOT}{capture_id}/recordings/{name}.json" for name in names]
        found = zip(names, self._reads.map(self._bytes, keys), strict=True)
        return [(name, content) for name, content in found if content is not None]

    def recording(self, capture_id: str, name: str) -> bytes:
        """A recording as it was kept, compressed with zstd. Raises NoCapture."""
        try:
            return self._store.get(f"{ROOT}{capture_id}/recordings/{name}.json.zst")
        except (ObjectMissing, ValueError):
            raise SidelightError(
                f"there is no recording {name[:80]!r} of {capture_id[:64]!r}",
                reason=Reason.NOT_FOUND,
                hint=f"GET /api/v1/captures/{capture_id[:64]}/recordings lists those there are.",
            ) from None

    def put_agents(self, holder: str, told: Mapping[str, object]) -> None:
        """Say which sidecars ask this process."""
        content = zstandard.ZstdCompressor(level=3).compress(orjson.dumps(told))
        self._store.put(f"{AGENTS}{holder}.json.zst", content)

    def drop_agents(self, holder: str) -> None:
        """Say that none does any longer."""
        self._store.delete(f"{AGENTS}{holder}.json.zst")

    def agents(self, but: str, since: float) -> list[Mapping[str, object]]:
        """What the processes but one said of their sidecars after this moment (Unix seconds)."""
        entries = [entry for entry in self._store.list(AGENTS) if entry.modified >= since]
        keys = [entry.key for entry in entries if entry.key != f"{AGENTS}{but}.json.zst"]
        told: list[Mapping[str, object]] = []
        for content in self._reads.map(self._bytes, keys):
            with suppress(SidelightError, ValueError):
                if content is not None:
                    told.append(orjson.loads(unpack(content, "zstd", AGENTS_BYTES)))
        return told

    def expire(self, now: float, days: float, stopped: Callable[[], bool] = lambda: False) -> int:
        """Remove captures that are too old, and what processes that are gone told; how many objects."""
        oldest = str(ULID.from_timestamp(max(0.0, now - days * _DAY_SECONDS)))
        keys = [entry.key for entry in self._store.list(AGENTS) if entry.modified < now - _DAY_SECONDS]
        for entry in self._store.list(ROOT):
            match = _OWN.fullmatch(entry.key)
            if match and match["id"] >= f"c_{oldest}":
                break
            keys += [entry.key] if match else []
        for gone, key in enumerate(keys):
            if stopped():
                return gone
            self._store.delete(key)
        return len(keys)

    def _remove(self, capture_id: str) -> None:
        # The state goes first: without it there is no capture, and nobody adds to it.
        self._store.delete(_state(capture_id))
        for entry in list(self._store.list(f"{ROOT}{capture_id}/")):
            self._store.delete(entry.key)

    def _read(self, capture_id: str) -> tuple[Capture, str]:
        if not ID.fullmatch(capture_id):
            raise NoCapture(capture_id)
        key = _state(capture_id)
        try:
            content, etag = self._store.get_with_etag(key)
        except ObjectMissing:
            raise NoCapture(capture_id) from None
        return decode(key, content), etag

    def _states(self, after: str) -> Iterator[ObjectEntry]:
        return (entry for entry in self._store.list(ROOT, after) if _STATE.fullmatch(entry.key))

    def _kept(self, entry: ObjectEntry) -> Capture | None:
        """A capture that was listed; from memory if it is still the same."""
        known = (entry.key, entry.etag)
        if entry.etag is not None and (kept := self._memory.peek(known)):
            return kept
        try:
            content, etag = self._store.get_with_etag(entry.key)
            capture = decode(entry.key, content)
        except (ObjectMissing, ObjectDamaged):
            return None
        self._memory.keep((entry.key, etag), capture, len(content) * DECODED)
        return capture

    def _part(self, key: str) -> Part | None:
        try:
            return decode_part(key, self._store.get(key))
        except (ObjectMissing, ObjectDamaged):
            return None

    def _bytes(self, key: str) -> bytes | None:
        try:
            return self._store.get(key)
        except ObjectMissing:
            return None


def is_own(key: str) -> bool:
    """Whether an object is of captures, and goes with them."""
    return bool(_OWN.fullmatch(key) or _TOLD.fullmatch(key))


def new_id(now: float) -> str:
    """An id for a capture made at this moment."""
    return f"c_{ULID.from_timestamp(now)}"


def unix_now() -> float:
    """The clock, to the millisecond."""
    return round(time.time(), 3)


def _state(capture_id: str) -> str:
    return f"{ROOT}{capture_id}/state.json"
