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

`make test-truth` wrote this page. It runs programs that know what they do (`tests/truth/programs/`) on every
Python it finds, samples them, and compares what was seen with what each program says of exactly that time, by
the kernel's own clocks: wall time, CPU time, and time spent in the queue for a CPU.

{machine}

## Call paths that exist

64 functions, each of which calls only two given others, ten deep: a stack with any other neighbours
never existed. `methods` call through a decorator, a method, a comprehension and a lambda; `threads` are
four threads with 64 functions each. Impossible stacks, of so many:

{legal}

The same programs with nothing held still (`--mode nonblocking`), to show that the check can fail. How
often depends on luck: where the sampling thread is given the program's own CPU, nothing moves meanwhile:

{moving}

## Shares

A session is cut into windows by `take()`. What a program does next does not depend on the window, so
windows are independent runs. In each, the share seen is k of n samples, with the exact binomial 95 %
interval (Clopper and Pearson); the truth is what the program did in that window. Ticks lie 0.5 to 1.5
periods apart, which spreads samples more evenly than independent ones, so the interval is rather too
wide. The second number is the stronger statement: how much the windows were off on average, in
percentage points (in frames for the mean depth), with a 95 % interval that comes from the windows and
not from a model.

Each cell: windows whose interval held the truth; what all of them were off by on average.

{shares}

- `shares`: functions that take these shares of the time, in an order drawn by luck. `lockstep`: two
  functions by turns, in step with the sampler's own period. `idle`: asleep for this share; a thread
  that was woken is idle until it has a CPU, one that loses its CPU at work is not. `depths`: at work 3
  to 120 calls deep. `chains`: ten generators above each other against two, or coroutines in three
  tasks. `threads`: five threads; two compete for the GIL, one computes without it. `released`: by turns
  in Python, in C without the GIL, and asleep.
- It passes when at least {covered:.0%} of the windows hold the truth, and what they are off by on
  average is not, by more than three standard errors, above half a point (half a frame). What fails is
  **bold**.

## How well it was sampled

What could not be read is counted: ticks that failed as a whole, and samples of single threads, which are
counted under the first frame of the thread's last good stack and `(unread)`. Skipped is the time for
which the sampler was more than a period late, and whose ticks were left out.

{quality}
"""
Cells = dict[int, str]


def page(outcomes: Sequence[Outcome]) -> str:
    still = [outcome for outcome in outcomes if outcome.mode != MOVING]
    moving = [outcome for outcome in outcomes if outcome.mode == MOVING]
    return HEAD.format(
        machine=machine(),
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
