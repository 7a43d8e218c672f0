"""Both samplers on real processes."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import psutil
import pytest

from sidelight_model.counts import FURTHER_STATES, Counts
from sidelight_model.errors import Reason
from sidelight_model.folded import Stack
from sidelight_model.window import Quality
from sidelight_sidecar.discovery.processes import Proc, ProcessKey
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.samplers import native_sampler
from sidelight_sidecar.samplers.pyspy_command import CommandSampler
from sidelight_sidecar.samplers.pyspy_output import (
    parse_counts,
    parse_error_count,
    parse_failure,
    parse_late_ns,
)
from sidelight_sidecar.samplers.sampler import SampleBatch, Sampler, SamplingError, Session
from sidelight_sidecar.samplers.sampler_registry import SamplerRegistry
from tests.processes import Running, eventually, running
from tests.sidecar.conftest import Start, proc_of, samplers

MODES = ["command", "auto"]


def sample(session: Session, target: Running, least: int) -> SampleBatch:
    """Windows of a session, added up until there are so many samples.

    In each the target works for a while: a window of the command may hold no sample if it ends at once.
    """
    total = session.take()
    while (total.quality.samples < least or not total.quality.target_cpu_ns) and session.end_reason is None:
        await_work(target)
        total = total.plus(session.take())
    return total


def await_work(target: Running) -> None:
    """Wait until a process has taken 0.2 s of CPU more."""
    process = psutil.Process(target.pid)
    end = sum(process.cpu_times()[:2]) + 0.2
    eventually("the target works", lambda: sum(process.cpu_times()[:2]) >= end)


def share(sampled: SampleBatch, name: str) -> float:
    """Part of the samples on CPU that were in a function."""
    on_cpu = {stack: counts.cpu for stack, counts in sampled.counts.items()}
    return sum(n for stack, n in on_cpu.items() if f"{name} (" in stack) / max(1, sum(on_cpu.values()))


def test_stacks_of_a_merged_batch_are_limited_by_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidelight_sidecar.samplers.sampler._MAX_STACK_CHARACTERS", 10)
    stacks = {"": {Stack(name): Counts(gil=1) for name in ("a" * 6, "b" * 3, "c" * 6)}}
    first = SampleBatch({"": {Stack("d"): Counts(gil=1)}}, 0, 1, Quality())
    merged = first.plus(SampleBatch(stacks, 1, 1, Quality()), max_stacks=100)
    assert {stack: count.wall for stack, count in merged.counts.items()} == {
        "d": 1, "a" * 6: 1, "b" * 3: 1, "(other)": 1
    }  # fmt: skip
    assert merged.quality.other == 1


def test_a_clock_that_is_set_between_two_takes_does_not_change_how_long_was_sampled() -> None:
    first = SampleBatch({}, 1_000, 10, Quality(attempts=1))
    for start_ns in (5, 9_000_000):
        both = first.plus(SampleBatch({}, start_ns, 7, Quality(attempts=1)))
        assert (both.start_ns, both.duration_ns) == (1_000, 17)


def test_stops_over_the_limit_add_up() -> None:
    first, second = (SampleBatch({}, 0, 1, Quality(), stops_over_limit=count) for count in (1, 2))
    assert first.plus(second).stops_over_limit == 3


@pytest.mark.parametrize("mode", MODES)
def test_what_a_process_does_is_seen(mode: str, start: Start) -> None:
    target = start("spin")
    session = samplers().get(mode).attach(proc_of(target), rate_hz=200, window_seconds=1)
    sampled = sample(session, target, 100)
    session.stop()
    # py-spy counts each runnable thread as running, also one that has slept and waits for a CPU.
    assert share(sampled, "busy") > (0.05 if mode == "command" else 0.5)
    assert share(sampled, "work") == pytest.approx(1, abs=0.02)
    version = (
        "py-spy 0.4.3" if mode == "command" else f"sidelight {native_sampler.load_extension().__version__}"
    )
    assert sampled.quality.sampler == version
    assert sampled.quality.threads == 1
    assert sampled.quality.target_cpu_ns > 0
    assert sampled.quality.sampler_cpu_ns > 0
    assert sampled.duration_ns > 0


def test_the_command_says_which_states_it_misses_and_leaves_idle_threads_out(start: Start) -> None:
    target = start("spin")
    session = samplers().get("command").attach(proc_of(target), rate_hz=200, window_seconds=1)
    sampled = sample(session, target, 50)
    session.stop()
    assert sampled.quality.missing_states == ("gil", "idle", *FURTHER_STATES)
    assert sum(counts.running for counts in sampled.counts.values()) == sampled.quality.samples
    assert {(counts.idle, counts.gil) for counts in sampled.counts.values()} == {(0, 0)}


def test_the_extension_tells_all_three_states_apart_without_a_gap(start: Start) -> None:
    target = start("spin")
    session = samplers().get("auto").attach(proc_of(target), rate_hz=200, window_seconds=1)
    first, second = session.take(), session.take()
    assert second.start_ns == first.start_ns + first.duration_ns
    total = sample(session, target, 100)
    session.stop()
    assert sum(counts.gil for counts in total.counts.values()) > 0
    assert total.quality.missing_states == ()
    assert total.quality.attempts > 0


@pytest.mark.parametrize("mode", MODES)
def test_the_last_part_of_a_process_that_ended_is_kept(mode: str, start: Start) -> None:
    target = start("brief", "2")
    session = samplers().get(mode).attach(proc_of(target), rate_hz=200, window_seconds=30)
    # It works for two seconds of CPU time, and is stopped two hundred times a second.
    eventually("the session ends with the process", lambda: session.end_reason, 300)
    sampled = session.stop()
    assert share(sampled, "briefly") == pytest.approx(1, abs=0.05)
    assert sampled.quality.samples > 10


@pytest.mark.parametrize("mode", MODES)
def test_deep_stacks_are_clipped_and_counted(mode: str, start: Start) -> None:
    sampler = SamplerRegistry(samplers()._extension, ProcFs(), max_depth=50).get(mode)
    target = start("deep")
    session = sampler.attach(proc_of(target), rate_hz=100, window_seconds=1)
    sampled = sample(session, target, 20)
    session.stop()
    assert {stack.count(";") + 1 for stack in sampled.counts} == {50}
    assert all(";(truncated);" in stack for stack in sampled.counts)
    assert sampled.quality.truncated == sampled.quality.samples


@pytest.mark.parametrize("mode", MODES)
def test_a_process_that_is_gone_is_said_to_be(mode: str, start: Start) -> None:
    target = start("spin")
    proc = proc_of(target)
    target.end()
    with pytest.raises(SamplingError) as refused:
        samplers().get(mode).attach(proc, rate_hz=100, window_seconds=1)
    assert refused.value.reason is Reason.PID_GONE


@pytest.mark.parametrize("mode", MODES)
def test_a_process_that_is_not_python_is_said_not_to_be(mode: str, tmp_path: Path) -> None:
    with running(tmp_path / "log", "sleep", "60") as sleeping:
        eventually("sleep runs", lambda: ProcFs().read_process(sleeping.pid))
        proc = Proc(ProcessKey(sleeping.pid, proc_of(sleeping).key.start_ticks), 1)
        with pytest.raises(SamplingError) as refused:
            samplers().get(mode).attach(proc, rate_hz=100, window_seconds=1)
        assert refused.value.reason is Reason.NOT_PYTHON


@pytest.mark.parametrize("mode", MODES)
def test_a_process_under_a_debugger_is_refused_naming_the_tracer(
    mode: str, start: Start, tmp_path: Path
) -> None:
    target = start("spin")
    trace = ("strace", "-q", "-e", "trace=none", "-p", str(target.pid))
    with running(tmp_path / "strace.log", *trace) as strace:

        def traced() -> bool:
            return any(tracer for _, tracer in ProcFs().read_thread_states(target.pid))

        eventually("strace has attached", traced)
        with pytest.raises(SamplingError) as refused:
            samplers().get(mode).attach(proc_of(target), rate_hz=100, window_seconds=1)
        assert refused.value.reason is Reason.PTRACE_DENIED
        assert f"Process {strace.pid} traces it" in refused.value.hint


def fake_py_spy(
    folder: Path, script: str, *, attach_seconds: float = 60, watchdog_seconds: float = 60
) -> CommandSampler:
    command = folder / "py-spy"
    command.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "py-spy 0.4.3" && exit\n{script}\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return CommandSampler(
        command, ProcFs(), max_depth=100, explain_denial=lambda pid: SamplingError(f"{pid} denied"),
        attach_seconds=attach_seconds, watchdog_seconds=watchdog_seconds,
    )  # fmt: skip


def attach_own(sampler: Sampler) -> Session:
    own = ProcFs().read_process(os.getpid())
    assert own is not None
    return sampler.attach(own, rate_hz=100, window_seconds=1)


def test_a_command_that_does_not_end_is_killed_and_counted(tmp_path: Path) -> None:
    script = "trap '' INT TERM; echo 'Sampling process'; while :; do sleep 0.1; done"
    sampler = fake_py_spy(tmp_path, script, watchdog_seconds=0.3)
    sampled = attach_own(sampler).stop()
    assert sampled.quality.errors == {"watchdog": 1}
    assert sampled.counts == {}


def test_a_command_that_does_not_attach_is_killed(tmp_path: Path) -> None:
    sampler, before = fake_py_spy(tmp_path, "exec sleep 60", attach_seconds=1), psutil.Process().children()
    with pytest.raises(SamplingError, match="did not attach"):
        attach_own(sampler)
    assert set(psutil.Process().children()) <= set(before)


def test_a_command_is_ended_with_sigint_and_never_with_sigterm(tmp_path: Path) -> None:
    script = (
        "out=$5; trap 'echo INT >> $0.signals; printf \"main 3\\n\" > $out; exit' INT; "
        "trap 'echo TERM >> $0.signals' TERM; echo 'Sampling process'; while :; do sleep 0.05; done"
    )
    sampled = attach_own(fake_py_spy(tmp_path, script)).stop()
    assert (tmp_path / "py-spy.signals").read_text() == "INT\n"
    assert list(sampled.counts.values()) == [Counts(running=3)]


def test_what_was_sampled_is_kept_when_the_next_run_cannot_begin(tmp_path: Path) -> None:
    script = (
        "[ -e $0.again ] && echo 'Error: No such process' && exit 1; touch $0.again; out=$5; "
        "trap 'printf \"main 3\\n\" > $out; exit' INT; echo 'Sampling process'; while :; do sleep 0.05; done"
    )
    session = attach_own(fake_py_spy(tmp_path, script))
    assert session.take().quality.samples == 3
    assert session.end_reason == "exited"
    assert session.stop().is_empty


def test_starting_the_command_is_not_counted_as_a_cost_of_its_samples(tmp_path: Path) -> None:
    script = (
        "out=$5; trap 'printf \"main 3\\n\" > $out; exit' INT; i=0; "
        "while [ $i -lt 200000 ]; do i=$((i+1)); done; echo 'Sampling process'; while :; do sleep 0.2; done"
    )
    sampled = attach_own(fake_py_spy(tmp_path, script)).stop()
    assert sampled.quality.sampler_cpu_ns > 20_000_000
    assert 0.8 * sampled.quality.sampler_cpu_ns < sampled.attach_cpu_ns <= sampled.quality.sampler_cpu_ns


def test_what_samples_of_the_command_cost_is_counted_as_that(start: Start) -> None:
    session = samplers().get("command").attach(proc_of(start("spin")), rate_hz=1000, window_seconds=5)
    pid = getattr(session, "pid", 0)
    before = psutil.Process(pid).cpu_times()
    eventually("it samples", lambda: psutil.Process(pid).cpu_times().user > before.user + 0.05)
    sampled = session.stop()
    assert sampled.quality.sampler_cpu_ns - sampled.attach_cpu_ns >= 40_000_000


def test_a_missing_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(SamplingError) as refused:
        CommandSampler(tmp_path / "none", ProcFs(), max_depth=9, explain_denial=lambda pid: SamplingError(""))
    assert refused.value.reason is Reason.SAMPLER_MISSING


def test_lines_that_cannot_be_read_cost_only_themselves() -> None:
    raw = b"main (a.py:1);f (b\n.py:2) 3\nmain (a.py:1) 4\n\nmain;;x 5\nmain (a.py:1) 1\n"
    counts, clipped, bad = parse_counts(raw, 100)
    assert sum(count.running for count in counts.values()) == 8
    assert (clipped, bad) == (0, 2)


def test_errors_and_delays_are_read_from_what_py_spy_prints() -> None:
    log = (
        "py-spy> 1.05s behind in sampling, results may be inaccurate. Try reducing the sampling rate\n"
        "py-spy> 2.50s behind in sampling, results may be inaccurate.\n"
        "py-spy> Wrote raw flamegraph data to 'x'. Samples: 86 Errors: 3\n"
    )
    assert parse_error_count(log) == 3
    assert parse_late_ns(log) == 2_500_000_000
    assert (parse_error_count(""), parse_late_ns("")) == (0, 0)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("Permission Denied: Try running again with elevated permissions", Reason.PTRACE_DENIED),
        (
            "Error: Failed to suspend process\n\nCaused by:\n 0: EPERM: Operation not permitted",
            Reason.PTRACE_DENIED,
        ),
        ("Error: Failed to find python version from target process", Reason.NOT_PYTHON),
        ("Error: Failed to get process executable name. Check that the process is running.", Reason.PID_GONE),
        ("", Reason.SAMPLER_FAILED),
    ],
)
def test_why_py_spy_did_not_begin_becomes_one_word(log: str, reason: Reason) -> None:
    assert parse_failure(log)[0] is reason


def test_the_signal_that_ends_a_run_reaches_no_other_process(start: Start) -> None:
    """py-spy runs in a session of its own: a Ctrl-C in the terminal ends the sidecar, which ends it."""
    session = samplers().get("command").attach(proc_of(start("spin")), rate_hz=100, window_seconds=5)
    pid = getattr(session, "pid", 0)
    assert os.getsid(pid) == pid
    assert signal.getsignal(signal.SIGINT) is not None
    session.stop()
