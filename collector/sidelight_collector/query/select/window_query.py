"""Which windows a question is about, each counted once.

A window belongs to a range if from <= start < until. A window that lies in several segments (its sidecar sent
it again because an answer was lost) counts in the first segment in order of key and nowhere else.

Of blocks whole hours are taken as rows that tell of many windows at once (`hours`) wherever that says the
same: where the hour is in the range as a whole, no segment may hold one of its windows once more, and, if
stacks are wanted, where everything was chosen that is added up in one group of stacks. Windows that are not
kept one by one any longer belong to a range if what they were added up to, an hour or a day, began in it.

A matcher on `thread` picks samples, not time: while a process's other threads were not looked at, or did not
exist, the process was watched all the same. So the rates of its kinds of threads add up to its own.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    Column,
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
from sidelight_collector.query.select.matchers import filter_by_selector
from sidelight_collector.query.windows import SelectedWindows, WindowQuery
from sidelight_collector.storage.hourly_rollup import WINDOW_ROW_SCHEMA, build_window_rows
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import DAY_NS, HOUR_NS, SegmentPart
from sidelight_collector.storage.tables import compute_hour_starts as hours_of
from sidelight_model.selectors import Selector

_SEGMENT_FIELD: Final = pa.field("segment", pa.int32())
_ROW_SCHEMA: Final = pa.schema([*WINDOW_ROW_SCHEMA, _SEGMENT_FIELD])
_EMPTY_HOURS: Final = pa.schema(
    [
        *_ROW_SCHEMA,
        pa.field("apart", pa.bool_()),
        pa.field("daily", pa.bool_()),
        pa.field("key", pa.int32()),
    ]
).empty_table()


def select_windows(
    context: QueryContext, query: WindowQuery, *, with_stacks: bool = True, step_ns: int = HOUR_NS
) -> SelectedWindows:
    """The windows that answer one question, in the order of their segments."""
    return select_side_windows(context, [query], with_stacks=with_stacks, step_ns=step_ns)[0]


def select_side_windows(
    context: QueryContext, sides: Sequence[WindowQuery], *, with_stacks: bool = True, step_ns: int = HOUR_NS
) -> list[SelectedWindows]:
    """The windows of each side; those that are on two sides are the same rows on both.

    Without `with_stacks` nothing but the windows' own numbers is wanted, in steps of `step_ns`.
    """
    raw_only = step_ns % HOUR_NS != 0 or any(side.by_window for side in sides)
    bounds = chain.from_iterable((side.from_ns, side.until_ns) for side in sides)
    split_hours = {bound // HOUR_NS * HOUR_NS for bound in bounds if bound % HOUR_NS}
    selections = [_SideSelection(context, side, with_stacks=with_stacks, raw_only=raw_only) for side in sides]
    split_hours |= set(chain.from_iterable(side.iter_raw_hours() for side in selections))
    split_hours |= set(chain.from_iterable(side.iter_partial_hours(split_hours) for side in selections))
    return [side.select(split_hours) for side in selections]


class _SideSelection:
    """One side while it is being answered: which of its hours are taken as a whole is up to all sides."""

    def __init__(
        self, context: QueryContext, query: WindowQuery, *, with_stacks: bool, raw_only: bool
    ) -> None:
        self._context = context
        self._query = query
        self._with_stacks = with_stacks
        self._refs = context.list_segments(query.from_ns, query.until_ns)
        parts = [context.readable_parts(ref) for ref in self._refs]
        summed = [
            at
            for at, of in enumerate(parts)
            if _can_use_rollup(of, with_stacks=with_stacks, raw_only=raw_only)
        ]
        read = context.read_views([(self._refs[at], "hours") for at in summed])
        self._hour_tables = dict(zip(summed, read, strict=True))
        self._hour_rows = _EMPTY_HOURS
        if self._hour_tables:
            rows = [self._tag_hours(at, table, parts[at]) for at, table in self._hour_tables.items()]
            if not with_stacks:  # then it does not matter what else there is, and it may be very much
                rows = [filter_by_selector(of, drop_thread_matchers(query.selector)) for of in rows]
            self._hour_rows = concat_tables(rows)
            # A block whose days only are known apart is chosen by day.
            group = pc.if_else(self._hour_rows["daily"], self._hour_rows["day"], self._hour_rows["group"])
            keys = pa.table({name: self._hour_rows[name] for name in ("segment", "daily")})
            self._hour_rows = self._hour_rows.append_column(
                "key", factorize_rows(keys.append_column("group", group))
            )

    def _tag_hours(self, at: int, hours: pa.Table, parts: Collection[SegmentPart]) -> pa.Table:
        """Rows of a block with what tells them from those of others."""
        rows = len(hours)
        numbers = pc.cast(row_numbers(rows), pa.string())
        prefix = pa.repeat(pa.scalar(self._refs[at].key_prefix), rows)
        names = pc.binary_join_element_wise(prefix, numbers, pa.repeat(pa.scalar(""), rows))
        daily = self._with_stacks and not {"sums", "profiles"} & set(parts)
        more = {
            "wid": names,
            "segment": repeat_value(at, pa.int32(), rows),
            "apart": pa.array(["profiles" in parts] * rows, pa.bool_()),
            "daily": pa.array([daily] * rows, pa.bool_()),
        }
        return pa.table({**{name: hours[name] for name in hours.column_names}, **more})

    def iter_raw_hours(self) -> Iterator[int]:
        """Hours of windows that are read one by one: those of segments may be in a block too."""
        for at, ref in enumerate(self._refs):
            if at not in self._hour_tables:
                yield from ref.list_hour_starts()

    def iter_partial_hours(self, split_hours: Collection[int]) -> Iterator[int]:
        """Hours in which windows are chosen and others of the same group of stacks are not."""
        if self._with_stacks:
            rows = self._select_whole_hours(split_hours)
            rows = rows.filter(pc.and_(rows["apart"], self._is_partial(rows)))
            yield from to_ints(pc.unique(rows["hour"]))

    def select(self, split_hours: Collection[int]) -> SelectedWindows:
        """What is chosen, when nothing is taken as a whole of the hours that are cut."""
        rows, unresolved = self._select_whole_hours(split_hours), 0
        if self._with_stacks:
            partly = self._is_partial(rows)
            unresolved = sum_ints(rows.filter(partly)["windows"])
            rows = rows.filter(pc.invert(partly))
        alone, stored = self._read_raw_windows(split_hours)
        table = concat_tables([alone, rows.select(_ROW_SCHEMA.names)])
        chosen, watched = apply_selector(table, self._query.selector)
        hours = {self._refs[at]: table for at, table in self._hour_tables.items()}
        return SelectedWindows(chosen, watched, self._refs, stored, hours, unresolved)

    def _select_whole_hours(self, split_hours: Collection[int]) -> pa.Table:
        """Rows of those hours, or days, that began in the range and are not cut."""
        rows = self._hour_rows
        day = combine_chunks(pc.multiply(pc.divide(rows["hour"], pa.scalar(DAY_NS)), pa.scalar(DAY_NS)))
        start = pc.if_else(rows["daily"], day, rows["hour"])
        whole = pc.invert(
            pc.and_(rows["apart"], pc.is_in(rows["hour"], value_set=_to_int64_array(split_hours)))
        )
        return filter_rows(rows, pc.and_(_is_in_range(start, self._query), whole))

    def _is_partial(self, rows: pa.Table) -> Array:
        """For each row whether it is chosen, and another of its group is not."""
        at = row_numbers(len(rows))
        taken = filter_by_selector(rows.append_column("at", at), self._query.selector)["at"]
        chosen = pc.is_in(at, value_set=combine_chunks(taken))
        left = pc.unique(rows["key"].filter(pc.invert(chosen)))
        return pc.and_(chosen, pc.is_in(combine_chunks(rows["key"]), value_set=left))

    def _read_raw_windows(self, split_hours: Collection[int]) -> tuple[pa.Table, dict[SegmentRef, int]]:
        """Windows one by one, of the hours that are cut, and how many each segment holds that was read."""
        values = _to_int64_array(split_hours)
        read = []
        for at in range(len(self._refs)):
            hours = self._hour_tables.get(at)
            if hours is None:
                read.append(at)
            elif "profiles" in self._refs[at].parts:
                here = hours.filter(pc.is_in(hours["hour"], value_set=values))
                if len(here.filter(self._overlaps(here))):
                    read.append(at)
        found = self._context.read_profiles([self._refs[at] for at in read])
        where = {ref: at for at, ref in enumerate(self._refs)}
        tables = [
            profiles.append_column(_SEGMENT_FIELD, repeat_value(where[ref], pa.int32(), len(profiles)))
            for ref, profiles in found
        ]
        stored = {ref: len(profiles) for ref, profiles in found}
        if any(at in self._hour_tables and self._refs[at] not in stored for at in read):
            raise SegmentUnreadable
        if not tables:
            return _ROW_SCHEMA.empty_table(), stored
        table = concat_tables(tables)
        wanted = _is_in_range(table["ts"], self._query)
        if self._hour_tables:
            whole = pc.is_in(table["segment"], value_set=pa.array(list(self._hour_tables), pa.int32()))
            alone = pc.or_(pc.invert(whole), pc.is_in(hours_of(table), value_set=values))
            wanted = pc.and_(wanted, alone)
        table = table.filter(wanted)
        if len(tables) > 1:
            table = deduplicate_windows(table)
        return build_window_rows(table).append_column(_SEGMENT_FIELD, table["segment"]), stored

    def _overlaps(self, hours: pa.Table) -> Array:
        after = pc.greater(hours["hour"], pa.scalar(self._query.from_ns - HOUR_NS))
        return pc.and_(after, pc.less(hours["hour"], pa.scalar(self._query.until_ns)))


def _can_use_rollup(parts: Collection[SegmentPart], *, with_stacks: bool, raw_only: bool) -> bool:
    """Whether windows of a block with these tables are taken by the hour where they can be."""
    if "hours" not in parts:
        return False
    return "profiles" not in parts or (not raw_only and ("sums" in parts or not with_stacks))


def _is_in_range(column: Column, query: WindowQuery) -> Array:
    least, beyond = pa.scalar(query.from_ns), pa.scalar(query.until_ns)
    return pc.and_(pc.greater_equal(combine_chunks(column), least), pc.less(combine_chunks(column), beyond))


def _to_int64_array(values: Iterable[int]) -> Array:
    return pa.array(sorted(values), pa.int64())


def apply_selector(table: pa.Table, selector: Selector) -> tuple[pa.Table, pa.Table]:
    """The windows that a selector accepts, and those of their processes."""
    threads = Selector(tuple(one for one in selector.matchers if one.name == "thread"))
    if not threads.matchers:
        chosen = filter_by_selector(table, selector)
        return chosen, chosen
    watched = filter_by_selector(table, drop_thread_matchers(selector))
    chosen = filter_by_selector(watched, threads)
    # Of a process that was not shipped by kind of thread nobody knows which thread was watched.
    whole = chosen.filter(is_equal_string(chosen["thread"], ""))
    return chosen, concat_tables([whole, watched.filter(pc.invert(is_equal_string(watched["thread"], "")))])


def drop_thread_matchers(selector: Selector) -> Selector:
    """What a selector asks of processes."""
    return Selector(tuple(one for one in selector.matchers if one.name != "thread"))


def deduplicate_windows(table: pa.Table) -> pa.Table:
    """The first row of each window id, in their order."""
    return drop_duplicates(table, ["wid"])
