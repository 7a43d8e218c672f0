"""CPU samples are on a CPU: threads that are runnable and have none are `cpu_wait`.

The kernel's own figures are the truth: schedstat has the nanoseconds that each thread was on a CPU, and those
that it was runnable without one.
"""

import math
import os
from pathlib import Path

import pytest
import sidelight_native
from sidelight_native import Engine

from sidelight_model.counts import STATES, THREAD_STATES, Counts

RATE_HZ = 100
TICKS = 400
# Six standard deviations of a share of independent samples; neighbours share time slices.
SHARE_TOLERANCE = 6 * math.sqrt(0.25 / TICKS)


def kernel_seconds(pid):
    """The seconds of all threads on a CPU, and runnable without one."""
    rows = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return tuple(sum(int(row[at]) for row in rows) / 1e9 for at in (0, 1))


def watch(start, wait_until, kind, spinners, mode="auto"):
    """Sample a target that shares one CPU: samples by state, and seconds by the kernel."""
    cpu = max(os.sched_getaffinity(0))
    target = start("on_one_cpu", kind, cpu)
    for _ in range(spinners):
        start("on_one_cpu", "spins", cpu)
    session = Engine().attach(target.pid, rate_hz=RATE_HZ, mode=mode)
    assert session.missing_states == []
    session.take()
    before, batches = kernel_seconds(target.pid), []

    def enough():
        batches.append(session.take())
        return sum(batch.attempts for batch in batches) >= TICKS

    wait_until(enough)
    batches.append(session.stop())
    on_cpu, waited = (b - a for a, b in zip(before, kernel_seconds(target.pid), strict=True))
    late = sum(batch.late_ns for batch in batches) / sum(batch.duration_ns for batch in batches)
    samples = [
        sum(row[2 + at] for batch in batches for row in batch.counts) for at in range(len(THREAD_STATES))
    ]
    return dict(zip(THREAD_STATES, samples, strict=True)), on_cpu, waited, late


@pytest.mark.parametrize("mode", ["gil", "blocking", "nonblocking"])
@pytest.mark.parametrize("spinners", [0, 2])
def test_a_spinning_thread_waits_for_a_cpu_as_long_as_the_kernel_says(start, wait_until, spinners, mode):
    samples, on_cpu, waited, late = watch(start, wait_until, "spins", spinners, mode)
    share = samples["cpu_wait"] / sum(samples.values())
    assert share == pytest.approx(waited / (waited + on_cpu), abs=SHARE_TOLERANCE + late)
    assert spinners == 0 or share > 0.4
    assert Counts(**samples).off_cpu == 0


def test_workers_that_wait_have_no_more_cpu_samples_than_their_clock(start, wait_until):
    samples, on_cpu, waited, late = watch(start, wait_until, "pool", 2)
    seen, expected = samples["running"] + samples["gil"], on_cpu * RATE_HZ
    assert seen <= expected + 6 * math.sqrt(expected) + 6 + late * sum(samples.values())
    # Threads that sleep at one sample and wait for a CPU at the next wait for that at both: some are missing.
    expected = waited * RATE_HZ
    assert samples["cpu_wait"] >= 0.5 * expected - 6 * math.sqrt(expected) - late * sum(samples.values())


def test_the_extension_has_the_states_of_the_model():
    assert tuple(sidelight_native.STATES) == STATES
