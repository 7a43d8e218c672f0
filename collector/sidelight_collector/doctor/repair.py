"""Mending what is safe to mend: no window is lost by it that the store still has.

Whatever is written is committed as compaction does: a manifest is replaced only if it is the one that was
read, and nothing is deleted that one names.
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
from sidelight_collector.doctor.day_check import Checked, Rules
from sidelight_collector.doctor.object_reader import Contents, contents
from sidelight_collector.storage import manifest
from sidelight_collector.storage.blocks import InputUnreadable, write_block
from sidelight_collector.storage.manifest import Block, Manifest, ManifestDamaged, Version
from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreIncompatible,
)
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import PARTS, Part

COMMITS: Final = 10
"""How often a manifest is read again that others replace meanwhile."""


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to a key, or why it could not be."""

    key: str
    what: str
    done: bool = True


def mend(store: ObjectStore, checked: Checked, rules: Rules, *, forget_lost: bool) -> Iterator[Done]:
    """Mend a day. Raises StoreError."""
    day = checked.day
    if checked.rebuild:
        yield _rebuilt(store, day)
        return
    for block in checked.rewrite:
        yield from _rewritten(store, day, block, rules.now)
    if forget_lost:
        for ref, lost in checked.lost.items():
            yield from _forgotten(store, day, ref, lost)
    for key in checked.strays:
        yield from _stray_deleted(store, day, key, rules)
    if checked.overdue:
        yield from _overdue_deleted(store, day, checked.overdue)


def probes_deleted(store: ObjectStore, probes: Iterable[ObjectEntry], rules: Rules) -> Iterator[Done]:
    """Delete old objects with which somebody tried the store."""
    for entry in probes:
        if rules.is_old(entry.modified):
            store.delete(entry.key)
            yield Done(entry.key, "deleted this probe")


def _change(store: ObjectStore, day: date, change: Callable[[Manifest], Manifest | None]) -> Manifest | None:
    """Commit a changed manifest; None if `change` no longer finds what it was to change."""
    for _ in range(COMMITS):
        known = manifest.read(store, day)
        changed = change(known.manifest)
        if changed is None or manifest.commit(store, day, known, changed):
            return changed
    return None


def _rewritten(store: ObjectStore, day: date, block: Block, now: float) -> Iterator[Done]:
    key = block.ref.key_prefix
    try:
        made = write_block(store, day, [block.ref], whole=_is_over(day, now))
    except (InputUnreadable, ObjectMissing):
        return
    if made is None or made.windows != block.windows or made.rows != block.rows:
        return

    def change(known: Manifest) -> Manifest | None:
        if block not in known.blocks:
            return None
        blocks = tuple(made if each == block else each for each in known.blocks)
        return Manifest(blocks, known.gone | {key})

    if _change(store, day, change):
        yield Done(key, f"made a new block of its windows, {made.ref.key_prefix}, and named it in its place")
    else:
        _delete(store, [made.ref.key(part) for part in made.parts])
        yield Done(key, "left alone: somebody has changed the manifest meanwhile", done=False)


def _is_over(day: date, now: float) -> bool:
    return now >= datetime.combine(day + timedelta(days=1), time(1), UTC).timestamp()


def _forgotten(store: ObjectStore, day: date, ref: SegmentRef, lost: frozenset[Part]) -> Iterator[Done]:
    key, told = ref.key_prefix, ""

    def change(known: Manifest) -> Manifest | None:
        nonlocal told
        block = next((each for each in known.blocks if each.ref == ref), None)
        there = {entry.key for entry in store.list(key)}
        if block is None or there & {ref.key(part) for part in lost}:
            return None
        kept = _useful(block, lost)
        forgotten = () if kept is None else tuple(part for part in block.parts if part not in kept.parts)
        told = f"the manifest no longer names {'its ' if kept else 'this block'}{', '.join(forgotten)}"
        blocks = [kept if each is block else each for each in known.blocks]
        left_out = {key} if kept is None else {ref.key(part) for part in forgotten}
        return Manifest(tuple(each for each in blocks if each), known.gone | left_out)

    if _change(store, day, change):
        yield Done(key, told)


def _useful(block: Block, lost: frozenset[Part]) -> Block | None:
    """The block with what of it is of use without the lost tables; None if nothing is."""
    left = {part for part in block.parts if part not in lost}
    if left.issuperset(PARTS):
        return block.without(lost)
    if left.issuperset(("hours", "stacks")) and left & {"sums", "daily"}:
        return block.without({*lost, "profiles", "samples"})
    return None


def _stray_deleted(store: ObjectStore, day: date, key: str, rules: Rules) -> Iterator[Done]:
    known = manifest.read(store, day)
    if known.etag is None or _is_named(known.manifest, key):
        return
    there = list(store.list(key))
    if there and all(rules.is_old(entry.modified) for entry in there):
        _delete(store, [entry.key for entry in there])
        yield Done(key, f"deleted {len(there)} objects that no manifest names")


def _is_named(known: Manifest, key: str) -> bool:
    names = {block.ref.key_prefix for block in known.blocks}
    tables = {block.ref.key(part) for block in known.blocks for part in block.parts}
    return key in names | tables


def _overdue_deleted(store: ObjectStore, day: date, gone: Sequence[str]) -> Iterator[Done]:
    deleted = 0
    for key in gone:
        there = [entry.key for entry in store.list(key)]
        _delete(store, there)
        deleted += len(there)
    _change(store, day, lambda known: replace(known, gone=known.gone - set(gone)))
    yield Done(manifest.key_of(day), f"deleted {deleted} objects that were to be deleted long ago")


def _delete(store: ObjectStore, keys: Iterable[str]) -> None:
    """Samples first: a segment without does not count."""
    for key in sorted(keys, key=lambda key: (not key.endswith("/samples.parquet"), key)):
        store.delete(key)


class _Entangled(Exception):
    """A manifest cannot be made of the blocks that lie there; the text says why, and what to do."""


def _rebuilt(store: ObjectStore, day: date) -> Done:
    key = manifest.key_of(day)
    try:
        etag: str | None = store.get_with_etag(key)[1]
    except ObjectMissing:
        etag = None
    with suppress(ManifestDamaged, StoreIncompatible):
        if manifest.read(store, day).etag is not None:
            return Done(key, "left alone: somebody has written it meanwhile", done=False)
    try:
        made = _manifest_of_blocks(store, day)
        # In the place of what was read and of nothing else.
        committed = manifest.commit(store, day, Version(Manifest(), etag), made)
    except _Entangled as entangled:
        return Done(key, f"not made anew: {entangled}", done=False)
    except (ObjectChanged, ObjectExists):
        committed = None
    if committed is None:
        return Done(key, "left alone: somebody has written it meanwhile", done=False)
    windows = sum(block.windows for block in made.blocks)
    return Done(key, f"made anew of {len(made.blocks)} blocks with {windows:,} windows")


def _manifest_of_blocks(store: ObjectStore, day: date) -> Manifest:
    """One that names every window of the blocks that lie there, once. Raises _Entangled."""
    chosen: list[Block] = []
    gone: set[str] = set()
    ids: Array | None = None
    found = _whole_blocks(store, day)
    for block, read in sorted(found, key=lambda pair: -pair[0].windows):
        own: Array = pa.array(read.ids, pa.uint64())
        again = 0 if ids is None else len(own.filter(pc.is_in(own, value_set=ids)))
        if again and again == len(own):
            gone.add(block.ref.key_prefix)
        elif again:
            raise _Entangled(
                f"{again:,} of {len(own):,} windows of {block.ref.key_prefix} are in other blocks too. Put "
                "the manifest back from a copy, or move the blocks away that others took the place of"
            )
        else:
            chosen.append(block)
            ids = own if ids is None else pa.concat_arrays([ids, own])
    return Manifest(tuple(sorted(chosen, key=lambda block: block.ref)), frozenset(gone))


def _whole_blocks(store: ObjectStore, day: date) -> list[tuple[Block, Contents]]:
    lying = layout.lying(store, day).blocks
    found = []
    for prefix, tables in lying.items():
        parts = frozenset(tables)
        summed = parts.issuperset(("hours", "stacks")) and parts & {"sums", "daily"}
        if not parts.issuperset(PARTS) and not summed:
            continue  # what is left of one that was being written or deleted
        ref = replace(manifest.place(prefix), parts=parts)
        read = contents(store, ref, tuple(tables), tables)
        if read.damaged or read.missing:
            bad = ", ".join([*read.damaged, *read.missing])
            raise _Entangled(
                f"{bad} of {prefix} cannot be read. Put it back from a copy, or move that block away"
            )
        block = Block(
            ref,
            services=tuple(sorted(read.services)),
            windows=sum(read.services.values()),
            rows=sum(read.rows.get("samples", {}).values()),
            parts={part: entry.size for part, entry in tables.items()},
        )
        found.append((block, read))
    for block, _ in found:
        # Of what has no windows one by one it cannot be told whether another has them too.
        others = {name for other, _ in found if other is not block for name in other.services}
        if not block.ref.is_whole and not others.isdisjoint(block.services):
            raise _Entangled(
                f"{block.ref.key_prefix} has no windows one by one that could be told from those of others. "
                "Put the manifest back from a copy, or move that block away"
            )
    return found
