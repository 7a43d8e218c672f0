"""Rollups of a closed day: one set of sums for several blocks.

The blocks of a service with many pods are many, because a block has a limited number of samples. Each of
them has stacks and sums of its own, and most are the same. A rollup has them once, so a query of a whole
day costs what it costs with one block. It has the tables `stacks`, `hours`, `sums` and `daily` of a block.

Each block of a closed day, or each group of blocks, has a rollup with the table `steps` for timelines,
unless its sums are too large to add up.

The blocks stay as they are. A query that needs single windows reads them, and so does a query of an hour
that the rollup cannot answer. A rollup counts while the manifest names all its blocks with their windows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from secrets import token_hex
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    concat_tables,
    drop_duplicates,
    factorize_rows,
    sort_table,
    sort_unique,
)
from sidelight_collector.storage import manifest
from sidelight_collector.storage.blocks import (
    put_parts,
    read_part,
    read_tables,
    sum_by_group,
    sum_stacks_by_day,
    sum_stacks_by_hour,
)
from sidelight_collector.storage.manifest import Block, Manifest
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.rollups.step_rollup import roll_up_steps
from sidelight_collector.storage.segments import encode_parquet
from sidelight_collector.storage.service_cuts import find_shared_digits
from sidelight_collector.storage.tables import (
    DAY_GROUP_COLUMNS,
    GROUP_COLUMNS,
    HOUR_NS,
    HOURS,
    MAX_INT,
    PROFILES,
    STEPS,
    SUMS,
    SegmentPart,
    compute_day_group_ids,
    compute_group_ids,
)
from sidelight_model.counts import STATES

MAX_SUM_BYTES: Final = 64 << 20
"""Size in the store of the sums that one rollup adds up, so that its memory is bounded."""


def plan_rollups(day_manifest: Manifest) -> Iterator[list[Block]]:
    """Yield the blocks of each rollup that a closed day lacks."""
    by_digits: dict[str, list[Block]] = defaultdict(list)
    for block in day_manifest.blocks:
        if block.ref.is_raw and "hours" in block.parts:
            by_digits[find_shared_digits(block.services)].append(block)
    existing = {rollup.ref.covered for rollup in day_manifest.live_rollups}
    for blocks in by_digits.values():
        is_bounded = sum(block.parts.get("sums", block.bytes) for block in blocks) <= MAX_SUM_BYTES
        if is_bounded and {block.ref.key_prefix for block in blocks} not in existing:
            yield sorted(blocks, key=lambda block: block.ref)


def write_rollup(store: ObjectStore, day: date, blocks: Sequence[Block]) -> Block:
    """Write the rollup of blocks with single windows.

    It counts once a manifest names it. The blocks are in order. Raises InputUnreadable, ObjectMissing and
    StoreUnavailable.
    """
    tables: dict[SegmentPart, pa.Table] = {"steps": _build_steps(store, blocks)}
    if len(blocks) > 1:
        tables |= _build_sums(store, blocks)
    contents = {part: encode_parquet(table) for part, table in tables.items()}
    first, last = (
        min(block.ref.min_start_ms for block in blocks),
        max(block.ref.max_start_ms for block in blocks),
    )
    services = tuple(sorted({name for block in blocks for name in block.services}))
    ref = replace(
        manifest.parse_key_prefix(
            f"{manifest.ROLLUP_ROOT}{day.isoformat()}/{first:013d}-{last:013d}-{token_hex(8)}/"
        ),
        parts=frozenset(contents),
        has_stray_ids=any(block.ref.has_stray_ids for block in blocks),
        services=services,
        covered=frozenset(block.ref.key_prefix for block in blocks),
    )
    put_parts(store, {ref.key(part): content for part, content in contents.items()})
    sizes = {part: len(content) for part, content in contents.items()}
    return Block(ref, services, sum(block.windows for block in blocks), 0, sizes)


def _build_steps(store: ObjectStore, blocks: Sequence[Block]) -> pa.Table:
    """Build `steps`, with the windows of few blocks in memory at a time."""
    waiting, tables = PROFILES.empty_table(), [STEPS.empty_table()]
    ends = [block.ref.min_start_ms * 10**6 // HOUR_NS * HOUR_NS for block in blocks[1:]]
    for block, end in zip(blocks, [*ends, MAX_INT], strict=True):
        waiting = concat_tables([waiting, read_part(store, block.ref, "profiles")])
        is_complete = pc.less(waiting["ts"], pa.scalar(end))
        if len(complete := waiting.filter(is_complete)):
            tables.append(roll_up_steps(complete))
        waiting = waiting.filter(pc.invert(is_complete))
    return sort_table(concat_tables(tables), ["service", "ts"])


def _build_sums(store: ObjectStore, blocks: Sequence[Block]) -> dict[SegmentPart, pa.Table]:
    """Build the tables that blocks have too."""
    hours = concat_tables([read_part(store, block.ref, "hours") for block in blocks])
    hours = sort_table(hours, ["service", "hour", "pod", "ts"])
    windows = hours.select(["ts", *DAY_GROUP_COLUMNS])
    for name, ids in (("group", compute_group_ids(windows)), ("day", compute_day_group_ids(windows))):
        hours = hours.set_column(hours.schema.get_field_index(name), HOURS.field(name), ids)
    sums = sums_of_blocks = SUMS.empty_table()
    stacks = read_part(store, blocks[0].ref, "stacks")
    for block in blocks:
        sums_of_blocks = concat_tables([sums, _read_sums(store, block)])
        sums = _sum_by_hour(sums_of_blocks, hours)
        stacks = sort_unique(concat_tables([stacks, read_part(store, block.ref, "stacks")]), ["service", "h"])
    return {
        "stacks": stacks,
        "hours": hours,
        "sums": sums,
        "daily": sum_stacks_by_day(sums, windows),
    }


def _read_sums(store: ObjectStore, block: Block) -> pa.Table:
    if "sums" in block.parts:
        return read_part(store, block.ref, "sums")
    return sum_stacks_by_hour(read_tables(store, block.ref))


def _sum_by_hour(sums: pa.Table, hours: pa.Table) -> pa.Table:
    """Add up sums by stack and group, with the group numbers of `hours`."""
    keys = [table.select(list(GROUP_COLUMNS)) for table in (hours, sums)]
    group = factorize_rows(concat_tables(keys))[len(hours) :]
    counts = sums.select(["h", *STATES]).append_column("group", group)
    return sum_by_group(counts, drop_duplicates(hours, ["group"]), SUMS)
