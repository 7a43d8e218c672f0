"""Captures that people start at a real collector, taken by a real sidecar beside a real program."""

from __future__ import annotations

import json
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import zstandard

from tests.processes import Collector, Running, collector, eventually, free_port, running, sidelight

TARGETS = Path(__file__).parents[1] / "sidecar" / "targets"
TURN_MS = 190
"""Longer than a step of the heat map, and no divisor of a second, so that turns wander through it."""
CLOSE_US = 25_000
FINAL = ("ready", "failed", "stopped")
OPTIONS = (
    *(
        "--window-seconds",
        "0.5",
        "--scan-interval-seconds",
        "0.1",
        "--send-backoff-max-seconds",
        "0.5",
        "--on-demand",
    ),
    *("--budget-cpu-percent", "100", "--budget-stop-percent", "100", "--capture-budget-percent", "100"),
)


@dataclass
class Live:
    """A collector, and a program with a sidecar."""

    collector: Collector
    target: Running
    carrier: Running
    port: str
    folder: Path

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if content else {}
        url = self.collector.url + path if path.startswith("/api") else self.port + path
        request = urllib.request.Request(url, data=content, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def get(self, path: str) -> Any:
        status, told = self.ask("GET", path)
        assert status == 200, told
        return told

    def start(self, **wish: object) -> str:
        wish = {"service": "alternates", "seconds": 3, **wish}
        status, made = self.ask("POST", "/api/v1/captures", wish)
        assert status == 201, made
        return str(made["id"])

    def capture(self, capture: str) -> Any:
        return self.get(f"/api/v1/captures/{capture}")

    def ends(self, capture: str) -> Any:
        eventually("the capture ends", lambda: self.capture(capture)["state"] in FINAL, 60)
        return self.capture(capture)

    def sampling(self, capture: str) -> None:
        eventually("it samples", lambda: self.capture(capture)["samples"] > 20, 60)

    def stored(self, capture: str) -> int:
        """Samples of the capture's windows that a query finds."""
        query = quote(f'{{capture="{capture}"}}')
        return int(self.get(f"/api/v1/flamegraph?query={query}&type=wall")["basis"]["samples"])


@contextmanager
def living(folder: Path, *options: str) -> Iterator[Live]:
    with ExitStack() as stack:
        served = stack.enter_context(collector(folder, str(folder / "store"), *options))
        argv = [sys.executable, str(TARGETS / "alternates.py"), str(TURN_MS), "reader"]
        target = stack.enter_context(running(folder / "target.log", *argv))
        eventually("the target runs", lambda: "ready" in target.said())
        arguments = ["--collector", served.url, "--service", "alternates", "--pod", "p-1", "--version", "2"]
        arguments += ["--spool-dir", str(folder / "spool"), "--listen", "127.0.0.1:0"]
        arguments += ["--pid", str(target.pid), *OPTIONS]
        carrier = stack.enter_context(running(folder / "sidecar.log", *sidelight("sidecar", *arguments)))

        def listens() -> str | None:
            assert carrier.alive(), carrier.said()
            found = re.search(r"listening\S*\s+url=(\S+)", carrier.said())
            return found[1] if found else None

        live = Live(served, target, carrier, eventually("the sidecar listens", listens), folder)

        def known() -> bool:
            return any(one["ready"] for one in live.get("/api/v1/agents")["agents"])

        eventually("the collector knows a sidecar that is ready", known)
        yield live
        assert carrier.end(signal.SIGTERM) == 0, carrier.said()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Shared by the tests that leave it as it was."""
    with living(tmp_path_factory.mktemp("live")) as one:
        yield one


def turns(live: Live) -> list[tuple[int, str]]:
    """When which function began, in Unix microseconds, as the program itself says."""
    return [(int(at) // 1000, name) for name, at in re.findall(r"(first|second) (\d+)", live.target.said())]


def running_at(schedule: list[tuple[int, str]], at_us: int) -> str:
    """Which function ran, or nothing where it is too near to a switch to tell."""
    if min(abs(at_us - moment) for moment, _ in schedule) < CLOSE_US or at_us > schedule[-1][0]:
        return ""
    return max((moment, name) for moment, name in schedule if moment <= at_us)[1]


def below(flame: Any, function: str) -> int:
    """Samples in a function and in what it called."""
    path: list[str] = []
    samples = 0
    for level, name, own in zip(
        flame["level"], flame["name"], flame["sides"][0]["self_samples"], strict=True
    ):
        path[level:] = [flame["names"][name]]
        samples += own * any(frame.startswith(f"{function} (") for frame in path)
    return samples


def test_a_capture_started_over_http_says_what_ran_at_each_moment(live: Live) -> None:
    capture = live.start(rate=100, seconds=3)
    ended = live.ends(capture)
    assert (ended["state"], ended["problem"]) == ("ready", "")
    (part,) = ended["parts"]
    assert (part["state"], part["recordings"], part["labels"]["pod"]) == ("done", 1, "p-1")
    assert live.stored(capture) == part["samples"] > 100
    assert {one["function"].split(" ")[0] for one in part["top_functions"]} & {"first", "second"}

    (listed,) = live.get(f"/api/v1/captures/{capture}/recordings")["recordings"]
    assert (listed["pid"], listed["samples"]) == (live.target.pid, part["samples"])
    kept = live.folder / "store" / "v1" / "captures" / capture / "recordings" / f"{listed['name']}.json.zst"
    recording = json.loads(zstandard.ZstdDecompressor().decompress(kept.read_bytes()))
    schedule = turns(live)
    (main,) = [thread for thread in recording["threads"] if thread["name"] == "MainThread"]
    assert all(one < two for one, two in pairwise(main["at_us"]))
    right = wrong = 0
    for at_us, stack in zip(main["at_us"], main["stack"], strict=True):
        frames = [recording["frames"][frame] for frame in recording["stacks"][stack]]
        if expected := running_at(schedule, recording["start_ns"] // 1000 + at_us):
            found = any(frame.startswith(f"{expected} (") for frame in frames)
            right, wrong = right + found, wrong + (not found)
    assert right > 50
    assert wrong <= right // 50, (right, wrong)

    # The flame graph of the middle of a turn has this turn's function, and not the other.
    offsets = live.get(f"/api/v1/captures/{capture}/subsecond-heatmap?type=wall&step_ms=20")
    assert sum(offsets["all_samples"]) == part["samples"]
    start_us = int(offsets["start"]) * 1_000_000
    first_us, last_us = (offsets["recordings"][0][name] for name in ("from_us", "until_us"))
    seen = set()
    for (begin, name), (end, other) in pairwise(schedule):
        span = (begin - start_us + CLOSE_US, end - start_us - CLOSE_US)
        if span[0] < first_us or span[1] > last_us or span[0] >= span[1]:
            continue
        asked = f"type=wall&from_us={span[0]}&until_us={span[1]}"
        flame = live.get(f"/api/v1/captures/{capture}/flamegraph?{asked}")
        samples = below(flame, name)
        if samples >= 5:
            assert below(flame, other) <= samples // 10, (span, name)
            seen.add(name)
    assert seen == {"first", "second"}

    drawn = live.get(f"/api/v1/captures/{capture}/{listed['name']}.speedscope.json")
    assert {profile["name"] for profile in drawn["profiles"]} == {"MainThread", "reader"}


def test_two_captures_in_a_row_are_told_apart_and_a_stop_keeps_what_there_is(live: Live) -> None:
    first = live.start(seconds=300, rate=50)
    live.sampling(first)
    assert live.ask("POST", f"/api/v1/captures/{first}/stop")[0] == 200
    stopped = live.ends(first)
    assert (stopped["state"], stopped["problem"]) == ("stopped", "")
    assert live.stored(first) == stopped["samples"] > 20
    assert len(live.get(f"/api/v1/captures/{first}/recordings")["recordings"]) == 1
    second = live.start(seconds=1, rate=100, timeline=False)
    ended = live.ends(second)
    assert ended["state"] == "ready"
    assert live.stored(second) == ended["samples"] > 20
    assert live.stored(first) == stopped["samples"]
    assert live.get(f"/api/v1/captures/{second}/recordings")["recordings"] == []
    assert live.ask("GET", f"/api/v1/captures/{second}/subsecond-heatmap")[0] == 404


def test_a_capture_outlives_its_collector(tmp_path: Path) -> None:
    with ExitStack() as stack:
        address = f"127.0.0.1:{free_port()}"
        live = stack.enter_context(living(tmp_path, "--listen", address))
        capture = live.start(seconds=4, rate=100)
        live.sampling(capture)
        live.collector.running.end(signal.SIGKILL)
        again = stack.enter_context(collector(tmp_path, str(tmp_path / "store"), "--listen", address))
        live.collector = again
        ended = live.ends(capture)
        assert (ended["state"], ended["problem"]) == ("ready", "")
        assert live.stored(capture) == ended["samples"]
        (recording,) = live.get(f"/api/v1/captures/{capture}/recordings")["recordings"]
        assert recording["samples"] == ended["samples"]
        following = live.start(seconds=0.5)
        assert live.ends(following)["state"] == "ready"
        assert live.carrier.end(signal.SIGTERM) == 0, live.carrier.said()


def test_a_paused_sidecar_takes_nothing_and_one_that_is_paused_meanwhile_ends_with_what_it_has(
    live: Live,
) -> None:
    capture = live.start(seconds=300)
    live.sampling(capture)
    assert live.ask("POST", "/pause", {})[0] == 200
    ended = live.ends(capture)
    assert ended["state"] == "ready"
    assert ended["parts"][0]["problem"] == "sampling was paused before the capture ended"
    assert live.stored(capture) == ended["samples"] > 20

    def paused() -> bool:
        return all(one["paused"] for one in live.get("/api/v1/agents")["agents"])

    eventually("the collector knows that it is paused", paused)
    waits = live.start(seconds=1)
    assert live.capture(waits)["state"] == "queued"
    assert live.ask("POST", "/resume", {})[0] == 200
    assert live.ends(waits)["state"] == "ready"
