"""Known programs come back with the shares they were written to have."""

import json
import subprocess
import sys

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
    # Mostly: having slept, a thread may wait for a CPU before it goes on, and that is not idle.
    idle, running, gil = taken.of(function)
    return idle > running + gil


def test_a_program_with_known_shares_comes_back_with_them(start, collect):
    check_shares(*watch_shares(start, collect))


def test_computing_holds_the_gil(start, collect):
    taken, _ = watch_shares(start, collect)
    idle, running, gil = taken.of("spin")
    assert gil / (idle + running + gil) > 0.9


def test_the_cpu_time_of_target_and_sampler_is_measured(start, collect):
    target = start("shares", 30)
    taken = collect(Engine().attach(target.pid, rate_hz=100), 300)
    seconds = sum(batch.duration_ns for batch in taken.batches) / 1e9
    target_cores = sum(batch.target_cpu_ns for batch in taken.batches) / 1e9 / seconds
    sampler_cores = sum(batch.sampler_cpu_ns for batch in taken.batches) / 1e9 / seconds
    assert 0.05 < target_cores < 0.7
    assert 0 < sampler_cores < 0.5


def test_each_thread_is_sampled_with_its_own_state(start, collect):
    target = start("workers", 30)
    taken = collect(Engine().attach(target.pid, rate_hz=100), 800)
    assert max(batch.threads for batch in taken.batches) == 4
    idle, running, gil = taken.of("spinning")
    assert (running + gil) / (idle + running + gil) > 0.9
    assert mostly_idle(taken, "waiting")
    assert mostly_idle(taken, "sleeping")
    assert sum(taken.of("spinning")) == sum(taken.of("waiting"))


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
    taken = collect(Engine().attach(worker, rate_hz=100), 200)
    assert mostly_idle(taken, "waiting")
