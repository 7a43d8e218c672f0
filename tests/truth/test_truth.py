"""Sampled programs look as they say they are: the short form of `make test-truth`, which has every Python.

Call paths are exact and hold on a busy machine. Shares hold on a quiet one: they have room for random error
and for the time in which the sampler got no CPU. All programs on a few interpreters are long tests; one
program of each kind on one interpreter shows in every run that programs, diaries and questions fit together.
"""

import math
import sys

import pytest

from tests.truth import interpreters
from tests.truth.questions import CALLS, TRUTHS, Program, calls, idle, released, tasks, threads
from tests.truth.sampling import Plan, sample

HERE = sys.version_info.minor
FEW = interpreters.few()
long = pytest.mark.long
SECONDS = 1.0
SIGMAS = 5
# Of a share, for what no count tells: a sampler that is late by less than a period.
ROOM = 0.05


def cases(everywhere: list[Program], here: list[Program], short: list[Program]) -> list[object]:
    """All programs on the Python that runs this, some on the oldest and the newest; all but few are long."""
    titles = [program.title for program in short]
    return [
        pytest.param(
            path,
            program,
            id=f"3.{minor} {program.title}",
            marks=[] if minor == HERE and program.title in titles else long,
        )
        for minor, path in FEW.items()
        for program in (here if minor == HERE else everywhere)
        if program.runs_on(f"3.{minor}")
    ]


@pytest.mark.parametrize(
    ("python", "program"), cases([calls("generators"), calls("threads")], CALLS, [calls("threads")])
)
def test_every_stack_is_a_call_path_that_exists(python, program):
    sampled = sample(python, program.name, program.variant, Plan(1, 1000, 1000))
    assert program.impossible(sampled.windows) == {}
    assert sampled.samples > sampled.unread


@pytest.mark.parametrize(
    ("python", "program"), cases([idle(50), released(), tasks(1000)], TRUTHS, [released(), tasks(1000)])
)
def test_shares_are_those_that_the_program_had(python, program):
    rate = program.rate_hz or 400
    plan = Plan(1, int(SECONDS * rate), rate, is_of_tasks=program.is_of_tasks)
    sampled = sample(python, program.name, program.variant, plan)
    assert program.impossible(sampled.windows) == {}
    room = ROOM + sampled.late_share
    for name, [answer] in program.answers(sampled.windows, sampled.told).items():
        if name == "mean depth":
            continue
        luck = math.sqrt(answer.truth * (1 - answer.truth) / answer.samples)
        assert abs(answer.off) < SIGMAS * luck + room, name
    if sampled.profiled:
        for name, (seen, truth) in program.shares(sampled.profiled, sampled.told).items():
            assert abs(seen - truth) < ROOM, f"{name} by CPython's profiler"


def test_every_thread_is_in_every_sample():
    program = threads()
    sampled = sample(FEW[HERE], program.name, program.variant, Plan(1, 100, 200))
    of = {
        name: sum(row.samples for row in sampled.windows[0].rows if name in row.functions)
        for name in ("often", "seldom", "digest", "waiting")
    }
    assert len(set(of.values())) == 1 or sampled.unread


@long
def test_the_check_of_call_paths_finds_the_impossible_ones_of_a_target_that_moves():
    program = calls("coroutines")
    for _ in range(30):
        sampled = sample(FEW[HERE], program.name, program.variant, Plan(1, 1000, 1000, "nonblocking"))
        if program.impossible(sampled.windows):
            return
    pytest.fail("sampled without holding it still, the target had no impossible stack")
