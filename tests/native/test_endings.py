"""What may happen to a target while it is sampled, and that sampling never harms it."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sidelight_native import Engine

from tests.native.conftest import PYTHONS, Taken, apart, not_python

# One that the own reader reads, and one for the py-spy reader.
MAIN_ENDED_PYTHONS = [version for version in PYTHONS if version.startswith(("3.10.", "3.12."))] or list(
    PYTHONS
)


def test_a_target_that_exits_ends_the_session_with_what_was_left(start, wait_until):
    target = start("contends", 1)
    session = Engine().attach(target.pid, rate_hz=200, timed=1)
    wait_until(lambda: session.timeline().samples)
    target.stdin.close()
    wait_until(lambda: session.ended is not None)
    assert session.ended == "exited"
    left = session.take()
    assert left.samples > 0
    assert left.target_cpu_ns > 0
    assert session.take().duration_ns == 0
    assert session.stop().samples == 0
    assert target.wait() == 0


def test_a_target_that_replaces_itself_ends_the_session(start, wait_until):
    target = start("replaced")
    session = Engine().attach(target.pid, rate_hz=200)
    wait_until(lambda: session.take().samples > 0)
    target.stdin.write("\n")
    target.stdin.flush()
    wait_until(lambda: session.ended is not None)
    assert session.ended == "exec"
    assert target.stdout.readline() == "replaced\n"
    session.stop()


def test_a_process_that_is_not_python_is_refused_by_pid():
    with not_python() as pid, pytest.raises(ValueError, match=str(pid)):
        Engine().attach(pid, rate_hz=100)


@pytest.mark.parametrize("pid", [2**22 + 1, 0, -1])
def test_a_pid_without_a_process_is_a_lookup_error(pid):
    with pytest.raises(ProcessLookupError, match=str(pid)):
        Engine().attach(pid, rate_hz=100)


def test_a_process_that_has_exited_but_was_not_reaped_is_a_lookup_error(start, wait_until, state):
    target = start("shares", 0)
    wait_until(lambda: state(target.pid) == "Z")
    with pytest.raises(ProcessLookupError, match=str(target.pid)):
        Engine().attach(target.pid, rate_hz=100)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_process_of_somebody_else_is_a_permission_error(start):
    target = start("shares", 30)
    child = os.fork()
    if child == 0:
        os.setresuid(65534, 65534, 65534)
        try:
            Engine().attach(target.pid, rate_hz=100)
        except PermissionError as error:
            os._exit(0 if str(target.pid) in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_stopped_process_is_left_alone_and_sampled_again_when_it_goes_on(start, wait_until, state):
    target = start("shares", 60)
    session = Engine().attach(target.pid, rate_hz=200)
    batches = []

    def stopped_ticks():
        batches.append(session.take())
        return sum(batch.errors.get("stopped", 0) for batch in batches)

    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: stopped_ticks() > 10)
    assert state(target.pid) == "T"
    assert session.take().samples == 0
    os.kill(target.pid, signal.SIGCONT)
    wait_until(lambda: session.take().samples > 0)
    session.stop()


def test_attaching_to_a_stopped_process_says_so(start, wait_until, state):
    target = start("shares", 30)
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: state(target.pid) == "T")
    with pytest.raises(ValueError, match=f"{target.pid} is stopped"):
        Engine().attach(target.pid, rate_hz=200)
    assert state(target.pid) == "T"


def test_a_target_is_not_left_stopped_when_sampling_ends(start, collect, wait_until, state):
    target = start("workers", 60)
    for _ in range(4):
        collect(Engine().attach(target.pid, rate_hz=1000), 20)
        wait_until(lambda: state(target.pid) not in "Tt")
        assert stopped_threads(target.pid, state) == []


def test_a_target_is_not_left_stopped_when_the_sampler_is_killed(start, wait_until, state):
    target = start("workers", 60)
    sampler = textwrap.dedent("""\
        import sys, time
        from sidelight_native import Engine
        session = Engine().attach(int(sys.argv[1]), rate_hz=5000, mode="blocking")
        print("sampling", flush=True)
        time.sleep(30)
    """)
    times, caught = 6, 0
    for _ in range(times):
        command = [sys.executable, "-c", sampler, str(target.pid)]
        with (
            apart(target.pid) as its_cpu,
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        ):
            assert process.stdout.readline() == "sampling\n"
            # Who looks runs in the target's place while that is stopped. On the sampler's CPU it would have
            # to wait for the sampler, which goes first and leaves nothing stopped behind.
            os.sched_setaffinity(0, {its_cpu})
            wait_until(lambda: stopped_threads(target.pid, state) != [])
            caught += 1
            process.kill()
        wait_until(lambda: stopped_threads(target.pid, state) == [])
    assert caught == times


def stopped_threads(pid, state):
    return [task for task in Path(f"/proc/{pid}/task").iterdir() if state(f"{pid}/task/{task.name}") in "Tt"]


def test_every_signal_for_the_target_still_arrives(start):
    target = start("signals")
    session = Engine().attach(target.pid, rate_hz=2000)
    answered = samples = 0
    while answered < 200 or not samples:
        os.kill(target.pid, signal.SIGUSR1)
        assert target.stdout.readline() == "got\n"
        answered, samples = answered + 1, samples + session.take().samples
    session.stop()


def test_threads_and_children_that_come_and_go_do_not_disturb_sampling(start, wait_until):
    target = start("churn", 60)
    session, taken = Engine().attach(target.pid, rate_hz=500), Taken()

    def enough():
        taken.add(session.take())
        return taken.attempts >= 500

    wait_until(enough)
    target.stdin.close()
    assert target.stdout.readline() == "done\n"
    taken.add(session.stop())
    assert target.wait() == 0
    assert taken.samples > 0
    assert taken.misread < 0.05 * taken.attempts


@pytest.mark.parametrize("python", MAIN_ENDED_PYTHONS)
@pytest.mark.parametrize("when", ["now", "later"])
def test_a_process_whose_main_thread_has_ended_is_sampled_on(start, wait_until, state, python, when):
    target = start("main_ended", 60, when, python=str(PYTHONS[python]))
    if when == "now":
        wait_until(lambda: state(target.pid) == "Z")
    session = Engine(max_stop_us=20_000).attach(target.pid, rate_hz=200)
    if when == "later":
        wait_until(lambda: session.take().samples > 0)
        target.stdin.write("end\n")
        target.stdin.flush()
        wait_until(lambda: state(target.pid) == "Z")
        session.take()
    counts = {}

    def found() -> bool:
        for _, stack, *states in session.take().counts:
            counts[stack] = counts.get(stack, 0) + sum(states)
        return sum(count for stack, count in counts.items() if ";work (" in stack) >= 50

    wait_until(found)
    assert session.ended is None
    target.kill()
    wait_until(lambda: session.ended is not None)
    assert session.ended == "exited"
