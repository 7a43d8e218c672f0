"""Which window ids came lately and what was in them, to tell a repeat from a clash."""

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
    """A window carries the id of another one that has different content."""

    reason = Reason.DUPLICATE_ID

    def __init__(self, window_id: str) -> None:
        super().__init__(
            f"window {window_id} is already stored with other content",
            hint="Every window needs a new ULID; a window that is sent again must be sent unchanged.",
        )


class DedupCache:
    """Digests of the windows stored last, at most so many; the oldest are forgotten first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._digests: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._digests)

    def get_digest(self, window_id: str) -> int | None:
        """What was in the window of this id; None when it is not remembered."""
        return self._digests.get(window_id)

    def add(self, window_id: str, digest: int) -> None:
        """A window is durable."""
        self._digests.setdefault(window_id, digest)
        if len(self._digests) > self.capacity:
            self._digests.popitem(last=False)

    def load(self, windows: Iterable[tuple[str, int]]) -> None:
        """Add windows stored before those remembered, latest first, while there is room."""
        for window_id, digest in windows:
            if len(self._digests) >= self.capacity:
                return
            if window_id not in self._digests:
                self._digests[window_id] = digest
                self._digests.move_to_end(window_id, last=False)


def read_recent_ids(
    store: ObjectStore, capacity: int, now_ns: int, should_stop: Callable[[], bool] = lambda: False
) -> list[tuple[str, int]]:
    """Ids and digests of windows of the last day, latest first, about `capacity` of them; blocks."""
    found: list[tuple[str, int]] = []
    refs = [ref for ref in list_live_objects(store, now_ns - DAY_NS, now_ns + DAY_NS).refs if ref.is_raw]
    for ref in sorted(refs, key=lambda ref: ref.max_start_ms, reverse=True):
        if len(found) >= capacity or should_stop():
            break
        try:
            table = read_segment(store, ref, "profiles", ["wid", "digest"])
        except ObjectMissing:
            continue  # retention or another collector removed it between the listing and now
        except ObjectDamaged as error:
            _log.warning("segment left out of the ids recalled", segment=ref.key_prefix, cause=error.message)
            continue
        found += [(str(row["wid"]), int(row["digest"])) for row in table.to_pylist()]
    return found
