"""The results of the trials, as the file bench/results/truth.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import sidelight_native

from tests.truth.outcomes import MOVING, Outcome

HEAD = """\
# How accurate samples are: results

`make test-truth` wrote this file. docs/performance-appendix.md explains it.

- {impossible} of {samples:,} stacks are impossible.
- Mean errors of shares are at most {worst:.2f} percentage points.

{machine}

## Impossible stacks

{legal}

## Impossible stacks if nothing is stopped

{moving}

## Shares of time

Windows whose interval contains the truth; mean error in percentage points (mean depth: frames).

{shares}

## Quality of the sampling

{quality}
"""
Cells = dict[int, str]


def page(outcomes: Sequence[Outcome]) -> str:
    still = [outcome for outcome in outcomes if outcome.mode != MOVING]
    moving = [outcome for outcome in outcomes if outcome.mode == MOVING]
    biases = [
        verdict.bias.mean for each in still for verdict in each.verdicts.values() if verdict.unit == "%"
    ]
    legal = [each for each in still if not each.verdicts]
    return HEAD.format(
        machine=machine(),
        impossible=sum(each.impossible for each in legal),
        samples=sum(each.samples for each in legal),
        worst=100 * max(map(abs, biases), default=0.0),
        legal=table("calls", rows(still, impossible), outcomes),
        moving=table("calls", rows(moving, share_impossible), outcomes),
        shares=table("program: share", share_rows(still), outcomes),
        quality=table("", quality_rows(still), outcomes),
    )


def table(first: str, cells: Iterable[tuple[str, Cells]], outcomes: Sequence[Outcome]) -> str:
    """Markdown: a row each, and a column for each Python."""
    versions = {outcome.minor: outcome.python for outcome in sorted(outcomes, key=lambda each: each.minor)}
    lines = [[first, *versions.values()], ["---"] * (len(versions) + 1)]
    lines += [[name, *(row.get(minor, "–") for minor in versions)] for name, row in cells]  # noqa: RUF001
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rows(outcomes: Sequence[Outcome], cell: Callable[[Outcome], str]) -> Iterable[tuple[str, Cells]]:
    found: dict[str, Cells] = {}
    for outcome in outcomes:
        if not outcome.verdicts:
            found.setdefault(outcome.program.removeprefix("calls "), {})[outcome.minor] = cell(outcome)
    return found.items()


def impossible(outcome: Outcome) -> str:
    found = f"{outcome.impossible} of {outcome.samples:,}"
    return f"**{found}**" if outcome.impossible else found


def share_impossible(outcome: Outcome) -> str:
    return f"{outcome.impossible / outcome.samples:.1%}"


def share_rows(outcomes: Sequence[Outcome]) -> Iterable[tuple[str, Cells]]:
    found: dict[str, Cells] = {}
    for outcome in outcomes:
        for name, verdict in outcome.verdicts.items():
            scale = 100 if verdict.unit == "%" else 1
            off = f"{verdict.bias.mean * scale:+.2f} ± {1.96 * verdict.bias.error * scale:.2f}"
            cell = f"{verdict.covered:.0%}; {off}"
            row = found.setdefault(f"{outcome.program}: {name}", {})
            row[outcome.minor] = cell if verdict.good else f"**{cell}**"
    return found.items()


def quality_rows(outcomes: Sequence[Outcome]) -> Iterable[tuple[str, Cells]]:
    found: dict[str, Cells] = {}
    for minor in sorted({outcome.minor for outcome in outcomes}):
        for name, text in quality([outcome for outcome in outcomes if outcome.minor == minor]).items():
            found.setdefault(name, {})[minor] = text
    return found.items()


def quality(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Of one Python, over all programs."""
    attempts, samples = sum(each.attempts for each in outcomes), sum(each.samples for each in outcomes)
    runs = [verdict.runs for each in outcomes for verdict in each.verdicts.values()]
    return {
        "mode, reader": "; ".join(sorted({f"{each.mode}, {each.reader}" for each in outcomes})),
        "windows for each share": str(min(runs, default=0)),
        "samples": f"{samples:,}",
        "ticks that failed": f"{sum(each.failed for each in outcomes) / attempts:.2%}",
        "samples `(unread)`": f"{sum(each.unread for each in outcomes) / samples:.2%}",
        "time skipped": f"{sum(each.late_share for each in outcomes) / len(outcomes):.1%}",
        "longest stop": f"{max(each.longest_stop_ns for each in outcomes) / 1e6:.1f} ms",
    }


def machine() -> str:
    """What this ran on, in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (
        f"{datetime.now(UTC).date().isoformat()}, sidelight-native {sidelight_native.__version__} "
        f"(py-spy {sidelight_native.PY_SPY_VERSION}), {os.cpu_count()} CPUs "
        f"({names[0] if names else platform.machine()}), Linux {platform.release().partition('-')[0]}."
    )
