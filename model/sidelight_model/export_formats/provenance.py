"""The provenance of an exported profile: a shared file still shows its origin."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sidelight_model.terminal_width import escape_unprintable


@dataclass(frozen=True, slots=True)
class SideProvenance:
    """One side of an export: selector, time range and counts.

    The time range is in nanoseconds since the epoch.
    """

    query: str
    from_ns: int
    until_ns: int
    samples: int
    pods: int
    windows: int
    seconds: float
    pod_seconds: float

    @property
    def time_range_text(self) -> str:
        """The range in words, in UTC."""
        return f"{format_timestamp(self.from_ns)} until {format_timestamp(self.until_ns)}"

    @property
    def counts_text(self) -> str:
        """The counts in words."""
        pods, windows = format_count(self.pods, "pod"), format_count(self.windows, "window")
        return f"{format_count(self.samples, 'sample')} of {pods} in {windows}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of an export: title, profile type, exporter, and one or two sides.

    `stack_filter` describes the selected stacks; empty means all.
    """

    title: str
    type: str
    exporter: str
    sides: Sequence[SideProvenance]
    stack_filter: str = ""

    def to_lines(self) -> list[str]:
        """The same as text lines, with unprintable characters escaped."""
        lines = []
        for at, side in enumerate(self.sides):
            who = f"{'AB'[at]}: " if len(self.sides) > 1 else ""
            lines.append(escape_unprintable(f"{who}{side.query}"))
            lines.append(f"{who}{self.type}, {side.time_range_text}: {side.counts_text}")
        return (
            [*lines, escape_unprintable(f"only stacks {self.stack_filter}")] if self.stack_filter else lines
        )

    def to_json(self) -> dict[str, object]:
        """The same as JSON."""
        return {
            "title": self.title,
            "type": self.type,
            "exporter": self.exporter,
            "stacks": self.stack_filter,
            "sides": [_side_to_json(side) for side in self.sides],
        }

    def to_json_text(self) -> str:
        """`to_json` as one line of ASCII."""
        return json.dumps(self.to_json())


def _side_to_json(side: SideProvenance) -> Mapping[str, object]:
    return {
        "query": side.query,
        "from": format_timestamp(side.from_ns),
        "until": format_timestamp(side.until_ns),
        "samples": side.samples,
        "pods": side.pods,
        "windows": side.windows,
        "seconds": side.seconds,
        "pod_seconds": side.pod_seconds,
    }


def format_count(number: int, word: str) -> str:
    """Format a number with a noun, in the plural unless it is 1."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def format_minutes(value: float) -> str:
    """Format a number of minutes, rounded up, in minutes, hours or days."""
    if value < 1:
        return "a minute"
    if value < 120:
        return format_count(math.ceil(value), "minute")
    return (
        format_count(math.ceil(value / 60), "hour")
        if value < 2880
        else format_count(math.ceil(value / 1440), "day")
    )


def format_timestamp(ns: int) -> str:
    """Format as RFC 3339 in UTC, with milliseconds unless they are zero."""
    seconds, rest = divmod(ns // 1_000_000, 1000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:03d}Z" if rest else f"{text}Z"
