"""Numbers with their units, and the data behind an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sidelight_model.counts import ProfileType
from sidelight_model.terminal_width import escape_unprintable

MICROSECONDS: Final = 1_000_000


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_share(share: float) -> str:
    return f"{100 * share:.1f} %"


def format_number(value: float) -> str:
    """Format a number with three significant digits, and large ones in full."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def name_unit(kind: str) -> str:
    """Return the short form of the unit of rates."""
    return "m/pod" if ProfileType(kind).is_cpu_time else "threads/pod"


def name_unit_in_words(kind: str) -> str:
    """Return the unit of rates."""
    return "millicores per pod" if ProfileType(kind).is_cpu_time else "threads per pod"


def format_bare_rate(threads: float, kind: str) -> str:
    """Format a number of threads or cores per pod in the unit of `name_unit`."""
    return format_number(1000 * threads if ProfileType(kind).is_cpu_time else threads)


def format_rate(threads: float, kind: str) -> str:
    """Format a number of threads or cores per pod with its unit."""
    return f"{format_bare_rate(threads, kind)} {name_unit(kind)}"


def format_change(effect: Mapping[str, Any], kind: str) -> str:
    """Format an effect of a verdict: both sides, the relative change and its interval."""
    text = f"{format_rate(effect['baseline'], kind)} → {format_rate(effect['comparison'], kind)}"
    return f"{text}, {format_relative(effect)}"


def format_relative(effect: Mapping[str, Any]) -> str:
    """Format the relative change of an effect, with its 95 % interval if it has one."""
    if effect["relative"] is None:
        return str(effect["direction"]).replace("_", " ")
    text = f"{100 * effect['relative']:+.1f} %"
    low, high = effect.get("relative_low"), effect.get("relative_high")
    if low is not None and high is not None:
        text += f" ({100 * low:+.1f} to {100 * high:+.1f})"
    return f"{text} {str(effect['direction']).replace('_', ' ')}"


def describe_side(side: Mapping[str, Any]) -> str:
    """Describe the data of a side: selector, time range, samples, pods, quality."""
    quality = side["quality"]
    parts = [
        side["selector"],
        f"{format_time(side['from'])} to {format_time(side['until'])}",
        f"{side['samples']:,} samples of {side['pods']} pods in {side['pod_seconds'] / 3600:.3g} pod hours",
    ]
    if quality["coverage"] is not None:
        parts.append(f"coverage {format_share(quality['coverage'])}")
    if quality["failed_share"]:
        parts.append(f"{format_share(quality['failed_share'])} of readings failed")
    if side["missing_states"]:
        parts.append("states not recorded: " + ", ".join(side["missing_states"]))
    return escape_unprintable("; ".join(parts))


def render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Render rows below a head; all columns but the last are aligned right."""
    table = [head, *([escape_unprintable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[at]) for line in table) for at in range(len(head) - 1)]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(line, widths, strict=False)), line[-1]])
        for line in table
    ]
