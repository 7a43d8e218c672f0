"""Findings of the doctor, their kinds and severities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final


class FindingSeverity(StrEnum):
    """The severity of a finding: errors and warnings are problems, notes are not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingKind(StrEnum):
    """The kinds of findings; docs/doctor.md explains each."""

    FORMAT_NEWER = "format_newer"
    CONFIG_DAMAGED = "config_damaged"
    CONFIG_MISSING = "config_missing"
    CONDITIONAL_WRITES_MISSING = "conditions_missing"
    CONDITIONAL_WRITES_UNTESTED = "conditions_untested"
    MANIFEST_DAMAGED = "manifest_damaged"
    MANIFEST_NEWER = "manifest_newer"
    MANIFEST_MISSING = "manifest_missing"
    OBJECT_MISSING = "object_missing"
    OBJECT_DAMAGED = "object_damaged"
    COUNTS_DIFFER = "counts_differ"
    TOTALS_DIFFER = "totals_differ"
    NAME_DIFFERS = "name_differs"
    STACKS_MISSING = "stacks_missing"
    STACK_HASHES_DIFFER = "stacks_misnamed"
    WINDOWS_DUPLICATED = "windows_twice"
    WINDOWS_DIFFER = "windows_differ"
    WINDOWS_PENDING = "windows_pending"
    SEGMENT_UNFINISHED = "segment_unfinished"
    ORPHANED_OBJECT = "stray"
    UNKNOWN_KEY = "unknown_key"
    DELETION_OVERDUE = "gone_overdue"
    GAP = "gap"
    DIRECTORY_SHARED = "directory_shared"
    PIN_DAMAGED = "pin_damaged"
    NATIVE_MISSING = "native_missing"


SEVERITY_ORDER: Final = tuple(FindingSeverity)


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One finding about an object, or about a key prefix, which ends with `/`.

    `message` describes the problem, `hint` what to do next. `key` is empty for findings about the whole
    store or this machine.
    """

    severity: FindingSeverity
    kind: FindingKind
    key: str
    message: str
    hint: str


def make_error(kind: FindingKind, key: str, message: str, hint: str) -> StoreFinding:
    """Make a finding that data is lost or query results are wrong."""
    return StoreFinding(FindingSeverity.ERROR, kind, key, message, hint)


def make_warning(kind: FindingKind, key: str, message: str, hint: str) -> StoreFinding:
    """Make a finding that an operator has to act on."""
    return StoreFinding(FindingSeverity.WARNING, kind, key, message, hint)


def make_note(kind: FindingKind, key: str, message: str, hint: str) -> StoreFinding:
    """Make a finding that is worth knowing but no problem."""
    return StoreFinding(FindingSeverity.NOTE, kind, key, message, hint)


class StoreFindings:
    """A collection of findings that iterates in order of severity, errors first.

    It keeps at most `max_per_kind` findings of each kind and severity, and counts the others.
    """

    def __init__(self, max_per_kind: int) -> None:
        self._max_per_kind = max_per_kind
        self._findings: dict[tuple[FindingSeverity, FindingKind], list[StoreFinding]] = {}
        self.counts: Counter[FindingSeverity] = Counter(dict.fromkeys(FindingSeverity, 0))
        self.omitted_counts: Counter[FindingKind] = Counter()

    def add(self, findings: Iterable[StoreFinding]) -> None:
        """Add findings; above the limit they are only counted."""
        for finding in findings:
            self.counts[finding.severity] += 1
            listed_findings = self._findings.setdefault((finding.severity, finding.kind), [])
            if len(listed_findings) < self._max_per_kind:
                listed_findings.append(finding)
            else:
                self.omitted_counts[finding.kind] += 1

    def __iter__(self) -> Iterator[StoreFinding]:
        order = {word: at for at, word in enumerate([*SEVERITY_ORDER, *FindingKind])}
        groups = sorted(self._findings.items(), key=lambda group: [order[word] for word in group[0]])
        return chain.from_iterable(findings for _, findings in groups)

    @property
    def is_healthy(self) -> bool:
        """Whether there are no errors and no warnings."""
        return not (self.counts[FindingSeverity.ERROR] or self.counts[FindingSeverity.WARNING])


def format_count(number: int, noun: str) -> str:
    """Format a number with a noun: `1 window`, `1,204 windows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_counts(counts: Mapping[str, int]) -> str:
    """Format named numbers: `idle 3, running 4`."""
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())
