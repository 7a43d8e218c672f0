"""Captures that the collector orders: asked for, taken, told of, and kept in the order of time."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from sidelight_model.capture_protocol import (
    AgentPoll,
    AgentPollResponse,
    AgentStatus,
    CaptureReport,
    CaptureState,
    ProcessReport,
)
from sidelight_model.counts import OFF_CPU_STATES, STATES
from sidelight_model.labels import Labels
from sidelight_model.window import Window
from sidelight_sidecar.captures.capture_poller import decode_poll_response, encode_poll_request
from tests.processes import Running, eventually, free_port
from tests.sidecar.capture_server import OrderingCollector, ordering
from tests.sidecar.conftest import Sidecar, Start, StartSidecar, sidecars, starting
from tests.sidecar.fake_collector import FakeCollector, Reply
from tests.sidecar.test_permissions import WITHOUT, needs_setpriv

CLOSE_NS = 20_000_000
"""So near to a switch a sample may be told of the one side and belong to the other."""


@pytest.fixture
def orders() -> Iterator[OrderingCollector]:
    with ordering() as one:
        yield one


@dataclass(frozen=True, slots=True)
class Watched:
    """A target and a sidecar that takes captures alone, shared by the tests at the end of this file."""

    target: Running
    orders: OrderingCollector
    sidecar: Sidecar


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("shared")
    with starting(folder) as start, ordering() as orders, sidecars(folder, orders) as start_sidecar:
        target = start("spin")
        yield Watched(target, orders, watching(start_sidecar, orders, "--pid", str(target.pid)))


@pytest.fixture
def watched(shared: Watched) -> Iterator[Watched]:
    """The shared ones. Captures that still go on are ended afterwards, and forgotten."""
    yield shared
    shared.orders.stops = list(shared.orders.orders)
    shared.sidecar.post("/resume", b"")
    for capture in shared.orders.orders:
        ends(shared.orders, capture)
    eventually("it waits for the next", lambda: shared.orders.polls[-1]["ready"] and shared.orders.waiting)
    shared.orders.forget()


def watching(start_sidecar: StartSidecar, orders: OrderingCollector, *options: str) -> Sidecar:
    """A sidecar that takes captures alone, once it has said that it is ready."""
    sidecar = start_sidecar("--on-demand", *options, url=orders.url)
    eventually("it asks", lambda: any(poll["ready"] for poll in orders.polls))
    return sidecar


def ends(orders: OrderingCollector, capture: str) -> dict[str, Any]:
    """The last report of a capture that has ended."""
    over = ("done", "failed", "stopped")
    eventually(f"{capture} ends", lambda: orders.state(capture) in over, 60)
    return orders.last(capture)


def captured(collector: FakeCollector, capture: str) -> list[Window]:
    return [window for window in collector.taken if window.labels.get("capture") == capture]


def stacks_of(recording: dict[str, Any], thread: dict[str, Any]) -> list[str]:
    """The stack of each sample, as text."""
    frames = recording["frames"]
    return [";".join(frames[at] for at in recording["stacks"][stack]) for stack in thread["stack"]]


def test_a_recording_says_what_ran_when(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    target = start("alternates", "170", "reader", "reader")
    watching(start_sidecar, orders, "--pid", str(target.pid))
    orders.order("c_timed", seconds=2.5, rate=100, timeline=True, max_recording_bytes=1 << 20)
    last = ends(orders, "c_timed")
    assert (last["state"], last["recordings"], last["problem"]) == ("done", 1, "")
    agent = orders.polls[-1]["agent"]
    recording = orders.recordings[f"c_timed/recordings/{agent}-{target.pid}"]
    assert recording["labels"] == {**orders.polls[-1]["labels"], "process": "main"}
    assert (recording["v"], recording["capture"], recording["pid"]) == (1, "c_timed", target.pid)
    assert (recording["period_us"], recording["dropped"]) == (10_000, 0)
    threads = {thread["name"]: thread for thread in recording["threads"]}
    assert set(threads) == {"MainThread", "reader", "reader (2)"}
    assert sum(len(thread["at_us"]) for thread in threads.values()) == last["samples"]
    assert set(threads["reader"]["state"]) <= {STATES.index(state) for state in OFF_CPU_STATES}
    main = threads["MainThread"]
    assert all(one < two for one, two in pairwise(main["at_us"]))
    # What is counted in windows is the same, and by kinds of thread, not by names.
    windows = captured(orders, "c_timed")
    assert {window.labels["thread"] for window in windows} == {"main", "other"}
    in_windows = sum(w.quality.samples for w in windows if w.labels["thread"] == "main")
    assert in_windows == len(main["at_us"])

    switches = [(int(at), name) for name, at in re.findall(r"(first|second) (\d+)", target.said())]
    right = wrong = 0
    for at_us, stack in zip(main["at_us"], stacks_of(recording, main), strict=True):
        at = recording["start_ns"] + at_us * 1000
        nearest = min(abs(at - moment) for moment, _ in switches)
        if nearest < CLOSE_NS or at > switches[-1][0]:
            continue
        _, running = max((moment, name) for moment, name in switches if moment <= at)
        other = "second" if running == "first" else "first"
        # On a busy machine it may wait for a CPU between its turns, in neither.
        right, wrong = right + (f";{running} (" in stack), wrong + (f";{other} (" in stack)
    assert right > 50
    assert wrong <= right // 50, (right, wrong)


def test_a_capture_goes_on_while_the_collector_is_away_and_is_told_of_afterwards(
    start: Start, start_sidecar: StartSidecar
) -> None:
    collector = OrderingCollector()
    port = free_port()
    with ordering(port, collector):
        target = start("spin")
        sidecar = watching(start_sidecar, collector, "--pid", str(target.pid))
        collector.order("c_away", seconds=2.5, timeline=True)
        eventually("it samples", lambda: collector.last("c_away").get("samples", 0) > 5)
    eventually("it ends", lambda: sidecar.metric("captures_total") == 1)
    with ordering(port, collector):
        last = ends(collector, "c_away")
    assert (last["state"], last["recordings"], last["problem"]) == ("done", 1, "")
    assert sum(w.quality.samples for w in captured(collector, "c_away")) == last["samples"]
    assert last["elapsed_seconds"] >= 2.5


def test_a_refusal_is_told_with_its_reason_and_what_to_do(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    target = start("spin")
    options = ("--capture-max-seconds", "5", "--capture-max-rate", "50", "--rate", "50")
    sidecar = watching(start_sidecar, orders, "--pid", str(target.pid), *options)
    refused = {
        "c_long": ({"seconds": 5.001}, "seconds must be above 0 and at most 5"),
        "c_fast": ({"rate": 51}, "rate must be above 0 and at most 50"),
        "c_none": ({"seconds": 0}, "seconds must be above 0"),
        "c_mode": ({"mode": "magic"}, "mode 'magic' is not one of"),
        "c_pids": ({"pids": [1]}, "process 1 is not watched"),
    }
    for capture, (fields, _) in refused.items():
        orders.order(capture, **{"seconds": 1, "rate": 10, **fields})
    for capture, (_, problem) in refused.items():
        last = ends(orders, capture)
        assert last["state"] == "failed"
        assert problem in last["problem"]
        assert last["hint"]
    for capture in ("../../etc", "", 7, "x" * 65):
        orders.order(str(capture), capture=capture)
    orders.order("c_edge", seconds=0.5, rate=50)
    assert ends(orders, "c_edge")["state"] == "done"
    assert set(orders.reports) == {*refused, "c_edge"}
    assert sidecar.metric("capture_jobs_total") >= 6


@pytest.mark.parametrize("status", [404, pytest.param(405, marks=pytest.mark.long)])
def test_a_collector_that_knows_no_captures_is_left_in_peace(
    status: int, start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    orders.refuse = Reply(status, {"error": "not_found"})
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), url=orders.url)
    eventually("windows arrive", lambda: len(orders.taken) >= 3)
    eventually("it says so", lambda: "polled again now and then" in sidecar.running.said())
    assert len(orders.polls) == 1
    assert sidecar.get("/readyz")[0] == 200
    assert sidecar.running.end(signal.SIGTERM) == 0


def test_a_collector_that_is_busy_is_asked_no_sooner_than_it_says(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    orders.refuse = Reply(429, {"error": "overloaded"}, {"Retry-After": "600"})
    target = start("spin")
    start_sidecar("--pid", str(target.pid), url=orders.url)
    eventually("windows arrive", lambda: orders.polls and len(orders.taken) >= 3)
    assert len(orders.polls) == 1


def test_captures_of_two_processes_go_on_side_by_side_and_one_may_end_early(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    one, two = start("spin"), start("spin")
    watching(start_sidecar, orders, "--pid", str(one.pid), "--pid", str(two.pid))
    eventually("both are watched", lambda: len(orders.polls[-1]["processes"]) == 2)
    orders.order("c_one", seconds=300, pids=[one.pid])
    orders.order("c_two", seconds=300, pids=[two.pid])

    def together() -> bool:
        return any(
            [one["state"] for one in poll["reports"]] == ["sampling", "sampling"] for poll in orders.polls
        )

    eventually("both sample", together)
    orders.stops = ["c_one", "c_two"]
    for capture, pid in (("c_one", one.pid), ("c_two", two.pid)):
        last = ends(orders, capture)
        assert last["state"] == "stopped"
        assert {window.quality.pid for window in captured(orders, capture)} == {pid}
    orders.order("c_early", seconds=300, timeline=True)
    eventually("it samples", lambda: orders.last("c_early").get("samples", 0) > 20)
    os.kill(one.pid, signal.SIGKILL)
    eventually("one has ended", lambda: orders.last("c_early")["processes"][0]["finished"])
    orders.stops.append("c_early")
    last = ends(orders, "c_early")
    assert (last["state"], last["recordings"]) == ("stopped", 2)
    assert last["problem"].startswith(f"process {one.pid}: the process ended")


def test_a_question_is_never_longer_than_a_collector_takes() -> None:
    process = ProcessReport(7, problem="y" * 800)
    report = CaptureReport("c_1", CaptureState.SAMPLING, processes=(process,) * 100)
    status = AgentStatus("a", Labels({"service": "shop"}))
    whole = encode_poll_request(AgentPoll(status, reports=(report,) * 9))
    assert len(json.loads(whole)["reports"][0]["processes"]) == 100
    cut = encode_poll_request(AgentPoll(status, reports=(report,) * 11))
    assert len(cut) < 1 << 20
    assert [one["processes"] for one in json.loads(cut)["reports"]] == [[]] * 11


def test_only_a_collector_s_answer_is_one() -> None:
    assert decode_poll_response(b'{"capture_jobs": [], "stop_captures": []}') == AgentPollResponse()
    for body in (b"", b"{", b"[]", b'{"capture_jobs": {}}', b'"capture_jobs"', b"[" * 100_000, b"\xff"):
        assert decode_poll_response(body) is None


def test_no_question_is_asked_where_that_is_switched_off(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    target = start("spin")
    start_sidecar("--pid", str(target.pid), "--no-captures-from-collector", url=orders.url)
    eventually("windows arrive", lambda: len(orders.taken) >= 2)
    assert not orders.polls


def test_the_token_is_sent_with_every_question_and_a_refusal_ends_nothing(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    orders.refuse = Reply(401, {"error": "unauthorized", "message": "who are you?"})
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand", url=orders.url)
    eventually("it asks twice", lambda: len(orders.polls) >= 2)
    assert "who are you?" in sidecar.running.said()
    orders.refuse = Reply(200, {"this": "is no answer of a collector"})
    seen = len(orders.polls)
    eventually("it asks on", lambda: len(orders.polls) >= seen + 2)
    orders.refuse = None
    orders.order("c_late", seconds=0.5)
    assert ends(orders, "c_late")["state"] == "done"


def test_a_recording_that_nobody_takes_is_given_up_after_a_while(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    target = start("spin")
    watching(start_sidecar, orders, "--pid", str(target.pid), "--timeline-recording-retry-seconds", "2")
    orders.puts = [Reply(500, {"message": "no disk"})] * 100
    orders.order("c_lost", seconds=0.6, timeline=True)
    last = ends(orders, "c_lost")
    assert (last["state"], last["recordings"]) == ("done", 0)
    assert last["problem"].endswith("is lost: the collector answered 500: no disk")


def test_a_recording_keeps_within_what_the_collector_takes(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    target = start("threads")
    sidecar = watching(start_sidecar, orders, "--pid", str(target.pid))
    orders.order("c_small", seconds=300, rate=1000, timeline=True, max_recording_bytes=3000)
    eventually("it samples", lambda: orders.last("c_small").get("samples", 0) > 3000)
    orders.stops = ["c_small"]
    last = ends(orders, "c_small")
    assert (last["state"], last["recordings"]) == ("stopped", 1)
    ((name, recording),) = orders.recordings.items()
    assert orders.sizes[name] <= 3000
    kept = sum(len(thread["at_us"]) for thread in recording["threads"])
    assert recording["dropped"] > 0
    assert kept + recording["dropped"] == last["samples"]
    newest = max(thread["at_us"][-1] for thread in recording["threads"]) * 1000 + recording["start_ns"]
    begin = max(w.start_ns for w in captured(orders, "c_small") if w.quality.samples)
    assert newest > begin - CLOSE_NS
    assert sidecar.metric("timeline_recording_dropped_samples_total") == recording["dropped"]


def test_a_capture_is_ended_and_told_of_when_the_sidecar_is(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    target = start("spin")
    sidecar = watching(start_sidecar, orders, "--pid", str(target.pid))
    orders.order("c_term", seconds=300, timeline=True)
    eventually("it samples", lambda: orders.last("c_term").get("samples", 0) > 20)
    assert sidecar.running.end(signal.SIGTERM) == 0
    last = orders.last("c_term")
    assert (last["state"], last["recordings"]) == ("done", 1)
    assert "the sidecar stopped" in last["problem"]
    assert sum(w.quality.samples for w in captured(orders, "c_term")) == last["samples"]


def test_a_sidecar_that_waits_for_orders_ends_at_once(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    target = start("spin")
    sidecar = watching(start_sidecar, orders, "--pid", str(target.pid), "--shutdown-flush-seconds", "300")
    eventually("it waits", lambda: orders.waiting > 0)
    assert sidecar.running.end(signal.SIGTERM) == 0


@needs_setpriv
def test_a_process_that_may_not_be_read_is_told_with_what_to_grant(
    start: Start, start_sidecar: StartSidecar, orders: OrderingCollector
) -> None:
    target = start("unprivileged")
    options = ("--on-demand", "--pid", str(target.pid))
    sidecar = start_sidecar(*options, url=orders.url, wrapper=WITHOUT)
    problem = f"not allowed to read the memory of process {target.pid}, which runs as user 65534"
    eventually("it says why not", lambda: orders.polls and orders.polls[-1]["problem"] == problem)
    told = orders.polls[-1]
    assert not told["ready"]
    assert "SYS_PTRACE" in told["hint"]
    orders.order("c_denied", timeline=True)
    last = ends(orders, "c_denied")
    assert (last["state"], last["problem"], last["hint"]) == ("failed", problem, told["hint"])
    assert sidecar.running.alive()


def test_an_ordered_capture_is_taken_and_told_of_until_its_windows_have_arrived(watched: Watched) -> None:
    target, orders, sidecar = watched.target, watched.orders, watched.sidecar
    standing, ordered = orders.polls[-1], sidecar.metric("capture_jobs_total")
    assert (standing["v"], standing["sampler"], standing["paused"]) == (1, "native", False)
    assert standing["labels"]["service"] == "shop"
    assert standing["processes"] == [
        {"pid": target.pid, "role": "main", "python_version": standing["processes"][0]["python_version"]}
    ]
    assert (standing["max_seconds"], standing["max_rate"]) == (600, 1000)
    orders.order("c_one", seconds=300, rate=200)
    reported = lambda: {one.get("samples", 0) for one in orders.reports.get("c_one", [])}  # noqa: E731
    eventually("it reports its progress", lambda: len(reported()) >= 3 and max(reported()) > 100)
    orders.stops = ["c_one"]
    last = ends(orders, "c_one")
    assert (last["state"], last["problem"], last["recordings"]) == ("stopped", "", 0)
    assert last["samples"] > 100
    assert last["top_functions"][0]["function"] == "busy (spin.py)"
    assert last["processes"][0]["pid"] == target.pid
    windows = captured(orders, "c_one")
    assert len(windows) == last["windows"] > 0
    assert sum(window.quality.samples for window in windows) == last["samples"]
    told = orders.reports["c_one"]
    assert [one["state"] for one in told[:2]] == ["sampling", "sampling"]
    samples = [one.get("samples", 0) for one in told]
    assert samples == sorted(samples)
    assert {poll["agent"] for poll in orders.polls} == {standing["agent"]}
    assert sidecar.metric("capture_jobs_total") == ordered + 1


def test_a_stop_order_ends_a_capture_and_what_was_sampled_is_kept(watched: Watched) -> None:
    orders = watched.orders
    orders.order("c_long", seconds=300, timeline=True)
    eventually("it samples", lambda: orders.last("c_long").get("samples", 0) > 20)
    orders.stops.append("c_long")
    last = ends(orders, "c_long")
    assert (last["state"], last["problem"], last["recordings"]) == ("stopped", "", 1)
    assert last["elapsed_seconds"] < 200
    assert sum(w.quality.samples for w in captured(orders, "c_long")) == last["samples"]
    (recording,) = orders.recordings.values()
    assert sum(len(thread["at_us"]) for thread in recording["threads"]) == last["samples"]


def test_each_capture_is_taken_once_however_often_it_is_ordered(watched: Watched) -> None:
    orders, sidecar = watched.orders, watched.sidecar
    before = sidecar.metric("captures_total")
    orders.order("c_1", seconds=0.6)
    first = ends(orders, "c_1")
    orders.order("c_2", seconds=0.6)
    second = ends(orders, "c_2")
    assert (first["state"], second["state"]) == ("done", "done")
    reports = orders.reports.pop("c_1")
    again = ends(orders, "c_1")
    assert again == reports[-1]
    assert len(captured(orders, "c_1")) == first["windows"]
    assert len(captured(orders, "c_2")) == second["windows"]
    assert sidecar.metric("captures_total") == before + 2


def test_a_paused_sidecar_says_so_and_takes_no_capture(watched: Watched) -> None:
    orders, sidecar = watched.orders, watched.sidecar
    sidecar.post("/pause", b"")
    eventually("the held question is asked anew", lambda: orders.polls[-1]["paused"])
    assert not orders.polls[-1]["ready"]
    orders.order("c_paused")
    last = ends(orders, "c_paused")
    assert (last["state"], last["problem"]) == ("failed", "sampling is paused by: api")
    assert last["hint"] == "To go on: POST /resume."
    sidecar.post("/resume", b"")
    orders.order("c_cut", seconds=60)
    eventually("it samples", lambda: orders.last("c_cut").get("samples", 0) > 5)
    sidecar.post("/pause", b"")
    last = ends(orders, "c_cut")
    assert (last["state"], last["problem"]) == ("done", "sampling was paused before the capture ended")
    assert len(captured(orders, "c_cut")) == last["windows"] > 0


def test_a_second_capture_of_a_process_fails_while_the_first_goes_on(watched: Watched) -> None:
    target, orders = watched.target, watched.orders
    orders.order("c_first", seconds=60)
    eventually("it samples", lambda: orders.last("c_first").get("samples", 0) > 5)
    orders.order("c_second")
    last = ends(orders, "c_second")
    assert last["problem"] == f"a capture runs on process {target.pid} already"
    assert last["hint"]
    assert orders.state("c_first") == "sampling"


def test_the_command_has_no_order_of_time_and_says_so(watched: Watched) -> None:
    orders = watched.orders
    orders.order("c_command", seconds=1.5, mode="command", timeline=True)
    last = ends(orders, "c_command")
    assert (last["state"], last["recordings"]) == ("done", 0)
    assert "not kept in time order: the py-spy command" in last["problem"]
    assert last["windows"] > 0
    assert not orders.tries


def test_a_recording_is_sent_again_until_it_is_taken_and_its_loss_fails_nothing(watched: Watched) -> None:
    orders, sidecar = watched.orders, watched.sidecar
    before = sidecar.metric("timeline_recordings_total")
    orders.puts = [Reply(503), Reply(429), Reply(401)]
    orders.order("c_again", seconds=0.6, timeline=True)
    last = ends(orders, "c_again")
    assert (last["state"], last["recordings"], last["problem"]) == ("done", 1, "")
    assert len(orders.tries) == 4
    orders.puts = [Reply(413, {"error": "too_large", "message": "a recording is too large"})]
    orders.order("c_large", seconds=0.6, timeline=True)
    last = ends(orders, "c_large")
    assert (last["state"], last["recordings"]) == ("done", 0)
    assert last["problem"].endswith("is lost: the collector answered 413: a recording is too large")
    assert len(orders.tries) == 5
    assert sidecar.metric("timeline_recordings_total") == before + 2
    assert sidecar.metric("timeline_recording_bytes") == 0
