"""Being sampled does a program no harm: the short form of `make test-harm`, which does more of everything.

Nothing here depends on how fast the machine is; figures that do are printed by the long form. Each trial runs
on the interpreter that runs the tests; on the oldest and the newest, and at length, it is a long test.
"""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.harm import trials
from tests.harm.trials import Report, judged, watch_it_stand
from tests.harm.victims import until, victim
from tests.truth import interpreters

HERE = Path(sys.executable)
FEW = interpreters.few()
long = pytest.mark.long
on_few_pythons = pytest.mark.parametrize(
    "python",
    [
        pytest.param(path, id=f"3.{minor}", marks=[] if minor == sys.version_info.minor else long)
        for minor, path in FEW.items()
    ]
    + [pytest.param(path, id=version, marks=long) for version, path in interpreters.free_threaded().items()],
)


@on_few_pythons
def test_calls_that_wait_in_c_are_not_interrupted_where_only_the_gil_holder_is_stopped(python):
    assert trials.waiting(python, 200).broken == []


def test_the_check_of_waiting_calls_sees_what_stopping_every_thread_does_to_them():
    with victim(HERE) as target:

        def interrupted():
            waits = target.waits().items()
            return {name for name, of in waits if of.interrupted and name[0] != "again"}

        def disturbed():
            assert [target.library.disturb(tid) for tid in target.threads()] == [0] * len(target.threads())
            return interrupted() >= {
                (who, call) for who in ("c", "inside") for call in ("epoll_wait", "recv")
            }

        assert interrupted() == set()
        until("the calls that the kernel does not begin anew were interrupted", disturbed)


@on_few_pythons
def test_every_signal_is_handled_exactly_once(python):
    assert trials.signalled(python, 1000).broken == []


def test_the_check_of_signals_misses_the_one_that_a_bad_tracer_keeps():
    with victim(HERE) as target:
        target.signal()
        until("it arrives", target.all_arrived)
        library, sent = target.library, target.sent
        assert library.lose_signal(target.pid, target.pid, signal.SIGRTMIN, sent) == 0
        target.sent += 1
        target.signal()
        until("the one after it arrives", lambda: target.arrived()[-1])
        assert target.arrived() == b"\1\0\1"
        assert not target.all_arrived()


@long
def test_a_machine_with_too_few_processors_costs_ticks_and_nothing_else():
    assert trials.crowded(HERE, 30).broken == []


@on_few_pythons
def test_who_stops_the_target_decides_when_it_goes_on(python):
    assert trials.stopped(python, 4).broken == []


def test_the_check_of_stopped_targets_sees_one_that_goes_on_by_itself():
    report = Report("a target that somebody continued")
    with victim(HERE) as target:
        trials.stop(target)
        assert set(trials.states(target)) == {"T"} == set(target.standing().values())
        looks = iter(range(20))

        def continued_by_somebody():
            os.kill(target.pid, signal.SIGCONT)
            return next(looks, None) is None and target.rounds() > stood_at

        stood_at = target.rounds()
        watch_it_stand(target, report, continued_by_somebody)
    assert report.broken


@on_few_pythons
def test_a_sampler_that_is_killed_leaves_nothing_stopped_and_no_signal_behind(python):
    assert trials.killed(python, 5).broken == []


def test_an_event_loop_whose_tasks_are_read_loses_no_work():
    assert trials.tasks(HERE, 60).broken == []


def test_two_samplers_on_one_target_get_in_each_others_way_and_do_no_harm():
    assert trials.twice(HERE, 3).broken == []


def test_processes_that_fork_replace_themselves_and_exit_end_as_they_should():
    assert trials.storm(HERE, 1.0).broken == []


@pytest.mark.parametrize(
    ("samples", "seconds"), [(20_000, 2), pytest.param(200_000, 8, marks=long)], ids=["short", "long"]
)
def test_many_samples_take_no_more_memory_and_no_more_descriptors(samples, seconds):
    assert trials.soaked(HERE, samples, seconds).broken == []


@pytest.mark.parametrize(
    ("growing", "per_row", "broken"),
    [("resident", 10_000, 0), ("resident", 100_000, 1), ("open", 0, 0), ("open", 1, 1)],
)
def test_the_check_of_growth_sees_it(growing, per_row, broken):
    row = {"samples": 1, "attempts": 1, "failed": 0, "longest_stop_ns": 0, "resident": 20_000_000, "open": 9}
    during = [{**row, growing: row[growing] + n * per_row} for n in range(100)]
    assert len(judged(Report("growth"), [row, *during, row]).broken) == broken
