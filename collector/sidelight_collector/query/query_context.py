"""Reading segments for one query: in threads, through memory, until the query's time is up.

A segment that cannot be read must not make the answer a guess. It is left out whole, all its windows with it,
and counted in the answer. A store that does not answer at all is different: then the query fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as NotDone
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias

import pyarrow as pa
import structlog

from sidelight_collector.lru import Lru
from sidelight_collector.query.query_cache import TableCache
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.request_counts import RequestCounts
from sidelight_collector.query.windows import Windows
from sidelight_collector.storage.live_objects import Live, live
from sidelight_collector.storage.manifest import Manifest
from sidelight_collector.storage.objects import ObjectStore, StoreError, StoreUnavailable
from sidelight_collector.storage.segments import SegmentRef, read_pieces, read_segment
from sidelight_collector.storage.tables import ADDED_UP, HOURS, PARTS, PROFILES, Part

_UNUSED: Final = ("digest", "late_ns", "threads", "sampler_cpu_ns", "nominal_ns")
View: TypeAlias = Part | Literal["depths"]
"""A table, or `depths`: of the stacks how deep they are, which takes a fraction of reading their frames."""

COLUMNS: Final[dict[View, tuple[str, ...]]] = {
    "profiles": tuple(name for name in PROFILES.names if name not in _UNUSED),
    "samples": ("service", "wid", "period_ns", "h", "idle", "running", "gil"),
    "stacks": ("service", "h", "depth", "frames"),
    "depths": ("service", "h", "depth"),
    "hours": tuple(HOURS.names),
    "sums": ("service", "group", "period_ns", "h", "idle", "running", "gil"),
    "daily": ("service", "group", "period_ns", "h", "idle", "running", "gil"),
}
"""What queries read of each table."""

log = structlog.get_logger(__name__)


class Incomplete(Exception):
    """Tables turned out unreadable after windows of theirs had been counted: the query starts again."""


class Deadline:
    """When a query has to be done, and whether anybody waits for it: one at first.

    Those who wait join and abandon it in one thread.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._end = clock() + seconds
        self.waiting = 1

    @property
    def over(self) -> bool:
        """Whether the query is out of time, or nobody waits for it any longer."""
        return self.waiting < 1 or self._end <= self._clock()

    def join(self) -> bool:
        """One more waits for the query; false if it is over."""
        if self.over:
            return False
        self.waiting += 1
        return True

    def abandon(self) -> None:
        """One waits no longer. When nobody does, the query ends at its next check."""
        self.waiting -= 1

    def remaining(self) -> float:
        """Seconds left. Raises QueryTimeout when there are none."""
        left = self._end - self._clock()
        if left <= 0 or self.over:
            raise QueryTimeout(self._seconds)
        return left


class Stage1(Protocol):
    """What adds up in the place of this process."""

    def sums(self, reading: Reading, windows: Windows) -> pa.Table:
        """As `added_up` of `query.engine.window_sums`, of what is planned, row for row in any order."""


class Reading:
    """What one query reads: listed segments, their tables, and which of them had to be left out.

    With `stage1`, another engine adds up, and writes down in `engine` how that went; `doubt` is told the key
    of an object that was read and is not what it should be. `request_counts` tells requests; where an answer
    is of the moment, as something besides the store did not tell, it is `passing` and not kept.
    """

    def __init__(
        self,
        store: ObjectStore,
        cache: TableCache,
        pool: Executor,
        deadline: Deadline,
        stage1: Stage1 | None = None,
        manifests: Lru[Manifest] | None = None,
        doubt: Callable[[str], None] = lambda _: None,
        request_counts: RequestCounts | None = None,
    ) -> None:
        self.request_counts = request_counts
        self.passing = False
        self._store = store
        self._cache = cache
        self._pool = pool
        self._manifests = manifests
        self._doubt = doubt
        self._listed: dict[tuple[int, int], Live] = {}
        self._unreadable: dict[SegmentRef, str] = {}
        self._damaged: dict[SegmentRef, set[Part]] = {}
        self.deadline = deadline
        self.stage1 = stage1
        self.engine = ""

    @property
    def unreadable(self) -> int:
        """How many segments, blocks and manifests were left out because they could not be read."""
        return len(self._unreadable) + max((one.damaged for one in self._listed.values()), default=0)

    def segments(self, from_ns: int, until_ns: int) -> list[SegmentRef]:
        """Readable blocks and segments that may hold windows of this range, as they count."""
        self.deadline.remaining()
        key = (from_ns, until_ns)
        if key not in self._listed:
            self._listed[key] = live(self._store, from_ns, until_ns, self._pool.map, self._manifests)
        return [ref for ref in self._listed[key].refs if ref not in self._unreadable]

    def readable(self, ref: SegmentRef) -> frozenset[Part]:
        """The tables of a segment or block that it has, but for those that turned out unreadable."""
        return ref.parts.difference(self._damaged.get(ref, ()))

    def profiles(self, refs: Sequence[SegmentRef]) -> list[tuple[SegmentRef, pa.Table]]:
        """The windows of these segments; those of unreadable segments are missing from the list."""
        tables = self._read([(ref, "profiles") for ref in refs])
        return [(ref, table) for ref, table in zip(refs, tables, strict=True) if table is not None]

    def tables(self, refs: Sequence[SegmentRef], part: View) -> list[pa.Table]:
        """One table of each segment. Raises Incomplete when one cannot be read."""
        return self.parts([(ref, part) for ref in refs])

    def counted(self, refs: Sequence[SegmentRef]) -> list[pa.Table]:
        """For each segment a table with all its stack hashes, the smallest one. Raises Incomplete."""
        if self.stage1 is not None:  # then these are not read here anyway
            return self.tables(refs, "stacks")
        return self.parts([(ref, self._smallest(ref)) for ref in refs])

    def _smallest(self, ref: SegmentRef) -> Part:
        small: Sequence[Part] = ("daily", "sums", "samples")
        return next(part for part in small if part in self.readable(ref))

    def parts(self, wanted: Sequence[tuple[SegmentRef, View]]) -> list[pa.Table]:
        """One table of each of these. Raises Incomplete when one cannot be read."""
        tables = self._read(wanted)
        read = [table for table in tables if table is not None]
        if len(read) < len(tables):
            raise Incomplete
        return read

    def pieces(self, ref: SegmentRef) -> Iterator[pa.Table]:
        """The samples of a block, piece by piece, and not kept. Raises Incomplete if they cannot be read."""
        try:
            for table in read_pieces(self._store, ref, "samples", COLUMNS["samples"]):
                self.deadline.remaining()
                yield table
        except StoreUnavailable:
            raise
        except (StoreError, pa.ArrowException, OSError) as error:
            self._leave_out(ref, error)
            raise Incomplete from error

    def _read(self, wanted: Sequence[tuple[SegmentRef, View]]) -> list[pa.Table | None]:
        self.deadline.remaining()
        found: list[pa.Table | None] = [self._cache.peek((ref.key_prefix, part)) for ref, part in wanted]
        missing = [at for at, table in enumerate(found) if table is None]
        waiting = {at: self._pool.submit(self._load, *wanted[at]) for at in missing}
        try:
            for at, future in waiting.items():
                found[at] = self._result(future, *wanted[at])
        finally:
            for future in waiting.values():
                future.cancel()
        return found

    def _load(self, ref: SegmentRef, part: View) -> pa.Table:
        self.deadline.remaining()
        return self._cache.get((ref.key_prefix, part), partial(load, self._store, ref, part))

    def _result(self, future: Future[pa.Table], ref: SegmentRef, part: View) -> pa.Table | None:
        try:
            return future.result(self.deadline.remaining())
        except NotDone:
            self.deadline.remaining()
            raise
        except StoreUnavailable:
            raise
        except (StoreError, pa.ArrowException, OSError) as error:
            self._doubt(ref.key(_stored(part)))
            # What was added up can be added up again from the rest, while that is there.
            if part in ADDED_UP and ref.parts.issuperset(PARTS):
                log.warning("table left out of a query", table=ref.key(part), cause=str(error))
                self._damaged.setdefault(ref, set()).add(part)
                return None
            self._leave_out(ref, error)
            return None

    def _leave_out(self, ref: SegmentRef, error: Exception) -> None:
        log.warning("segment left out of a query", segment=ref.key_prefix, cause=str(error))
        self._unreadable[ref] = str(error)


def load(store: ObjectStore, ref: SegmentRef, part: View) -> pa.Table:
    """The columns that queries use of one table, in one piece. Raises ArrowInvalid when one is missing."""
    stored = _stored(part)
    table = read_segment(store, ref, stored, COLUMNS[part])
    absent = [name for name in COLUMNS[part] if name not in table.column_names]
    if absent:
        raise pa.ArrowInvalid(f"{ref.key(stored)} has no column {', '.join(absent)}")
    return table.unify_dictionaries().combine_chunks()


def _stored(part: View) -> Part:
    """The table that a view is of."""
    return "stacks" if part == "depths" else part
