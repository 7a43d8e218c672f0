"""Checking one day: what its manifest names, what lies there, and whether the two agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final

from sidelight_collector.arrow_ops import strings
from sidelight_collector.doctor import layout
from sidelight_collector.doctor.cost_estimate import Usage, add_usage
from sidelight_collector.doctor.duplicates import Ids, Twice
from sidelight_collector.doctor.findings import Finding, Kind, Severity, counted, error, note, warning
from sidelight_collector.doctor.layout import Lying, Tables
from sidelight_collector.doctor.object_reader import Contents, contents, hashed_id
from sidelight_collector.doctor.store_checks import judge_block, judge_segment
from sidelight_collector.storage import manifest, segments
from sidelight_collector.storage.manifest import Block, ManifestDamaged, Version
from sidelight_collector.storage.objects import ObjectStore, StoreError, StoreIncompatible
from sidelight_collector.storage.segments import SegmentRef, read_segment
from sidelight_collector.storage.tables import PARTS, Part

LOOKS: Final = 3
"""How often a day is looked at that changes meanwhile, before it is believed."""


@dataclass(frozen=True, slots=True)
class Rules:
    """`now` by the clock of the store, Unix seconds; without `quick` every table is read."""

    now: float
    grace_seconds: float
    quick: bool = False

    def is_old(self, modified: float) -> bool:
        """Whether nobody can be about to name what was written then."""
        return self.now - modified >= self.grace_seconds


@dataclass(slots=True)
class Checked:
    """What was found out about a day, and what could be done about it.

    `known` is None if the manifest cannot be read. `rewrite` are blocks of whose windows a new one can take
    their place; `lost` what blocks have lost for good; `strays` and `overdue` keys, or key prefixes that end
    with `/`; with `rebuild` a manifest can be made anew of the blocks that lie there.
    """

    day: date
    known: Version | None = None
    findings: list[Finding] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    hours: dict[str, set[int]] = field(default_factory=dict)
    rewrite: list[Block] = field(default_factory=list)
    lost: dict[SegmentRef, frozenset[Part]] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)
    rebuild: bool = False
    blocks: int = 0
    segments: int = 0
    objects: int = 0
    bytes: int = 0


def check(store: ObjectStore, day: date, rules: Rules, step: Callable[[str], None]) -> Checked:
    """Look at a day; if something is wrong and the day has changed meanwhile, look again.

    `step` is told what is being read. Raises StoreUnavailable, and StoreRefused for lists.
    """
    for _ in range(LOOKS):
        before = _mark(store, day)
        found = _Look(store, day, rules, step).checked()
        well = all(finding.severity is Severity.NOTE for finding in found.findings)
        if well or before == _mark(store, day):
            break
    return found


def _mark(store: ObjectStore, day: date) -> object:
    """Equal as long as nobody has deleted or committed anything."""
    lying = layout.lying(store, day)
    return lying.manifest, [*lying.segments], [*lying.blocks], lying.objects


class _Look:
    """One look at a day."""

    def __init__(self, store: ObjectStore, day: date, rules: Rules, step: Callable[[str], None]) -> None:
        self._store = store
        self._rules = rules
        self._step = step
        self._found = Checked(day)
        self._ids = Ids()

    def checked(self) -> Checked:
        found = self._found
        # The manifest first: a block that is listed and not named then is a stray, or somebody's next one.
        found.known, problem = self._manifest()
        lying = layout.lying(self._store, found.day)
        found.objects = lying.objects
        found.bytes = lying.bytes
        found.findings += problem
        found.findings += unknown_keys(lying.unknown, self._rules)
        if found.known and (found.known.etag or not lying.blocks):
            self._blocks(found.known, lying)
            self._overdue(found.known, lying)
        elif found.known:
            self._unnamed(lying)
        self._segments(found.known, lying)
        found.findings += self._twice()
        return found

    def _manifest(self) -> tuple[Version | None, list[Finding]]:
        key = manifest.key_of(self._found.day)
        try:
            return manifest.read(self._store, self._found.day), []
        except ManifestDamaged as damaged:
            self._found.rebuild = True
            hint = (
                "Put it back from a copy, or from an earlier version in the bucket. If there is none, "
                "--repair makes one of the blocks that lie there."
            )
            return None, [error(Kind.MANIFEST_DAMAGED, key, damaged.message, hint)]
        except StoreIncompatible as newer:
            return None, [error(Kind.MANIFEST_NEWER, key, newer.message, newer.hint)]

    def _unnamed(self, lying: Lying) -> None:
        """Blocks of a day that has no manifest."""
        youngest = max(entry.modified for tables in lying.blocks.values() for entry in tables.values())
        if not self._rules.is_old(youngest):
            for prefix in lying.blocks:
                self._found.findings.append(_young(prefix))
            return
        self._found.rebuild = True
        blocks = counted(len(lying.blocks), "block")
        message = f"{blocks} of this day, and no manifest that names any: they do not count"
        hint = (
            "Collectors delete such blocks: turn compaction off (--compact-interval-seconds 0), then put the "
            "manifest back from a copy, or let --repair make one of the blocks. If this day is just being "
            "deleted, do nothing."
        )
        self._found.findings.append(
            error(Kind.MANIFEST_MISSING, manifest.key_of(self._found.day), message, hint)
        )

    def _blocks(self, known: Version, lying: Lying) -> None:
        found, gone = self._found, known.manifest.gone
        for block in known.manifest.blocks:
            there = lying.blocks.get(block.ref.key_prefix, {})
            read = self._read(block.ref, tuple(block.parts), there)
            judged = judge_block(block, there, read)
            found.blocks += 1
            found.findings += judged.findings
            if judged.findings and judged.sound:
                found.rewrite.append(block)
            if judged.lost:
                found.lost[block.ref] = judged.lost
            add_usage(found.usage, there, read, block.services, block.windows)
            for part, entry in there.items():
                if part not in block.parts and entry.key not in gone:
                    self._stray(entry.key, entry.modified)
        named = {block.ref.key_prefix for block in known.manifest.blocks}
        for prefix, tables in lying.blocks.items():
            if prefix not in gone and prefix not in named:
                self._stray(prefix, max(entry.modified for entry in tables.values()))

    def _stray(self, key: str, modified: float) -> None:
        if not self._rules.is_old(modified):
            self._found.findings.append(_young(key))
            return
        self._found.strays.append(key)
        what = f"no manifest names this {'block' if key.endswith('/') else 'table'} since {_moment(modified)}"
        hint = "--repair deletes it. Collectors do so by themselves: see that one compacts, and its log."
        self._found.findings.append(warning(Kind.STRAY, key, what, hint))

    def _overdue(self, known: Version, lying: Lying) -> None:
        """What is gone since the manifest was written at the latest."""
        gone = known.manifest.gone
        folders = (*lying.segments.values(), *lying.blocks.values())
        there = {*lying.segments, *lying.blocks, *(entry.key for one in folders for entry in one.values())}
        left = sorted(gone & there)
        if not left or lying.manifest is None or not self._rules.is_old(lying.manifest.modified):
            return
        self._found.overdue = sorted(gone)
        message = (
            f"{counted(len(left), 'key')} that blocks took the place of, or that are kept no longer, to be "
            f"deleted since {_moment(lying.manifest.modified)} or earlier and still there, such as {left[0]}"
        )
        hint = "--repair deletes them. Collectors do so by themselves: see that one compacts, and its log."
        self._found.findings.append(
            warning(Kind.GONE_OVERDUE, manifest.key_of(self._found.day), message, hint)
        )

    def _segments(self, known: Version | None, lying: Lying) -> None:
        gone = known.manifest.gone if known else frozenset()
        for prefix, tables in lying.segments.items():
            if prefix in gone:
                continue
            ref = manifest.place(prefix)
            if "samples" not in tables:
                self._found.findings.append(_unfinished(prefix, tables))
                continue
            read = self._read(ref, PARTS, tables)
            if read and read.missing and not self._is_there(ref):
                continue
            self._found.segments += 1
            self._found.findings += judge_segment(ref, tables, read)
            add_usage(self._found.usage, tables, read, (), 0)

    def _is_there(self, ref: SegmentRef) -> bool:
        """Whether a segment has not been deleted meanwhile."""
        return any(entry.key == ref.key("samples") for entry in self._store.list(ref.key_prefix))

    def _read(self, ref: SegmentRef, parts: tuple[Part, ...], there: Tables) -> Contents | None:
        if self._rules.quick:
            return None
        self._step(ref.key_prefix)
        read = contents(self._store, ref, parts, there)
        self._ids.add(read)
        for service, hours in read.hours.items():
            self._found.hours.setdefault(service, set()).update(hours)
        return read

    def _twice(self) -> Iterator[Finding]:
        """Windows in two places. Those of blocks come first, in the order in which they count."""
        waiting, places_of = 0, set()
        for pair in self._ids.twice():
            one, other = pair.first, pair.second
            if pair.differ:
                yield self._differ(pair)
            if one is other or not other.is_segment:
                where = "twice" if one is other else f"in {one.key_prefix} too"
                message = f"{counted(pair.windows, 'window')} of it {where}, such as {self._id(pair)}"
                yield error(Kind.WINDOWS_TWICE, other.key_prefix, message, _TWICE)
            else:
                waiting += pair.windows
                places_of |= {one.key_prefix, other.key_prefix}
        if waiting:
            key = f"{segments.ROOT}{self._found.day.isoformat()}/"
            message = f"{counted(waiting, 'window')} came again, in {len(places_of)} places: each counts once"
            yield note(Kind.WINDOWS_PENDING, key, message, "Nothing: compaction leaves out what came again.")

    def _differ(self, pair: Twice) -> Finding:
        message = (
            f"{counted(pair.differ, 'window')} with an id that windows in {pair.first.key_prefix} have too, "
            f"and other contents, such as {self._id(pair)}: those there count"
        )
        hint = "Two senders use the same ids: see that every window that is sent has a ULID of its own."
        return warning(Kind.WINDOWS_DIFFER, pair.second.key_prefix, message, hint)

    def _id(self, pair: Twice) -> str:
        """The id whose hash is known."""
        try:
            wids = strings(read_segment(self._store, pair.first, "profiles", ["wid"])["wid"])
        except StoreError:
            return f"hash {pair.example:016x}"
        return next((wid for wid in wids if hashed_id(wid) == pair.example), "")


_TWICE: Final = (
    "No version of Sidelight writes this: keep a copy of the manifest and of these blocks, and report it. "
    "Removing a block from the manifest loses the windows that are in it alone."
)


def unknown_keys(unknown: dict[str, layout.Folder], rules: Rules) -> Iterator[Finding]:
    """Objects that no version up to this one writes, by the folder in which they lie."""
    for folder, objects in sorted(unknown.items()):
        tell = warning if rules.is_old(objects.modified) else note
        yield tell(
            Kind.UNKNOWN_KEY,
            objects.first if objects.objects == 1 else folder,
            f"{counted(objects.objects, 'object')} ({objects.bytes:,} bytes) that Sidelight does not know, "
            f"such as {objects.first}",
            "Sidelight does not delete them. If a later version wrote them, use that; else move them away.",
        )


def _young(key: str) -> Finding:
    message = "no manifest names it, and it is young: a collector may be about to"
    return note(Kind.STRAY, key, message, "Nothing: collectors delete what nobody names.")


def _unfinished(prefix: str, tables: Tables) -> Finding:
    message = f"a segment without samples ({', '.join(tables)}): it does not count"
    hint = "Nothing: its sender was told to send again. It goes with its day."
    return note(Kind.SEGMENT_UNFINISHED, prefix, message, hint)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
