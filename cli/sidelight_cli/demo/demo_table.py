"""The demo's table: one line per version, every figure with its unit in the heading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidelight_cli.demo.measurement import Measured, Progress
from sidelight_cli.demo.processes.latency import Latency

NOTHING = "\N{EN DASH}"

HEADINGS = (
    ("", "version"),
    ("sent", "per s"),
    ("/50 ms", "p50"),
    ("/50 ms", "p99"),
    ("/125 ms", "p50"),
    ("/125 ms", "p99"),
    ("CPU of", "a core"),
    ("idle", "share"),
    ("depth", "mean"),
    ("depth", "p95"),
)


def table(versions: Sequence[Measured | Progress], columns: int | None = None) -> str:
    """The table as lines of text, with narrow gaps where wide ones do not fit into `columns`."""
    rows = [*zip(*HEADINGS, strict=True), *(_cells(one) for one in versions)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    gap = "  " if columns is None or sum(widths) + 2 * (len(widths) - 1) <= columns else " "
    lines = [_line(row, widths, gap) for row in rows]
    lines.insert(2, gap.join("─" * width for width in widths))
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Iterable[int], gap: str) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return gap.join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def _cells(one: Measured | Progress) -> tuple[str, ...]:
    load, profile = one.load, one.profile
    nothing = Latency.of([])
    latencies = [load.paths.get(path, nothing) if load else nothing for path in ("/50", "/125")]
    return (
        one.version.name,
        number(load.arrival_rate if load else None, 1),
        *(number(value, 1) for latency in latencies for value in (latency.p50_ms, latency.p99_ms)),
        percent(profile.cpu_cores if profile else None),
        percent(profile.idle_share if profile else None),
        number(profile.depth.mean if profile else None, 1),
        number(profile.depth.p95 if profile else None, 0),
    )


def number(value: float | None, digits: int) -> str:
    """A number with so many digits after the point; a dash where there is none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def percent(share: float | None) -> str:
    """A share as per cent; a dash where there is none."""
    return NOTHING if share is None else f"{share:.1%}".replace("%", " %")
