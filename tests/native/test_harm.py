"""Sampling does the target no harm: nothing that waits is disturbed, nobody is held up, nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sidelight_native import Engine

RATE_HZ = 2000


def threads(pid):
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]


def times_run(tid):
    """How often the kernel gave a thread a CPU."""
    return int(Path(f"/proc/{tid}/schedstat").read_text().split()[2])


@pytest.mark.parametrize("mode", ["gil", "blocking"])
def test_a_process_that_waits_is_sampled_without_being_stopped_or_woken(start, collect, wait_until, mode):
    target = start("waiting", 60)
    session = Engine().attach(target.pid, rate_hz=RATE_HZ, mode=mode)
    runs = {}

    def settled():
        before, batch = dict(runs), session.take()
        runs.update((tid, times_run(tid)) for tid in threads(target.pid))
        return before == runs and batch.attempts > 0 == batch.stops

    wait_until(settled)
    taken = collect(session, 500)
    assert sum(batch.stops for batch in taken.batches) == 0
    assert {tid: times_run(tid) for tid in threads(target.pid)} == runs
    assert taken.failed == 0
    assert all(running + gil == 0 for _, running, gil, *_ in taken.counts.values())
    assert len(taken.counts) == 5


def test_c_calls_that_wait_are_not_interrupted(start, collect):
    target = start("waits", 60)
    taken = collect(Engine().attach(target.pid, rate_hz=RATE_HZ, mode="gil"), 1500)
    target.stdin.close()
    calls = json.loads(target.stdout.readline())
    assert set(calls) == {"epoll_wait", "poll", "recv", "nanosleep"}
    assert all(undisturbed > 0 for undisturbed, _ in calls.values())
    assert {name: interrupted for name, (_, interrupted) in calls.items() if interrupted} == {}
    assert taken.of("compute")[2] > 0


@pytest.mark.parametrize("mode", ["gil", "blocking"])
def test_who_stops_and_continues_the_target_gets_what_was_asked_for(start, wait_until, state, mode):
    target = start("shares", 60)
    session = Engine().attach(target.pid, rate_hz=5000, mode=mode)
    for _ in range(30):
        os.kill(target.pid, signal.SIGSTOP)
        wait_until(lambda: state(target.pid) == "T")
        os.kill(target.pid, signal.SIGCONT)
        wait_until(lambda: state(target.pid) != "T")
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: state(target.pid) == "T")
    session.take()
    wait_until(lambda: session.take().errors.get("stopped", 0) > 0)
    assert state(target.pid) == "T"
    assert session.take().stops == 0
    os.kill(target.pid, signal.SIGCONT)
    wait_until(lambda: session.take().samples > 0)
    session.stop()


@pytest.mark.parametrize("mode", ["gil", "blocking"])
def test_a_thread_that_puts_another_program_in_the_process_is_not_held_up(start, wait_until, mode):
    for _ in range(4):
        target = start("execs_in_thread")
        session = Engine().attach(target.pid, rate_hz=10_000, mode=mode)
        wait_until(lambda session=session: session.take().samples > 0)
        target.stdin.write("\n")
        target.stdin.flush()
        assert target.stdout.readline() == "replaced\n"
        assert target.wait(60) == 0
        session.stop()


@pytest.mark.parametrize("mode", ["gil", "blocking"])
def test_a_parent_learns_of_an_exit_while_the_session_is_open(start, wait_until, mode):
    parent = start("reaps")
    engine = Engine()
    for _ in range(4):
        parent.stdin.write("\n")
        parent.stdin.flush()
        pid = int(parent.stdout.readline())
        session = engine.attach(pid, rate_hz=10_000, mode=mode)
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "7\n"
        wait_until(lambda session=session: session.ended is not None)
        assert session.ended == "exited"


def test_while_another_tracer_sits_there_ticks_are_counted_as_traced(start, wait_until):
    tracer = textwrap.dedent("""\
        import ctypes, sys
        PTRACE_SEIZE = 0x4206
        assert ctypes.CDLL(None).ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None) == 0
        print("seized", flush=True)
        sys.stdin.read()
    """)
    target = start("shares", 60)
    session = Engine().attach(target.pid, rate_hz=RATE_HZ, mode="gil")
    command = [sys.executable, "-c", tracer, str(target.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "seized\n"
        wait_until(lambda: session.take().errors.get("traced", 0) > 0)
        other.stdin.close()
    session.take()
    wait_until(lambda: session.take().stops > 0)
    session.stop()


@pytest.mark.parametrize("mode", ["gil", "blocking"])
def test_a_thread_that_cannot_stop_is_sampled_as_it_sleeps(start, wait_until, state, mode):
    target = start("uninterruptible")
    session = Engine().attach(target.pid, rate_hz=RATE_HZ, mode=mode)
    target.stdin.write("\n")
    target.stdin.flush()
    wait_until(lambda: state(target.pid) == "D")
    session.take()

    def settled():
        """A tick that began before may have failed."""
        batch = session.take()
        return batch.samples > 0 and not batch.errors

    wait_until(settled)
    batches = [session.take()]

    def sampled():
        batches.append(session.take())
        return sum(batch.samples for batch in batches) > 200

    wait_until(sampled)
    assert sum(batch.stops for batch in batches) == 0
    assert not any(batch.errors for batch in batches)
    os.write(target.stdin.fileno(), b"\n")
    assert target.stdout.readline() == "over\n"
    wait_until(lambda: session.ended is not None)
    assert session.ended == "exited"
