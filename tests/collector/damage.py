"""Stores that are whole, and every kind of damage done to one for real."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sidelight_collector.doctor.checker import DoctorReport, check_store
from sidelight_collector.doctor.findings import FindingKind, FindingSeverity
from sidelight_collector.doctor.settings import DoctorSettings
from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.backends.open_store import CONFIG_KEY, verify_store
from sidelight_collector.storage.blocks import write_block
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.lifecycle.retention import Resolution, Retention, RetentionPolicy
from sidelight_collector.storage.manifest import Block, Manifest
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.pins import Pin, add_pin
from sidelight_collector.storage.segments import (
    SegmentRef,
    encode_parquet,
    event_day,
    list_segments,
    write_segment,
)
from sidelight_collector.storage.tables import SegmentPart
from sidelight_model.window import Window
from tests.collector.stored_windows import START_NS, stored, window
from tests.collector.test_query_blocks import fleet

DAY = event_day(START_NS)
KEY = manifest.key_of(DAY)
DAY_SECONDS = 86_400
LATER = START_NS / 1e9 + 3 * DAY_SECONDS
Told = tuple[FindingSeverity, FindingKind, str]


def whole(store: ObjectStore | None = None, *, rows: int = 1_000_000) -> ObjectStore:
    """A day of blocks with all their tables, with nothing left to compact, and a segment."""
    store = store or MemoryStore()
    for key, content in _image(rows).items():
        store.put(key, content)
    return store


@cache
def _image(rows: int) -> dict[str, bytes]:
    store = MemoryStore()
    verify_store(store)
    windows = fleet()
    at_once = len(windows) if rows == 1_000_000 else 60
    rules = CompactionPolicy(min_segments=4, max_block_rows=rows, deletion_delay_seconds=0)
    for batch in (windows[at : at + at_once] for at in range(0, len(windows), at_once)):
        stored(*(batch[at : at + 5] for at in range(0, len(batch), 5)), store=store)
        for _ in range(3):
            Compaction(store, Metrics(), rules, interval_seconds=1, clock=lambda: LATER).run_once()
    assert list_segments(store, 0, 2**63 - 1) == []
    assert not manifest.read(store, DAY).document.tombstones
    write_segment(store, late())
    return {entry.key: store.get(entry.key) for entry in store.list("")}


def rotated(store: ObjectStore, level: Resolution, ads: Resolution) -> ObjectStore:
    """Let what is older than a day go down to a level, and that of one service to another."""
    compaction = Compaction(store, Metrics(), CompactionPolicy(), interval_seconds=1, clock=lambda: LATER)
    compaction.run_once()  # retention leaves a day alone that has segments
    policy = RetentionPolicy(KEEPING[level], {"ads": KEEPING[ads]})
    Retention(store, Metrics(), policy=policy, interval_seconds=1).run_once(
        datetime.fromtimestamp(LATER, UTC)
    )
    return store


KEEPING = {
    Resolution.WINDOW: RetentionDays(9, 9, 9),
    Resolution.HOUR: RetentionDays(1, 9, 9),
    Resolution.DAY: RetentionDays(1, 1, 9),
    Resolution.NOTHING: RetentionDays(1, 1, 1),
}


def late() -> list[Window]:
    """Windows that come after the others."""
    return [
        window("main;late 3", at=7300 + at, service=service, pod="late")
        for at in range(2)
        for service in ("ads", "shop")
    ]


def examined(store: ObjectStore, *, days_later: float = 0, **changes: object) -> DoctorReport:
    """What the doctor says, of a store or of what it will be in so many days."""
    settings = DoctorSettings(store="given", **changes)  # type: ignore[arg-type]
    return check_store(store, settings, lambda: time.time() + days_later * DAY_SECONDS, lambda _: None)


def told(report: DoctorReport) -> list[Told]:
    return [
        (each.severity, each.kind, each.key)
        for each in report.findings
        if each.kind is not FindingKind.NATIVE_MISSING
    ]


def aged(root: Path, days: float = 2) -> None:
    """Make everything in a directory store so old."""
    for path in root.rglob("*"):
        moment = path.stat().st_mtime - days * DAY_SECONDS
        os.utime(path, (moment, moment))


def block(store: ObjectStore) -> Block:
    """The first block of the day."""
    return manifest.read(store, DAY).document.blocks[0]


def segment(store: ObjectStore) -> SegmentRef:
    (ref,) = list_segments(store, 0, 2**63 - 1)
    return ref


def commit(store: ObjectStore, change: Callable[[Manifest], Manifest], day: date = DAY) -> None:
    known = manifest.read(store, day)
    assert manifest.commit(store, day, known, change(known.document))


def changed(
    store: ObjectStore, ref: SegmentRef, part: SegmentPart, change: Callable[[pa.Table], pa.Table]
) -> str:
    """Write a table anew with other contents; the manifest knows its size. The key."""
    key = ref.key(part)
    content = encode_parquet(change(pq.read_table(pa.BufferReader(store.get(key)))))
    store.put(key, content)

    def resized(known: Manifest) -> Manifest:
        blocks = [
            replace(each, parts={**each.parts, part: len(content)}) if each.ref == ref else each
            for each in known.blocks
        ]
        return replace(known, blocks=tuple(blocks))

    if not ref.is_segment:
        commit(store, resized)
    return key


def one_more(column: str) -> Callable[[pa.Table], pa.Table]:
    """The first number of a column, one larger."""

    def change(table: pa.Table) -> pa.Table:
        numbers = table[column].to_pylist()
        numbers[0] += 1
        at = table.schema.get_field_index(column)
        return table.set_column(
            at, table.schema.field(column), pa.array(numbers, table.schema.field(column).type)
        )

    return change


def without_first(table: pa.Table) -> pa.Table:
    return table.slice(1)


def _config_missing(store: ObjectStore) -> list[Told]:
    store.delete(CONFIG_KEY)
    return [(FindingSeverity.ERROR, FindingKind.CONFIG_MISSING, CONFIG_KEY)]


def _config_damaged(store: ObjectStore) -> list[Told]:
    store.put(CONFIG_KEY, b"{}")
    return [(FindingSeverity.ERROR, FindingKind.CONFIG_DAMAGED, CONFIG_KEY)]


def _format_newer(store: ObjectStore) -> list[Told]:
    store.put(CONFIG_KEY, b'{"format": 2}')
    return [(FindingSeverity.ERROR, FindingKind.FORMAT_NEWER, CONFIG_KEY)]


def _manifest_damaged(store: ObjectStore) -> list[Told]:
    store.put(KEY, store.get(KEY)[:100])
    return [(FindingSeverity.ERROR, FindingKind.MANIFEST_DAMAGED, KEY)]


def _manifest_newer(store: ObjectStore) -> list[Told]:
    content = {**json.loads(store.get(KEY)), "format": 2}
    del content["check"]
    store.put(KEY, json.dumps(content).encode())
    return [(FindingSeverity.ERROR, FindingKind.MANIFEST_NEWER, KEY)]


def _manifest_missing(store: ObjectStore) -> list[Told]:
    store.delete(KEY)
    return [(FindingSeverity.ERROR, FindingKind.MANIFEST_MISSING, KEY)]


def _object_missing(store: ObjectStore) -> list[Told]:
    key = block(store).ref.key("sums")
    store.delete(key)
    return [(FindingSeverity.ERROR, FindingKind.OBJECT_MISSING, key)]


def _object_damaged(store: ObjectStore) -> list[Told]:
    key = block(store).ref.key("hours")
    store.put(key, store.get(key)[:-20])
    return [(FindingSeverity.ERROR, FindingKind.OBJECT_DAMAGED, key)]


def _counts_differ(store: ObjectStore) -> list[Told]:
    first = block(store)
    other = replace(first, services=("ads",))
    commit(store, lambda known: replace(known, blocks=(other, *known.blocks[1:])))
    return 2 * [
        (FindingSeverity.ERROR, FindingKind.COUNTS_DIFFER, first.ref.key_prefix)
    ]  # profiles and hours say so


def _totals_differ(store: ObjectStore) -> list[Told]:
    key = changed(store, block(store).ref, "daily", one_more("gil"))
    return [(FindingSeverity.ERROR, FindingKind.TOTALS_DIFFER, key)]


def _name_differs(store: ObjectStore) -> list[Told]:
    ref = segment(store)
    changed(store, ref, "profiles", one_more("digest"))
    return [(FindingSeverity.ERROR, FindingKind.NAME_DIFFERS, ref.key_prefix)]


def _stacks_missing(store: ObjectStore) -> list[Told]:
    ref = block(store).ref
    changed(store, ref, "stacks", without_first)
    return [
        (FindingSeverity.ERROR, FindingKind.STACKS_MISSING, ref.key(part))
        for part in ("samples", "sums", "daily")
    ]


def _stacks_misnamed(store: ObjectStore) -> list[Told]:
    def other_frames(table: pa.Table) -> pa.Table:
        kind = table.schema.field("frames").type
        frames = [["other"], *table["frames"].to_pylist()[1:]]
        return table.set_column(3, table.schema.field("frames"), pa.array(frames, kind))

    key = changed(store, block(store).ref, "stacks", other_frames)
    return [(FindingSeverity.ERROR, FindingKind.STACK_HASHES_DIFFER, key)]


def _windows_twice(store: ObjectStore) -> list[Told]:
    again = write_block(store, DAY, [block(store).ref], all_rollups=True)
    assert again
    commit(store, lambda known: replace(known, blocks=(*known.blocks, again)))
    return [(FindingSeverity.ERROR, FindingKind.WINDOWS_DUPLICATED, again.ref.key_prefix)]


def _windows_differ(store: ObjectStore) -> list[Told]:
    one = replace(late()[0], id="1" * 26)
    refs = sorted(write_segment(store, [replace(one, duration_ns=span)]) for span in (10**9, 2 * 10**9))
    return [
        (FindingSeverity.WARNING, FindingKind.WINDOWS_DIFFER, refs[1].key_prefix),
        (FindingSeverity.NOTE, FindingKind.WINDOWS_PENDING, f"v1/l0/{event_day(one.start_ns)}/"),
    ]


def _windows_pending(store: ObjectStore) -> list[Told]:
    again = window(at=60, pod="shop-9")
    commit_segments(store, [again])
    write_segment(store, [again])
    return [(FindingSeverity.NOTE, FindingKind.WINDOWS_PENDING, f"v1/l0/{DAY}/")]


def commit_segments(store: ObjectStore, windows: Iterable[Window]) -> Block:
    """Make one more block of the day, of these windows."""
    ref = write_segment(store, windows)
    made = write_block(store, DAY, [ref], all_rollups=True)
    assert made
    commit(store, lambda known: replace(known, blocks=(*known.blocks, made)))
    for part in ("samples", "profiles", "stacks"):
        store.delete(f"{ref.key_prefix}{part}.parquet")
    return made


def _segment_unfinished(store: ObjectStore) -> list[Told]:
    ref = segment(store)
    store.delete(ref.key("samples"))
    return [(FindingSeverity.NOTE, FindingKind.SEGMENT_UNFINISHED, ref.key_prefix)]


def _stray(store: ObjectStore) -> list[Told]:
    made = write_block(store, DAY, [block(store).ref])
    assert made
    return [(FindingSeverity.WARNING, FindingKind.ORPHANED_OBJECT, made.ref.key_prefix)]


def _unknown_key(store: ObjectStore) -> list[Told]:
    store.put("v1/notes.txt", b"mine")
    store.put(f"v1/raw/{DAY}/a/1", b"1")
    store.put(f"v1/raw/{DAY}/a/2", b"2")
    return [
        (FindingSeverity.WARNING, FindingKind.UNKNOWN_KEY, "v1/notes.txt"),
        (FindingSeverity.WARNING, FindingKind.UNKNOWN_KEY, f"v1/raw/{DAY}/a/"),
    ]


def _gone_overdue(store: ObjectStore) -> list[Told]:
    old = write_segment(store, fleet()[:3])
    commit(store, lambda known: replace(known, tombstones=known.tombstones | {old.key_prefix}))
    return [(FindingSeverity.WARNING, FindingKind.DELETION_OVERDUE, KEY)]


def _pin_damaged(store: ObjectStore) -> list[Told]:
    add_pin(store, Pin("fine", START_NS / 1e9, LATER, "", "", LATER))
    store.put("v1/pins/inc-7.json", b"{}")
    return [(FindingSeverity.ERROR, FindingKind.PIN_DAMAGED, "v1/pins/inc-7.json")]


DAMAGE: dict[FindingKind, Callable[[ObjectStore], list[Told]]] = {
    FindingKind.CONFIG_MISSING: _config_missing,
    FindingKind.CONFIG_DAMAGED: _config_damaged,
    FindingKind.FORMAT_NEWER: _format_newer,
    FindingKind.MANIFEST_DAMAGED: _manifest_damaged,
    FindingKind.MANIFEST_NEWER: _manifest_newer,
    FindingKind.MANIFEST_MISSING: _manifest_missing,
    FindingKind.OBJECT_MISSING: _object_missing,
    FindingKind.OBJECT_DAMAGED: _object_damaged,
    FindingKind.COUNTS_DIFFER: _counts_differ,
    FindingKind.TOTALS_DIFFER: _totals_differ,
    FindingKind.NAME_DIFFERS: _name_differs,
    FindingKind.STACKS_MISSING: _stacks_missing,
    FindingKind.STACK_HASHES_DIFFER: _stacks_misnamed,
    FindingKind.WINDOWS_DUPLICATED: _windows_twice,
    FindingKind.WINDOWS_DIFFER: _windows_differ,
    FindingKind.WINDOWS_PENDING: _windows_pending,
    FindingKind.SEGMENT_UNFINISHED: _segment_unfinished,
    FindingKind.ORPHANED_OBJECT: _stray,
    FindingKind.UNKNOWN_KEY: _unknown_key,
    FindingKind.DELETION_OVERDUE: _gone_overdue,
    FindingKind.PIN_DAMAGED: _pin_damaged,
}
"""What does each kind of damage to a whole store, and what is to be told of it two days later."""
