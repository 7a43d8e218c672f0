"""A free-threaded Python: its threads run at the same time, and each stack is as it was at one moment.

Needs Python 3.13t (`make pythons`).
"""

import json

import pytest
from sidelight_native import Engine

from tests.native.test_shares import check_shares, watch_shares
from tests.native.test_stacks import functions, impossible
from tests.truth.interpreters import free_threaded

FREE_THREADED = free_threaded()
THREADS = 4
WITHOUT_A_GIL = ["gil", "gil_wait"]
pytestmark = [
    pytest.mark.skipif(not FREE_THREADED, reason="needs a free-threaded Python 3.13"),
    pytest.mark.parametrize("python", FREE_THREADED.values(), ids=FREE_THREADED),
]


@pytest.mark.parametrize(
    ("program", "threads", "samples"),
    [
        ("functions", THREADS, 1000),
        ("generators", 1, 500),
        pytest.param("functions", THREADS, 20_000, marks=pytest.mark.long),
    ],
)
def test_running_threads_have_only_stacks_that_existed(start, collect, python, program, threads, samples):
    target = start(program, 120, threads, python=python)
    session = Engine().attach(target.pid, rate_hz=500)
    assert (session.mode, session.reader, session.python) == ("gil", "own", python.parts[-3])
    assert session.missing_states == WITHOUT_A_GIL
    taken = collect(session, samples)
    assert impossible(taken) == {}
    assert not any("(unread)" in stack for stack in taken.counts)
    assert taken.samples == threads * (taken.attempts - taken.failed)
    assert taken.misread < 0.25 * taken.attempts
    counts = taken.states_of("<module>", "Thread._bootstrap")
    assert counts.gil == counts.gil_wait == 0
    assert counts.running + counts.cpu_wait > 0.9 * counts.wall
    stopped_us = sum(batch.stopped_ns for batch in taken.batches) / 1000
    print(f"each thread lost {stopped_us / threads / taken.attempts:.0f} µs a tick")


def test_a_program_with_known_shares_comes_back_with_them(start, collect, python):
    check_shares(*watch_shares(start, collect, python))


def test_threads_that_come_and_go_are_read_while_they_live(start, collect, python):
    taken = collect(Engine().attach(start("churn", 60, python=python).pid, rate_hz=1000), 1000)
    roots = {functions(stack)[0] for stack in taken.counts}
    assert {"<module>", "Thread._bootstrap"} <= roots
    assert taken.misread < 0.25 * taken.attempts


def test_threads_that_wait_are_neither_stopped_nor_woken(start, collect, wait_until, python):
    target = start("waiting", 60, python=python)
    session = Engine().attach(target.pid, rate_hz=1000)
    wait_until(lambda: (batch := session.take()).attempts > 0 == batch.stops)
    taken = collect(session, 500)
    assert sum(batch.stops for batch in taken.batches) == taken.failed == 0
    states = taken.states_of("<module>", "Thread._bootstrap")
    assert min(states.lock, states.io, states.poll, states.sleep) > 0
    assert states.wall == states.off_cpu


def test_c_calls_that_wait_are_not_interrupted_beside_a_thread_that_computes(start, collect, python):
    target = start("waits", 60, python=python)
    taken = collect(Engine().attach(target.pid, rate_hz=1000), 1500)
    target.stdin.close()
    calls = json.loads(target.stdout.readline())
    assert all(undisturbed > 0 for undisturbed, _ in calls.values())
    assert {name: interrupted for name, (_, interrupted) in calls.items() if interrupted} == {}
    assert taken.states_of("compute").running > 0


def test_thread_names_and_tasks_are_not_read(start, collect, python):
    target = start("tasks", 60, python=python)
    session = Engine().attach(target.pid, rate_hz=200, thread_names=True, tasks_hz=50)
    taken = collect(session, 100)
    assert session.names_problem == "it is a free-threaded build"
    assert all(batch.tasks is None for batch in taken.batches)
    assert taken.of("compute")[1] > 0
