"""The demo's table: one line per version, every figure with its unit in the heading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidelight.demo.latency import Latency
from sidelight.demo.measured import Measured

NOTHING = "-"

HEADINGS = (
    ("", "version"),
    ("arrivals", "per s"),
    ("/50 ms", "p50"),
    ("/50 ms", "p99"),
    ("/125 ms", "p50"),
    ("/125 ms", "p99"),
    ("CPU of", "a core"),
    ("idle", "share"),
    ("depth", "mean"),
    ("depth", "p95"),
)


def table(measured: Sequence[Measured]) -> str:
    """The table as lines of text."""
    rows = [*zip(*HEADINGS, strict=True), *(_cells(one) for one in measured)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(2, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Iterable[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def _cells(one: Measured) -> tuple[str, ...]:
    nothing = Latency.of([])
    latencies = [one.load.paths.get(path, nothing) for path in ("/50", "/125")]
    return (
        one.version.name,
        f"{one.load.arrival_rate:.1f}",
        *(number(value, 1) for latency in latencies for value in (latency.p50_ms, latency.p99_ms)),
        percent(one.profile.cpu_cores),
        percent(one.profile.idle_share),
        number(one.profile.depth.mean, 1),
        number(one.profile.depth.p95, 0),
    )


def number(value: float | None, digits: int) -> str:
    """A number with so many digits after the point; a dash where there is none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def percent(share: float | None) -> str:
    """A share as per cent; a dash where there is none."""
    return NOTHING if share is None else f"{share:.1%}".replace("%", " %")
