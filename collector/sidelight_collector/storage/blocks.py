"""Making one block of segments and blocks: the same windows, each once, in one order.

A block's tables have the columns and the order of a segment's (`tables`), so whatever reads segments reads
blocks. Besides it has what they add up to by the hour and, where that is much less, by the day. Its name is
new each time it is written: what nobody named in a manifest can be deleted, for nobody will.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from secrets import token_hex
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    coded,
    firsts,
    integers,
    is_equal,
    one,
    ordered,
    same,
    stacked,
    strings,
    total,
    used,
    words,
)
from sidelight_collector.storage import manifest
from sidelight_collector.storage.hourly_rollup import by_hour
from sidelight_collector.storage.manifest import Block
from sidelight_collector.storage.objects import (
    ObjectDamaged,
    ObjectMissing,
    ObjectStore,
    StoreError,
    StoreUnavailable,
)
from sidelight_collector.storage.segments import SegmentRef, parquet, read_segment, segment_name
from sidelight_collector.storage.tables import (
    DAILY,
    PARTS,
    SAMPLES,
    SCHEMAS,
    STATES,
    SUMS,
    Part,
    SegmentTables,
    day_groups,
    groups,
    hours,
)

_OWN: Final = ("wid", "h", *STATES)
"""Columns of samples that their window does not tell."""
_COMMON_FIRST: Final = (("n", "descending"), ("h", "ascending"))
SUMS_PAY: Final = 2
"""A block that is not the last of its day's has sums if it has so many times as many samples."""


class InputUnreadable(StoreError):
    """A segment or block has been damaged."""

    def __init__(self, ref: SegmentRef, cause: Exception) -> None:
        super().__init__(f"{ref.key_prefix} cannot be read: {cause}")
        self.ref = ref


def write_block(
    store: ObjectStore,
    day: date,
    inputs: Sequence[SegmentRef],
    *,
    but: Array | None = None,
    whole: bool = False,
) -> Block | None:
    """Make a block of these, in the order in which they count; it counts once a manifest names it.

    Windows with the ids `but` are left out; None if that leaves nothing. A `whole` block has all sums,
    whether they pay or not: everything else of it can go. Raises InputUnreadable, ObjectMissing for an input
    that is not there any longer, and StoreUnavailable.
    """
    tables = merged(_without(_read(store, ref), but) for ref in inputs)
    if not len(tables.profiles):
        return None
    starts = [start // 10**6 for start in integers(tables.profiles["ts"])]
    key_prefix = f"{manifest.BLOCKS}{day.isoformat()}/{min(starts):013d}-{max(starts):013d}-{token_hex(8)}/"
    contents = {part: parquet(table) for part, table in _parts(tables, whole=whole)}
    ref = replace(manifest.place(key_prefix), parts=frozenset(contents))
    for part, content in contents.items():
        store.put(ref.key(part), content)
    return Block(
        ref,
        services=tuple(used(tables.profiles["service"])),
        windows=len(tables.profiles),
        rows=len(tables.samples),
        parts={part: len(content) for part, content in contents.items()},
    )


def rewrite_block(
    store: ObjectStore, day: date, block: Block, services: Collection[str], parts: Collection[Part]
) -> Block:
    """Make a block of these services of another one, with those of its tables, or all that are wanted.

    Of a block that has its windows one by one everything can be made; of others only what is there. Raises as
    write_block does.
    """
    old = block.ref
    if old.is_whole:
        tables = dict(_parts(merged([_of_services(_read(store, old), services)]), whole=True))
    else:
        tables = {part: _only(_read_part(store, old, part), services) for part in old.parts}
    first, last = old.min_start_ms, old.max_start_ms
    place = f"{manifest.BLOCKS}{day.isoformat()}/{first:013d}-{last:013d}-{token_hex(8)}/"
    contents = {part: parquet(table) for part, table in tables.items() if part in parts}
    ref = replace(manifest.place(place), parts=frozenset(contents))
    for part, content in contents.items():
        store.put(ref.key(part), content)
    return Block(
        ref,
        services=tuple(sorted(services)),
        windows=total(tables["hours"]["windows"]),
        rows=len(tables["samples"]) if "samples" in contents else 0,
        parts={part: len(content) for part, content in contents.items()},
    )


def _parts(tables: SegmentTables, *, whole: bool) -> Iterator[tuple[Part, pa.Table]]:
    for part in PARTS:
        yield part, tables.of(part)
    yield "hours", by_hour(tables.profiles)
    sums = summed(tables)
    if not (whole or 0 < len(sums) * SUMS_PAY <= len(tables.samples)):
        return
    yield "sums", sums
    daily = by_day(sums, tables.profiles)
    if whole or len(daily) * SUMS_PAY <= len(sums):
        yield "daily", daily


def is_whole(store: ObjectStore, block: Block) -> bool:
    """Whether all objects of a block are there."""
    found = {entry.key for entry in store.list(block.ref.key_prefix)}
    return found >= {block.ref.key(part) for part in block.parts}


def stored_ids(store: ObjectStore, ref: SegmentRef) -> Array:
    """The ids of the windows of a segment or a block. Raises InputUnreadable, ObjectMissing."""
    try:
        return one(read_segment(store, ref, "profiles", ["wid"])["wid"])
    except (ObjectMissing, StoreUnavailable):
        raise
    except (StoreError, pa.ArrowException, OSError, KeyError) as error:
        raise InputUnreadable(ref, error) from error


def holds(store: ObjectStore, blocks: Sequence[SegmentRef], ref: SegmentRef) -> bool:
    """Whether blocks have all windows of a segment of which nothing but its samples and its name is left.

    A segment with windows that have no samples is never taken to be so. Raises StoreUnavailable.
    """
    try:
        wids = pc.unique(words(read_segment(store, ref, "samples", ["wid"])["wid"]).dictionary)
        found: dict[str, int] = {}
        for block in blocks:
            table = read_segment(store, block, "profiles", ["wid", "digest"])
            mine = table.filter(pc.is_in(table["wid"], value_set=wids))
            found |= zip(strings(mine["wid"]), integers(mine["digest"]), strict=True)
    except (ObjectMissing, ObjectDamaged):
        return False
    return ref.key_prefix.endswith(f"-{segment_name(found.items())}/")


def _read(store: ObjectStore, ref: SegmentRef) -> SegmentTables:
    profiles, stacks = (_read_part(store, ref, part) for part in ("profiles", "stacks"))
    return SegmentTables(profiles, stacks, _read_part(store, ref, "samples", _OWN))


def _read_part(
    store: ObjectStore, ref: SegmentRef, part: Part, columns: Sequence[str] | None = None
) -> pa.Table:
    try:
        return _as_written(read_segment(store, ref, part, columns), part, columns)
    except (ObjectMissing, StoreUnavailable):
        raise
    except (StoreError, pa.ArrowException, OSError, KeyError) as error:
        raise InputUnreadable(ref, error) from error


def _as_written(table: pa.Table, part: Part, columns: Sequence[str] | None) -> pa.Table:
    """The table, which may be anything that is a Parquet file. Raises ArrowException, KeyError."""
    schema = SCHEMAS[part]
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    return table.select(wanted.names).cast(wanted)


def _of_services(tables: SegmentTables, services: Collection[str]) -> SegmentTables:
    profiles = _only(tables.profiles, services)
    return SegmentTables(profiles, _only(tables.stacks, services), tables.samples)


def _only(table: pa.Table, services: Collection[str]) -> pa.Table:
    """The rows of these services."""
    own = words(table["service"])
    chosen = pc.is_in(own.dictionary, value_set=pa.array(sorted(services), pa.string()))
    return table.filter(chosen.take(own.indices))


def _without(tables: SegmentTables, ids: Array | None) -> SegmentTables:
    """Those windows that have none of these ids."""
    if ids is None:
        return tables
    profiles = tables.profiles.filter(pc.invert(pc.is_in(tables.profiles["wid"], value_set=ids)))
    return SegmentTables(profiles, tables.stacks, tables.samples)


def merged(inputs: Iterable[SegmentTables]) -> SegmentTables:
    """The windows of all inputs, each as in the first input that has it, in their stored order.

    Samples of windows that an input does not have in `profiles` are left out.
    """
    read = list(inputs)
    profiles = stacked([_profiles(tables.profiles, at) for at, tables in enumerate(read)])
    profiles = ordered(firsts(profiles, ["wid"]), ["service", "hour", "pod", "ts", "wid"])
    stacks = ordered(stacked([tables.stacks for tables in read]), ["service", "h"])
    samples = [tables.samples.select(_OWN) for tables in read]
    read.clear()
    return SegmentTables(
        profiles.select(SCHEMAS["profiles"].names),
        firsts(stacks, ["service", "h"]),
        _samples(samples, profiles),
    )


def summed(tables: SegmentTables) -> pa.Table:
    """What samples add up to in each group of windows, by group and hash."""
    profiles, samples = tables.profiles, tables.samples
    group = groups(profiles)
    counts = samples.select(["h", *STATES]).append_column("group", group.take(_ranks(samples, profiles)))
    first = firsts(profiles.append_column("group", group), ["group"])
    return _added(counts, first.append_column("hour", hours(first)), SUMS)


def by_day(sums: pa.Table, profiles: pa.Table) -> pa.Table:
    """What sums add up to if groups are not told apart by hour."""
    of = pa.table({"group": groups(profiles), "day": day_groups(profiles)})
    day = one(firsts(of, ["group"])["day"])
    counts = sums.select(["h", *STATES]).append_column("group", day.take(one(sums["group"])))
    first = firsts(profiles.append_column("group", of["day"]), ["group"])
    return _added(counts, first, DAILY)


def _added(counts: pa.Table, first: pa.Table, schema: pa.Schema) -> pa.Table:
    """Counts added up by group and hash, with the other columns of the first window of each group."""
    added = counts.group_by(["group", "h"]).aggregate([(state, "sum") for state in STATES])
    added = added.take(_in_order(one(added["group"]), one(added["h"])))
    at = one(added["group"])
    columns = {name: added[name] for name in ("group", "h")}
    columns |= {state: added[f"{state}_sum"] for state in STATES}
    return pa.table(
        [columns[name] if name in columns else first[name].take(at) for name in schema.names], schema=schema
    )


def _ranks(samples: pa.Table, profiles: pa.Table) -> Array:
    """For each sample the row of its window."""
    own = words(samples["wid"])
    return pc.index_in(own.dictionary, value_set=one(profiles["wid"])).take(own.indices)


def _profiles(profiles: pa.Table, at: int) -> pa.Table:
    """The windows of one input, with its number and their hours."""
    table = profiles.append_column("input", same(at, pa.int32(), len(profiles)))
    return table.append_column("hour", hours(profiles))


def _samples(inputs: list[pa.Table], profiles: pa.Table) -> pa.Table:
    """The samples of windows as each counts, in the order of the windows.

    What is the same for all samples of a window is not read: a window says it. `inputs` is emptied.
    """
    wids, of = one(profiles["wid"]), one(profiles["input"])
    parts: dict[str, list[Array]] = {name: [] for name in ("rank", *_OWN[1:])}
    for at, table in enumerate(inputs):
        own = words(table["wid"])
        place: Array = pc.index_in(own.dictionary, value_set=wids)
        mine = is_equal(of.take(place), at)
        rank = one(pc.if_else(mine, place, pa.scalar(None, pa.int32()))).take(own.indices)
        has = rank.is_valid() if rank.null_count else None
        for name in parts:
            column = rank if name == "rank" else one(table[name])
            parts[name].append(column if has is None else column.filter(has))
    inputs.clear()
    columns = {name: pa.concat_arrays(parts.pop(name)) for name in ("rank", "h")}
    order = _in_order(columns["rank"], columns["h"])
    columns = {name: column.take(order) for name, column in columns.items()}
    for name in STATES:
        columns[name] = pa.concat_arrays(parts.pop(name)).take(order)
    windows = columns["rank"]
    for name in SAMPLES.names:
        if name == "wid":
            columns[name] = coded(windows, wids)
        elif name not in columns:
            columns[name] = one(profiles[name]).take(windows)
    return pa.table({name: columns[name] for name in SAMPLES.names}, schema=SAMPLES)


def _in_order(of: Array, h: Array) -> Array:
    """Where rows stand in ascending order of `of`, and for each those first whose hash most others have too.

    So hashes that come often have low codes, and codes ascend: a third less in the store than in their order.
    """
    counts = pc.value_counts(h)
    order = pc.sort_indices(pa.table([counts.field(1), counts.field(0)], ["n", "h"]), _COMMON_FIRST)
    place = pc.index_in(h, value_set=counts.field(0).take(order))
    many = pa.scalar(max(len(counts), 1), pa.int64())
    return cast("Array", pc.sort_indices(pc.add(pc.multiply(of.cast(pa.int64()), many), place)))
