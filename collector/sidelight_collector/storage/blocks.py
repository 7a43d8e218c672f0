"""Merging segments and blocks into one block that has each window once.

The tables of a block have the columns and the order of a segment's (`tables`), so code that reads segments
also reads blocks. A block additionally has hourly sums and, where they are much smaller, daily sums. Each
write of a block gets a new random name. A block that no manifest names can therefore be deleted: no later
manifest will name it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from secrets import token_hex
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    build_dictionary_array,
    combine_chunks,
    concat_tables,
    dictionary_encode,
    drop_duplicates,
    is_equal,
    list_unique_strings,
    repeat_value,
    sort_table,
    sort_unique,
    sum_ints,
    to_ints,
    to_strings,
)
from sidelight_collector.storage import manifest
from sidelight_collector.storage.manifest import Block
from sidelight_collector.storage.objects import (
    ObjectDamaged,
    ObjectMissing,
    ObjectStore,
    StoreError,
    StoreUnavailable,
    put_all,
)
from sidelight_collector.storage.rollups.hourly_rollup import roll_up_windows
from sidelight_collector.storage.segments import (
    SegmentRef,
    compute_segment_name,
    encode_parquet,
    read_segment,
)
from sidelight_collector.storage.service_cuts import cut_by_service
from sidelight_collector.storage.tables import (
    DAILY,
    SAMPLES,
    SCHEMAS,
    SEGMENT_PARTS,
    SUMS,
    SegmentPart,
    SegmentTables,
    compute_day_group_ids,
    compute_group_ids,
    compute_hour_starts,
    filter_services,
)
from sidelight_collector.storage.window_ids import find_id_span, has_stray_ids
from sidelight_model.counts import STATES

FindExcludedIds = Callable[[Sequence[pa.Table]], Array | None]
_SAMPLE_COLUMNS: Final = ("wid", "h", *STATES)
"""Columns of `samples` that cannot be filled in from `profiles`."""
_BY_FREQUENCY: Final = (("n", "descending"), ("h", "ascending"))
MIN_ROLLUP_REDUCTION: Final = 2
"""Minimum reduction of rows for which a block stores `sums` and `daily`.

A block stores `sums` if `samples` has at least this many times as many rows, and `daily` if `sums` has.
With `all_rollups` it stores both anyway.
"""


class InputUnreadable(StoreError):
    """An input segment or block is damaged."""

    def __init__(self, ref: SegmentRef, cause: Exception) -> None:
        super().__init__(f"{ref.key_prefix} cannot be read: {cause}")
        self.ref = ref


def write_block(
    store: ObjectStore,
    day: date,
    inputs: Sequence[SegmentRef],
    *,
    find_excluded_ids: FindExcludedIds = lambda _: None,
    all_rollups: bool = False,
) -> Block | None:
    """Merge `inputs` into one block, as `write_blocks` does; None without windows."""
    blocks = write_blocks(store, day, inputs, find_excluded_ids=find_excluded_ids, all_rollups=all_rollups)
    return next(iter(blocks), None)


def write_blocks(
    store: ObjectStore,
    day: date,
    inputs: Sequence[SegmentRef],
    *,
    find_excluded_ids: FindExcludedIds = lambda _: None,
    all_rollups: bool = False,
    max_shared_rows: int | None = None,
) -> list[Block]:
    """Merge `inputs` into new blocks, which count once a manifest names them.

    `inputs` are in order of precedence. Windows with an id that `find_excluded_ids` returns for the profiles
    of the inputs are left out; the list is empty if no window is left. With `all_rollups` the blocks have
    all sums, even if they save little, so that retention can drop their other tables. With
    `max_shared_rows` they are cut by service (see `service_cuts`); otherwise there is one. Raises
    InputUnreadable, ObjectMissing for an input that no longer exists, and StoreUnavailable; no new block is
    then left.
    """
    tables_by_input = [read_tables(store, ref) for ref in inputs]
    excluded_ids = find_excluded_ids([tables.profiles for tables in tables_by_input])
    tables = merge_tables([_exclude_windows(tables_by_input.pop(0), excluded_ids) for _ in inputs])
    if not len(tables.profiles):
        return []
    blocks: list[Block] = []
    try:
        for piece in cut_by_service(tables, max_shared_rows):
            block = _write_tables(store, day, piece, all_rollups=all_rollups)
            blocks.append(block)  # one by one: an error deletes those that are written
    except StoreError:
        for block in blocks:
            _delete_parts(store, map(block.ref.key, block.parts))
        raise
    return blocks


def _write_tables(store: ObjectStore, day: date, tables: SegmentTables, *, all_rollups: bool) -> Block:
    services = tuple(list_unique_strings(tables.profiles["service"]))
    starts = [start // 10**6 for start in to_ints(tables.profiles["ts"])]
    key_prefix = (
        f"{manifest.BLOCK_ROOT}{day.isoformat()}/{min(starts):013d}-{max(starts):013d}-{token_hex(8)}/"
    )
    contents = {part: encode_parquet(table) for part, table in _build_parts(tables, all_rollups=all_rollups)}
    ref = replace(
        manifest.parse_key_prefix(key_prefix),
        parts=frozenset(contents),
        has_stray_ids=has_stray_ids(tables.profiles),
        id_span_ms=find_id_span(tables.profiles),
        services=services,
    )
    put_parts(store, {ref.key(part): content for part, content in contents.items()})
    return Block(
        ref,
        services=services,
        windows=len(tables.profiles),
        rows=len(tables.samples),
        parts={part: len(content) for part, content in contents.items()},
    )


def rewrite_block(
    store: ObjectStore, day: date, block: Block, services: Collection[str], parts: Collection[SegmentPart]
) -> Block:
    """Write a new block with some of the services and tables of another block.

    `parts` are the tables to store. A block with individual windows can provide all of them; another block
    only those that it has. Raises the errors of `write_block`.
    """
    old = block.ref
    if old.is_raw:
        tables = dict(
            _build_parts(
                merge_tables([_select_services(read_tables(store, old), services)]), all_rollups=True
            )
        )
    else:
        tables = {part: filter_services(read_part(store, old, part), services) for part in old.parts}
    first, last = old.min_start_ms, old.max_start_ms
    key_prefix = f"{manifest.BLOCK_ROOT}{day.isoformat()}/{first:013d}-{last:013d}-{token_hex(8)}/"
    contents = {part: encode_parquet(table) for part, table in tables.items() if part in parts}
    ref = replace(
        manifest.parse_key_prefix(key_prefix),
        parts=frozenset(contents),
        has_stray_ids=old.has_stray_ids,
        id_span_ms=old.id_span_ms,
        services=tuple(sorted(services)),
    )
    put_parts(store, {ref.key(part): content for part, content in contents.items()})
    return Block(
        ref,
        services=tuple(sorted(services)),
        windows=sum_ints(tables["hours"]["windows"]),
        rows=len(tables["samples"]) if "samples" in contents else 0,
        parts={part: len(content) for part, content in contents.items()},
    )


def put_parts(store: ObjectStore, contents: Mapping[str, bytes]) -> None:
    """Write the tables of a new block; on an error none of them is left.

    The block has a random name, so that no other process has written any of them.
    """
    try:
        put_all(store, contents)
    except StoreError:
        _delete_parts(store, contents)
        raise


def _delete_parts(store: ObjectStore, keys: Iterable[str]) -> None:
    with suppress(StoreError):
        for key in keys:
            store.delete(key)


def _build_parts(tables: SegmentTables, *, all_rollups: bool) -> Iterator[tuple[SegmentPart, pa.Table]]:
    for part in SEGMENT_PARTS:
        yield part, tables.get_part(part)
    yield "hours", roll_up_windows(tables.profiles)
    sums = sum_stacks_by_hour(tables)
    if not (all_rollups or 0 < len(sums) * MIN_ROLLUP_REDUCTION <= len(tables.samples)):
        return
    yield "sums", sums
    daily = sum_stacks_by_day(sums, tables.profiles)
    if all_rollups or len(daily) * MIN_ROLLUP_REDUCTION <= len(sums):
        yield "daily", daily


def has_all_objects(store: ObjectStore, block: Block) -> bool:
    """Return whether the store has all objects of a block."""
    stored_keys = {entry.key for entry in store.list(block.ref.key_prefix)}
    return stored_keys >= {block.ref.key(part) for part in block.parts}


def read_window_ids(store: ObjectStore, ref: SegmentRef) -> Array:
    """Read the window ids of a segment or block.

    Raises InputUnreadable, ObjectMissing and StoreUnavailable.
    """
    try:
        return combine_chunks(read_segment(store, ref, "profiles", ["wid"])["wid"])
    except (ObjectMissing, StoreUnavailable):
        raise
    except (StoreError, pa.ArrowException, OSError, KeyError) as error:
        raise InputUnreadable(ref, error) from error


def has_all_windows(store: ObjectStore, blocks: Sequence[SegmentRef], ref: SegmentRef) -> bool:
    """Return whether `blocks` have all windows of a segment that lost other tables.

    Only the segment's `samples` and its name are read. The result is false if a window of the segment has
    no samples. Raises StoreUnavailable.
    """
    try:
        wids = pc.unique(dictionary_encode(read_segment(store, ref, "samples", ["wid"])["wid"]).dictionary)
        digests: dict[str, int] = {}
        for block in blocks:
            table = read_segment(store, block, "profiles", ["wid", "digest"])
            shared_windows = table.filter(pc.is_in(table["wid"], value_set=wids))
            digests |= zip(to_strings(shared_windows["wid"]), to_ints(shared_windows["digest"]), strict=True)
    except (ObjectMissing, ObjectDamaged):
        return False
    return ref.key_prefix.endswith(f"-{compute_segment_name(digests.items())}/")


def read_tables(store: ObjectStore, ref: SegmentRef) -> SegmentTables:
    """Read the tables of a segment or block; raises as `read_part`."""
    profiles, stacks = (read_part(store, ref, part) for part in ("profiles", "stacks"))
    return SegmentTables(profiles, stacks, read_part(store, ref, "samples", _SAMPLE_COLUMNS))


def read_part(
    store: ObjectStore, ref: SegmentRef, part: SegmentPart, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read one table, or some of its columns, in its exact schema.

    Raises InputUnreadable, ObjectMissing and StoreUnavailable.
    """
    try:
        return _cast_to_schema(read_segment(store, ref, part, columns), part, columns)
    except (ObjectMissing, StoreUnavailable):
        raise
    except (StoreError, pa.ArrowException, OSError, KeyError) as error:
        raise InputUnreadable(ref, error) from error


def _cast_to_schema(table: pa.Table, part: SegmentPart, columns: Sequence[str] | None) -> pa.Table:
    """Cast an untrusted table to the schema of `part`.

    Raises ArrowException, and KeyError for a missing column.
    """
    schema = SCHEMAS[part]
    expected = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    return table.select(expected.names).cast(expected)


def _select_services(tables: SegmentTables, services: Collection[str]) -> SegmentTables:
    profiles = filter_services(tables.profiles, services)
    return SegmentTables(profiles, filter_services(tables.stacks, services), tables.samples)


def _exclude_windows(tables: SegmentTables, ids: Array | None) -> SegmentTables:
    """Drop the windows with these ids."""
    if ids is None:
        return tables
    profiles = tables.profiles.filter(pc.invert(pc.is_in(tables.profiles["wid"], value_set=ids)))
    return SegmentTables(profiles, tables.stacks, tables.samples)


def merge_tables(inputs: Iterable[SegmentTables]) -> SegmentTables:
    """Merge tables so that each window is as in the first input that has it.

    The result is in stored order. Samples without a window in `profiles` of the same input are left out.
    """
    tables_by_input = list(inputs)
    profiles = concat_tables(
        [_add_input_columns(tables.profiles, at) for at, tables in enumerate(tables_by_input)]
    )
    profiles = sort_table(drop_duplicates(profiles, ["wid"]), ["service", "hour", "pod", "ts", "wid"])
    stacks = sort_unique(concat_tables([tables.stacks for tables in tables_by_input]), ["service", "h"])
    samples = [tables.samples.select(_SAMPLE_COLUMNS) for tables in tables_by_input]
    tables_by_input.clear()
    return SegmentTables(
        profiles.select(SCHEMAS["profiles"].names),
        stacks,
        _merge_samples(samples, profiles),
    )


def sum_stacks_by_hour(tables: SegmentTables) -> pa.Table:
    """Build `sums`: samples added up by group of windows and stack hash."""
    profiles, samples = tables.profiles, tables.samples
    group = compute_group_ids(profiles)
    counts = samples.select(["h", *STATES]).append_column(
        "group", group.take(_find_window_rows(samples, profiles))
    )
    first = drop_duplicates(profiles.append_column("group", group), ["group"])
    return sum_by_group(counts, first.append_column("hour", compute_hour_starts(first)), SUMS)


def sum_stacks_by_day(sums: pa.Table, profiles: pa.Table) -> pa.Table:
    """Build `daily`: `sums` added up over the hours of the day."""
    group_ids = pa.table({"group": compute_group_ids(profiles), "day": compute_day_group_ids(profiles)})
    day = combine_chunks(drop_duplicates(group_ids, ["group"])["day"])
    counts = sums.select(["h", *STATES]).append_column("group", day.take(combine_chunks(sums["group"])))
    first = drop_duplicates(profiles.append_column("group", group_ids["day"]), ["group"])
    return sum_by_group(counts, first, DAILY)


def sum_by_group(counts: pa.Table, first_windows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add up counts by group and hash.

    The other columns of `schema` come from the first window of each group.
    """
    sums = counts.group_by(["group", "h"]).aggregate([(state, "sum") for state in STATES])
    sums = sums.take(_compute_sort_indices(combine_chunks(sums["group"]), combine_chunks(sums["h"])))
    groups = combine_chunks(sums["group"])
    columns = {name: sums[name] for name in ("group", "h")}
    columns |= {state: sums[f"{state}_sum"] for state in STATES}
    return pa.table(
        [columns[name] if name in columns else first_windows[name].take(groups) for name in schema.names],
        schema=schema,
    )


def _find_window_rows(samples: pa.Table, profiles: pa.Table) -> Array:
    """Return for each sample the row number of its window."""
    encoded = dictionary_encode(samples["wid"])
    return pc.index_in(encoded.dictionary, value_set=combine_chunks(profiles["wid"])).take(encoded.indices)


def _add_input_columns(profiles: pa.Table, input_index: int) -> pa.Table:
    """Add the columns `input` and `hour` to the windows of one input."""
    table = profiles.append_column("input", repeat_value(input_index, pa.int32(), len(profiles)))
    return table.append_column("hour", compute_hour_starts(profiles))


def _merge_samples(inputs: list[pa.Table], profiles: pa.Table) -> pa.Table:
    """Merge the samples of the windows in `profiles`, in the order of the windows.

    Each window's samples come from the input that its `input` column names. Columns that are equal for all
    samples of a window come from `profiles`. The list `inputs` is emptied to release memory.
    """
    wids, input_ids = combine_chunks(profiles["wid"]), combine_chunks(profiles["input"])
    parts: dict[str, list[Array]] = {name: [] for name in ("rank", *_SAMPLE_COLUMNS[1:])}
    for at, table in enumerate(inputs):
        encoded = dictionary_encode(table["wid"])
        window_rows: Array = pc.index_in(encoded.dictionary, value_set=wids)
        is_current = is_equal(input_ids.take(window_rows), at)
        rank = combine_chunks(pc.if_else(is_current, window_rows, pa.scalar(None, pa.int32()))).take(
            encoded.indices
        )
        is_kept = rank.is_valid() if rank.null_count else None
        for name in parts:
            column = rank if name == "rank" else combine_chunks(table[name])
            parts[name].append(column if is_kept is None else column.filter(is_kept))
    inputs.clear()
    columns = {name: pa.concat_arrays(parts.pop(name)) for name in ("rank", "h")}
    order = _compute_sort_indices(columns["rank"], columns["h"])
    columns = {name: column.take(order) for name, column in columns.items()}
    for name in STATES:
        columns[name] = pa.concat_arrays(parts.pop(name)).take(order)
    windows = columns["rank"]
    for name in SAMPLES.names:
        if name == "wid":
            columns[name] = build_dictionary_array(windows, wids)
        elif name not in columns:
            columns[name] = combine_chunks(profiles[name]).take(windows)
    return pa.table({name: columns[name] for name in SAMPLES.names}, schema=SAMPLES)


def _compute_sort_indices(group_ids: Array, hashes: Array) -> Array:
    """Return indices that sort rows by group, then by descending frequency of hash.

    Frequent hashes get low dictionary codes, and codes ascend within a group. The stored tables are a third
    smaller than in order of hash.
    """
    counts = pc.value_counts(hashes)
    order = pc.sort_indices(pa.table([counts.field(1), counts.field(0)], ["n", "h"]), _BY_FREQUENCY)
    place = pc.index_in(hashes, value_set=counts.field(0).take(order))
    many = pa.scalar(max(len(counts), 1), pa.int64())
    return cast("Array", pc.sort_indices(pc.add(pc.multiply(group_ids.cast(pa.int64()), many), place)))
