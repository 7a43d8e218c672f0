"""Ids and digests of recent windows, to tell a repeated window from a reused id."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import structlog

from sidelight_collector.storage.live_objects import list_live_objects
from sidelight_collector.storage.objects import ObjectDamaged, ObjectMissing, ObjectStore
from sidelight_collector.storage.segments import read_segment
from sidelight_collector.storage.tables import DAY_NS
from sidelight_model.errors import Reason, SidelightError

_log = structlog.get_logger()


class DuplicateId(SidelightError):
    """A window has the id of another window with different content."""

    reason = Reason.DUPLICATE_ID

    def __init__(self, window_id: str) -> None:
        super().__init__(
            f"window {window_id} is already stored with other content",
            hint="Every window needs a new ULID; a window that is sent again must be sent unchanged.",
        )


class DedupCache:
    """Digests of the last `capacity` stored windows; the oldest are evicted first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._digests: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._digests)

    def get_digest(self, window_id: str) -> int | None:
        """Return the digest of the window with this id; None if the cache lacks it."""
        return self._digests.get(window_id)

    def add(self, window_id: str, digest: int) -> None:
        """Add a window that is durable."""
        self._digests.setdefault(window_id, digest)
        if len(self._digests) > self.capacity:
            self._digests.popitem(last=False)

    def load(self, windows: Iterable[tuple[str, int]]) -> None:
        """Add windows older than those of the cache, latest first, up to its capacity."""
        for window_id, digest in windows:
            if len(self._digests) >= self.capacity:
                return
            if window_id not in self._digests:
                self._digests[window_id] = digest
                self._digests.move_to_end(window_id, last=False)


def read_recent_ids(
    store: ObjectStore, capacity: int, now_ns: int, should_stop: Callable[[], bool] = lambda: False
) -> list[tuple[str, int]]:
    """Read ids and digests of about `capacity` windows of the last day, latest first.

    Blocks the thread. It ends early when `should_stop` returns true.
    """
    ids: list[tuple[str, int]] = []
    refs = [ref for ref in list_live_objects(store, now_ns - DAY_NS, now_ns + DAY_NS).refs if ref.is_raw]
    for ref in sorted(refs, key=lambda ref: ref.max_start_ms, reverse=True):
        if len(ids) >= capacity or should_stop():
            break
        try:
            table = read_segment(store, ref, "profiles", ["wid", "digest"])
        except ObjectMissing:
            continue  # retention or another collector deleted it after the listing
        except ObjectDamaged as error:
            _log.warning("segment left out of the ids recalled", segment=ref.key_prefix, cause=error.message)
            continue
        ids += [(str(row["wid"]), int(row["digest"])) for row in table.to_pylist()]
    return ids
