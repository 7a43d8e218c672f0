"""Read profiles of the Firefox Profiler (gecko JSON).

CPython's `profiling.sampling --gecko` and samply write its processed format, whose tables have a list for
each column; Firefox itself writes tables with a schema and rows. Newer versions keep tables of all threads in
`shared`. Each sample has a stack and a time, in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_model.folded import Stack, join_frames
from sidelight_model.frames import Frame, escape_frame
from sidelight_model.import_formats.weighted_stack import WeightedStack

NS_PER_MS: Final = 10**6
_MAX_INTERVAL_MS: Final = 10_000.0
_MIN_EPOCH_MS: Final = 1e12
"""Earlier starts (2001) are times since the machine started, as CPython writes them."""


@dataclass(slots=True)
class GeckoSummary:
    """The period (ns), the times that a profile covers (ms), and what was left out."""

    period_ns: int = 0
    start_ms: float = math.inf
    end_ms: float = -math.inf
    epoch_ms: float = 0.0
    damaged_samples: int = 0

    @property
    def duration_ns(self) -> int:
        """The time from the first sample to the last, and one period."""
        if self.end_ms < self.start_ms:
            return 0
        return round((self.end_ms - self.start_ms) * NS_PER_MS) + self.period_ns

    @property
    def start_ns(self) -> int:
        """The time of the first sample; 0 if it is unknown."""
        return round((self.epoch_ms + self.start_ms) * NS_PER_MS) if self.epoch_ms and self.duration_ns else 0


def is_gecko(document: object) -> bool:
    """Return whether a JSON document is a profile of the Firefox Profiler."""
    return isinstance(document, dict) and isinstance(document.get("threads"), list) and "meta" in document


def iter_gecko_stacks(document: Mapping[str, Any], summary: GeckoSummary) -> Iterator[WeightedStack]:
    """Yield a stack for each sample, with the number of samples as its weight.

    Raises ValueError, KeyError, TypeError, AttributeError or IndexError for an invalid structure.
    """
    meta = document["meta"]
    interval = float(meta.get("interval") or 1.0)
    if not 0 < interval <= _MAX_INTERVAL_MS:
        raise ValueError(f"its interval is {interval} ms")
    summary.period_ns = max(round(interval * NS_PER_MS), 1)
    epoch = float(meta.get("startTime") or 0.0)
    summary.epoch_ms = epoch if math.isfinite(epoch) and epoch > _MIN_EPOCH_MS else 0.0
    shared = document.get("shared") or {}
    for thread in document["threads"]:
        yield from _iter_thread(thread, shared, summary)


def _iter_thread(
    thread: Mapping[str, Any], shared: Mapping[str, Any], summary: GeckoSummary
) -> Iterator[WeightedStack]:
    samples = thread["samples"]
    stacks = _read_column(samples, "stack")
    weights = _read_column(samples, "weight") if samples.get("weightType", "samples") == "samples" else []
    times = _read_times(samples)
    tables = _StackTables(thread, shared)
    for at, index in enumerate(stacks):
        time = times[at] if at < len(times) else None
        if isinstance(time, int | float) and math.isfinite(time):
            summary.start_ms, summary.end_ms = min(summary.start_ms, time), max(summary.end_ms, time)
        if index is None:
            continue
        weight = weights[at] if at < len(weights) and weights[at] is not None else 1
        stack = tables.find_stack(index)
        if stack is None or type(weight) is not int or weight < 0:
            summary.damaged_samples += 1
        elif weight:
            yield WeightedStack(stack, "", weight)


class _StackTables:
    """The stacks of a thread, each built once, and only those that samples have."""

    def __init__(self, thread: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
        def find(name: str) -> Mapping[str, Any]:
            table = thread.get(name) or shared.get(name) or {}
            return table if isinstance(table, dict) else {}

        stack_table, frame_table, function_table = map(find, ("stackTable", "frameTable", "funcTable"))
        self._prefixes = _read_column(stack_table, "prefix")
        self._frames = _read_column(stack_table, "frame")
        self._lines = _read_column(frame_table, "line")
        self._functions = _read_column(frame_table, "func")
        self._locations = _read_column(frame_table, "location")
        self._names = _read_column(function_table, "name")
        self._files = _read_column(function_table, "fileName")
        self._sources = _read_column(function_table, "source")
        self._source_files = _read_column(shared.get("sources") or {}, "filename")
        self._strings = (
            thread.get("stringArray") or thread.get("stringTable") or shared.get("stringArray") or []
        )
        self._stacks: dict[int, Stack | None] = {}
        self._frame_texts: dict[int, str | None] = {}

    def find_stack(self, index: Any) -> Stack | None:
        """Return a stack, the root first; None if an entry of a table is missing."""
        if index not in self._stacks:
            self._stacks[index] = self._join_stack(index)
        return self._stacks[index]

    def _join_stack(self, index: Any) -> Stack | None:
        frames: list[str] = []
        while index is not None:
            is_entry = type(index) is int and 0 <= index < len(self._frames)
            # More frames than entries: a prefix refers to a stack below it.
            if not is_entry or len(frames) == len(self._frames):
                return None
            frame = self._find_frame(self._frames[index])
            if frame is None:
                return None
            frames.append(frame)
            index = self._prefixes[index] if index < len(self._prefixes) else None
        return join_frames(reversed(frames))

    def _find_frame(self, index: Any) -> str | None:
        if index not in self._frame_texts:
            self._frame_texts[index] = self._format_frame(index)
        return self._frame_texts[index]

    def _format_frame(self, index: Any) -> str | None:
        line = _get(self._lines, index)
        line = line if type(line) is int and line > 0 else 0
        if self._locations:
            name, file = self._get_string(_get(self._locations, index)), None
        else:
            function = _get(self._functions, index)
            name = self._get_string(_get(self._names, function))
            file = self._get_string(_get(self._files, function))
            if file is None:
                file = self._get_string(_get(self._source_files, _get(self._sources, function)))
        if name is None:
            return None
        return escape_frame(Frame(name or "(no name)", file or "", line).text)

    def _get_string(self, index: Any) -> str | None:
        text = _get(self._strings, index)
        return text if isinstance(text, str) else None


def _read_times(samples: Mapping[str, Any]) -> Sequence[Any]:
    if times := _read_column(samples, "time"):
        return times
    total, summed = 0.0, []
    for delta in _read_column(samples, "timeDeltas"):
        total += delta
        summed.append(total)
    return summed


def _read_column(table: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Return a column of a table; empty if it has none."""
    if "schema" in table and "data" in table:
        at = table["schema"].get(name)
        return [] if at is None else [row[at] if at < len(row) else None for row in table["data"]]
    column = table.get(name)
    return column if isinstance(column, list) else []


def _get(column: Sequence[Any], index: Any) -> Any:
    return column[index] if type(index) is int and 0 <= index < len(column) else None
