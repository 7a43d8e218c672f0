"""The load generator: its timing on a simulated clock, its requests against real servers that misbehave."""

from __future__ import annotations

import asyncio
import selectors
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidelight.settings import BadSetting
from sidelight_cli.demo.processes.latency import Latency, compute_quantile
from sidelight_cli.demo.processes.load_generator import (
    MAX_SORTED_LATENCIES,
    READY_LINE,
    LoadGenerator,
    LoadPlan,
    LoadRound,
    run_load,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when every task waits, and then at once."""

    def __init__(self) -> None:
        super().__init__(selectors.DefaultSelector())
        self.now = 100.0
        self._selector.select = self._skip

    def time(self) -> float:
        return self.now

    def _skip(self, timeout: float | None = None) -> list[object]:
        assert timeout is not None, "every task waits for ever"
        self.now += timeout
        return []


class Answer:
    """A response that comes after some time, as aiohttp's context manager."""

    def __init__(self, seconds: float) -> None:
        self.status = 200
        self._seconds = seconds

    async def __aenter__(self) -> Answer:
        await asyncio.sleep(self._seconds)
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self) -> bytes:
        return b""


class Service:
    """A service on the simulated clock; `delay` gives the seconds of an answer at a time since the start."""

    def __init__(self, delay: Callable[[float], float] = lambda since: 0.05) -> None:
        self._delay = delay
        self.paths: list[str] = []

    def get(self, url: str) -> Answer:
        loop = asyncio.get_running_loop()
        self.paths.append(url.removeprefix("http://service"))
        return Answer(self._delay(loop.time() - 100.0))


def simulated(service: Service, **plan: object) -> list[LoadRound]:
    """The rounds of a plan carried out on the simulated clock."""
    rounds: list[LoadRound] = []

    async def run() -> None:
        await LoadGenerator(LoadPlan(url="http://service", **plan), service, rounds.append).run()  # type: ignore[arg-type]

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(run())
    return rounds


async def load_on(handler: Handler, **plan: object) -> list[LoadRound]:
    """The rounds of a plan carried out on a server that answers every path with `handler`."""
    app = web.Application()
    app.router.add_get("/{path}", handler)
    rounds: list[LoadRound] = []
    async with TestServer(app) as server:
        await run_load(LoadPlan(url=str(server.make_url("")).rstrip("/"), **plan), rounds.append)  # type: ignore[arg-type]
    return rounds


async def answer(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def test_load_keeps_its_rate_and_requests_paths_in_turn() -> None:
    service = Service()
    (one,) = simulated(service, rate=200.0, seconds=1.5)
    assert one.sent == one.overall.answered == 300
    assert one.arrival_rate == pytest.approx(200)
    assert one.overall.p50_ms == pytest.approx(50)
    assert service.paths[:4] == ["/50", "/125", "/50", "/125"]
    assert {path: latency.answered for path, latency in one.paths.items()} == {"/50": 150, "/125": 150}
    assert one.errors == {}
    assert one.until - one.start == pytest.approx(1.5)


def test_latency_counts_from_the_intended_start_when_the_service_stalls() -> None:
    stall = Service(lambda since: 1.5 - since if 0.5 <= since < 1.5 else 0.0)
    (one,) = simulated(stall, rate=100.0, seconds=2.0)
    assert one.arrival_rate == pytest.approx(100), "a stall must not slow the load down"
    assert one.overall.max_ms == pytest.approx(1000)
    assert one.overall.p95_ms == pytest.approx(900), "half of all requests waited, evenly from 0 to 1 s"
    assert one.overall.p50_ms == pytest.approx(0, abs=10)


def test_a_late_generator_adds_its_delay_to_latencies_and_reports_it() -> None:
    def hold(since: float) -> float:
        """Take half a second of the generator's own time at the first request."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.now += 0.5 if since < 0.005 else 0.0
        return 0.0

    (one,) = simulated(Service(hold), rate=100.0, seconds=1.0)
    assert one.late_p99_ms == pytest.approx(480)
    assert one.overall.max_ms == pytest.approx(500)
    assert one.sent == 100


def test_rounds_follow_each_other_without_a_gap_after_an_uncounted_warm_up() -> None:
    service = Service()
    first, second, third = simulated(service, rate=50.0, seconds=0.4, rounds=3, warm_up_seconds=0.2)
    assert first.until == pytest.approx(second.start, abs=1e-3)
    assert second.until == pytest.approx(third.start, abs=1e-3)
    assert [one.sent for one in (first, second, third)] == [20, 20, 20]
    assert len(service.paths) == 10 + 60


@pytest.mark.parametrize(("later", "late_ms"), [(500.0, 0), (-0.3, 300)])
def test_the_first_request_has_the_start_time_also_when_it_is_late(later: float, late_ms: float) -> None:
    moment = time.time() + later
    (one,) = simulated(Service(), rate=50.0, seconds=0.2, start_at=moment)
    assert one.start == pytest.approx(moment, abs=1e-3)
    assert one.overall.max_ms is not None
    assert one.overall.max_ms >= late_ms


def test_the_first_round_alone_reports_its_progress() -> None:
    rounds = simulated(Service(), rate=10.0, seconds=3.5, rounds=2, warm_up_seconds=1.0, progress_seconds=1.0)
    assert [one.complete for one in rounds] == [False, False, False, True, True]
    one, two, three, whole, _ = rounds
    assert one.sent < two.sent < three.sent < whole.sent == 35
    assert one.until - one.start == pytest.approx(1.0, abs=0.11)
    assert one.arrival_rate == pytest.approx(10)
    assert one.paths["/50"].p50_ms == pytest.approx(50)
    assert one.start == whole.start
    assert LoadRound.parse(one.to_json_line()) == one


def test_progress_sums_up_a_bounded_number_of_latencies() -> None:
    rounds = simulated(Service(), path=("/50",), rate=2000.0, seconds=6.0, progress_seconds=5.5)
    assert [one.complete for one in rounds] == [False, True]
    assert rounds[0].sent > MAX_SORTED_LATENCIES == rounds[0].overall.answered
    assert rounds[1].overall.answered == 12_000


async def test_requests_without_a_good_answer_are_counted_by_kind_and_have_no_latency() -> None:
    async def fail(request: web.Request) -> web.Response:
        return web.Response(status=500)

    async def hang(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async def cut(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    (failed,) = await load_on(fail, rate=50.0, seconds=0.2)
    (hung,) = await load_on(hang, rate=50.0, seconds=0.2, timeout_seconds=0.2)
    (broken,) = await load_on(cut, rate=50.0, seconds=0.2)
    (held_back,) = await load_on(hang, rate=50.0, seconds=0.2, timeout_seconds=0.3, max_in_flight=4)
    refused: list[LoadRound] = []
    await run_load(LoadPlan(url="http://127.0.0.1:1", rate=50.0, seconds=0.2), refused.append)
    assert failed.errors == {"status_500": 10}
    assert hung.errors == {"timeout": 10}
    assert broken.errors == {"broken_off": 10}
    assert held_back.errors == {"not_sent": 6, "timeout": 4}
    assert refused[0].errors == {"not_connected": 10}
    assert failed.overall == Latency.summarize([])
    assert failed.failed_requests == 10


async def test_a_round_reads_back_from_its_line() -> None:
    (one,) = await load_on(answer, rate=50.0, seconds=0.2)
    assert LoadRound.parse(one.to_json_line()) == one


@pytest.mark.parametrize(
    ("q", "expected"), [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (0.0, 1.0), (1.0, 100.0), (0.501, 51.0)]
)
def test_a_quantile_is_the_value_at_the_nearest_rank(q: float, expected: float) -> None:
    assert compute_quantile([float(value) for value in range(1, 101)], q) == expected


def test_a_plan_has_a_bound_on_requests() -> None:
    with pytest.raises(BadSetting, match="requests"):
        LoadPlan(url="http://127.0.0.1:1", rate=2000.0, seconds=3600.0, rounds=1000)
    with pytest.raises(BadSetting, match="nothing to send"):
        LoadPlan(url="http://127.0.0.1:1", rate=1.0, seconds=0.1)


async def test_a_load_process_waits_for_its_start_time_and_writes_one_line_a_round() -> None:
    app = web.Application()
    app.router.add_get("/{path}", answer)
    async with TestServer(app) as server:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "sidelight_cli.demo.processes.load_generator",
                "--url",
                str(server.make_url("")).rstrip("/"),
            ),
            *("--rate", "50", "--seconds", "0.5", "--wait"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 60) == READY_LINE
        start = time.time() + 0.1
        output, _ = await asyncio.wait_for(process.communicate(f"{start:.6f}\n".encode()), 60)
    assert process.returncode == 0
    one = LoadRound.parse(output)
    assert one.start == pytest.approx(start, abs=1e-5)
    assert one.overall.answered == 25


def test_a_load_process_without_a_start_time_sends_nothing() -> None:
    argv = [
        sys.executable,
        "-m",
        "sidelight_cli.demo.processes.load_generator",
        "--url",
        "http://127.0.0.1:1",
        "--wait",
    ]
    ended = subprocess.run(argv, input="", capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, READY_LINE.decode(), "")


def test_as_a_process_it_refuses_a_wrong_option_with_a_hint() -> None:
    argv = [
        sys.executable,
        "-m",
        "sidelight_cli.demo.processes.load_generator",
        "--url",
        "http://127.0.0.1:1",
        "--rate",
        "fast",
    ]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "'fast' is not a number" in ended.stderr
    assert "hint:" in ended.stderr
