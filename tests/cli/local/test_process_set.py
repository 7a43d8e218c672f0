from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from sidelight_cli.local.sampling.process_set import ProcessSet, RecordPlan
from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.procfs import ProcFs
from tests.cli.local.fake_engine import FakeEngine, FakeProcFs, batch, proc


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watch(
    engine: FakeEngine, procfs: FakeProcFs, clock: Clock | None = None, *, pid: int = 7, **plan: object
) -> ProcessSet:
    return ProcessSet(
        engine,
        cast("ProcFs", procfs),
        RecordPlan(100, **plan),  # type: ignore[arg-type]
        pid,
        clock or Clock(),
    )


def taken(one: ProcessSet) -> list[tuple[int, int]]:
    return [(some.proc.pid, some.batch.samples) for some in one.take()]


def test_a_process_is_attached_to_once_and_gives_what_it_has() -> None:
    engine = FakeEngine(gives=lambda pid: [batch("a 0 0 3")])
    one = watch(engine, FakeProcFs([proc(7), proc(8, 7)]))
    one.attach_new()
    one.attach_new()
    assert (engine.asked, taken(one), one.has_ended) == ([7], [(7, 3)], False)


def test_children_are_followed_when_asked_whenever_they_start() -> None:
    clock, engine, procfs = Clock(), FakeEngine(), FakeProcFs([proc(7), proc(8, 7), proc(9, 1)])
    one = watch(engine, procfs, clock, include_children=True)
    one.attach_new()
    procfs.table.append(proc(10, 8))
    clock.now += 1
    one.attach_new()
    assert engine.asked == [7, 8, 10]
    procfs.end(8)
    procfs.table = [item for item in procfs.table if item.pid != 10] + [proc(10, 1), proc(11, 10)]
    clock.now += 1
    one.attach_new()
    assert engine.asked == [7, 8, 10, 11]


def test_a_shell_that_is_named_is_not_sampled_and_its_python_children_are() -> None:
    engine = FakeEngine()
    one = watch(engine, FakeProcFs([proc(7, 1, "sh", python=None), proc(8, 7)]), include_children=True)
    one.attach_new()
    assert (engine.asked, one.attach_errors) == ([8], [])


@pytest.mark.parametrize(
    ("error", "reason", "hint"),
    [
        (ProcessLookupError("gone"), Reason.PID_GONE, "pgrep"),
        (PermissionError("no"), Reason.PTRACE_DENIED, ""),
        (ValueError("no Python"), Reason.NOT_PYTHON, "--pid one of these, or --subprocesses"),
        (RuntimeError("odd"), Reason.SAMPLER_FAILED, "once more"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(error: Exception, reason: Reason, hint: str) -> None:
    one = watch(FakeEngine(refuse={7: error}), FakeProcFs([proc(7), proc(8, 7)]))
    one.attach_new()
    assert (one.sampled_count, one.attach_error.reason) == (0, reason)
    assert one.attach_error.hint
    assert hint in one.attach_error.hint


def test_a_process_that_is_traced_already_is_told_with_its_tracer() -> None:
    one = watch(FakeEngine(refuse={7: PermissionError("no")}), FakeProcFs([proc(7)], tracer=99))
    one.attach_new()
    assert "Process 99 traces it" in one.attach_error.hint


def test_a_process_that_is_not_there_or_has_stopped_is_told_so() -> None:
    missing = watch(FakeEngine(), FakeProcFs([]))
    missing.attach_new()
    assert missing.attach_error.reason is Reason.PID_GONE
    procfs = FakeProcFs([proc(7)])
    procfs.change(7, state="T")
    still = watch(FakeEngine(), procfs)
    still.attach_new()
    assert "kill -CONT 7" in still.attach_error.hint


def test_a_refused_process_is_tried_again_less_and_less_often() -> None:
    clock, engine = Clock(), FakeEngine(refuse={7: ValueError("not yet")})
    one = watch(engine, FakeProcFs([proc(7)]), clock)
    for _ in range(1000):
        one.attach_new()
        clock.now += 0.01
    assert 10 < len(engine.asked) < 30
    del engine.refuse[7]
    clock.now += 2
    one.attach_new()
    assert (one.sampled_count, one.attach_errors) == (1, [])


def test_what_a_process_gave_before_its_end_is_kept_and_then_it_is_over() -> None:
    engine = FakeEngine(gives=lambda pid: [batch("a 0 0 1"), batch("a 0 0 2")])
    one = watch(engine, FakeProcFs([proc(7)]))
    one.attach_new()
    assert taken(one) == [(7, 1)]
    engine.sessions[7].ended = "exited"
    assert taken(one) == [(7, 2)]
    one.attach_new()
    assert (one.has_ended, one.sampled_count, engine.asked, one.end_reasons) == (True, 0, [7], [])


def test_a_session_that_fails_is_not_begun_anew_and_its_reason_is_told() -> None:
    engine, clock = FakeEngine(), Clock()
    one = watch(engine, FakeProcFs([proc(7)]), clock)
    one.attach_new()
    engine.sessions[7].ended = "failed: panic"
    assert list(one.take())
    clock.now += 5
    one.attach_new()
    assert (one.has_ended, engine.asked, one.end_reasons) == (True, [7], ["process 7: failed: panic"])


def test_a_process_that_replaces_itself_is_sampled_again() -> None:
    engine, clock, procfs = FakeEngine(), Clock(), FakeProcFs([proc(7)])
    one = watch(engine, procfs, clock)
    one.attach_new()
    engine.sessions[7].ended = "exec"
    assert list(one.take())
    assert not one.has_ended
    engine.refuse[7] = ValueError("not Python yet")
    one.attach_new()
    assert (one.sampled_count, one.has_ended) == (0, False)
    del engine.refuse[7]
    clock.now += 0.1
    one.attach_new()
    assert (one.sampled_count, engine.asked) == (1, [7, 7, 7])


def test_a_process_that_replaces_itself_by_no_python_is_over_after_a_while() -> None:
    engine, clock = FakeEngine(), Clock()
    one = watch(engine, FakeProcFs([proc(7)]), clock)
    one.attach_new()
    engine.sessions[7].ended = "exec"
    assert list(one.take())
    engine.refuse[7] = ValueError("no Python")
    clock.now += 11
    one.attach_new()
    assert one.has_ended


def test_a_pid_that_is_used_again_is_not_the_process_that_was_named() -> None:
    engine, procfs, clock = FakeEngine(), FakeProcFs([proc(7)]), Clock()
    one = watch(engine, procfs, clock, include_children=True)
    one.attach_new()
    engine.sessions[7].ended = "exited"
    assert list(one.take())
    procfs.table = [proc(7, start=2)]
    clock.now += 1
    one.attach_new()
    assert (one.has_ended, engine.asked) == (True, [7])


def test_a_supervisor_is_waited_for_while_it_lives() -> None:
    engine, procfs, clock = FakeEngine(), FakeProcFs([proc(7, 1, "sh", python=None), proc(8, 7)]), Clock()
    one = watch(engine, procfs, clock, include_children=True)
    one.attach_new()
    engine.sessions[8].ended = "exited"
    assert list(one.take())
    procfs.end(8)
    assert not one.has_ended
    procfs.table.append(proc(9, 7))
    clock.now += 1
    one.attach_new()
    assert engine.asked == [8, 9]
    engine.sessions[9].ended = "exited"
    procfs.table = []
    assert list(one.take())
    assert one.has_ended


def test_a_pause_holds_nobody_and_is_not_counted_as_watched() -> None:
    engine = FakeEngine(gives=lambda pid: [batch(duration_ns=5)])
    one = watch(engine, FakeProcFs([proc(7)]))
    one.attach_new()
    one.pause()
    one.resume()
    assert engine.sessions[7].calls == ["rate 0", "take", "rate 100"]


def test_closing_ends_every_session_and_gives_what_was_left() -> None:
    engine = FakeEngine(gives=lambda pid: [batch(f"a 0 0 {pid}")])
    one = watch(engine, FakeProcFs([proc(7), proc(8, 7)]), include_children=True, timeline_samples=10)
    one.attach_new()
    left: Iterator[object] = one.close()
    assert [some.batch.samples for some in left] == [7, 8]  # type: ignore[attr-defined]
    assert [session.calls for session in engine.sessions.values()] == [["stop"], ["stop"]]
    assert one.sampled_count == 0
