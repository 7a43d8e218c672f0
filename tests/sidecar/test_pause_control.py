"""The kill switch: by signal, by file and over HTTP, in any combination."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead.pause_control import SWITCHES, PauseControl
from tests.processes import eventually
from tests.sidecar.conftest import Sidecar, Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector

REFUSAL = {"error", "message", "hint"}


def switches(pause_file: Path | None = None) -> PauseControl:
    return PauseControl(SidecarMetrics(), pid=77, pause_file=pause_file)


@given(st.lists(st.tuples(st.sampled_from(SWITCHES), st.booleans()), max_size=30))
def test_sampling_is_paused_while_any_switch_is_on(turns: list[tuple[str, bool]]) -> None:
    one, on = switches(Path("/run/off")), set()
    for name, is_on in turns:
        one.set_switch(name, is_on)
        (on.add if is_on else on.discard)(name)
        assert (one.is_paused, one.active_switches) == (bool(on), tuple(sorted(on)))


def test_what_pauses_sampling_says_how_to_go_on() -> None:
    one = switches(Path("/run/off"))
    for name in SWITCHES:
        one.set_switch(name, True)
    refusal = one.make_paused_error()
    assert refusal.reason == "paused"
    assert refusal.message == "sampling is paused by: api, file, signal"
    assert refusal.hint == "To go on: POST /resume. Remove /run/off. kill -USR2 77."


def test_the_pause_file_is_on_while_it_exists(tmp_path: Path) -> None:
    file = tmp_path / "there" / "off"
    one = switches(file)
    one.refresh()
    assert not one.is_paused
    file.parent.mkdir()
    file.touch()
    one.refresh()
    assert one.active_switches == ("file",)
    file.unlink()
    one.refresh()
    assert not one.is_paused


def test_a_pause_file_that_cannot_be_looked_for_changes_nothing(tmp_path: Path) -> None:
    one = switches(tmp_path / ("x" * 300))
    one.set_switch("file", True)
    one.refresh()
    assert one.active_switches == ("file",)


def ready(sidecar: Sidecar) -> dict[str, Any]:
    status, told = sidecar.get("/readyz")
    assert isinstance(told, dict)
    return {**told, "status": status}


def rests(sidecar: Sidecar) -> None:
    eventually("nothing is attached", lambda: sidecar.metric("sessions") == 0)


@pytest.mark.parametrize("mode", ["auto", "command"])
def test_sampling_is_paused_by_signal_file_and_api_and_windows_say_for_how_long(
    mode: str, start: Start, start_sidecar: StartSidecar, collector: FakeCollector, tmp_path: Path
) -> None:
    target, file = start("spin"), tmp_path / "off"
    sidecar = start_sidecar("--pid", str(target.pid), "--pause-file", str(file), "--mode", mode)
    pid = sidecar.running.pid
    for name, on, off in (
        ("signal", lambda: os.kill(pid, signal.SIGUSR1), lambda: os.kill(pid, signal.SIGUSR2)),
        ("file", file.touch, file.unlink),
        ("api", lambda: sidecar.post("/pause", b""), lambda: sidecar.post("/resume", b"")),
    ):
        eventually("it samples", lambda: sidecar.metric("sessions") == 1)
        before = len(collector.taken)
        eventually("a window arrives", lambda before=before: len(collector.taken) > before)
        for _ in range(2):
            on()
        eventually("it is paused", lambda name=name: ready(sidecar)["paused"] == [name])
        rests(sidecar)
        assert sidecar.metric("paused") == 1
        told = ready(sidecar)
        assert told["status"] == 200
        assert "To go on" in str(told["notices"])
        last = collector.taken[-1].start_ns
        off()
        eventually("it goes on", lambda: ready(sidecar)["paused"] == [])
        eventually(
            "a window says that there was a pause",
            lambda last=last: any(
                window.start_ns > last and window.quality.paused_ns and "paused" in window.quality.reduced
                for window in collector.taken
            ),
        )
    assert target.alive()


def test_a_sidecar_that_starts_paused_attaches_to_nothing(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector, tmp_path: Path
) -> None:
    target, file = start("spin"), tmp_path / "off"
    file.touch()
    sidecar = start_sidecar("--pid", str(target.pid), "--pause-file", str(file))
    eventually("it watches", lambda: sidecar.metric("processes") == 1)
    assert ready(sidecar)["paused"] == ["file"]
    eventually("it is counted", lambda: sidecar.metric("reduced_rate_processes") == 1)
    assert sidecar.metric("sessions") == 0
    assert collector.requests == []
    file.unlink()
    eventually("it samples", lambda: collector.taken)


def test_resuming_over_http_does_not_override_the_file_and_says_so(
    start: Start, start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    target, file = start("spin"), tmp_path / "off"
    file.touch()
    sidecar = start_sidecar("--pid", str(target.pid), "--pause-file", str(file))
    assert sidecar.post("/pause", b"") == (200, {"paused": ["api", "file"]})
    status, told = sidecar.post("/resume", b"")
    assert (status, told["error"], told.keys()) == (409, "paused", REFUSAL)
    assert str(file) in told["hint"]
    status, told = sidecar.post("/capture", b'{"seconds": 1}')
    assert (status, told["error"]) == (409, "paused")
    file.unlink()
    eventually("it goes on", lambda: ready(sidecar)["paused"] == [])


def test_a_capture_under_way_ends_when_sampling_is_paused_and_keeps_what_there_was(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand")
    eventually("it watches", lambda: ready(sidecar)["ready"])
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(sidecar.post("/capture", b'{"seconds": 600}')))
    asking.start()
    eventually("its first windows arrive", lambda: collector.taken)
    assert sidecar.post("/pause", b"")[0] == 200
    asking.join()
    (process,) = answers[0][1][-1]["processes"]
    assert "paused" in process["problem"]
    assert process["samples"] > 0
    rests(sidecar)
    eventually("its windows arrive", lambda: len(collector.taken) == process["windows"])


def test_pausing_asks_for_the_capture_token_where_there_is_one(
    start: Start, start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--capture-token-file", str(token))
    for path in ("/pause", "/resume"):
        assert sidecar.post(path, b"")[0] == 401
        assert sidecar.post(path, b"", Origin="http://evil.example")[0] == 403
        assert sidecar.post(path, b"", Authorization="Bearer secret")[0] == 200
