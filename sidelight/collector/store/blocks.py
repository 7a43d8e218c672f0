"""Making one block of segments and blocks: the same windows, each once, in one order.

A block's tables have the columns and the order of a segment's (`tables`), so whatever reads segments reads
blocks. Its name is new each time it is written: what nobody named in a manifest can be deleted, for nobody
will.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from secrets import token_hex
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import (
    firsts,
    integers,
    is_equal,
    one,
    ordered,
    same,
    stacked,
    strings,
    used,
    words,
)
from sidelight.collector.store import manifest
from sidelight.collector.store.manifest import Block
from sidelight.collector.store.objects import ObjectMissing, ObjectStore, StoreError, StoreUnavailable
from sidelight.collector.store.segments import SegmentRef, parquet, read_segment
from sidelight.collector.store.tables import HOUR_NS, SCHEMAS, Part, SegmentTables

PARTS: Final[tuple[Part, ...]] = ("profiles", "stacks", "samples")


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
    size = 0
    for part in PARTS:
        content = parquet(tables.of(part))
        store.put(ref.key(part), content)
        size += len(content)
    services = tuple(used(tables.profiles["service"]))
    return Block(ref, services, len(tables.profiles), len(tables.samples), size)


def is_whole(store: ObjectStore, block: Block) -> bool:
    """Whether all objects of a block are there."""
    found = {entry.key for entry in store.list(block.ref.key_prefix)}
    return found >= {block.ref.key(part) for part in PARTS}


def _read(store: ObjectStore, ref: SegmentRef) -> SegmentTables:
    try:
        return SegmentTables(*(read_segment(store, ref, part) for part in PARTS))
    except (ObjectMissing, StoreUnavailable):
        raise
    except (StoreError, pa.ArrowException, OSError) as error:
        raise InputUnreadable(ref, error) from error


def merged(inputs: Sequence[SegmentTables]) -> SegmentTables:
    """The windows of all inputs, each as in the first input that has it, in their stored order."""
    profiles = stacked([_profiles(tables.profiles, at) for at, tables in enumerate(inputs)])
    profiles = ordered(firsts(profiles, ["wid"]), ["service", "hour", "pod", "ts", "wid"])
    samples = stacked([_of(tables.samples, profiles, at) for at, tables in enumerate(inputs)])
    stacks = ordered(stacked([tables.stacks for tables in inputs]), ["service", "h"])
    return SegmentTables(
        profiles.select(SCHEMAS["profiles"].names),
        firsts(stacks, ["service", "h"]),
        _in_order_of(samples, strings(profiles["wid"])),
    )


def _profiles(profiles: pa.Table, at: int) -> pa.Table:
    """The windows of one input, with its number and their hours."""
    hours = one(pc.divide(profiles["ts"], pa.scalar(HOUR_NS)))
    table = profiles.append_column("input", same(at, pa.int32(), len(profiles)))
    return table.append_column("hour", hours)


def _of(samples: pa.Table, profiles: pa.Table, at: int) -> pa.Table:
    """Those samples of an input whose windows count as they are there."""
    own = one(profiles.filter(is_equal(profiles["input"], at))["wid"])
    wids = words(stacked([samples])["wid"])
    return samples.filter(pc.is_in(wids.dictionary, value_set=own).take(wids.indices))


def _in_order_of(samples: pa.Table, wids: Sequence[str]) -> pa.Table:
    """Samples in the order of their windows, and within a window by hash."""
    own = words(samples["wid"])
    rank = pc.index_in(own.dictionary, value_set=pa.array(wids, pa.string())).take(own.indices)
    ranked = ordered(samples.append_column("rank", rank), ["rank", "h"])
    return ranked.select(SCHEMAS["samples"].names)
