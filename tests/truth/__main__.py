"""Samples every program on every installed Python: what `make test-truth` runs.

    python -m tests.truth [--python 3.12 ...] [--only idle] [--results FILE] [--pages bench/results]

With --results, what the file already holds is kept, and only what is missing is run. A page is written only
if one of its programs was run. Takes half an hour for each Python, on a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.truth import interpreters, questions
from tests.truth.outcomes import MOVING, Outcome
from tests.truth.page import pages
from tests.truth.questions import Program
from tests.truth.sampling import Plan, sample

LEAST_STACKS = 50_000
# What a machine that is too busy gives by then will have to do.
MOST_RUNS = 10
# A random subset makes 95 % of intervals right, not nearly all: fewer windows could have 93 % by luck.
WINDOWS_OF_TASKS = 12


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.truth")
    add = parser.add_argument
    add("--python", action="append", metavar="3.N", help="only this version, like 3.13t (may be repeated)")
    add("--only", action="append", default=[], help="only programs whose title holds this (may be repeated)")
    add("--results", type=Path, help="keep outcomes here, as JSON, and run only what is missing")
    add("--pages", type=Path, help="write the pages into this folder")
    add("--windows", type=int, default=120)
    add("--ticks", type=int, default=150, help="expected in a window")
    add("--rate", type=float, default=400, help="ticks per second, where the program asks for no other")
    options = parser.parse_args(arguments)
    outcomes = load(options.results)
    for version, python in interpreters.builds().items():
        if options.python and version not in options.python:
            continue
        for program, moving in planned():
            known = {(outcome.program, outcome.version, outcome.mode == MOVING) for outcome in outcomes}
            done = (program.title, version, moving) in known
            wanted = not options.only or any(part in program.title for part in options.only)
            if not wanted or not program.runs_on(version) or done:
                continue
            outcome = run(python, program, options.windows, options.ticks, options.rate, moving=moving)
            print(f"{outcome.python} {told(outcome)}", flush=True)
            outcomes.append(outcome)
            if options.results:
                options.results.write_text(json.dumps([asdict(outcome) for outcome in outcomes]))
    if options.pages:
        for name, text in pages(outcomes).items():
            (options.pages / name).write_text(text)
    bad = [outcome for outcome in outcomes if outcome.mode != MOVING and not outcome.good]
    for outcome in bad:
        print(f"not as it must be: {outcome.python} {told(outcome)}")
    return bool(bad)


def planned() -> list[tuple[Program, bool]]:
    """Every program, and those with known calls once more with nothing held still."""
    programs = [(program, False) for program in (*questions.CALLS, *questions.TRUTHS)]
    return [*programs, *((program, True) for program in questions.CALLS)]


def run(
    python: Path, program: Program, windows: int, ticks: int, rate: float, *, moving: bool = False
) -> Outcome:
    if program.questions:
        rate_hz = program.rate_hz or rate
        if program.is_of_tasks:
            # A tick has many tasks: there are more windows, in the same time at any rate.
            windows, ticks = WINDOWS_OF_TASKS * windows, round(ticks * rate_hz / rate / WINDOWS_OF_TASKS)
        plan = Plan(windows, ticks, rate_hz, is_of_tasks=program.is_of_tasks)
        return Outcome.of(program, sample(python, program.name, program.variant, plan))
    least = LEAST_STACKS // 10 if moving else LEAST_STACKS
    plan = Plan(10, least // 10 + 500, program.rate_hz or rate, MOVING if moving else "auto")
    outcome = Outcome.of(program, sample(python, program.name, program.variant, plan))
    for _ in range(MOST_RUNS):
        if outcome.samples >= least:
            break
        outcome = outcome.and_again(Outcome.of(program, sample(python, program.name, program.variant, plan)))
    return outcome


def told(outcome: Outcome) -> str:
    verdicts = "".join(
        f"\n    {name}: true {verdict.truth:.4g}, seen {verdict.seen:.4g}, off {verdict.bias.mean:+.4f} "
        f"(standard error {verdict.bias.error:.4f}), covered {verdict.covered:.1%} of {verdict.runs}"
        f"{'' if verdict.good else '  <-- BAD'}"
        for name, verdict in outcome.verdicts.items()
    )
    verdicts += "".join(
        f"\n    {name} by CPython's profiler: true {truth:.4g}, seen {seen:.4g}"
        for name, (seen, truth) in outcome.profiler.items()
    )
    impossible = "" if outcome.impossible is None else f"{outcome.impossible} impossible of "
    return (
        f"{outcome.program} ({outcome.mode}, {outcome.reader}): {impossible}{outcome.samples} samples, "
        f"{outcome.failed} of {outcome.attempts} ticks failed, {outcome.unread} unread, "
        f"late {outcome.late_share:.1%}, longest stop {outcome.longest_stop_ns / 1e3:.0f} us, "
        f"stopped {outcome.stopped_ns / 1e3 / max(outcome.attempts, 1):.0f} us a tick{verdicts}"
    )


def load(path: Path | None) -> list[Outcome]:
    if path is None or not path.exists():
        return []
    return [Outcome.load(fields) for fields in json.loads(path.read_text())]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
