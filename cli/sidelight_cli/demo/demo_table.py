"""The demo's table: one line per version, with units in the headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidelight_cli.demo.measurement import MeasuredVersion, VersionProgress
from sidelight_cli.demo.processes.latency import Latency

MISSING_TEXT = "\N{EN DASH}"

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


def render_table(versions: Sequence[MeasuredVersion | VersionProgress], columns: int | None = None) -> str:
    """Render the table as lines of text.

    Gaps are narrow if the table with wide gaps does not fit into `columns`.
    """
    rows = [*zip(*HEADINGS, strict=True), *(_format_cells(version) for version in versions)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    gap = "  " if columns is None or sum(widths) + 2 * (len(widths) - 1) <= columns else " "
    lines = [_render_line(row, widths, gap) for row in rows]
    lines.insert(2, gap.join("─" * width for width in widths))
    return "\n".join(lines)


def _render_line(cells: Sequence[str], widths: Iterable[int], gap: str) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return gap.join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def _format_cells(version_figures: MeasuredVersion | VersionProgress) -> tuple[str, ...]:
    load, profile = version_figures.load, version_figures.profile
    no_latency = Latency.summarize([])
    latencies = [load.paths.get(path, no_latency) if load else no_latency for path in ("/50", "/125")]
    return (
        version_figures.version.name,
        format_number(load.arrival_rate if load else None, 1),
        *(format_number(value, 1) for latency in latencies for value in (latency.p50_ms, latency.p99_ms)),
        format_percent(profile.cpu_cores if profile else None),
        format_percent(profile.idle_share if profile else None),
        format_number(profile.depth.mean if profile else None, 1),
        format_number(profile.depth.p95 if profile else None, 0),
    )


def format_number(value: float | None, digits: int) -> str:
    """Format a number with `digits` decimal places; a dash for None."""
    return MISSING_TEXT if value is None else f"{value:.{digits}f}"


def format_percent(share: float | None) -> str:
    """Format a share as a percentage; a dash for None."""
    return MISSING_TEXT if share is None else f"{share:.1%}".replace("%", " %")
