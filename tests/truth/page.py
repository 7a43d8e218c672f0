"""The results of the trials, as the files of bench/results."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import sidelight_native

from tests.truth.outcomes import MOVING, Outcome

WAITS = ("spinners", "waits", "gthread", "tasks")
TITLES = {
    "truth.md": "How accurate samples are",
    "waits.md": "What threads and tasks wait for",
    "free_threaded.md": "Free-threaded Python",
}
HEAD = """\
# {title}: results

`make test-truth` wrote this file. docs/performance-appendix.md explains it.

"""
SHARES = "Windows whose interval contains the truth; mean error in percentage points (mean depth: frames)."
PROFILER = "`profiling.sampling --blocking --async-aware --async-mode all` on the same programs: seen; truth."
Cells = dict[str, str]
Rows = Mapping[tuple[str, ...], Cells]


def pages(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """By file name, the pages of which some program was run."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(page_of(outcome), []).append(outcome)
    return {name: page(TITLES[name], of_page) for name, of_page in found.items()}


def page_of(outcome: Outcome) -> str:
    if outcome.version.endswith("t"):
        return "free_threaded.md"
    return "waits.md" if outcome.program.split()[0] in WAITS else "truth.md"


def page(title: str, outcomes: Sequence[Outcome]) -> str:
    still = [outcome for outcome in outcomes if outcome.mode != MOVING]
    moving = [outcome for outcome in outcomes if outcome.mode == MOVING]
    biases = [
        abs(verdict.bias.mean) for each in still for verdict in each.verdicts.values() if verdict.unit == "%"
    ]
    legal = [each for each in still if each.impossible is not None]
    profiled = [each for each in still if each.profiler]
    text = HEAD.format(title=title)
    if legal:
        text += (
            f"- {sum(each.impossible or 0 for each in legal)} of {sum(each.samples for each in legal):,} "
            "stacks are impossible.\n"
        )
    if biases:
        text += f"- Mean errors of shares are at most {100 * max(biases):.2f} percentage points.\n"
    text += f"\n{machine()}\n"
    for heading, first, rows, columns in (
        ("Impossible stacks", ["program"], cells(legal, impossible), outcomes),
        ("Impossible stacks if nothing is stopped", ["program"], cells(moving, share_impossible), outcomes),
        (f"Shares of time\n\n{SHARES}", ["program: share", "windows"], share_cells(still), outcomes),
        (
            f"Shares by CPython's profiler\n\n{PROFILER}",
            ["program: share"],
            profiler_cells(profiled),
            profiled,
        ),
        ("Quality of the sampling", [""], quality_cells(still), outcomes),
    ):
        if rows:
            text += f"\n## {heading}\n\n{table(first, rows, columns)}\n"
    return text


def table(first: Sequence[str], rows: Rows, outcomes: Sequence[Outcome]) -> str:
    """Markdown: a row each, and a column for each Python."""
    by_version = {outcome.version: outcome.python for outcome in outcomes}
    versions = sorted(by_version, key=lambda version: int(version.split(".")[1].removesuffix("t")))
    lines = [[*first, *(by_version[version] for version in versions)], ["---"] * (len(first) + len(versions))]
    lines += [[*name, *(row.get(version, "–") for version in versions)] for name, row in rows.items()]  # noqa: RUF001
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(outcomes: Sequence[Outcome], cell: Callable[[Outcome], str]) -> Rows:
    found: dict[tuple[str, ...], Cells] = {}
    for outcome in outcomes:
        found.setdefault((outcome.program,), {})[outcome.version] = cell(outcome)
    return found


def impossible(outcome: Outcome) -> str:
    found = f"{outcome.impossible} of {outcome.samples:,}"
    return f"**{found}**" if outcome.impossible else found


def share_impossible(outcome: Outcome) -> str:
    return f"{(outcome.impossible or 0) / outcome.samples:.1%}"


def share_cells(outcomes: Sequence[Outcome]) -> Rows:
    found: dict[str, Cells] = {}
    windows: dict[str, set[int]] = {}
    for outcome in outcomes:
        for name, verdict in outcome.verdicts.items():
            scale = 100 if verdict.unit == "%" else 1
            off = f"{verdict.bias.mean * scale:+.2f} ± {1.96 * verdict.bias.error * scale:.2f}"
            cell = f"{verdict.covered:.0%}; {off}"
            row = f"{outcome.program}: {name}"
            found.setdefault(row, {})[outcome.version] = cell if verdict.good else f"**{cell}**"
            windows.setdefault(row, set()).add(verdict.runs)
    return {(row, range_of(windows[row])): of_row for row, of_row in found.items()}


def profiler_cells(outcomes: Sequence[Outcome]) -> Rows:
    found: dict[tuple[str, ...], Cells] = {}
    for outcome in outcomes:
        for name, (seen, truth) in outcome.profiler.items():
            cell = f"{seen:.1%}; {truth:.1%}"
            found.setdefault((f"{outcome.program}: {name}",), {})[outcome.version] = cell
    return found


def range_of(numbers: Iterable[int]) -> str:
    least, *_, most = sorted([*numbers] * 2)
    return str(least) if least == most else f"{least} to {most}"


def quality_cells(outcomes: Sequence[Outcome]) -> Rows:
    found: dict[tuple[str, ...], Cells] = {}
    for version in {outcome.version for outcome in outcomes}:
        for name, text in quality([each for each in outcomes if each.version == version]).items():
            found.setdefault((name,), {})[version] = text
    return found


def quality(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Of one Python, over all programs."""
    attempts, samples = sum(each.attempts for each in outcomes), sum(each.samples for each in outcomes)
    rows = {
        "mode, reader": "; ".join(sorted({f"{each.mode}, {each.reader}" for each in outcomes})),
        "samples": f"{samples:,}",
        "ticks that failed": f"{sum(each.failed for each in outcomes) / attempts:.2%}",
        "samples `(unread)`": f"{sum(each.unread for each in outcomes) / samples:.2%}",
        "time skipped": f"{sum(each.late_share for each in outcomes) / len(outcomes):.1%}",
        "longest stop": f"{max(each.longest_stop_ns for each in outcomes) / 1e6:.1f} ms",
    }
    for each in outcomes:
        if each.program == "calls threads":
            lost_us = each.stopped_ns / 1e3 / each.attempts
            rows["time that the threads of `calls threads` lost a tick"] = f"{lost_us:.0f} µs"
    return rows


def machine() -> str:
    """What this ran on, in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (
        f"{datetime.now(UTC).date().isoformat()}, sidelight-native {sidelight_native.__version__} "
        f"(py-spy {sidelight_native.PY_SPY_VERSION}), {os.cpu_count()} CPUs "
        f"({names[0] if names else platform.machine()}), Linux {platform.release().partition('-')[0]}."
    )
