"""What is wrong with one segment or block, told by what was read of it; nothing is read here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sidelight_collector.doctor.findings import Finding, Kind, counted, error, listed
from sidelight_collector.doctor.layout import Tables
from sidelight_collector.doctor.object_reader import COUNTED, Contents, States
from sidelight_collector.storage.manifest import Block
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import ADDED_UP, PARTS, STATES, Part

REMAKE: Final = "Run it with --repair: what is added up is made anew of the block's windows."
RESTORE: Final = (
    "Put it back from a copy, or from an earlier version in the bucket. Until then queries leave its windows "
    "out and say so."
)
LOST: Final = f"{RESTORE} If it is lost for good: --repair --forget-lost."
_SERVICES_TOLD: Final = 5


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found of a block; `sound` if a block of its windows can take its place, `lost` are tables."""

    findings: list[Finding]
    sound: bool
    lost: frozenset[Part]


def judge_block(block: Block, there: Tables, found: Contents | None) -> Judged:
    """A block as its manifest describes it, what lies there, and what was read of it if anything was."""
    ref = block.ref
    missing = [part for part in block.parts if part not in there or (found and part in found.missing)]
    sound = found is not None and _is_sound(block, found)
    findings = []
    for part in missing:
        hint = REMAKE if sound else LOST if part in PARTS else _AS_WELL
        findings.append(error(Kind.OBJECT_MISSING, ref.key(part), "the block has lost this table", hint))
    sizes_told = all(block.parts.values())  # the first manifests do not
    for part, size in block.parts.items():
        lies = there.get(part)
        problem = found.damaged.get(part, "") if found else ""
        if lies and lies.size != size and sizes_told:
            problem = f"it has {counted(lies.size, 'byte')}, and the manifest says {size:,}"
        if problem:
            hint = REMAKE if sound else RESTORE if part in PARTS else _AS_WELL
            findings.append(
                error(Kind.OBJECT_DAMAGED, ref.key(part), f"the table cannot be used: {problem}", hint)
            )
    if found:
        hint = REMAKE if sound else RESTORE
        findings += _counts(block, found, hint)
        findings += _contents(found, hint)
    lost = frozenset(part for part in missing if not sound)
    return Judged(findings, sound, lost)


_AS_WELL: Final = "It is made anew by --repair once the block's profiles, samples and stacks can be read."


def judge_segment(ref: SegmentRef, there: Tables, found: Contents | None) -> list[Finding]:
    """A segment, what lies of it, and what was read of it if anything was."""
    findings = []
    for part in PARTS:
        if part not in there or (found and part in found.missing):
            message = "the segment has lost this table"
            findings.append(error(Kind.OBJECT_MISSING, ref.key(part), message, _SEGMENT))
        elif found and part in found.damaged:
            message = f"the table cannot be used: {found.damaged[part]}"
            findings.append(error(Kind.OBJECT_DAMAGED, ref.key(part), message, _SEGMENT))
    return [*findings, *_contents(found, _SEGMENT)] if found else findings


_SEGMENT: Final = (
    "Put it back from a copy, or from an earlier version in the bucket. If there is none, its windows are "
    "lost: delete what is left of the segment, `samples` first."
)


def _is_sound(block: Block, found: Contents) -> bool:
    """Whether its windows are there one by one, all, and agree."""
    return (
        block.ref.is_whole
        and not {*found.missing, *found.damaged} & {*PARTS}
        and sum(found.rows["profiles"].values()) == block.windows
        and sum(found.rows["samples"].values()) == block.rows
        and _told(found.totals["samples"]) == _told(found.totals["profiles"])
        and "samples" not in found.unknown_stacks
        and not found.misnamed_stacks
    )


def _counts(block: Block, found: Contents, hint: str) -> Iterator[Finding]:
    """Where a manifest says something else of a block than its tables."""
    prefix = block.ref.key_prefix
    for part, by_service in found.windows.items():
        windows = sum(by_service.values())
        if windows != block.windows:
            message = f"{part} has {counted(windows, 'window')}, and the manifest says {block.windows:,}"
            yield error(Kind.COUNTS_DIFFER, prefix, message, hint)
        if sorted(by_service) != sorted(block.services):
            message = (
                f"{part} has services {_few(by_service)}, and the manifest says {_few(block.services)}: "
                "queries for one that it does not name may pass the block over"
            )
            yield error(Kind.COUNTS_DIFFER, prefix, message, hint)
    rows = found.rows.get("samples")
    if rows is not None and sum(rows.values()) != block.rows:
        message = f"samples has {counted(sum(rows.values()), 'row')}, and the manifest says {block.rows:,}"
        yield error(Kind.COUNTS_DIFFER, prefix, message, hint)


def _contents(found: Contents, hint: str) -> Iterator[Finding]:
    """Where tables of one place contradict each other, or its name."""
    ref = found.ref
    first = next((part for part in COUNTED if part in found.totals), None)
    for part in found.totals:
        if first and part != first:
            yield from _differing(ref, first, part, found, hint)
    by_hour, by_window = found.windows.get("hours"), found.windows.get("profiles")
    if by_hour is not None and by_window is not None and by_hour != by_window:
        message = f"profiles has windows of {listed(by_window)}, and hours of {listed(by_hour)}"
        yield error(Kind.TOTALS_DIFFER, ref.key("hours"), message, hint)
    for part, (number, example) in found.unknown_stacks.items():
        message = f"{part} names {counted(number, 'stack')} that stacks does not have, such as {example}"
        yield error(Kind.STACKS_MISSING, ref.key(part), message, hint)
    if found.misnamed_stacks:
        message = f"{counted(found.misnamed_stacks, 'stack')} cannot be what their hashes were made of"
        yield error(Kind.STACKS_MISNAMED, ref.key("stacks"), message, RESTORE)
    yield from _name(found, hint)


def _name(found: Contents, hint: str) -> Iterator[Finding]:
    ref, span = found.ref, found.span_ms
    if span and not ref.min_start_ms <= span[0] <= span[1] <= ref.max_start_ms:
        message = f"its windows began from {span[0]} to {span[1]} ms: queries by its name would not find them"
        yield error(Kind.NAME_DIFFERS, ref.key_prefix, message, hint)
    elif found.name and ref.is_segment and not ref.key_prefix.endswith(f"-{found.name}/"):
        message = f"its windows make the name {found.name}: they are not those that were stored"
        yield error(Kind.NAME_DIFFERS, ref.key_prefix, message, hint)


def _differing(ref: SegmentRef, first: Part, part: Part, found: Contents, hint: str) -> Iterator[Finding]:
    said, says = _told(found.totals[first]), _told(found.totals[part])
    for service in sorted({*said, *says}):
        one, other = said.get(service, (0,) * len(STATES)), says.get(service, (0,) * len(STATES))
        if one != other:
            message = f"{service}: {first} has {_states(one)}; {part} has {_states(other)}"
            told = part if part in ADDED_UP or first not in ADDED_UP else first
            yield error(Kind.TOTALS_DIFFER, ref.key(told), message, hint)


def _told(totals: Mapping[str, States]) -> dict[str, States]:
    """Services of which there is a sample: a window without any has no row but in `profiles`."""
    return {service: states for service, states in totals.items() if any(states)}


def _states(states: States) -> str:
    return listed(dict(zip(STATES, states, strict=True)))


def _few(services: Collection[str]) -> str:
    told = sorted(services)
    more = f" and {len(told) - _SERVICES_TOLD} more" if len(told) > _SERVICES_TOLD else ""
    return ", ".join(told[:_SERVICES_TOLD]) + more
