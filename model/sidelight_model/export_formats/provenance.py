"""What an exported profile stands on, so that a file that was passed on still says where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sidelight_model.terminal_width import visible


@dataclass(frozen=True, slots=True)
class AboutSide:
    """One side: its selector, its range in nanoseconds since the epoch, and what was counted in it."""

    query: str
    from_ns: int
    until_ns: int
    samples: int
    pods: int
    windows: int
    seconds: float
    pod_seconds: float

    @property
    def span(self) -> str:
        """The range in words, in UTC."""
        return f"{moment(self.from_ns)} until {moment(self.until_ns)}"

    @property
    def counted(self) -> str:
        """What was counted, in words."""
        pods, windows = plural(self.pods, "pod"), plural(self.windows, "window")
        return f"{plural(self.samples, 'sample')} of {pods} in {windows}"


@dataclass(frozen=True, slots=True)
class About:
    """An export: title, profile type, who wrote it, one side or two, and which stacks (empty: all)."""

    title: str
    type: str
    exporter: str
    sides: Sequence[AboutSide]
    stacks: str = ""

    def notes(self) -> list[str]:
        """The same as lines for people, hostile letters written as escapes."""
        lines = []
        for at, side in enumerate(self.sides):
            who = f"{'AB'[at]}: " if len(self.sides) > 1 else ""
            lines.append(visible(f"{who}{side.query}"))
            lines.append(f"{who}{self.type}, {side.span}: {side.counted}")
        return [*lines, visible(f"only stacks {self.stacks}")] if self.stacks else lines

    def told(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "title": self.title,
            "type": self.type,
            "exporter": self.exporter,
            "stacks": self.stacks,
            "sides": [_told(side) for side in self.sides],
        }

    def json(self) -> str:
        """`told` on one line of ASCII."""
        return json.dumps(self.told())


def _told(side: AboutSide) -> Mapping[str, object]:
    return {
        "query": side.query,
        "from": moment(side.from_ns),
        "until": moment(side.until_ns),
        "samples": side.samples,
        "pods": side.pods,
        "windows": side.windows,
        "seconds": side.seconds,
        "pod_seconds": side.pod_seconds,
    }


def plural(number: int, word: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def moment(ns: int) -> str:
    """RFC 3339 in UTC, with milliseconds where they are not zero."""
    seconds, rest = divmod(ns // 1_000_000, 1000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:03d}Z" if rest else f"{text}Z"
