"""Captures over HTTP, and what else the sidecar's port answers."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.request
from contextlib import closing
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.counts import FURTHER_STATES
from sidelight_model.errors import SidelightError
from sidelight_model.window import Window
from sidelight_sidecar.captures.captures import CaptureLimits, CaptureParameters, parse_capture_parameters
from tests.processes import eventually
from tests.sidecar.conftest import Sidecar, Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector

BOUNDS = CaptureLimits(600, 1000, 10, 10, 100, "auto")
CLOCKS_DIFFER_NS = 5_000_000
REFUSAL = {"error", "message", "hint"}


def order(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_capture_tells_its_id_its_progress_and_its_result(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand")
    eventually("it watches", lambda: sidecar.get("/readyz")[0] == 200)
    status, lines = sidecar.post("/capture", order(seconds=5, rate=200, mode="blocking"))
    assert status == 200
    first, last = lines[0], lines[-1]
    assert first["id"].startswith("c_")
    assert len(lines) >= 3
    assert {line["id"] for line in lines} == {first["id"]}
    assert [line["state"] for line in lines[:-1]] == ["running"] * (len(lines) - 1)
    (process,) = last["processes"]
    assert (last["state"], process["pid"], process["finished"]) == ("done", target.pid, True)
    assert last["samples"] > 100
    assert process["problem"] == ""
    elapsed = [line["elapsed_seconds"] for line in lines]
    assert elapsed == sorted(elapsed)
    eventually("its windows arrive", lambda: len(collector.taken) == last["windows"] > 0)
    for window in collector.taken:
        assert window.labels["capture"] == first["id"]
        assert window.period_ns == 5_000_000
    assert sum(window.quality.samples for window in collector.taken) == last["samples"]
    assert sidecar.get(f"/capture/{first['id']}") == (200, last)


def test_a_native_capture_has_frames_of_c_among_those_of_python(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("compresses")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand")
    eventually("it watches", lambda: sidecar.get("/readyz")[0] == 200)
    status, lines = sidecar.post("/capture", order(seconds=2, rate=20, mode="native"))
    assert (status, lines[-1]["state"]) == (200, "done")
    eventually("its windows arrive", lambda: len(collector.taken) == lines[-1]["windows"] > 0)
    below = {
        frame
        for window in collector.taken
        for stack in window.counts
        for frame in stack.partition(";squeeze (")[2].split(";")[1:]
    }
    assert {window.quality.reader for window in collector.taken} == {"py-spy-native"}
    assert any("deflate" in frame for frame in below), below


@pytest.mark.parametrize("mode", ["auto", "command"])
def test_ordinary_windows_pause_for_a_capture_and_nothing_counts_twice(
    mode: str, start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--mode", mode)
    eventually("it samples", lambda: collector.taken)
    _, lines = sidecar.post("/capture", order(seconds=1.5))
    last = lines[-1]
    assert last["samples"] > 0

    def captured() -> list[Window]:
        return [window for window in collector.taken if window.labels.get("capture") == last["id"]]

    eventually("the capture's windows arrive", lambda: len(captured()) == last["windows"])
    end = captured()[-1].start_ns + captured()[-1].duration_ns
    eventually("ordinary windows go on", lambda: collector.taken[-1].start_ns >= end)
    for earlier, later in pairwise(collector.taken):
        assert later.start_ns >= earlier.start_ns + earlier.duration_ns - CLOCKS_DIFFER_NS
    assert sidecar.metric("preempted_seconds_total") >= 1.4
    assert any(window.quality.paused_ns > 10**9 for window in collector.taken)


def test_windows_follow_each_other_without_a_gap_when_a_capture_starts_and_ends(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid))
    eventually("it samples", lambda: collector.taken)
    ids = {sidecar.post("/capture", order(seconds=0.4))[1][-1]["id"] for _ in range(2)}

    def followed() -> bool:
        labels = [window.labels.get("capture") for window in collector.taken]
        return ids <= {*labels} and labels[-1] is None

    eventually("ordinary windows follow both", followed)
    for earlier, later in pairwise(collector.taken):
        assert abs(later.start_ns - earlier.start_ns - earlier.duration_ns) <= CLOCKS_DIFFER_NS
    first, last = collector.taken[0], collector.taken[-1]
    observed_ns = sum(window.duration_ns for window in collector.taken[:-1])
    assert observed_ns == pytest.approx(last.start_ns - first.start_ns, abs=5 * CLOCKS_DIFFER_NS)
    assert sidecar.metric("sessions") == 1
    # the window between both captures can be shorter than a sampling interval
    assert all(window.quality.attempts for window in collector.taken if window.duration_ns >= 200_000_000)


def test_a_second_capture_of_the_same_process_is_refused_while_the_first_runs(
    start: Start, start_sidecar: StartSidecar
) -> None:
    targets = [start("spin"), start("spin")]
    pids = [word for target in targets for word in ("--pid", str(target.pid))]
    sidecar = start_sidecar(*pids, "--on-demand")
    eventually("it watches both", lambda: len(sidecar.get("/readyz")[1]["pids"]) == 2)
    first = threading.Thread(
        target=sidecar.post, args=("/capture", order(seconds=300, pids=[targets[0].pid]))
    )
    first.start()
    eventually("the first runs", lambda: sidecar.metric("sessions") == 1)
    status, told = sidecar.post("/capture", order(seconds=1))
    assert (status, told["error"], told.keys()) == (409, "capture_running", REFUSAL)
    status, lines = sidecar.post("/capture", order(seconds=0.5, pids=[targets[1].pid]))
    assert (status, lines[-1]["state"]) == (200, "done")
    assert sidecar.post("/pause", b"")[0] == 200
    first.join()
    assert sidecar.post("/resume", b"")[0] == 200
    assert sidecar.post("/capture", order(seconds=0.2))[0] == 200


@pytest.mark.parametrize(("options", "status"), [((), 403), (("--allowed-hosts", "proxy.example"), 200)])
def test_another_host_is_answered_for_only_if_it_is_allowed(
    options: tuple[str, ...], status: int, start: Start, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar("--pid", str(start("spin").pid), "--on-demand", *options)
    with closing(HTTPConnection(sidecar.url.removeprefix("http://"), timeout=60)) as connection:
        connection.request("GET", "/metrics", headers={"Host": "proxy.example"})
        assert connection.getresponse().status == status


def test_a_capture_goes_on_when_its_client_leaves(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand")
    eventually("it watches", lambda: sidecar.get("/readyz")[0] == 200)
    host, port = sidecar.url.removeprefix("http://").split(":")
    body = order(seconds=1.5)
    with socket.create_connection((host, int(port))) as client:
        head = f"POST /capture HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        reader = client.makefile("rb")
        first = json.loads(next(line for line in reader if line.startswith(b"{")))
    capture = first["id"]
    assert first["state"] == "running"
    eventually("it is done", lambda: sidecar.get(f"/capture/{capture}")[1]["state"] == "done")
    told = sidecar.get(f"/capture/{capture}")[1]
    assert told["elapsed_seconds"] >= 1.5
    eventually("its windows arrive", lambda: len(collector.taken) == told["windows"] > 0)


def test_a_capture_of_a_process_that_ends_says_so_and_keeps_what_there_was(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand")
    eventually("it watches", lambda: sidecar.get("/readyz")[0] == 200)
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(sidecar.post("/capture", order(seconds=300))))
    asking.start()
    eventually("its first windows arrive", lambda: collector.taken)
    target.end()
    asking.join()
    (process,) = answers[0][1][-1]["processes"]
    assert "ended" in process["problem"]
    assert process["samples"] > 0
    eventually("its windows arrive", lambda: len(collector.taken) == process["windows"])


def test_every_refusal_is_json_with_a_reason_a_message_and_a_hint_and_is_counted(
    start: Start, start_sidecar: StartSidecar
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand")
    eventually("it watches", lambda: sidecar.get("/readyz")[0] == 200)
    cases: list[tuple[tuple[int, object], int, str]] = [
        (sidecar.post("/capture", b"{"), 400, "bad_json"),
        (sidecar.post("/capture", b"[" * 10_000), 400, "bad_json"),
        (sidecar.post("/capture", b"[]"), 400, "bad_parameter"),
        (sidecar.post("/capture", order(seconds=0)), 400, "bad_parameter"),
        (sidecar.post("/capture", order(seconds=601)), 400, "bad_parameter"),
        (sidecar.post("/capture", order(rate=1001)), 400, "bad_parameter"),
        (sidecar.post("/capture", order(mode="x")), 400, "bad_parameter"),
        (sidecar.post("/capture", order(second=1)), 400, "bad_parameter"),
        (sidecar.post("/capture", order(pids=[1])), 404, "pid_gone"),
        (sidecar.post("/capture", b" " * 70_000), 413, "too_large"),
        (sidecar.post("/capture", order(), Origin="http://evil.example"), 403, "forbidden"),
        (sidecar.get("/capture"), 405, "method_not_allowed"),
        (sidecar.get("/capture/c_x"), 404, "not_found"),
        (sidecar.get("/nowhere"), 404, "not_found"),
    ]
    for (status, told), expected, reason in cases:
        assert isinstance(told, dict)
        assert (status, told["error"], told.keys()) == (expected, reason, REFUSAL)
        assert told["message"]
        assert told["hint"]
    assert sidecar.metric("http_refusals_total") == len(cases)


def test_captures_ask_for_the_token_when_there_is_one(
    start: Start, start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    token = tmp_path / "capture-token"
    token.write_text("secret\n")
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand", "--capture-token-file", str(token))
    eventually("it watches", lambda: sidecar.get("/readyz")[0] == 200)
    assert sidecar.post("/capture", order(seconds=0.2))[0] == 401
    assert sidecar.post("/capture", order(seconds=0.2), Authorization="Bearer wrong")[0] == 401
    assert sidecar.post("/capture", order(seconds=0.2), Authorization="Bearer secret")[0] == 200
    token.write_text("")
    assert sidecar.post("/capture", order(seconds=0.2), Authorization="Bearer ")[0] == 403


def other_address() -> str | None:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])


def test_without_a_token_captures_are_started_from_this_machine_only(
    start: Start, start_sidecar: StartSidecar
) -> None:
    host = other_address()
    if host is None:
        pytest.skip("this machine has no address but loopback")
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand", "--listen", f"{host}:0")
    status, told = sidecar.post("/capture", order(seconds=0.2))
    assert (status, told["error"]) == (403, "forbidden")
    assert sidecar.get("/livez") == (200, {"live": True})


def test_metrics_are_in_the_text_format_and_never_labelled_with_a_pod_or_pid(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid))
    eventually("windows arrive", lambda: len(collector.taken) >= 2)
    assert sidecar.metric("processes") == 1
    assert sidecar.metric("windows_total") >= 2
    assert sidecar.metric("shipped_windows_total") >= 2
    assert sidecar.metric("samples_total") > 0
    with urllib.request.urlopen(sidecar.url + "/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    assert str(target.pid) not in " ".join(re.findall(r'"([^"]*)"', text)).split()
    assert "pod=" not in text


def ready(sidecar: Sidecar) -> dict[str, object]:
    told = sidecar.get("/readyz")[1]
    assert isinstance(told, dict)
    return told


def test_readyz_says_which_sampler_is_in_use_and_which_states_it_misses(
    start: Start, start_sidecar: StartSidecar
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--mode", "command")
    eventually("it watches", lambda: ready(sidecar)["ready"])
    told = ready(sidecar)
    assert told["sampler"] == {"name": "py-spy 0.4.3", "mode": "command"}
    assert told["missing_states"] == ["gil", "idle", *FURTHER_STATES]
    assert "missing states: gil, idle, cpu_wait, gil_wait, lock" in str(told["notices"])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
names = st.sampled_from(["seconds", "rate", "mode", "pids"])


@given(json_values | st.dictionaries(names, json_values | st.sampled_from(["auto", 5, [1]])))
def test_any_body_is_a_wish_within_bounds_or_refused_with_a_reason(raw: object) -> None:
    try:
        wish = parse_capture_parameters(raw, BOUNDS)
    except SidelightError as error:
        assert error.reason == "bad_parameter"  # noqa: PT017 - either way is right, by the input
        return
    assert 0 < wish.seconds <= 600
    assert 1 <= wish.rate <= 1000


def test_what_a_capture_does_not_say_is_as_the_sidecar_samples() -> None:
    assert parse_capture_parameters({}, BOUNDS) == CaptureParameters(10, 100, "auto")
    assert parse_capture_parameters({"seconds": 600, "rate": 1000}, BOUNDS) == CaptureParameters(
        600, 1000, "auto"
    )


@pytest.mark.parametrize("name", ["seconds", "rate"])
def test_a_number_that_no_float_can_hold_is_refused_like_any_other(name: str) -> None:
    with pytest.raises(SidelightError, match=f"{name} must be above 0"):
        parse_capture_parameters({name: 10**400}, BOUNDS)
