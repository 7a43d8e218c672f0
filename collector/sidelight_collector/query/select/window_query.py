"""Select the windows of a query, each window once.

A window is in a range if from <= start < until. A window may be in several segments, because a sidecar
sends it again after a lost response. It counts in the first segment in the order of keys, and in no other.

Blocks have hourly rows, which summarize many windows (`hours`). The query reads them instead of single
windows where the result is the same. All windows of the hour in the block must be in the range, and no
segment may repeat one of them (`storage.window_ids`). If the query needs stacks, it must select all windows
of a group whose stacks are summed together. Windows that exist only as a rollup are in a range if their hour
or day starts in it. Where a rollup of a day sums the blocks that a query reads (`storage.day_rollup`), the
query reads its hourly rows instead of theirs.

A matcher on `thread` selects samples, not time: the process was profiled also while other threads were not
sampled or did not exist. The rates of all kinds of threads of a process therefore add up to the rate of the
process.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    Column,
    build_dictionary_array,
    combine_chunks,
    concat_tables,
    drop_duplicates,
    factorize_rows,
    filter_rows,
    is_equal_string,
    repeat_value,
    row_numbers,
    sum_ints,
    to_ints,
)
from sidelight_collector.query.query_context import QueryContext, SegmentUnreadable
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.select.matchers import filter_by_selector, find_matching_values
from sidelight_collector.query.windows import SelectedWindows, WindowQuery
from sidelight_collector.storage.rollups.hourly_rollup import WINDOW_ROW_SCHEMA, build_window_rows
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import DAY_NS, HOUR_NS, HOURS, SegmentPart
from sidelight_collector.storage.tables import compute_hour_starts as hours_of
from sidelight_collector.storage.window_ids import SegmentWindows
from sidelight_model.selectors import ENDPOINT_LABEL, Matcher, Selector

BlockHour: TypeAlias = tuple[str, int]
"""The key prefix of a block or rollup, and the start of an hour (Unix ns)."""
_SEGMENT_FIELD: Final = pa.field("segment", pa.int32())
ROW_SCHEMA: Final = pa.schema([*WINDOW_ROW_SCHEMA, _SEGMENT_FIELD])
_EMPTY_HOURS: Final = pa.schema(
    [
        *ROW_SCHEMA,
        pa.field("apart", pa.bool_()),
        pa.field("daily", pa.bool_()),
        pa.field("key", pa.int32()),
    ]
).empty_table()


def select_windows(
    context: QueryContext, query: WindowQuery, *, with_stacks: bool = True, step_ns: int = HOUR_NS
) -> SelectedWindows:
    """Select the windows of one query, in the order of their segments."""
    return select_side_windows(context, [query], with_stacks=with_stacks, step_ns=step_ns)[0]


def select_side_windows(
    context: QueryContext, sides: Sequence[WindowQuery], *, with_stacks: bool = True, step_ns: int = HOUR_NS
) -> list[SelectedWindows]:
    """Select the windows of each side; a window on two sides is the same row on both.

    Without `with_stacks`, the caller uses only the numbers of the windows, in steps of `step_ns`. Raises
    BadParameter if a side then has a matcher on `endpoint`.
    """
    if not with_stacks and any(side.endpoint_matchers for side in sides):
        raise BadParameter(
            f"{ENDPOINT_LABEL} selects stacks, and this answer comes from windows without their stacks",
            hint=f"Leave {ENDPOINT_LABEL} out of the selector.",
        )
    raw_only = step_ns % HOUR_NS != 0 or any(side.by_window for side in sides)
    bounds = {bound for side in sides for bound in (side.from_ns, side.until_ns) if bound % HOUR_NS}
    rollups = [] if raw_only else _choose_rollups(context, sides)
    selections = [
        _SideSelection(context, side.drop_endpoints(), rollups, with_stacks=with_stacks, raw_only=raw_only)
        for side in sides
    ]
    split_hours = {hour for side in selections for hour in side.iter_split_hours(bounds)}
    split_hours |= {hour for side in selections for hour in side.iter_partial_hours(split_hours)}
    return [
        replace(
            selection.select(split_hours),
            endpoint_matchers=side.endpoint_matchers,
            group_by_endpoint=side.group_by_endpoint,
        )
        for selection, side in zip(selections, sides, strict=True)
    ]


def _list_blocks_and_segments(context: QueryContext, query: WindowQuery) -> list[SegmentRef]:
    return select_by_service(context.list_segments(query.from_ns, query.until_ns), query.selector)


def _choose_rollups(context: QueryContext, sides: Sequence[WindowQuery]) -> list[SegmentRef]:
    """Choose the rollups to read.

    Of each, the sides read at least half of the blocks that it sums. All sides read the same ones, so that
    a window on two sides is the same row on both.
    """
    # Sides are listed one after the other: a block may have been replaced in between.
    listed = [
        (
            {ref.key_prefix for ref in _list_blocks_and_segments(context, side)},
            frozenset(context.list_rollups(side.from_ns, side.until_ns)),
        )
        for side in sides
    ]
    prefixes = {key for keys, _ in listed for key in keys}
    return sorted(
        ref
        for ref in frozenset(rollup for _, rollups in listed for rollup in rollups)
        if "sums" in ref.parts
        and 2 * len(ref.covered & prefixes) >= len(ref.covered)
        and all(ref in rollups or ref.covered.isdisjoint(keys) for keys, rollups in listed)
    )


class _SideSelection:
    """The selection of one side, in steps: all sides together decide what to split."""

    def __init__(
        self,
        context: QueryContext,
        query: WindowQuery,
        rollups: Sequence[SegmentRef],
        *,
        with_stacks: bool,
        raw_only: bool,
    ) -> None:
        self._context = context
        self._query = query
        self._with_stacks = with_stacks
        refs = _list_blocks_and_segments(context, query)
        prefixes = {ref.key_prefix for ref in refs}
        own_rollups = [ref for ref in rollups if not prefixes.isdisjoint(ref.covered)]
        self._refs = [*own_rollups, *refs]
        covered = frozenset[str]().union(*(ref.covered for ref in own_rollups))
        self._covered = [at for at, ref in enumerate(self._refs) if ref.key_prefix in covered]
        self._rollup_of = {key: ref.key_prefix for ref in own_rollups for key in ref.covered}
        parts = [context.readable_parts(ref) for ref in self._refs]
        with_hours = [
            at
            for at, ref_parts in enumerate(parts)
            if at not in self._covered
            and _can_use_rollup(ref_parts, with_stacks=with_stacks, raw_only=raw_only)
        ]
        hour_tables = context.read_views([(self._refs[at], "hours") for at in with_hours])
        self._hour_tables = dict(zip(with_hours, hour_tables, strict=True))
        self._hour_rows = _EMPTY_HOURS
        if self._hour_tables:
            rows = self._join_hours(parts)
            if not with_stacks:  # rows that do not match matter only for groups of stacks
                rows = filter_by_selector(rows, drop_thread_matchers(query.selector))
            # A block that has only daily sums is selected by day.
            group = pc.if_else(rows["daily"], rows["day"], rows["group"])
            keys = rows.select(["segment", "daily"]).append_column("group", group)
            self._hour_rows = rows.append_column("key", factorize_rows(keys))

    def _join_hours(self, parts: Sequence[Collection[SegmentPart]]) -> pa.Table:
        """Join the hourly rows of all blocks, and tag them with their block.

        `parts` has the tables of each segment. Rows of services that do not match are left out: no group has
        stacks of two services.
        """
        services = Selector(_list_service_matchers(self._query.selector))
        tables = [
            filter_by_selector(hours.append_column("number", row_numbers(len(hours))), services)
            for hours in self._hour_tables.values()
        ]
        block = np.repeat(np.arange(len(tables)), list(map(len, tables)))
        rows = concat_tables(tables)
        number = pc.cast(combine_chunks(rows["number"]), pa.string())
        keys: Array = pa.array([self._refs[at].key_prefix for at in self._hour_tables], pa.string())
        prefix = combine_chunks(build_dictionary_array(pa.array(block, pa.int32()), keys).cast(pa.string()))
        apart = ["profiles" in parts[at] or bool(self._refs[at].covered) for at in self._hour_tables]
        daily = [self._with_stacks and not {"sums", "profiles"} & set(parts[at]) for at in self._hour_tables]
        tags = {
            "wid": pc.binary_join_element_wise(prefix, number, pa.repeat(pa.scalar(""), len(rows))),
            "segment": pa.array(np.array(list(self._hour_tables))[block], pa.int32()),
            "apart": pa.array(np.array(apart)[block]),
            "daily": pa.array(np.array(daily)[block]),
        }
        return pa.table({**{name: rows[name] for name in HOURS.names}, **tags})

    def iter_split_hours(self, bounds: Collection[int]) -> Iterator[BlockHour]:
        """Yield the hours of blocks to read as single windows.

        A range begins or ends among their windows, or segments may repeat some.
        """
        segments = [ref for ref in self._refs if ref.is_segment]
        profiles = self._context.read_profiles(segments) if self._hour_tables else []
        windows = SegmentWindows(profiles)
        for ref in (self._refs[at] for at in self._hour_tables):
            first, end = ref.min_start_ms * 10**6, (ref.max_start_ms + 1) * 10**6
            hours = {bound // HOUR_NS * HOUR_NS for bound in bounds if first < bound < end}
            if profiles and windows.may_share(ref):
                hours |= windows.hours.union(ref.list_hour_starts() if ref.has_stray_ids else ())
            yield from ((ref.key_prefix, hour) for hour in hours)

    def iter_partial_hours(self, split_hours: Collection[BlockHour]) -> Iterator[BlockHour]:
        """Yield the hours of blocks that have a group selected in part."""
        if self._with_stacks:
            rows = self._select_whole_hours(split_hours)
            rows = rows.filter(pc.and_(rows["apart"], self._is_partial(rows)))
            for at, hour in sorted(set(zip(to_ints(rows["segment"]), to_ints(rows["hour"]), strict=True))):
                yield self._refs[at].key_prefix, hour

    def select(self, split_hours: Set[BlockHour]) -> SelectedWindows:
        """Select windows; those of `split_hours` as single windows, if the store has them."""
        rows, unresolved = self._select_whole_hours(split_hours), 0
        if self._with_stacks:
            is_partial = self._is_partial(rows)
            unresolved = sum_ints(rows.filter(is_partial)["windows"])
            rows = rows.filter(pc.invert(is_partial))
        span = self._query.from_ns, self._query.until_ns
        key = tuple(self._refs), tuple(self._hour_tables), span, frozenset(split_hours)
        if key not in self._context.raw_windows:
            self._context.raw_windows[key] = self._read_raw_windows(split_hours)
        raw_windows, window_counts = self._context.raw_windows[key]
        table = concat_tables([raw_windows, rows.select(ROW_SCHEMA.names)])
        selected, process_windows = apply_selector(table, self._query.selector)
        hours = {self._refs[at]: table for at, table in self._hour_tables.items()}
        return SelectedWindows(selected, process_windows, self._refs, window_counts, hours, unresolved)

    def _select_whole_hours(self, split_hours: Collection[BlockHour]) -> pa.Table:
        """Select the rows of hours, or days, that are in the range and not split."""
        rows = self._hour_rows
        if not len(rows):
            return rows
        day = combine_chunks(pc.multiply(pc.divide(rows["hour"], pa.scalar(DAY_NS)), pa.scalar(DAY_NS)))
        start = pc.if_else(rows["daily"], day, rows["hour"])
        # The windows of an hour that is not split are all in the range, or none is.
        start = pc.if_else(rows["apart"], rows["ts"], start)
        is_split = self._is_split(rows["segment"], rows["hour"], split_hours)
        whole = pc.invert(pc.and_(rows["apart"], is_split))
        return filter_rows(rows, pc.and_(_is_in_range(start, self._query), whole))

    def _is_split(self, segments: Column, hours: Column, split_hours: Collection[BlockHour]) -> Array:
        """Return a mask of the rows whose hours are split in their block or its rollup."""
        by_key = _group_by_key(split_hours)
        codes = [
            at * HOUR_NS + hour // HOUR_NS
            for at, ref in enumerate(self._refs)
            for hour in by_key[self._rollup_of.get(ref.key_prefix, ref.key_prefix)]
        ]
        numbers = pc.multiply(pc.cast(combine_chunks(segments), pa.int64()), pa.scalar(HOUR_NS))
        of_rows = pc.add(numbers, pc.divide(combine_chunks(hours), pa.scalar(HOUR_NS)))
        return pc.is_in(of_rows, value_set=_to_int64_array(codes))

    def _is_partial(self, rows: pa.Table) -> Array:
        """Return a mask of the selected rows whose group has a row that is not selected."""
        if not len(rows):
            return pa.array([], pa.bool_())
        at = row_numbers(len(rows))
        accepted = filter_by_selector(rows.append_column("at", at), self._query.selector)["at"]
        is_selected = pc.is_in(at, value_set=combine_chunks(accepted))
        partial_keys = pc.unique(rows["key"].filter(pc.invert(is_selected)))
        return pc.and_(is_selected, pc.is_in(combine_chunks(rows["key"]), value_set=partial_keys))

    def _read_raw_windows(self, split_hours: Set[BlockHour]) -> tuple[pa.Table, dict[SegmentRef, int]]:
        """Read single windows of blocks in the split hours, and of segments in all hours.

        Returns a table of ROW_SCHEMA, and the number of windows of each segment that was read.
        """
        by_key = _group_by_key(split_hours)
        to_read = []
        for at, ref in enumerate(self._refs):
            hours = self._hour_tables.get(at)
            if at in self._covered:
                own = by_key[self._rollup_of[ref.key_prefix]] & set(ref.list_hour_starts())
            elif hours is None:
                to_read.append(at)
                continue
            else:
                own = by_key[ref.key_prefix] if "profiles" in ref.parts else set()
                own = own and own & set(to_ints(pc.unique(hours["hour"])))
            if any(self._query.from_ns - HOUR_NS < hour < self._query.until_ns for hour in own):
                to_read.append(at)
        profiles_by_ref = self._context.read_profiles([self._refs[at] for at in to_read])
        index_of = {ref: at for at, ref in enumerate(self._refs)}
        tables = [
            profiles.append_column(_SEGMENT_FIELD, repeat_value(index_of[ref], pa.int32(), len(profiles)))
            for ref, profiles in profiles_by_ref
        ]
        window_counts = {ref: len(profiles) for ref, profiles in profiles_by_ref}
        summed = [*self._hour_tables, *self._covered]
        if any(at in summed and self._refs[at] not in window_counts for at in to_read):
            raise SegmentUnreadable
        if not tables:
            return ROW_SCHEMA.empty_table(), window_counts
        table = concat_tables(tables)
        is_selected = _is_in_range(table["ts"], self._query)
        if self._hour_tables:
            has_hours = pc.is_in(table["segment"], value_set=pa.array(summed, pa.int32()))
            is_split = self._is_split(table["segment"], hours_of(table), split_hours)
            is_raw = pc.or_(pc.invert(has_hours), is_split)
            is_selected = pc.and_(is_selected, is_raw)
        table = filter_rows(table, is_selected)
        if len(tables) > 1:
            table = deduplicate_windows(table)
        return build_window_rows(table).append_column(_SEGMENT_FIELD, table["segment"]), window_counts


def _group_by_key(split_hours: Iterable[BlockHour]) -> Mapping[str, Set[int]]:
    """Return the split hours of each block."""
    by_key: defaultdict[str, set[int]] = defaultdict(set)
    for key_prefix, hour in split_hours:
        by_key[key_prefix].add(hour)
    return by_key


def _can_use_rollup(parts: Collection[SegmentPart], *, with_stacks: bool, raw_only: bool) -> bool:
    """Whether the hourly rows of a block with these tables may replace its windows."""
    if "hours" not in parts:
        return False
    return "profiles" not in parts or (not raw_only and ("sums" in parts or not with_stacks))


def _is_in_range(column: Column, query: WindowQuery) -> Array:
    start, end = pa.scalar(query.from_ns), pa.scalar(query.until_ns)
    return pc.and_(pc.greater_equal(combine_chunks(column), start), pc.less(combine_chunks(column), end))


def _to_int64_array(values: Iterable[int]) -> Array:
    return pa.array(sorted(values), pa.int64())


def apply_selector(table: pa.Table, selector: Selector) -> tuple[pa.Table, pa.Table]:
    """Return the windows that match a selector, and all windows of the same processes."""
    threads = Selector(tuple(matcher for matcher in selector.matchers if matcher.name == "thread"))
    if not threads.matchers:
        selected = filter_by_selector(table, selector)
        return selected, selected
    of_processes = filter_by_selector(table, drop_thread_matchers(selector))
    selected = filter_by_selector(of_processes, threads)
    # A window of a whole process counts only if it is selected: the store cannot tell which threads it has.
    whole = selected.filter(is_equal_string(selected["thread"], ""))
    by_thread = of_processes.filter(pc.invert(is_equal_string(of_processes["thread"], "")))
    return selected, concat_tables([whole, by_thread])


def select_by_service(refs: Sequence[SegmentRef], selector: Selector) -> list[SegmentRef]:
    """Return the segments, and the blocks with a service that the selector matches."""
    matchers = _list_service_matchers(selector)
    if not matchers:
        return list(refs)
    names = list({name for ref in refs for name in ref.services})
    matching = frozenset(find_matching_values(names, matchers))
    return [ref for ref in refs if not ref.services or not matching.isdisjoint(ref.services)]


def _list_service_matchers(selector: Selector) -> tuple[Matcher, ...]:
    return tuple(matcher for matcher in selector.matchers if matcher.name == "service")


def drop_thread_matchers(selector: Selector) -> Selector:
    """Return the selector without its matchers on `thread`."""
    return Selector(tuple(matcher for matcher in selector.matchers if matcher.name != "thread"))


def deduplicate_windows(table: pa.Table) -> pa.Table:
    """Keep the first row of each window id, in order."""
    return drop_duplicates(table, ["wid"])
