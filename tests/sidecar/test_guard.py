from __future__ import annotations

import os
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.health import Board
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.samplers.attach_limiter import Turns
from sidelight_sidecar.samplers.guard import Found, Guard, Release, stuck
from sidelight_sidecar.samplers.pyspy_command import CommandSampler, CommandSession
from sidelight_sidecar.samplers.sampler import Sampler, SamplingError
from sidelight_sidecar.samplers.sampler_registry import Samplers
from sidelight_sidecar.sampling.guarded_session import Attachment
from sidelight_sidecar.sampling.session_handle import Hold
from tests.running import Running, eventually
from tests.sidecar.conftest import Start, proc_of, samplers

MODES = ["command", "blocking"]


def stopped(target: Running) -> bool:
    return stuck(ProcFs().thread_states(target.pid))


def runs(target: Running) -> bool:
    """Whether it gets anything done: its CPU time grows."""
    before = ProcFs().stat(target.pid)
    assert before is not None

    def grown() -> bool:
        now = ProcFs().stat(target.pid)
        return now is not None and before is not None and now.cpu_ns > before.cpu_ns

    return eventually("the target works", grown)


def attach(sampler: Sampler, target: Running) -> Attachment:
    guard = Guard(ProcFs())
    return Attachment.open(sampler, guard, proc_of(target), rate_hz=100, window_seconds=5)


@pytest.mark.parametrize("mode", MODES)
def test_a_target_runs_on_after_it_was_sampled(mode: str, start: Start) -> None:
    target = start("spin")
    attachment = attach(samplers().get(mode), target)
    sampled, release = attachment.close()
    assert release is Release.NOTHING
    assert sampled.quality.mode == mode
    assert runs(target)


@pytest.mark.parametrize("mode", MODES)
def test_a_target_found_stopped_when_its_session_ends_is_resumed(mode: str, start: Start) -> None:
    target = start("spin")
    attachment = attach(samplers().get(mode), target)
    os.kill(target.pid, signal.SIGSTOP)
    eventually("the target is stopped", lambda: stopped(target))
    _, release = attachment.close()
    assert release is Release.RESUMED
    assert runs(target)


def test_a_target_runs_on_though_py_spy_is_killed_in_the_middle_of_a_sample(start: Start) -> None:
    target = start("spin")
    sampler = samplers().get("command")
    assert isinstance(sampler, CommandSampler)
    guard = Guard(ProcFs())
    for _ in range(5):
        found = guard.before(proc_of(target).key)
        session = sampler.attach(proc_of(target), rate_hz=1000, window_seconds=5)
        assert isinstance(session, CommandSession)
        assert session.pid is not None
        os.kill(session.pid, signal.SIGKILL)
        eventually("the session notices", lambda session=session: session.ended)
        sampled, _ = Attachment(session, guard, found).close()
        assert sampled.quality.errors == {"no_output": 1}
        assert not stopped(target)
    assert runs(target)


def test_a_target_that_somebody_stopped_before_is_neither_sampled_nor_resumed(start: Start) -> None:
    target = start("spin")
    os.kill(target.pid, signal.SIGSTOP)
    eventually("the target is stopped", lambda: stopped(target))
    guard = Guard(ProcFs())
    with pytest.raises(SamplingError, match="is stopped") as refused:
        attach(samplers().get("blocking"), target)
    assert f"kill -CONT {target.pid}" in refused.value.hint
    found = guard.before(proc_of(target).key)
    assert guard.after(found, died=True) is Release.NOTHING
    assert stopped(target)


def test_another_process_with_the_same_pid_is_not_signalled(start: Start) -> None:
    target = start("spin")
    key = proc_of(target).key
    os.kill(target.pid, signal.SIGSTOP)
    eventually("the target is stopped", lambda: stopped(target))
    earlier = Found(key._replace(start_ticks=key.start_ticks - 1), stopped=False)
    assert Guard(ProcFs()).after(earlier, died=True) is Release.NOTHING
    assert stopped(target)


def test_a_target_that_is_gone_needs_nothing(start: Start) -> None:
    target = start("spin")
    found = Guard(ProcFs()).before(proc_of(target).key)
    target.end()
    assert Guard(ProcFs()).after(found, died=True) is Release.NOTHING


@given(st.lists(st.tuples(st.sampled_from("RSDTtZI"), st.sampled_from([0, 0, 99]))))
def test_only_a_stopped_thread_that_nobody_traces_is_stuck(threads: list[tuple[str, int]]) -> None:
    assert stuck(threads) == (("T", 0) in threads or ("t", 0) in threads)


def test_samplers_are_chosen_by_mode_and_the_command_stands_in_for_the_extension() -> None:
    assert samplers().get("auto").mode == "auto"
    assert samplers().get("nonblocking").mode == "nonblocking"
    without = Samplers(None, ProcFs(), max_depth=100)
    assert without.get("auto").mode == "command"
    assert without.get("auto").missing_states == ("gil", "idle")
    with pytest.raises(SamplingError) as refused:
        without.get("blocking")
    assert refused.value.reason == "sampler_missing"


class Powerless(Guard):
    """A guard that finds the target stopped and may not resume it."""

    def after(self, found: Found, *, died: bool) -> Release:
        return Release.DENIED


async def test_what_is_said_of_a_target_left_stopped_is_taken_back_when_it_runs_again(start: Start) -> None:
    board = Board()
    target = start("spin")
    hold = Hold(proc_of(target), Powerless(ProcFs()), Turns(time.monotonic, lambda: 0.5), Metrics(), board)
    await hold.attach(samplers().get("blocking"), 100, 1.0)
    await hold.detach()
    (problem,) = board.problems.values()
    assert f"kill -CONT {target.pid}" in problem.hint
    await hold.attach(samplers().get("blocking"), 100, 1.0)
    assert board.problems == {}
    await hold.detach()
    hold.forget()
    assert board.problems == {}
