"""What the doctor may find, each kind by one word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final


class Severity(StrEnum):
    """How bad it is; anything but a note is something wrong."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Kind(StrEnum):
    """The closed set of what may be found; docs/doctor.md explains each."""

    FORMAT_NEWER = "format_newer"
    CONFIG_DAMAGED = "config_damaged"
    CONFIG_MISSING = "config_missing"
    CONDITIONS_MISSING = "conditions_missing"
    CONDITIONS_UNTESTED = "conditions_untested"
    MANIFEST_DAMAGED = "manifest_damaged"
    MANIFEST_NEWER = "manifest_newer"
    MANIFEST_MISSING = "manifest_missing"
    OBJECT_MISSING = "object_missing"
    OBJECT_DAMAGED = "object_damaged"
    COUNTS_DIFFER = "counts_differ"
    TOTALS_DIFFER = "totals_differ"
    NAME_DIFFERS = "name_differs"
    STACKS_MISSING = "stacks_missing"
    STACKS_MISNAMED = "stacks_misnamed"
    WINDOWS_TWICE = "windows_twice"
    WINDOWS_DIFFER = "windows_differ"
    WINDOWS_PENDING = "windows_pending"
    SEGMENT_UNFINISHED = "segment_unfinished"
    STRAY = "stray"
    UNKNOWN_KEY = "unknown_key"
    GONE_OVERDUE = "gone_overdue"
    GAP = "gap"
    PIN_DAMAGED = "pin_damaged"
    NATIVE_MISSING = "native_missing"


WORST_FIRST: Final = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found: at which key (or key prefix, which ends with `/`), and what to do next."""

    severity: Severity
    kind: Kind
    key: str
    message: str
    hint: str


def error(kind: Kind, key: str, message: str, hint: str) -> Finding:
    """Something is lost, or answers are wrong."""
    return Finding(Severity.ERROR, kind, key, message, hint)


def warning(kind: Kind, key: str, message: str, hint: str) -> Finding:
    """Somebody has to act."""
    return Finding(Severity.WARNING, kind, key, message, hint)


def note(kind: Kind, key: str, message: str, hint: str) -> Finding:
    """Worth knowing, and right."""
    return Finding(Severity.NOTE, kind, key, message, hint)


class Findings:
    """What was found, worst first: of each kind and severity at most so many, the others counted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[tuple[Severity, Kind], list[Finding]] = {}
        self.counts: Counter[Severity] = Counter(dict.fromkeys(Severity, 0))
        self.left_out: Counter[Kind] = Counter()

    def add(self, findings: Iterable[Finding]) -> None:
        """Keep these, or count them."""
        for finding in findings:
            self.counts[finding.severity] += 1
            kept = self._found.setdefault((finding.severity, finding.kind), [])
            if len(kept) < self._most:
                kept.append(finding)
            else:
                self.left_out[finding.kind] += 1

    def __iter__(self) -> Iterator[Finding]:
        order = {each: at for at, each in enumerate([*WORST_FIRST, *Kind])}
        groups = sorted(self._found.items(), key=lambda group: [order[word] for word in group[0]])
        return chain.from_iterable(found for _, found in groups)

    @property
    def healthy(self) -> bool:
        """Whether there are notes at most."""
        return not (self.counts[Severity.ERROR] or self.counts[Severity.WARNING])


def counted(number: int, noun: str) -> str:
    """`1 window`, `1,204 windows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(counts: Mapping[str, int]) -> str:
    """`idle 3, running 4`."""
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())
