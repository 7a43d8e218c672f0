"""One process watches the cluster, and all collectors on its store know what it sees.

    v1/discovery/watcher.json       who watches, and a count that goes on while it does
    v1/discovery/seen.json.zst      what it sees
    v1/discovery/rollouts.json      the rollouts that any of them ever saw

An API server then has as many watches as one process makes, however many collectors there are. Whoever has
seen the first object unchanged for longer than its time, on a clock of its own, takes the watch over. Two may
do so in one moment: then both watch for a while, and write the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final

import orjson
import zstandard

from sidelight_collector.decompress import unpack
from sidelight_collector.kubernetes_discovery.cluster_cache import Known
from sidelight_collector.kubernetes_discovery.k8s_objects import Namespace, Pod, Sidecar
from sidelight_collector.kubernetes_discovery.rollouts import Rollout, Rollouts, added, decode, encode
from sidelight_collector.storage.objects import ObjectChanged, ObjectExists, ObjectMissing, ObjectStore
from sidelight_model.errors import SidelightError

ROOT: Final = "v1/discovery/"
WATCHER: Final = f"{ROOT}watcher.json"
SEEN: Final = f"{ROOT}seen.json.zst"
ROLLOUTS: Final = f"{ROOT}rollouts.json"
FORMAT: Final = 2
_FORMAT_1: Final[Mapping[str, Mapping[str, str]]] = {
    "seen": {"at": "observed_at", "left_out": "pods_omitted", "missing": "watch_problems"},
    "pod": {"skipped": "skip_reason", "watched": "sampled_container", "wished": "inject_label"},
    "sidecar": {"how": "origin"},
    "namespace": {"wished": "inject_label"},
}
"""Names of format 1 of what is seen that are others now, by what has them."""
_LEASE_FORMAT: Final = 1
SEEN_BYTES: Final = 256 << 20
"""What a list of pods may unfold to."""
TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Missing:
    """A right that is missing, or another reason why a kind of object is not watched."""

    resource: str
    group: str
    verb: str
    namespace: str
    problem: str
    hint: str


@dataclass(frozen=True, slots=True)
class Sight:
    """What the process that watches sees, and when (Unix seconds)."""

    state: str
    at: float
    known: Known = field(default_factory=Known)
    missing: tuple[Missing, ...] = ()
    problem: str = ""
    hint: str = ""


class Share:
    """What one process writes and reads; for one thread at a time. All calls block."""

    def __init__(
        self,
        store: ObjectStore,
        lease_seconds: float,
        most_rollouts: int,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._seconds = lease_seconds
        self._most = most_rollouts
        self._timer = timer
        self._holder = token_hex(8)
        self._beat = 0
        self._etag: str | None = None
        self._since = 0.0
        self._other: tuple[str, float] | None = None
        self._read: tuple[str, Sight] | None = None

    @property
    def holds(self) -> bool:
        """Whether the watch is this process's as far as it knows."""
        return self._etag is not None

    def take(self) -> bool:
        """Take the watch if nobody has it, keep it if it is ours; whether it is. Raises StoreError."""
        now = self._timer()
        if self._etag is not None:
            if now - self._since < self._seconds / 3:
                return True
            try:
                self._write(if_match=self._etag)
            except (ObjectChanged, ObjectMissing):
                self._etag = None
            return self.holds
        try:
            content, etag = self._store.get_with_etag(WATCHER)
        except ObjectMissing:
            with suppress(ObjectExists):
                self._write(if_absent=True)
            return self.holds
        if self._other is None or self._other[0] != etag:
            self._other = (etag, now)
        elif now - self._other[1] >= _seconds(content, self._seconds):
            with suppress(ObjectChanged, ObjectMissing):
                self._write(if_match=etag)
        return self.holds

    def leave(self) -> None:
        """Give the watch back. Raises StoreError."""
        if self._etag is not None and self._timer() - self._since < self._seconds:
            self._store.delete(WATCHER)
        self._etag = None

    def put(self, sight: Sight) -> None:
        """Write what is seen."""
        known = sight.known
        told = {
            "format": FORMAT,
            "state": sight.state,
            "observed_at": sight.at,
            "problem": sight.problem,
            "hint": sight.hint,
            "pods_omitted": known.left_out,
            "watch_problems": sight.missing,
            "namespaces": known.namespaces,
            "pods": known.pods,
        }
        self._store.put(SEEN, zstandard.ZstdCompressor(level=3).compress(orjson.dumps(told)))

    def sight(self) -> Sight | None:
        """What the process that watches wrote last; None if none did, or it cannot be read."""
        entry = next((one for one in self._store.list(SEEN) if one.key == SEEN), None)
        if entry is None:
            return None
        if self._read and entry.etag is not None and self._read[0] == entry.etag:
            return self._read[1]
        try:
            content, etag = self._store.get_with_etag(SEEN)
            sight = _sight(orjson.loads(unpack(content, "zstd", SEEN_BYTES)))
        except (SidelightError, ValueError, KeyError, TypeError):
            return None
        self._read = (etag, sight)
        return sight

    def rollouts(self, new: Rollouts) -> dict[tuple[str, int], Rollout]:
        """Those in the store with the new ones, which are then in it too."""
        for _ in range(TRIES):
            etag, kept = None, b""
            with suppress(ObjectMissing):
                kept, etag = self._store.get_with_etag(ROLLOUTS)
            both = added(decode(kept), new, self._most)
            content = encode(both)
            if content == kept or not both:
                return both
            try:
                self._store.put(ROLLOUTS, content, if_absent=etag is None, if_match=etag)
            except (ObjectChanged, ObjectExists):
                continue
            return both
        return dict(new)

    def _write(self, *, if_absent: bool = False, if_match: str | None = None) -> None:
        since = self._timer()
        self._beat += 1
        told = {"beat": self._beat, "format": _LEASE_FORMAT, "holder": self._holder, "seconds": self._seconds}
        content = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
        self._etag = self._store.put(WATCHER, content, if_absent=if_absent, if_match=if_match)
        self._since, self._other = since, None


def kept_rollouts(store: ObjectStore) -> dict[tuple[str, int], Rollout]:
    """Those in the store, for who does not watch. Raises StoreError."""
    try:
        return decode(store.get(ROLLOUTS))
    except ObjectMissing:
        return {}


def is_own(key: str) -> bool:
    """Whether an object in the store is one of these."""
    return key in (WATCHER, SEEN, ROLLOUTS)


def _seconds(content: bytes, usual: float) -> float:
    try:
        return min(float(orjson.loads(content)["seconds"]), 3600.0)
    except (ValueError, KeyError, TypeError):
        return usual


def _sight(told: Mapping[str, Any]) -> Sight:
    if told["format"] == 1:
        told = _of_format_1(told)
    elif told["format"] != FORMAT:
        raise ValueError("of another version")
    pods = tuple(_pod(one) for one in told["pods"])
    namespaces = tuple(Namespace(**one) for one in told["namespaces"])
    known = Known(pods, (), (), namespaces, int(told["pods_omitted"]))
    missing = tuple(Missing(**one) for one in told["watch_problems"])
    return Sight(
        str(told["state"]),
        float(told["observed_at"]),
        known,
        missing,
        str(told["problem"]),
        str(told["hint"]),
    )


def _pod(told: dict[str, Any]) -> Pod:
    sidecar = told.pop("sidecar")
    containers = tuple(told.pop("containers"))
    return Pod(**told, containers=containers, sidecar=None if sidecar is None else Sidecar(**sidecar))


def _of_format_1(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    told = _renamed(raw, "seen")
    told["state"] = "unreachable" if told["state"] == "away" else told["state"]
    told["namespaces"] = [_renamed(one, "namespace") for one in told["namespaces"]]
    told["pods"] = [_renamed(one, "pod") for one in told["pods"]]
    for pod in told["pods"]:
        pod["sidecar"] = None if pod["sidecar"] is None else _renamed(pod["sidecar"], "sidecar")
    return told


def _renamed(raw: Mapping[str, Any], what: str) -> dict[str, Any]:
    return {_FORMAT_1[what].get(name, name): value for name, value in raw.items()}
