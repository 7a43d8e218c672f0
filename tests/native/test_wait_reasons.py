"""Threads that wait are counted by what they wait for: every sample of a thread has exactly one state."""

import json
import math
import subprocess
import sys

import pytest
from sidelight_native import Engine

from sidelight_model.counts import THREAD_STATES
from tests.native.conftest import Taken
from tests.native.test_gil_wait import NEWEST, READ_HERE, SAMPLE, WITHOUT_RIGHT
from tests.sidecar.test_permissions import needs_setpriv

REASONS = {
    "waiting_for_lock": "lock",
    "waiting_for_lock_with_timeout": "lock",
    "waiting_for_file_lock": "lock",
    "waiting_for_socket": "io",
    "waiting_for_pipe": "io",
    "waiting_for_client": "io",
    "waiting_in_select": "poll",
    "waiting_in_epoll": "poll",
    "sleeping": "sleep",
    "sleeping_in_select": "sleep",
    "waiting_for_signal": "idle",
    "<module>": "io",
}
TICKS = 300
# Six standard deviations of a share.
TOLERANCE = 6 * math.sqrt(0.25 / TICKS)


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(python, marks=[] if version == NEWEST else pytest.mark.long)
        for version, python in READ_HERE.items()
    ],
    ids=READ_HERE,
)
def test_waiting_threads_are_counted_by_what_they_wait_for(start, wait_until, python):
    target = start("wait_reasons", python=python)
    session = Engine().attach(target.pid, rate_hz=100)
    if session.reader == "own":
        assert session.missing_states == []
    first, taken = Taken(), Taken()

    def every_thread_waits():
        first.add(session.take())
        return all(first.of(function)[THREAD_STATES.index(state)] for function, state in REASONS.items())

    def enough():
        taken.add(session.take())
        return taken.attempts >= TICKS

    def ask_seconds_by_reason():
        print(file=target.stdin, flush=True)
        return json.loads(target.stdout.readline())

    wait_until(every_thread_waits)
    before = ask_seconds_by_reason()
    session.take()
    wait_until(enough)
    taken.add(session.stop())
    after = ask_seconds_by_reason()
    for function, state in REASONS.items():
        counts = taken.states_of(function)
        samples = getattr(counts, state)
        # The main thread answers at the beginning; a thread that could not be read in time is in no function.
        assert samples == counts.wall or function == "<module>", (function, counts)
        assert samples >= 0.9 * (taken.attempts - taken.failed), (function, counts)
    in_turn = taken.states_of("waiting_in_turn")
    late = sum(batch.late_ns for batch in taken.batches) / sum(batch.duration_ns for batch in taken.batches)
    seconds = {state: after[state] - before[state] for state in after}
    for state, spent in seconds.items():
        share = getattr(in_turn, state) / in_turn.wall
        assert share == pytest.approx(spent / sum(seconds.values()), abs=TOLERANCE + late), state
    # It computes for a part of the time, and its waits for a CPU or the GIL are no sleep.
    half = taken.states_of("waiting_half_of_the_time")
    assert half.sleep > 0 < half.gil
    assert half.off_cpu <= 0.75 * half.wall
    assert sum(map(sum, taken.counts.values())) == taken.samples


@needs_setpriv
def test_without_dac_read_search_all_reasons_are_missing_and_such_threads_are_idle(start, tmp_path):
    script = tmp_path / "sample.py"
    script.write_text(SAMPLE)
    command = [*WITHOUT_RIGHT, sys.executable, script, str(start("wait_reasons", "nobody").pid)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    missing, counts = json.loads(found.stdout)
    assert missing == ["gil_wait", "lock", "poll", "io", "sleep"]
    by_state = dict(zip(THREAD_STATES, counts, strict=True))
    assert by_state["idle"] > 0 == sum(by_state[state] for state in missing)
