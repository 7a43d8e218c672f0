"""Making one block of segments and blocks: the same windows, each once, in one order.

A block's tables have the columns and the order of a segment's (`tables`), so whatever reads segments reads
blocks. Its name is new each time it is written: what nobody named in a manifest can be deleted, for nobody
will.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from secrets import token_hex
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import (
    Array,
    firsts,
    integers,
    is_equal,
    one,
    ordered,
    same,
    stacked,
    used,
    words,
)
from sidelight.collector.store import manifest
from sidelight.collector.store.manifest import Block
from sidelight.collector.store.objects import ObjectMissing, ObjectStore, StoreError, StoreUnavailable
from sidelight.collector.store.segments import SegmentRef, parquet, read_segment
from sidelight.collector.store.tables import (
    GROUPED_BY,
    PARTS,
    SCHEMAS,
    STATES,
    SUMS,
    Part,
    SegmentTables,
    groups,
    hours,
)

SUMS_PAY: Final = 2
"""A block is given sums if it has so many times as many samples."""


class InputUnreadable(StoreError):
    """A segment or block has been damaged."""

    def __init__(self, ref: SegmentRef, cause: Exception) -> None:
        super().__init__(f"{ref.key_prefix} cannot be read: {cause}")
        self.ref = ref


def write_block(store: ObjectStore, day: date, inputs: Sequence[SegmentRef]) -> Block:
    """Make a block of these, in the order in which they count; it counts once a manifest names it.

    Raises InputUnreadable, ObjectMissing for an input that is not there any longer, and StoreUnavailable.
    """
    tables = merged([_read(store, ref) for ref in inputs])
    starts = [start // 10**6 for start in integers(tables.profiles["ts"])]
    key_prefix = f"{manifest.BLOCKS}{day.isoformat()}/{min(starts):013d}-{max(starts):013d}-{token_hex(8)}/"
    ref = manifest.place(key_prefix)
    sums = summed(tables)
    pays = len(sums) > 0 and len(sums) * SUMS_PAY <= len(tables.samples)
    contents: dict[Part, bytes] = {part: parquet(tables.of(part)) for part in PARTS}
    if pays:
        contents["sums"] = parquet(sums)
    for part, content in contents.items():
        store.put(ref.key(part), content)
    return Block(
        replace(ref, sums=pays),
        services=tuple(used(tables.profiles["service"])),
        windows=len(tables.profiles),
        rows=len(tables.samples),
        bytes=sum(map(len, contents.values())),
        sums=len(sums) if pays else 0,
    )


def is_whole(store: ObjectStore, block: Block) -> bool:
    """Whether all objects of a block are there."""
    parts: Sequence[Part] = (*PARTS, "sums") if block.sums else PARTS
    found = {entry.key for entry in store.list(block.ref.key_prefix)}
    return found >= {block.ref.key(part) for part in parts}


def _read(store: ObjectStore, ref: SegmentRef) -> SegmentTables:
    try:
        return SegmentTables(*(_as_written(read_segment(store, ref, part), part) for part in PARTS))
    except (ObjectMissing, StoreUnavailable):
        raise
    except (StoreError, pa.ArrowException, OSError, KeyError) as error:
        raise InputUnreadable(ref, error) from error


def _as_written(table: pa.Table, part: Part) -> pa.Table:
    """The table, which may be anything that is a Parquet file. Raises ArrowException, KeyError."""
    schema = SCHEMAS[part]
    return table.select(schema.names).cast(schema)


def merged(inputs: Sequence[SegmentTables]) -> SegmentTables:
    """The windows of all inputs, each as in the first input that has it, in their stored order."""
    profiles = stacked([_profiles(tables.profiles, at) for at, tables in enumerate(inputs)])
    profiles = ordered(firsts(profiles, ["wid"]), ["service", "hour", "pod", "ts", "wid"])
    samples = stacked([_of(tables.samples, profiles, at) for at, tables in enumerate(inputs)])
    stacks = ordered(stacked([tables.stacks for tables in inputs]), ["service", "h"])
    return SegmentTables(
        profiles.select(SCHEMAS["profiles"].names),
        firsts(stacks, ["service", "h"]),
        _in_order_of(samples, profiles),
    )


def summed(tables: SegmentTables) -> pa.Table:
    """What samples add up to in each group of windows, by group and hash."""
    profiles, samples, group = tables.profiles, tables.samples, groups(tables.profiles)
    counts = samples.select(["h", *STATES])
    counts = counts.append_column("group", group.take(_ranks(samples, profiles)))
    added = counts.group_by(["group", "h"]).aggregate([(state, "sum") for state in STATES])
    added = ordered(added, ["group", "h"])
    first = firsts(profiles.append_column("group", group), ["group"])
    keys = first.append_column("hour", hours(first)).take(one(added["group"]))
    columns = {
        **{name: keys[name] for name in GROUPED_BY},
        **{name: added[name] for name in ("group", "h")},
        **{state: added[f"{state}_sum"] for state in STATES},
    }
    return pa.table([columns[name] for name in SUMS.names], schema=SUMS)


def _ranks(samples: pa.Table, profiles: pa.Table) -> Array:
    """For each sample the row of its window."""
    own = words(samples["wid"])
    return pc.index_in(own.dictionary, value_set=one(profiles["wid"])).take(own.indices)


def _profiles(profiles: pa.Table, at: int) -> pa.Table:
    """The windows of one input, with its number and their hours."""
    table = profiles.append_column("input", same(at, pa.int32(), len(profiles)))
    return table.append_column("hour", hours(profiles))


def _of(samples: pa.Table, profiles: pa.Table, at: int) -> pa.Table:
    """Those samples of an input whose windows count as they are there."""
    own = one(profiles.filter(is_equal(profiles["input"], at))["wid"])
    wids = words(stacked([samples])["wid"])
    return samples.filter(pc.is_in(wids.dictionary, value_set=own).take(wids.indices))


def _in_order_of(samples: pa.Table, profiles: pa.Table) -> pa.Table:
    """Samples in the order of their windows, and within a window by hash."""
    ranked = ordered(samples.append_column("rank", _ranks(samples, profiles)), ["rank", "h"])
    return ranked.select(SCHEMAS["samples"].names)
