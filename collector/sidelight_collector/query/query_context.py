"""Read segments for one query: in threads, through a cache, within a deadline.

A query excludes a segment that it cannot read, with all its windows, and the response counts it. If the
store does not respond at all, the query fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as NotDone
from typing import Any, Final, Literal, Protocol, TypeAlias

import pyarrow as pa
import structlog

from sidelight_collector.query.query_cache import ListingCache, TableCache
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.request_counts import RequestCountSource
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.storage.live_objects import Listing, LiveObjects, list_live_objects
from sidelight_collector.storage.objects import ObjectStore, StoreError, StoreUnavailable
from sidelight_collector.storage.segments import SegmentRef, read_row_groups, read_service_rows
from sidelight_collector.storage.tables import (
    HOURS,
    PROFILES,
    ROLLUP_PARTS,
    SEGMENT_PARTS,
    STEPS,
    SegmentPart,
)
from sidelight_model.counts import STATES

Services: TypeAlias = frozenset[str] | None
"""The services whose rows are read alone, or None for whole tables."""
MAX_CACHED_ROWS: Final = 500_000
"""Samples of more rows are not cached, because they would evict everything else."""
MAX_PRUNED_SERVICES: Final = 16
"""For more services, tables are read whole."""
_UNUSED_COLUMNS: Final = ("digest", "late_ns", "threads", "sampler_cpu_ns", "nominal_ns")
SegmentView: TypeAlias = SegmentPart | Literal["depths"]
"""A table, or `depths`: the depths of the stacks, which are much cheaper to read than their frames."""

VIEW_COLUMNS: Final[dict[SegmentView, tuple[str, ...]]] = {
    "profiles": tuple(name for name in PROFILES.names if name not in _UNUSED_COLUMNS),
    "samples": ("service", "wid", "period_ns", "h", *STATES),
    "stacks": ("service", "h", "depth", "frames"),
    "depths": ("service", "h", "depth"),
    "hours": tuple(HOURS.names),
    "sums": ("service", "group", "period_ns", "h", *STATES),
    "daily": ("service", "group", "period_ns", "h", *STATES),
    "steps": tuple(STEPS.names),
}
"""The columns that queries read."""

log = structlog.get_logger(__name__)


class SegmentUnreadable(Exception):
    """A table is unreadable and its windows are already counted: run the query again."""


class Deadline:
    """The deadline of a query, and the number of requests that wait for it.

    That number starts at one. `join` and `abandon` must be called in one thread.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._end = clock() + seconds
        self.waiters = 1

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed, or no request waits for the query any longer."""
        return self.waiters < 1 or self._end <= self._clock()

    def join(self) -> bool:
        """Add a waiting request; false if the query is over."""
        if self.is_over:
            return False
        self.waiters += 1
        return True

    def abandon(self) -> None:
        """Remove a waiting request. Without any, the query ends at its next check."""
        self.waiters -= 1

    def remaining(self) -> float:
        """Return the seconds left. Raises QueryTimeout if the query is over."""
        left = self._end - self._clock()
        if left <= 0 or self.is_over:
            raise QueryTimeout(self._seconds)
        return left


class Stage1(Protocol):
    """An external engine that sums stacks instead of this process."""

    def sum_stacks(self, context: QueryContext, windows: SelectedWindows) -> pa.Table:
        """Return the same rows as `query.engine.window_sums`, in any order.

        The reference is `run_scans(context, plan_scans(context, windows), windows.services)`.
        """


class QueryContext:
    """The data that one query reads: segments, their tables, and the exclusions.

    `stage1` sums stacks in an external engine, and records the result in `engine`. `on_corrupt` is called
    with the key of each object that was read and is damaged. `request_counts` returns request counts.
    `is_transient` is set when a source other than the store failed: the response is then not cached.
    `raw_windows` has the single windows of each time range, which several sides of a query may share. A
    context lists the segments of the same days once for all sides.
    """

    def __init__(
        self,
        store: ObjectStore,
        cache: TableCache,
        executor: Executor,
        deadline: Deadline,
        stage1: Stage1 | None = None,
        listings: ListingCache | None = None,
        on_corrupt: Callable[[str], None] = lambda _: None,
        request_counts: RequestCountSource | None = None,
    ) -> None:
        self.request_counts = request_counts
        self.is_transient = False
        self._store = store
        self._cache = cache
        self._executor = executor
        self._listing_cache = listings or ListingCache(0)
        self._listings: dict[Hashable, Any] = {}
        self._on_corrupt = on_corrupt
        self._live_objects: dict[tuple[int, int], LiveObjects] = {}
        self._unreadable_refs: dict[SegmentRef, str] = {}
        self._damaged_parts: dict[SegmentRef, set[SegmentPart]] = {}
        self.raw_windows: dict[Hashable, tuple[pa.Table, dict[SegmentRef, int]]] = {}
        self.deadline = deadline
        self.stage1 = stage1
        self.engine = ""

    @property
    def unreadable_count(self) -> int:
        """Segments, blocks and manifests that were excluded as unreadable."""
        return sum(not ref.covered for ref in self._unreadable_refs) + max(
            (objects.damaged_manifests for objects in self._live_objects.values()), default=0
        )

    def list_segments(self, from_ns: int, until_ns: int) -> list[SegmentRef]:
        """List the readable live blocks and segments that may hold windows of this range."""
        self.deadline.remaining()
        key = (from_ns, until_ns)
        if key not in self._live_objects:
            self._live_objects[key] = list_live_objects(
                self._store,
                from_ns,
                until_ns,
                self._executor.map,
                self._listing_cache.manifests,
                self._list_once,
            )
        return [ref for ref in self._live_objects[key].refs if ref not in self._unreadable_refs]

    def _list_once(self, key: Hashable, compute: Callable[[], Listing]) -> Listing:
        if key not in self._listings:
            self._listings[key] = self._listing_cache.calls.call(key, compute)
        listing: Listing = self._listings[key]
        return listing

    def list_rollups(self, from_ns: int, until_ns: int) -> list[SegmentRef]:
        """List the readable rollups of blocks that may hold windows of this range.

        External engines read blocks only.
        """
        self.list_segments(from_ns, until_ns)
        rollups = () if self.stage1 else self._live_objects[from_ns, until_ns].rollups
        return [ref for ref in rollups if ref not in self._unreadable_refs]

    def readable_parts(self, ref: SegmentRef) -> frozenset[SegmentPart]:
        """Return the tables of a segment or block, except the unreadable ones."""
        return ref.parts.difference(self._damaged_parts.get(ref, ()))

    def read_profiles(self, refs: Sequence[SegmentRef]) -> list[tuple[SegmentRef, pa.Table]]:
        """Read the windows of these segments; the list omits unreadable segments."""
        tables = self._read_cached([(ref, "profiles") for ref in refs])
        return [(ref, table) for ref, table in zip(refs, tables, strict=True) if table is not None]

    def read_tables(
        self, refs: Sequence[SegmentRef], view: SegmentView, services: Collection[str] | None = None
    ) -> list[pa.Table]:
        """Read one table of each segment. Raises SegmentUnreadable if one cannot be read."""
        return self.read_views([(ref, view) for ref in refs], services)

    def is_cached(self, ref: SegmentRef, view: str, services: Collection[str] | None = None) -> bool:
        """Whether a table can be read without the store."""
        return any(key in self._cache for key in _list_keys(ref, view, _prune(services)))

    def read_hash_tables(
        self, refs: Sequence[SegmentRef], services: Collection[str] | None = None
    ) -> list[pa.Table]:
        """Read of each segment the smallest table that has all its stack hashes.

        Raises SegmentUnreadable if one cannot be read.
        """
        if self.stage1 is not None:  # an external engine sums, so the smallest table is not cached here
            return self.read_tables(refs, "stacks", services)
        return self.read_views([(ref, self._smallest_part(ref)) for ref in refs], services)

    def _smallest_part(self, ref: SegmentRef) -> SegmentPart:
        small: Sequence[SegmentPart] = ("daily", "sums", "samples")
        return next(part for part in small if part in self.readable_parts(ref))

    def read_views(
        self, views: Sequence[tuple[SegmentRef, SegmentView]], services: Collection[str] | None = None
    ) -> list[pa.Table]:
        """Read these tables. Raises SegmentUnreadable if one cannot be read."""
        tables = self._read_cached(views, services)
        read = [table for table in tables if table is not None]
        if len(read) < len(tables):
            raise SegmentUnreadable
        return read

    def derive_tables(
        self,
        refs: Sequence[SegmentRef],
        view: SegmentView,
        key: Hashable,
        derive: Callable[[pa.Table], pa.Table],
        services: Collection[str] | None = None,
    ) -> list[pa.Table]:
        """Return what `derive` builds from a table of each segment, cached by `key`.

        `key` has the services, if any. Raises SegmentUnreadable if a table cannot be read.
        """
        keys = [(ref.key_prefix, view, key) for ref in refs]
        derived = [self._cache.get(key) for key in keys]
        missing = [at for at, table in enumerate(derived) if table is None]
        tables = self.read_tables([refs[at] for at in missing], view, services)
        for at, table in zip(missing, tables, strict=True):
            self.deadline.remaining()
            built = derived[at] = derive(table)
            self._cache.add(keys[at], built)
        return [table for table in derived if table is not None]

    def iter_samples(self, ref: SegmentRef, services: Collection[str] | None = None) -> Iterator[pa.Table]:
        """Yield the samples of a block by row group.

        At most MAX_CACHED_ROWS rows of some services are cached. Raises SegmentUnreadable if they cannot be
        read.
        """
        pruned = _prune(services)
        if (cached := self._find_cached(ref, "samples", pruned)) is not None:
            yield cached
            return
        columns = VIEW_COLUMNS["samples"]
        kept: list[pa.Table] = []
        rows = 0
        try:
            for table in read_row_groups(self._store, ref, "samples", columns, pruned):
                self.deadline.remaining()
                rows += len(table)
                kept = [*kept, table] if pruned and rows <= MAX_CACHED_ROWS else []
                yield table
        except StoreUnavailable:
            raise
        except (StoreError, pa.ArrowException, OSError) as error:
            self._exclude_segment(ref, error)
            raise SegmentUnreadable from error
        if kept:
            samples = _in_one_chunk(pa.concat_tables(kept))
            self._cache.add(_list_keys(ref, "samples", pruned)[-1], samples)

    def _read_cached(
        self, views: Sequence[tuple[SegmentRef, SegmentView]], services: Collection[str] | None = None
    ) -> list[pa.Table | None]:
        self.deadline.remaining()
        pruned = _prune(services)
        tables = [self._find_cached(ref, view, pruned) for ref, view in views]
        missing = [at for at, table in enumerate(tables) if table is None]
        waiting = {at: self._executor.submit(self._load_cached, *views[at], pruned) for at in missing}
        try:
            for at, future in waiting.items():
                tables[at] = self._await_table(future, *views[at])
        finally:
            for future in waiting.values():
                future.cancel()
        return tables

    def _find_cached(self, ref: SegmentRef, view: SegmentView, services: Services) -> pa.Table | None:
        found = (self._cache.get(key) for key in _list_keys(ref, view, services))
        return next((table for table in found if table is not None), None)

    def _load_cached(self, ref: SegmentRef, view: SegmentView, services: Services) -> pa.Table:
        self.deadline.remaining()
        # Two threads may load the same table: a lock would cost more than it saves.
        if (cached := self._find_cached(ref, view, services)) is not None:
            return cached
        table, is_whole = load_view(self._store, ref, view, services)
        keys = _list_keys(ref, view, services)
        self._cache.add(keys[0] if is_whole else keys[-1], table)
        return table

    def _await_table(self, future: Future[pa.Table], ref: SegmentRef, view: SegmentView) -> pa.Table | None:
        try:
            return future.result(self.deadline.remaining())
        except NotDone:
            self.deadline.remaining()
            raise
        except StoreUnavailable:
            raise
        except (StoreError, pa.ArrowException, OSError) as error:
            self._on_corrupt(ref.key(_part_of(view)))
            # The query can compute a rollup again from the windows while the block still has them.
            if view in ROLLUP_PARTS and ref.parts.issuperset(SEGMENT_PARTS):
                log.warning("table left out of a query", table=ref.key(view), cause=str(error))
                self._damaged_parts.setdefault(ref, set()).add(view)
                return None
            self._exclude_segment(ref, error)
            return None

    def _exclude_segment(self, ref: SegmentRef, error: Exception) -> None:
        log.warning("segment left out of a query", segment=ref.key_prefix, cause=str(error))
        self._unreadable_refs[ref] = str(error)


def _prune(services: Collection[str] | None) -> Services:
    """Return the services to read alone; None for so many that whole tables are read."""
    return None if services is None or len(services) > MAX_PRUNED_SERVICES else frozenset(services)


def _list_keys(ref: SegmentRef, view: str, services: Services) -> list[Hashable]:
    """List the keys of the cache for a whole table, and for its rows of some services."""
    whole = (ref.key_prefix, view)
    return [whole] if services is None else [whole, (*whole, services)]


def load_view(
    store: ObjectStore, ref: SegmentRef, view: SegmentView, services: Collection[str] | None = None
) -> tuple[pa.Table, bool]:
    """Load the columns of a view in one chunk, as `read_service_rows` does.

    Raises ArrowInvalid if a column is missing.
    """
    stored = _part_of(view)
    table, is_whole = read_service_rows(store, ref, stored, VIEW_COLUMNS[view], services)
    if absent := frozenset(VIEW_COLUMNS[view]).difference(table.column_names):
        raise pa.ArrowInvalid(f"{ref.key(stored)} has no column {', '.join(sorted(absent))}")
    return _in_one_chunk(table), is_whole


def _in_one_chunk(table: pa.Table) -> pa.Table:
    return table.unify_dictionaries().combine_chunks()


def _part_of(view: SegmentView) -> SegmentPart:
    """Return the table that a view is read from."""
    return "stacks" if view == "depths" else view
