from __future__ import annotations

import os
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.counts import FURTHER_STATES
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.samplers.attach_limiter import AttachLimiter
from sidelight_sidecar.samplers.guard import Guard, ResumeOutcome, TargetState, has_stopped_thread
from sidelight_sidecar.samplers.pyspy_command import CommandSession
from sidelight_sidecar.samplers.sampler import Sampler, SamplingError, Session
from sidelight_sidecar.samplers.sampler_registry import SamplerRegistry
from sidelight_sidecar.sampling.session_handle import SessionHandle
from tests.processes import Running, eventually
from tests.sidecar.conftest import Start, proc_of, samplers

MODES = ["command", "blocking"]


def stopped(target: Running) -> bool:
    return has_stopped_thread(ProcFs().read_thread_states(target.pid))


def runs(target: Running) -> bool:
    """Whether it gets anything done: its CPU time grows."""
    before = ProcFs().read_stat(target.pid)
    assert before is not None

    def grown() -> bool:
        now = ProcFs().read_stat(target.pid)
        return now is not None and before is not None and now.cpu_ns > before.cpu_ns

    return eventually("the target works", grown)


class Sessions:
    """Handles on sessions, with the metrics they count in."""

    def __init__(self, guard: Guard | None = None) -> None:
        self.guard = guard or Guard(ProcFs())
        self.metrics = SidecarMetrics()
        self.health = HealthBoard()

    def handle(self, target: Running) -> SessionHandle:
        limiter = AttachLimiter(time.monotonic, lambda: 0.5)
        return SessionHandle(proc_of(target), self.guard, limiter, self.metrics, self.health)

    def resumed(self) -> float:
        value = self.metrics.registry.get_sample_value(
            "sidelight_sidecar_targets_resumed_total", {"outcome": ResumeOutcome.RESUMED.value}
        )
        return value or 0.0


@pytest.mark.parametrize("mode", MODES)
async def test_a_target_runs_on_after_it_was_sampled(mode: str, start: Start) -> None:
    target, sessions = start("spin"), Sessions()
    handle = sessions.handle(target)
    await handle.attach(samplers().get(mode), 100, 5)
    sampled = await handle.detach()
    assert sessions.resumed() == 0
    assert sampled.quality.mode == mode
    assert runs(target)


@pytest.mark.parametrize("mode", MODES)
async def test_a_target_found_stopped_when_its_session_ends_is_resumed(mode: str, start: Start) -> None:
    target, sessions = start("spin"), Sessions()
    handle = sessions.handle(target)
    await handle.attach(samplers().get(mode), 100, 5)
    os.kill(target.pid, signal.SIGSTOP)
    eventually("the target is stopped", lambda: stopped(target))
    await handle.detach()
    assert sessions.resumed() == 1
    assert runs(target)


async def test_a_target_runs_on_though_py_spy_is_killed_in_the_middle_of_a_sample(start: Start) -> None:
    target, sessions = start("spin"), Sessions()
    sampler = Remembers(samplers().get("command"))
    for _ in range(5):
        handle = sessions.handle(target)
        await handle.attach(sampler, 1000, 5)
        assert isinstance(sampler.session, CommandSession)
        assert sampler.session.pid is not None
        os.kill(sampler.session.pid, signal.SIGKILL)
        eventually("the session notices", lambda handle=handle: handle.end_reason)
        sampled = await handle.detach()
        assert sampled.quality.errors == {"no_output": 1}
        assert not stopped(target)
    assert runs(target)


class Remembers:
    """A sampler whose last session can be looked at."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self.session: Session | None = None

    def attach(self, proc: Proc, *, rate_hz: float, window_seconds: float) -> Session:
        self.session = self._sampler.attach(proc, rate_hz=rate_hz, window_seconds=window_seconds)
        return self.session


async def test_a_target_that_somebody_stopped_before_is_neither_sampled_nor_resumed(start: Start) -> None:
    target = start("spin")
    os.kill(target.pid, signal.SIGSTOP)
    eventually("the target is stopped", lambda: stopped(target))
    guard = Guard(ProcFs())
    with pytest.raises(SamplingError, match="is stopped") as refused:
        await Sessions(guard).handle(target).attach(samplers().get("blocking"), 100, 5)
    assert f"kill -CONT {target.pid}" in refused.value.hint
    found = guard.record_state(proc_of(target).key)
    assert guard.resume_if_stopped(found, has_crashed=True) is ResumeOutcome.NOTHING
    assert stopped(target)


def test_another_process_with_the_same_pid_is_not_signalled(start: Start) -> None:
    target = start("spin")
    key = proc_of(target).key
    os.kill(target.pid, signal.SIGSTOP)
    eventually("the target is stopped", lambda: stopped(target))
    earlier = TargetState(key._replace(start_ticks=key.start_ticks - 1), is_stopped=False)
    assert Guard(ProcFs()).resume_if_stopped(earlier, has_crashed=True) is ResumeOutcome.NOTHING
    assert stopped(target)


def test_a_target_that_is_gone_needs_nothing(start: Start) -> None:
    target = start("spin")
    found = Guard(ProcFs()).record_state(proc_of(target).key)
    target.end()
    assert Guard(ProcFs()).resume_if_stopped(found, has_crashed=True) is ResumeOutcome.NOTHING


@given(st.lists(st.tuples(st.sampled_from("RSDTtZI"), st.sampled_from([0, 0, 99]))))
def test_only_a_stopped_thread_that_nobody_traces_is_stuck(threads: list[tuple[str, int]]) -> None:
    assert has_stopped_thread(threads) == (("T", 0) in threads or ("t", 0) in threads)


def test_samplers_are_chosen_by_mode_and_the_command_stands_in_for_the_extension() -> None:
    assert samplers().get("auto").mode == "auto"
    assert samplers().get("nonblocking").mode == "nonblocking"
    without = SamplerRegistry(None, ProcFs(), max_depth=100)
    assert without.get("auto").mode == "command"
    assert without.get("auto").missing_states == ("gil", "idle", *FURTHER_STATES)
    with pytest.raises(SamplingError) as refused:
        without.get("blocking")
    assert refused.value.reason == "sampler_missing"


class Powerless(Guard):
    """A guard that finds the target stopped and may not resume it."""

    def resume_if_stopped(self, target_state: TargetState, *, has_crashed: bool) -> ResumeOutcome:
        return ResumeOutcome.DENIED


async def test_what_is_said_of_a_target_left_stopped_is_taken_back_when_it_runs_again(start: Start) -> None:
    target, sessions = start("spin"), Sessions(Powerless(ProcFs()))
    board, hold = sessions.health, sessions.handle(target)
    await hold.attach(samplers().get("blocking"), 100, 1.0)
    await hold.detach()
    (problem,) = board.issues.values()
    assert f"kill -CONT {target.pid}" in problem.hint
    await hold.attach(samplers().get("blocking"), 100, 1.0)
    assert board.issues == {}
    await hold.detach()
    hold.clear_stopped()
    assert board.issues == {}
