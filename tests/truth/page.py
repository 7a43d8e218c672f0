"""The page docs/truth.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import sidelight_native

from tests.truth.outcomes import LEAST_COVERED, MOVING, Outcome

HEAD = """\
# Truth

How accurate are the samples? For engineers who decide whether to trust a profile.

- **Stacks**: {impossible} of {samples:,} are impossible.
- **Shares of time**: mean errors are at most {worst:.2f} percentage points.

`make test-truth TRUTH_FLAGS="--windows 100 --rate 800"` writes this page (`lockstep` on 3.12: 200
windows). It samples programs that record what they do (`tests/truth/programs/`) on every
installed Python. Their records use the kernel's clocks for wall time, CPU time and time in the
queue for a CPU.

{machine}

## Call paths that exist

Each of 64 functions calls only two given others, ten deep. Other neighbours are impossible.
`methods` calls through a decorator, a method, a comprehension and a lambda. `threads` has four
threads with 64 functions each. Impossible stacks:

{legal}

The check can fail: these are the same programs with nothing stopped (`--mode nonblocking`).
Values vary. If the sampler gets the program's CPU, nothing changes while it reads:

{moving}

## Shares

Each cell has two numbers:

1. The windows whose 95 % interval contains the truth (exact binomial, Clopper and Pearson). The
   interval is rather too wide, because ticks spread evenly, 0.5 to 1.5 periods apart.
2. The mean error over all windows, with its 95 % interval, in percentage points (mean depth:
   frames).

Windows are independent runs: what a program does next does not depend on `take()`.

{shares}

- `shares`: functions that take these shares of the time, in random order.
- `lockstep`: two functions take turns, in step with the sampling period.
- `idle`: asleep for this share. A woken thread is idle until it has a CPU; a working thread that
  loses its CPU is not.
- `depths`: at work 3 to 120 calls deep.
- `chains`: ten nested generators against two, or coroutines in three tasks.
- `threads`: five threads; two compete for the GIL, one computes without it.
- `released`: takes turns in Python, in C without the GIL, and asleep.

A cell passes if at least {covered:.0%} of its windows contain the truth. Its mean error may exceed half a
point (half a frame) by at most three standard errors. Cells that fail are **bold**.

## How well it was sampled

Failures are ticks that failed as a whole, and unreadable samples of single threads. These are
counted as `(unread)` under the first frame of the thread's last good stack. In skipped time, the
sampler was more than a period late and left out ticks.

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
        covered=LEAST_COVERED,
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
