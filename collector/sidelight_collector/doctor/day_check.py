"""The check of one day: its manifest, its objects, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Final

from sidelight_collector.arrow_ops import to_strings
from sidelight_collector.doctor import layout
from sidelight_collector.doctor.cost_estimate import StorageUsage, add_usage
from sidelight_collector.doctor.duplicates import DuplicateWindows, WindowIdIndex
from sidelight_collector.doctor.findings import (
    FindingKind,
    FindingSeverity,
    StoreFinding,
    format_count,
    make_error,
    make_note,
    make_warning,
)
from sidelight_collector.doctor.layout import DayObjects, PartEntries
from sidelight_collector.doctor.object_reader import TableContents, hash_window_id, read_contents
from sidelight_collector.doctor.store_checks import check_block, check_segment
from sidelight_collector.storage import manifest, segments
from sidelight_collector.storage.documents import Stored
from sidelight_collector.storage.manifest import Block, Manifest, ManifestDamaged
from sidelight_collector.storage.objects import ObjectStore, StoreError, StoreIncompatible
from sidelight_collector.storage.segments import SegmentRef, read_segment
from sidelight_collector.storage.tables import SEGMENT_PARTS, SegmentPart

MAX_ATTEMPTS: Final = 3
"""How often a day is checked at most if it changes during the check."""


@dataclass(frozen=True, slots=True)
class DayCheckOptions:
    """Options of a day's check.

    `now` is in Unix seconds, by the clock of the store. With `is_quick` no table is read.
    """

    now: float
    grace_seconds: float
    is_quick: bool = False

    def is_old(self, modified: float) -> bool:
        """Return whether no collector can still be about to name an object of this age."""
        return self.now - modified >= self.grace_seconds


@dataclass(slots=True)
class DayCheckResult:
    """The findings about a day, and what `repair_day` can repair.

    `version` is None if the manifest cannot be read. `rewritable_blocks` can be replaced by new blocks
    built from their windows. `lost_parts` are tables that blocks have lost for good, `damaged_rollups`
    rollups that are not usable. `orphans` and
    `overdue_keys` are keys, or key prefixes that end with `/`. If `can_rebuild` is true, a manifest can be
    built from the stored blocks.
    """

    day: date
    version: Stored[Manifest] | None = None
    findings: list[StoreFinding] = field(default_factory=list)
    usage: dict[str, StorageUsage] = field(default_factory=dict)
    hours: dict[str, set[int]] = field(default_factory=dict)
    rewritable_blocks: list[Block] = field(default_factory=list)
    lost_parts: dict[SegmentRef, frozenset[SegmentPart]] = field(default_factory=dict)
    orphans: list[str] = field(default_factory=list)
    overdue_keys: list[str] = field(default_factory=list)
    damaged_rollups: list[SegmentRef] = field(default_factory=list)
    can_rebuild: bool = False
    blocks: int = 0
    segments: int = 0
    objects: int = 0
    total_bytes: int = 0


def check_day(
    store: ObjectStore, day: date, options: DayCheckOptions, step: Callable[[str], None]
) -> DayCheckResult:
    """Check a day; repeats the check if it finds problems and the day has changed.

    `step` is called with the key prefix that is being read. Raises StoreUnavailable, and StoreRefused if
    listing fails.
    """
    for _ in range(MAX_ATTEMPTS):
        previous = _fingerprint(store, day)
        result = _DayCheck(store, day, options, step).run()
        is_healthy = all(finding.severity is FindingSeverity.NOTE for finding in result.findings)
        if is_healthy or previous == _fingerprint(store, day):
            break
    return result


def _fingerprint(store: ObjectStore, day: date) -> object:
    """Return a value that changes when an object of the day is committed or deleted."""
    day_objects = layout.list_day(store, day)
    return day_objects.manifest, [*day_objects.segments], [*day_objects.blocks], day_objects.table_count


class _DayCheck:
    def __init__(
        self, store: ObjectStore, day: date, options: DayCheckOptions, step: Callable[[str], None]
    ) -> None:
        self._store = store
        self._options = options
        self._step = step
        self._result = DayCheckResult(day)
        self._window_ids = WindowIdIndex()

    def run(self) -> DayCheckResult:
        result = self._result
        # The manifest first: a block listed after it that it does not name is orphaned or not yet committed.
        result.version, problem = self._read_manifest()
        day_objects = layout.list_day(self._store, result.day)
        result.objects = day_objects.table_count
        result.total_bytes = day_objects.total_bytes
        result.findings += problem
        result.findings += check_unknown_keys(day_objects.unknown, self._options)
        if result.version and (result.version.etag or not day_objects.blocks):
            self._check_blocks(result.version, day_objects)
            self._check_overdue(result.version, day_objects)
        elif result.version:
            self._check_unnamed_blocks(day_objects)
        self._check_segments(result.version, day_objects)
        result.findings += self._check_duplicates()
        return result

    def _read_manifest(self) -> tuple[Stored[Manifest] | None, list[StoreFinding]]:
        key = manifest.key_of(self._result.day)
        try:
            return manifest.read(self._store, self._result.day), []
        except ManifestDamaged as damaged:
            self._result.can_rebuild = True
            hint = (
                "Put it back from a copy, or from an earlier version in the bucket. If there is none, "
                "--repair makes one of the blocks that lie there."
            )
            return None, [make_error(FindingKind.MANIFEST_DAMAGED, key, damaged.message, hint)]
        except StoreIncompatible as newer:
            return None, [make_error(FindingKind.MANIFEST_NEWER, key, newer.message, newer.hint)]

    def _check_unnamed_blocks(self, day_objects: DayObjects) -> None:
        """Check the blocks of a day that has no manifest."""
        youngest = max(entry.modified for tables in day_objects.blocks.values() for entry in tables.values())
        if not self._options.is_old(youngest):
            for prefix in day_objects.blocks:
                self._result.findings.append(_make_young_finding(prefix))
            return
        self._result.can_rebuild = True
        blocks = format_count(len(day_objects.blocks), "block")
        message = f"{blocks} of this day, and no manifest that names any: they do not count"
        hint = (
            "Collectors delete such blocks: turn compaction off (--compact-interval-seconds 0), then put the "
            "manifest back from a copy, or let --repair make one of the blocks. If this day is just being "
            "deleted, do nothing."
        )
        self._result.findings.append(
            make_error(FindingKind.MANIFEST_MISSING, manifest.key_of(self._result.day), message, hint)
        )

    def _check_blocks(self, version: Stored[Manifest], day_objects: DayObjects) -> None:
        result, tombstones = self._result, version.document.tombstones
        for block in version.document.blocks:
            stored = day_objects.blocks.get(block.ref.key_prefix, {})
            contents = self._read_tables(block.ref, tuple(block.parts), stored)
            block_check = check_block(block, stored, contents)
            result.blocks += 1
            result.findings += block_check.findings
            if block_check.findings and block_check.is_repairable:
                result.rewritable_blocks.append(block)
            if block_check.lost_parts:
                result.lost_parts[block.ref] = block_check.lost_parts
            add_usage(result.usage, stored, contents, block.services, block.windows)
            for part, entry in stored.items():
                if part not in block.parts and entry.key not in tombstones:
                    self._add_orphan(entry.key, entry.modified)
        for rollup in version.document.live_rollups:
            stored = day_objects.rollups.get(rollup.ref.key_prefix, {})
            contents = self._read_tables(rollup.ref, tuple(rollup.parts), stored)
            if findings := check_block(rollup, stored, contents).findings:
                result.damaged_rollups.append(rollup.ref)
                result.findings += [
                    make_warning(finding.kind, finding.key, finding.message, _ROLLUP_HINT)
                    for finding in findings
                ]
            add_usage(result.usage, stored, contents and replace(contents, windows={}), rollup.services, 0)
        named = (*version.document.blocks, *version.document.live_rollups)
        named_prefixes = {block.ref.key_prefix for block in named}
        for prefix, tables in (day_objects.blocks | day_objects.rollups).items():
            if prefix not in tombstones and prefix not in named_prefixes:
                self._add_orphan(prefix, max(entry.modified for entry in tables.values()))

    def _add_orphan(self, key: str, modified: float) -> None:
        if not self._options.is_old(modified):
            self._result.findings.append(_make_young_finding(key))
            return
        self._result.orphans.append(key)
        kind = "rollup" if key.startswith(manifest.ROLLUP_ROOT) else "block"
        what = (
            f"no manifest names this {kind if key.endswith('/') else 'table'} since {_format_time(modified)}"
        )
        hint = "--repair deletes it. Collectors do so by themselves: see that one compacts, and its log."
        self._result.findings.append(make_warning(FindingKind.ORPHANED_OBJECT, key, what, hint))

    def _check_overdue(self, version: Stored[Manifest], day_objects: DayObjects) -> None:
        """Report objects with a tombstone that were not deleted in time.

        A tombstone is at least as old as the manifest.
        """
        tombstones = version.document.tombstones
        folders = (*day_objects.segments.values(), *day_objects.blocks.values())
        stored_keys = {
            *day_objects.segments,
            *day_objects.blocks,
            *(entry.key for tables in folders for entry in tables.values()),
        }
        overdue = sorted(tombstones & stored_keys)
        if (
            not overdue
            or day_objects.manifest is None
            or not self._options.is_old(day_objects.manifest.modified)
        ):
            return
        self._result.overdue_keys = sorted(tombstones)
        message = (
            f"{format_count(len(overdue), 'key')} that blocks took the place of, or that are kept no "
            "longer, to be "
            f"deleted since {_format_time(day_objects.manifest.modified)} or earlier and still there, "
            f"such as {overdue[0]}"
        )
        hint = "--repair deletes them. Collectors do so by themselves: see that one compacts, and its log."
        self._result.findings.append(
            make_warning(FindingKind.DELETION_OVERDUE, manifest.key_of(self._result.day), message, hint)
        )

    def _check_segments(self, version: Stored[Manifest] | None, day_objects: DayObjects) -> None:
        tombstones = version.document.tombstones if version else frozenset()
        for prefix, tables in day_objects.segments.items():
            if prefix in tombstones:
                continue
            ref = manifest.parse_key_prefix(prefix)
            if "samples" not in tables:
                self._result.findings.append(_make_unfinished_finding(prefix, tables))
                continue
            contents = self._read_tables(ref, SEGMENT_PARTS, tables)
            if contents and contents.missing and not self._segment_exists(ref):
                continue
            self._result.segments += 1
            self._result.findings += check_segment(ref, tables, contents)
            add_usage(self._result.usage, tables, contents, (), 0)

    def _segment_exists(self, ref: SegmentRef) -> bool:
        """Return whether a segment has not been deleted meanwhile."""
        return any(entry.key == ref.key("samples") for entry in self._store.list(ref.key_prefix))

    def _read_tables(
        self, ref: SegmentRef, parts: tuple[SegmentPart, ...], stored: PartEntries
    ) -> TableContents | None:
        if self._options.is_quick:
            return None
        self._step(ref.key_prefix)
        contents = read_contents(self._store, ref, parts, stored)
        self._window_ids.add(contents)
        for service, hours in contents.hours.items():
            self._result.hours.setdefault(service, set()).update(hours)
        return contents

    def _check_duplicates(self) -> Iterator[StoreFinding]:
        """Report windows that are stored more than once.

        Blocks come before segments, in order of precedence.
        """
        pending, prefixes = 0, set()
        for pair in self._window_ids.find_duplicates():
            first, second = pair.first, pair.second
            if pair.conflicting:
                yield self._make_conflict_finding(pair)
            if first is second or not second.is_segment:
                where = "twice" if first is second else f"in {first.key_prefix} too"
                message = (
                    f"{format_count(pair.windows, 'window')} of it {where}, such as "
                    f"{self._find_window_id(pair)}"
                )
                yield make_error(FindingKind.WINDOWS_DUPLICATED, second.key_prefix, message, _DUPLICATE_HINT)
            else:
                pending += pair.windows
                prefixes |= {first.key_prefix, second.key_prefix}
        if pending:
            key = f"{segments.ROOT}{self._result.day.isoformat()}/"
            message = (
                f"{format_count(pending, 'window')} came again, in {len(prefixes)} places: each counts once"
            )
            yield make_note(
                FindingKind.WINDOWS_PENDING, key, message, "Nothing: compaction leaves out what came again."
            )

    def _make_conflict_finding(self, pair: DuplicateWindows) -> StoreFinding:
        message = (
            f"{format_count(pair.conflicting, 'window')} with an id that windows in "
            f"{pair.first.key_prefix} have too, "
            f"and other contents, such as {self._find_window_id(pair)}: those there count"
        )
        hint = "Two senders use the same ids: see that every window that is sent has a ULID of its own."
        return make_warning(FindingKind.WINDOWS_DIFFER, pair.second.key_prefix, message, hint)

    def _find_window_id(self, pair: DuplicateWindows) -> str:
        """Return the window id whose hash is `pair.example_hash`."""
        try:
            wids = to_strings(read_segment(self._store, pair.first, "profiles", ["wid"])["wid"])
        except StoreError:
            return f"hash {pair.example_hash:016x}"
        return next((wid for wid in wids if hash_window_id(wid) == pair.example_hash), "")


_ROLLUP_HINT: Final = "Queries read the blocks instead. --repair takes it out of the manifest."
_DUPLICATE_HINT: Final = (
    "No version of Sidelight writes this: keep a copy of the manifest and of these blocks, and report it. "
    "Removing a block from the manifest loses the windows that are in it alone."
)


def check_unknown_keys(
    unknown: dict[str, layout.ObjectGroup], options: DayCheckOptions
) -> Iterator[StoreFinding]:
    """Report objects that no version up to this one writes, by folder."""
    for folder, objects in sorted(unknown.items()):
        make_finding = make_warning if options.is_old(objects.last_modified) else make_note
        yield make_finding(
            FindingKind.UNKNOWN_KEY,
            objects.first_key if objects.objects == 1 else folder,
            f"{format_count(objects.objects, 'object')} ({objects.total_bytes:,} bytes) that "
            "Sidelight does not know, "
            f"such as {objects.first_key}",
            "Sidelight does not delete them. If a later version wrote them, use that; else move them away.",
        )


def _make_young_finding(key: str) -> StoreFinding:
    message = "no manifest names it, and it is young: a collector may be about to"
    return make_note(
        FindingKind.ORPHANED_OBJECT, key, message, "Nothing: collectors delete what nobody names."
    )


def _make_unfinished_finding(prefix: str, tables: PartEntries) -> StoreFinding:
    message = f"a segment without samples ({', '.join(tables)}): it does not count"
    hint = "Nothing: its sender was asked to send it again. It is deleted with its day."
    return make_note(FindingKind.SEGMENT_UNFINISHED, prefix, message, hint)


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
