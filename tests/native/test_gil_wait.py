"""Threads that sleep until they get the GIL are `gil_wait`, and no others.

The kernel's own figures are the truth: a thread that computes sleeps for nothing but the GIL. So what
schedstat neither counts as on a CPU nor as runnable without one, it waited for the GIL.
"""

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sidelight_native import Engine

from sidelight_model.counts import STATES
from tests.native.conftest import PYTHONS, Taken
from tests.sidecar.test_permissions import needs_setpriv

THREADS = 4
TICKS = 300
# Six standard deviations of a share; the threads of one GIL count as one, because they depend on each other.
TOLERANCE = 6 * math.sqrt(0.25 / TICKS)
WITHOUT_RIGHT = ("setpriv", "--bounding-set", "-all,+sys_ptrace", "--inh-caps", "-all")
READ_HERE = {version: python for version, python in PYTHONS.items() if int(version.split(".")[1]) >= 7}
NEWEST = list(READ_HERE)[-1]


SAMPLE = """
import json, sys
from sidelight_native import Engine
session = Engine().attach(int(sys.argv[1]), rate_hz=200)
counts = [0] * 9
while sum(counts) < 600:
    for row in session.take().counts:
        counts = [a + b for a, b in zip(counts, row[2:])]
print(json.dumps([session.missing_states, counts]))
"""


def scheduled_seconds(pid):
    """The seconds of each thread that the kernel had on a CPU or runnable without one."""
    rows = {
        path.parent.name: path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
    }
    return {tid: (int(row[0]) + int(row[1])) / 1e9 for tid, row in rows.items()}


def watch(target, wait_until):
    """Sample a target: samples, seconds slept by each thread (busiest first), seconds in all, lateness."""
    session = Engine().attach(target.pid, rate_hz=100)
    assert session.missing_states == []
    session.take()
    before, began, taken = scheduled_seconds(target.pid), time.monotonic(), Taken()

    def enough():
        taken.add(session.take())
        return taken.attempts >= TICKS

    wait_until(enough)
    taken.add(session.stop())
    after, seconds = scheduled_seconds(target.pid), time.monotonic() - began
    spent = sorted((after[tid] - before[tid] for tid in before), reverse=True)
    late = sum(batch.late_ns for batch in taken.batches) / sum(batch.duration_ns for batch in taken.batches)
    return taken, [seconds - one for one in spent], seconds, late


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(python, marks=[] if version == NEWEST else pytest.mark.long)
        for version, python in READ_HERE.items()
    ],
    ids=READ_HERE,
)
def test_threads_that_compute_wait_for_the_gil_as_long_as_they_sleep(start, wait_until, python):
    target = start("contends", THREADS, python=python)
    taken, slept, seconds, late = watch(target, wait_until)
    computing = taken.states_of("computing")
    share = computing.gil_wait / computing.wall
    # Threads woken since the last sample that have had no CPU yet still count as waiting: a few in a hundred.
    truth = sum(slept[:THREADS]) / (THREADS * seconds)
    assert share == pytest.approx(truth, abs=TOLERANCE + late)
    assert share > 0.2
    assert computing.off_cpu / computing.wall < 0.05 + late
    locked = taken.states_of("locked")
    assert locked.wall == locked.lock > 0


def test_a_single_thread_never_waits_for_the_gil(start, wait_until):
    taken, slept, seconds, _ = watch(start("contends", 1), wait_until)
    computing = taken.states_of("computing")
    # The thread that sleeps wants it fifty times a second, and has it until a CPU is free for it.
    assert computing.gil_wait <= (0.1 + slept[0] / seconds) * computing.wall


@pytest.mark.skipif(int(NEWEST.split(".")[1]) < 13, reason="needs Python 3.13's _interpreters")
def test_each_interpreter_with_a_gil_of_its_own_has_its_waiters(start, wait_until):
    taken, slept, seconds, late = watch(
        start("contends", 2, "isolated", python=READ_HERE[NEWEST]), wait_until
    )
    computing = taken.states_of("computing")
    share = computing.gil_wait / computing.wall
    assert share == pytest.approx(sum(slept[:4]) / (4 * seconds), abs=TOLERANCE + late)
    assert computing.off_cpu / computing.wall < 0.05 + late


@needs_setpriv
def test_without_dac_read_search_the_state_is_missing_and_such_threads_are_idle(start, tmp_path):
    target = start("contends", THREADS, "nobody")
    script = tmp_path / "sample.py"
    script.write_text(SAMPLE)
    command = [*WITHOUT_RIGHT, sys.executable, script, str(target.pid)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    missing, counts = json.loads(found.stdout)
    assert missing == ["gil_wait", "lock", "poll", "io", "sleep"]
    assert counts[STATES.index("gil_wait")] == 0 < counts[STATES.index("idle")]
