"""Checks of one segment or block on contents that were read already."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sidelight_collector.doctor.findings import (
    FindingKind,
    StoreFinding,
    format_count,
    format_counts,
    make_error,
)
from sidelight_collector.doctor.layout import PartEntries
from sidelight_collector.doctor.object_reader import COUNTED_PARTS, CountsByState, TableContents
from sidelight_collector.storage.manifest import Block
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import ROLLUP_PARTS, SEGMENT_PARTS, SegmentPart
from sidelight_model.counts import STATES

REPAIR_HINT: Final = "Run it with --repair: sums are computed again from the block's windows."
RESTORE_HINT: Final = (
    "Put it back from a copy, or from an earlier version in the bucket. Until then queries leave its windows "
    "out and say so."
)
LOST_HINT: Final = f"{RESTORE_HINT} If it is lost for good: --repair --forget-lost."
_MAX_LISTED_SERVICES: Final = 5


@dataclass(frozen=True, slots=True)
class BlockCheck:
    """The findings about a block.

    If `is_repairable` is true, a new block built from its windows can replace it. `lost_parts` are tables
    that are missing and cannot be rebuilt.
    """

    findings: list[StoreFinding]
    is_repairable: bool
    lost_parts: frozenset[SegmentPart]


def check_block(block: Block, stored: PartEntries, contents: TableContents | None) -> BlockCheck:
    """Check a block against its stored objects and, if they were read, their contents."""
    ref = block.ref
    missing = [part for part in block.parts if part not in stored or (contents and part in contents.missing)]
    is_repairable = contents is not None and _is_repairable(block, contents)
    findings = []
    for part in missing:
        hint = REPAIR_HINT if is_repairable else LOST_HINT if part in SEGMENT_PARTS else _DERIVED_TABLE_HINT
        findings.append(
            make_error(FindingKind.OBJECT_MISSING, ref.key(part), "the block has lost this table", hint)
        )
    has_sizes = all(block.parts.values())  # early manifests do not have them
    for part, size in block.parts.items():
        entry = stored.get(part)
        problem = contents.damaged.get(part, "") if contents else ""
        if entry and entry.size != size and has_sizes:
            problem = f"it has {format_count(entry.size, 'byte')}, and the manifest says {size:,}"
        if problem:
            hint = (
                REPAIR_HINT
                if is_repairable
                else RESTORE_HINT
                if part in SEGMENT_PARTS
                else _DERIVED_TABLE_HINT
            )
            findings.append(
                make_error(
                    FindingKind.OBJECT_DAMAGED, ref.key(part), f"the table cannot be used: {problem}", hint
                )
            )
    if contents:
        hint = REPAIR_HINT if is_repairable else RESTORE_HINT
        findings += _check_counts(block, contents, hint)
        findings += _check_consistency(contents, hint)
    lost_parts = frozenset(part for part in missing if not is_repairable)
    return BlockCheck(findings, is_repairable, lost_parts)


_DERIVED_TABLE_HINT: Final = (
    "--repair writes it again once the block's profiles, samples and stacks can be read."
)


def check_segment(ref: SegmentRef, stored: PartEntries, contents: TableContents | None) -> list[StoreFinding]:
    """Check a segment: its stored objects and, if they were read, their contents."""
    findings = []
    for part in SEGMENT_PARTS:
        if part not in stored or (contents and part in contents.missing):
            message = "the segment has lost this table"
            findings.append(make_error(FindingKind.OBJECT_MISSING, ref.key(part), message, _SEGMENT_HINT))
        elif contents and part in contents.damaged:
            message = f"the table cannot be used: {contents.damaged[part]}"
            findings.append(make_error(FindingKind.OBJECT_DAMAGED, ref.key(part), message, _SEGMENT_HINT))
    return [*findings, *_check_consistency(contents, _SEGMENT_HINT)] if contents else findings


_SEGMENT_HINT: Final = (
    "Put it back from a copy, or from an earlier version in the bucket. If there is none, its windows are "
    "lost: delete what is left of the segment, `samples` first."
)


def _is_repairable(block: Block, contents: TableContents) -> bool:
    """Return whether a block has all its individual windows, without contradictions."""
    return (
        block.ref.is_raw
        and not {*contents.missing, *contents.damaged} & {*SEGMENT_PARTS}
        and sum(contents.rows["profiles"].values()) == block.windows
        and sum(contents.rows["samples"].values()) == block.rows
        and _drop_empty_services(contents.totals["samples"])
        == _drop_empty_services(contents.totals["profiles"])
        and "samples" not in contents.unknown_stacks
        and not contents.mismatched_stacks
    )


def _check_counts(block: Block, contents: TableContents, hint: str) -> Iterator[StoreFinding]:
    """Report differences between a manifest and the tables of its block."""
    prefix = block.ref.key_prefix
    for part, by_service in contents.windows.items():
        windows = sum(by_service.values())
        if windows != block.windows:
            message = f"{part} has {format_count(windows, 'window')}, and the manifest says {block.windows:,}"
            yield make_error(FindingKind.COUNTS_DIFFER, prefix, message, hint)
        if sorted(by_service) != sorted(block.services):
            message = (
                f"{part} has services {_format_services(by_service)}, and the manifest says "
                f"{_format_services(block.services)}: "
                "queries for one that it does not name may pass the block over"
            )
            yield make_error(FindingKind.COUNTS_DIFFER, prefix, message, hint)
    rows = contents.rows.get("samples")
    if rows is not None and sum(rows.values()) != block.rows:
        message = (
            f"samples has {format_count(sum(rows.values()), 'row')}, and the manifest says {block.rows:,}"
        )
        yield make_error(FindingKind.COUNTS_DIFFER, prefix, message, hint)


def _check_consistency(contents: TableContents, hint: str) -> Iterator[StoreFinding]:
    """Report tables of a segment or block that contradict each other or its name."""
    ref = contents.ref
    first = next((part for part in COUNTED_PARTS if part in contents.totals), None)
    for part in contents.totals:
        if first and part != first:
            yield from _check_totals(ref, first, part, contents, hint)
    by_hour, by_window = contents.windows.get("hours"), contents.windows.get("profiles")
    if by_hour is not None and by_window is not None and by_hour != by_window:
        message = f"profiles has windows of {format_counts(by_window)}, and hours of {format_counts(by_hour)}"
        yield make_error(FindingKind.TOTALS_DIFFER, ref.key("hours"), message, hint)
    for part, (number, example) in contents.unknown_stacks.items():
        message = f"{part} names {format_count(number, 'stack')} that stacks does not have, such as {example}"
        yield make_error(FindingKind.STACKS_MISSING, ref.key(part), message, hint)
    if contents.mismatched_stacks:
        message = (
            f"{format_count(contents.mismatched_stacks, 'stack')} cannot be what their hashes were made of"
        )
        yield make_error(FindingKind.STACK_HASHES_DIFFER, ref.key("stacks"), message, RESTORE_HINT)
    yield from _check_name(contents, hint)


def _check_name(contents: TableContents, hint: str) -> Iterator[StoreFinding]:
    ref, span = contents.ref, contents.start_range_ms
    if span and not ref.min_start_ms <= span[0] <= span[1] <= ref.max_start_ms:
        message = f"its windows began from {span[0]} to {span[1]} ms: queries by its name would not find them"
        yield make_error(FindingKind.NAME_DIFFERS, ref.key_prefix, message, hint)
    elif (
        contents.computed_name
        and ref.is_segment
        and not ref.key_prefix.endswith(f"-{contents.computed_name}/")
    ):
        message = (
            f"its windows make the name {contents.computed_name}: they differ from those that were stored"
        )
        yield make_error(FindingKind.NAME_DIFFERS, ref.key_prefix, message, hint)


def _check_totals(
    ref: SegmentRef, reference: SegmentPart, part: SegmentPart, contents: TableContents, hint: str
) -> Iterator[StoreFinding]:
    first_totals, part_totals = (
        _drop_empty_services(contents.totals[reference]),
        _drop_empty_services(contents.totals[part]),
    )
    for service in sorted({*first_totals, *part_totals}):
        expected = first_totals.get(service, (0,) * len(STATES))
        actual = part_totals.get(service, (0,) * len(STATES))
        if expected != actual:
            message = (
                f"{service}: {reference} has {_format_states(expected)}; {part} has {_format_states(actual)}"
            )
            blamed_part = part if part in ROLLUP_PARTS or reference not in ROLLUP_PARTS else reference
            yield make_error(FindingKind.TOTALS_DIFFER, ref.key(blamed_part), message, hint)


def _drop_empty_services(totals: Mapping[str, CountsByState]) -> dict[str, CountsByState]:
    """Drop services without samples: their windows only have rows in `profiles`."""
    return {service: states for service, states in totals.items() if any(states)}


def _format_states(states: CountsByState) -> str:
    return format_counts(dict(zip(STATES, states, strict=True)))


def _format_services(services: Collection[str]) -> str:
    names = sorted(services)
    more = f" and {len(names) - _MAX_LISTED_SERVICES} more" if len(names) > _MAX_LISTED_SERVICES else ""
    return ", ".join(names[:_MAX_LISTED_SERVICES]) + more
