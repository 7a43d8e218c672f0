"""Known programs come back with the shares they were written to have."""

import json
import subprocess
import sys
import time

import pytest
from sidelight_native import Engine

from tests.native.conftest import PYTHONS

# 800 samples of a share near one half scatter by 1.8 points (one standard deviation).
TOLERANCE = 0.07


def watch_shares(start, collect, python=sys.executable):
    """The samples of a whole run, and the seconds the program says it spent: a busy machine shifts them."""
    target = start("shares", 4, python=str(python))
    session = Engine().attach(target.pid, rate_hz=200)
    spent = json.loads(target.stdout.readline())
    return collect(session, 0), spent


def check_shares(taken, spent):
    seconds = sum(batch.duration_ns for batch in taken.batches) / 1e9
    # What was not looked at can have been anything: on a crowded machine ticks are skipped, and counted.
    tolerance = TOLERANCE + sum(batch.late_ns for batch in taken.batches) / 1e9 / seconds
    seen = {name: sum(taken.of(name)) for name in spent}
    for name in spent:
        share = spent[name] / sum(spent.values())
        assert seen[name] / sum(seen.values()) == pytest.approx(share, abs=tolerance)
    assert mostly_idle(taken, "rest")


def mostly_idle(taken, function):
    counts = taken.states_of(function)
    return counts.off_cpu > counts.cpu


def test_a_program_with_known_shares_comes_back_with_them_and_computing_holds_the_gil(start, collect):
    taken, spent = watch_shares(start, collect)
    check_shares(taken, spent)
    counts = taken.states_of("spin")
    assert counts.gil / (counts.off_cpu + counts.cpu) > 0.9


def cpu_ns(pid):
    """The CPU time of another process; its clock's id is made as by clock_getcpuclockid(3)."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def test_the_cpu_time_of_target_and_sampler_is_measured(start, wait_until):
    target = start("shares", 60)
    before, own = cpu_ns(target.pid), time.process_time_ns()
    session = Engine().attach(target.pid, rate_hz=200)
    attached = cpu_ns(target.pid)
    wait_until(lambda: cpu_ns(target.pid) > attached + 200_000_000)
    batch = session.stop()
    most, own = cpu_ns(target.pid) - before, time.process_time_ns() - own
    assert 200_000_000 < batch.target_cpu_ns <= most
    assert 0 < batch.sampler_cpu_ns <= own


def test_each_thread_is_sampled_with_its_own_state(start, collect):
    target = start("workers", 30)
    taken = collect(Engine().attach(target.pid, rate_hz=200), 400)
    assert max(batch.threads for batch in taken.batches) == 4
    counts = taken.states_of("spinning")
    assert counts.wall - counts.off_cpu > counts.off_cpu
    assert mostly_idle(taken, "waiting")
    assert mostly_idle(taken, "sleeping")
    assert sum(taken.of("spinning")) == sum(taken.of("waiting"))


@pytest.mark.long
@pytest.mark.parametrize("python", PYTHONS.values(), ids=PYTHONS)
def test_every_installed_python_is_sampled_alike(start, collect, python):
    version = subprocess.check_output([python, "-c", "import sys; print(sys.version.split()[0])"], text=True)
    taken, spent = watch_shares(start, collect, python)
    assert taken.batches[0].python == version.strip()
    check_shares(taken, spent)


def test_a_worker_forked_in_c_is_seen_waiting(start, collect):
    """The interpreter of such a worker still names its thread by the parent's id."""
    master = start("forks_in_c", 20)
    worker = int(master.stdout.readline())
    taken = collect(Engine().attach(worker, rate_hz=200), 100)
    assert mostly_idle(taken, "waiting")
