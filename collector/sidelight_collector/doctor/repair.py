"""Safe repairs of a store: they never lose a window that the store still has.

Repairs commit changes as compaction does: they replace a manifest only if it is unchanged since it was
read, and never delete an object that a manifest names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Array
from sidelight_collector.doctor import layout
from sidelight_collector.doctor.day_check import DayCheckOptions, DayCheckResult
from sidelight_collector.doctor.object_reader import TableContents, read_contents
from sidelight_collector.storage import manifest
from sidelight_collector.storage.blocks import InputUnreadable, write_block
from sidelight_collector.storage.documents import Stored
from sidelight_collector.storage.manifest import Block, Manifest, ManifestDamaged
from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreIncompatible,
)
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import SEGMENT_PARTS, SegmentPart

MAX_COMMIT_ATTEMPTS: Final = 10
"""How often a change of a manifest is tried if others replace it meanwhile."""


@dataclass(frozen=True, slots=True)
class RepairAction:
    """A repair of a key, or the reason why it was not done."""

    key: str
    what: str
    done: bool = True


def repair_day(
    store: ObjectStore, check_result: DayCheckResult, options: DayCheckOptions, *, forget_lost: bool
) -> Iterator[RepairAction]:
    """Repair a day; yields each action. Raises StoreError.

    With `forget_lost`, the manifest no longer names tables that blocks have lost for good.
    """
    day = check_result.day
    if check_result.can_rebuild:
        yield _rebuild_manifest(store, day)
        return
    for block in check_result.rewritable_blocks:
        yield from _rewrite_block(store, day, block, options.now)
    if forget_lost:
        for ref, lost in check_result.lost_parts.items():
            yield from _forget_lost_parts(store, day, ref, lost)
    for ref in check_result.damaged_rollups:
        yield from _drop_rollup(store, day, ref)
    for key in check_result.orphans:
        yield from _delete_orphan(store, day, key, options)
    if check_result.overdue_keys:
        yield from _delete_overdue(store, day, check_result.overdue_keys)


def delete_probes(
    store: ObjectStore, probes: Iterable[ObjectEntry], options: DayCheckOptions
) -> Iterator[RepairAction]:
    """Delete old probe objects."""
    for entry in probes:
        if options.is_old(entry.modified):
            store.delete(entry.key)
            yield RepairAction(entry.key, "deleted this probe")


def _commit_change(
    store: ObjectStore, day: date, change: Callable[[Manifest], Manifest | None]
) -> Manifest | None:
    """Commit a changed manifest; None if `change` returns None or no try succeeds."""
    for _ in range(MAX_COMMIT_ATTEMPTS):
        version = manifest.read(store, day)
        changed = change(version.document)
        if changed is None or manifest.commit(store, day, version, changed):
            return changed
    return None


def _rewrite_block(store: ObjectStore, day: date, block: Block, now: float) -> Iterator[RepairAction]:
    key = block.ref.key_prefix
    try:
        new_block = write_block(store, day, [block.ref], all_rollups=_has_ended(day, now))
    except (InputUnreadable, ObjectMissing):
        return
    if new_block is None or new_block.windows != block.windows or new_block.rows != block.rows:
        return

    def change(current: Manifest) -> Manifest | None:
        if block not in current.blocks:
            return None
        blocks = tuple(new_block if other == block else other for other in current.blocks)
        return replace(current, blocks=blocks, tombstones=current.tombstones | {key})

    if _commit_change(store, day, change):
        yield RepairAction(
            key, f"made a new block of its windows, {new_block.ref.key_prefix}, and named it in its place"
        )
    else:
        _delete_keys(store, [new_block.ref.key(part) for part in new_block.parts])
        yield RepairAction(key, "left alone: somebody has changed the manifest meanwhile", done=False)


def _has_ended(day: date, now: float) -> bool:
    return now >= datetime.combine(day + timedelta(days=1), time(1), UTC).timestamp()


def _forget_lost_parts(
    store: ObjectStore, day: date, ref: SegmentRef, lost: frozenset[SegmentPart]
) -> Iterator[RepairAction]:
    key, description = ref.key_prefix, ""

    def change(current: Manifest) -> Manifest | None:
        nonlocal description
        block = next((item for item in current.blocks if item.ref == ref), None)
        stored_keys = {entry.key for entry in store.list(key)}
        if block is None or stored_keys & {ref.key(part) for part in lost}:
            return None
        remaining = _keep_usable_parts(block, lost)
        forgotten = (
            () if remaining is None else tuple(part for part in block.parts if part not in remaining.parts)
        )
        description = (
            f"the manifest no longer names {'its ' if remaining else 'this block'}{', '.join(forgotten)}"
        )
        blocks = [remaining if item is block else item for item in current.blocks]
        tombstones = {key} if remaining is None else {ref.key(part) for part in forgotten}
        remaining_blocks = tuple(item for item in blocks if item)
        return replace(current, blocks=remaining_blocks, tombstones=current.tombstones | tombstones)

    if _commit_change(store, day, change):
        yield RepairAction(key, description)


def _drop_rollup(store: ObjectStore, day: date, ref: SegmentRef) -> Iterator[RepairAction]:
    def change(current: Manifest) -> Manifest | None:
        others = tuple(rollup for rollup in current.rollups if rollup.ref != ref)
        return replace(current, rollups=others) if len(others) < len(current.rollups) else None

    if _commit_change(store, day, change):
        yield RepairAction(ref.key_prefix, "the manifest no longer names this rollup")


def _keep_usable_parts(block: Block, lost: frozenset[SegmentPart]) -> Block | None:
    """Return the block with the tables that are usable without the lost ones, or None."""
    remaining = {part for part in block.parts if part not in lost}
    if remaining.issuperset(SEGMENT_PARTS):
        return block.drop_parts(lost)
    if remaining.issuperset(("hours", "stacks")) and remaining & {"sums", "daily"}:
        return block.drop_parts({*lost, "profiles", "samples"})
    return None


def _delete_orphan(
    store: ObjectStore, day: date, key: str, options: DayCheckOptions
) -> Iterator[RepairAction]:
    version = manifest.read(store, day)
    if version.etag is None or _is_named(version.document, key):
        return
    entries = list(store.list(key))
    if entries and all(options.is_old(entry.modified) for entry in entries):
        _delete_keys(store, [entry.key for entry in entries])
        yield RepairAction(key, f"deleted {len(entries)} objects that no manifest names")


def _is_named(current: Manifest, key: str) -> bool:
    names = {block.ref.key_prefix for block in (*current.blocks, *current.live_rollups)}
    tables = {block.ref.key(part) for block in current.blocks for part in block.parts}
    return key in names | tables


def _delete_overdue(store: ObjectStore, day: date, overdue_keys: Sequence[str]) -> Iterator[RepairAction]:
    deleted = 0
    for key in overdue_keys:
        stored_keys = [entry.key for entry in store.list(key)]
        _delete_keys(store, stored_keys)
        deleted += len(stored_keys)
    _commit_change(
        store, day, lambda current: replace(current, tombstones=current.tombstones - set(overdue_keys))
    )
    yield RepairAction(manifest.key_of(day), f"deleted {deleted} objects that were to be deleted long ago")


def _delete_keys(store: ObjectStore, keys: Iterable[str]) -> None:
    """Delete keys, `samples` first: a segment without it does not count."""
    for key in sorted(keys, key=lambda key: (not key.endswith("/samples.parquet"), key)):
        store.delete(key)


class _CannotRebuild(Exception):
    """A manifest cannot be built from the stored blocks.

    The message has the reason and what to do.
    """


def _rebuild_manifest(store: ObjectStore, day: date) -> RepairAction:
    key = manifest.key_of(day)
    try:
        etag: str | None = store.get_with_etag(key)[1]
    except ObjectMissing:
        etag = None
    with suppress(ManifestDamaged, StoreIncompatible):
        if manifest.read(store, day).etag is not None:
            return RepairAction(key, "left alone: somebody has written it meanwhile", done=False)
    try:
        rebuilt = _build_manifest(store, day)
        committed = manifest.commit(store, day, Stored(Manifest(), etag), rebuilt)
    except _CannotRebuild as entangled:
        return RepairAction(key, f"not rebuilt: {entangled}", done=False)
    except (ObjectChanged, ObjectExists):
        committed = None
    if committed is None:
        return RepairAction(key, "left alone: somebody has written it meanwhile", done=False)
    windows = sum(block.windows for block in rebuilt.blocks)
    return RepairAction(key, f"rebuilt from {len(rebuilt.blocks)} blocks with {windows:,} windows")


def _build_manifest(store: ObjectStore, day: date) -> Manifest:
    """Build a manifest that names each window of the stored blocks once.

    Raises _CannotRebuild.
    """
    blocks: list[Block] = []
    tombstones: set[str] = set()
    ids: Array | None = None
    complete_blocks = _read_complete_blocks(store, day)
    for block, contents in sorted(complete_blocks, key=lambda pair: -pair[0].windows):
        block_ids: Array = pa.array(contents.id_hashes, pa.uint64())
        duplicates = 0 if ids is None else len(block_ids.filter(pc.is_in(block_ids, value_set=ids)))
        if duplicates and duplicates == len(block_ids):
            tombstones.add(block.ref.key_prefix)
        elif duplicates:
            raise _CannotRebuild(
                f"{duplicates:,} of {len(block_ids):,} windows of {block.ref.key_prefix} are in other "
                "blocks too. Put "
                "the manifest back from a copy, or move the blocks away that others took the place of"
            )
        else:
            blocks.append(block)
            ids = block_ids if ids is None else pa.concat_arrays([ids, block_ids])
    return Manifest(tuple(sorted(blocks, key=lambda block: block.ref)), frozenset(tombstones))


def _read_complete_blocks(store: ObjectStore, day: date) -> list[tuple[Block, TableContents]]:
    blocks = layout.list_day(store, day).blocks
    complete_blocks = []
    for prefix, tables in blocks.items():
        parts = frozenset(tables)
        is_rollup = parts.issuperset(("hours", "stacks")) and parts & {"sums", "daily"}
        if not parts.issuperset(SEGMENT_PARTS) and not is_rollup:
            continue  # an incomplete block that was being written or deleted
        ref = replace(manifest.parse_key_prefix(prefix), parts=parts)
        contents = read_contents(store, ref, tuple(tables), tables)
        if contents.damaged or contents.missing:
            bad_parts = ", ".join([*contents.damaged, *contents.missing])
            raise _CannotRebuild(
                f"{bad_parts} of {prefix} cannot be read. Put it back from a copy, or move that block away"
            )
        block = Block(
            ref,
            services=tuple(sorted(contents.windows_by_service)),
            windows=sum(contents.windows_by_service.values()),
            rows=sum(contents.rows.get("samples", {}).values()),
            parts={part: entry.size for part, entry in tables.items()},
        )
        complete_blocks.append((block, contents))
    for block, _ in complete_blocks:
        # Without individual windows, duplicates in other blocks cannot be detected.
        others = {name for other, _ in complete_blocks if other is not block for name in other.services}
        if not block.ref.is_raw and not others.isdisjoint(block.services):
            raise _CannotRebuild(
                f"{block.ref.key_prefix} has no single windows that could be separated from those of "
                "other services. "
                "Put the manifest back from a copy, or move that block away"
            )
    return complete_blocks
