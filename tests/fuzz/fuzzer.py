"""Tries changed inputs of a target, and keeps those with an outcome that no earlier input had.

Outcomes stand in for covered code: each message of an error, and each shape of a result, is one. A run is
determined by its seed.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.mutations import mutate
from tests.fuzz.report import (
    FAILURES,
    MAX_GROWTH_BYTES,
    MemoryGrowth,
    Summary,
    limit_cpu,
    resident_bytes,
    save_failure,
)
from tests.fuzz.targets import Target, outcome_of

MAX_FAILURES: Final = 5
MAX_CORPUS: Final = 2000
CHECK_EVERY: Final = 500
_WARM_UP_SHARE: Final = 10


def find_problem(target: Target, data: bytes) -> tuple[str, str]:
    """Run one input; return its outcome, and the problem if it failed."""
    try:
        with limit_cpu():
            return outcome_of(target.run, data), ""
    except (Exception, RecursionError) as error:  # noqa: BLE001
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "", f"{type(error).__name__} at {where.filename}:{where.lineno}: {str(error)[:2000]}"


def fuzz(
    target: Target,
    seed: int,
    inputs: int,
    seconds: float,
    folder: Path = FAILURES,
    measure: Callable[[], int] = resident_bytes,
) -> Summary:
    """Fuzz a target until `inputs` are tried, `seconds` have passed, or MAX_FAILURES are different."""
    random, summary, began = Random(seed), Summary(target.name, "outcomes"), time.monotonic()
    corpus, outcomes, problems = list(target.seeds), set[str](), set[str]()
    pending, first_bytes = list(target.seeds), 0
    while summary.inputs < inputs and len(problems) < MAX_FAILURES:
        if summary.inputs % CHECK_EVERY == 0 and time.monotonic() - began > seconds:
            break
        data = (
            pending.pop()
            if pending
            else mutate(random.choice(corpus), random, target.tokens, corpus, target.max_bytes)
        )
        outcome, problem = find_problem(target, data)
        summary.inputs += 1
        place = problem.partition(": ")[0]
        if problem and place not in problems:
            problems.add(place)
            summary.failures.append(save_failure(target.name, data, problem, folder))
        elif outcome and outcome not in outcomes:
            outcomes.add(outcome)
            summary.new_outcomes += 1
            corpus.append(data)
            if len(corpus) > MAX_CORPUS:
                corpus.pop(random.randrange(len(target.seeds), len(corpus)))
        is_due = (
            summary.inputs * _WARM_UP_SHARE >= inputs or time.monotonic() - began > seconds / _WARM_UP_SHARE
        )
        if not first_bytes and is_due:
            first_bytes = measure()
    summary.seconds = time.monotonic() - began
    summary.growth_bytes = measure() - (first_bytes or measure())
    if summary.growth_bytes > MAX_GROWTH_BYTES:
        growth = f"{MemoryGrowth.__name__}: {summary.growth_bytes:,} bytes over {summary.inputs:,} inputs"
        summary.failures.append(save_failure(target.name, b"", growth, folder))
    return summary
