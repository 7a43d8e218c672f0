"""The load generator against real servers, some of which behave badly on purpose."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidelight.demo.latency import Latency, quantile
from sidelight.demo.load import Plan, Round, offer
from sidelight.settings import BadSetting

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def load_on(handler: Handler, **plan: object) -> list[Round]:
    """The rounds of a plan carried out on a server that answers every path with `handler`."""
    app = web.Application()
    app.router.add_get("/{path}", handler)
    rounds: list[Round] = []
    async with TestServer(app) as server:
        await offer(Plan(url=str(server.make_url("")).rstrip("/"), **plan), rounds.append)  # type: ignore[arg-type]
    return rounds


async def answer(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def test_the_rate_is_kept_and_paths_are_asked_in_turn() -> None:
    (one,) = await load_on(answer, rate=200.0, seconds=1.5)
    assert one.sent == one.overall.answered == 300
    assert one.arrival_rate == pytest.approx(200, rel=0.05)
    assert {path: latency.answered for path, latency in one.paths.items()} == {"/50": 150, "/125": 150}
    assert one.errors == {}
    assert one.until - one.start == pytest.approx(1.5)


async def test_latency_counts_from_the_intended_start_when_the_service_stalls() -> None:
    began = time.monotonic()

    async def stall(request: web.Request) -> web.Response:
        """Answer at once, but between 0.5 s and 1.5 s after the start nobody."""
        since = time.monotonic() - began
        if 0.5 <= since < 1.5:
            await asyncio.sleep(1.5 - since)
        return web.Response()

    (one,) = await load_on(stall, rate=100.0, seconds=2.0)
    assert one.arrival_rate == pytest.approx(100, rel=0.05), "a stall must not slow the load down"
    assert one.overall.p99_ms is not None
    assert one.overall.p95_ms is not None
    assert one.overall.max_ms is not None
    assert one.overall.max_ms > 900
    assert one.overall.p95_ms > 800, "about half of all requests waited, evenly spread from 0 to 1 s"


async def test_a_generator_that_is_late_itself_charges_the_latency_and_says_so() -> None:
    held = False

    async def hold(request: web.Request) -> web.Response:
        nonlocal held
        if not held:
            held = True
            time.sleep(0.5)
        return web.Response()

    (one,) = await load_on(hold, rate=100.0, seconds=1.0)
    assert one.late_p99_ms > 400
    assert one.overall.max_ms is not None
    assert one.overall.max_ms > 400
    assert one.sent == 100


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
    refused: list[Round] = []
    await offer(Plan(url="http://127.0.0.1:1", rate=50.0, seconds=0.2), refused.append)
    assert failed.errors == {"status_500": 10}
    assert hung.errors == {"timeout": 10}
    assert broken.errors == {"broken_off": 10}
    assert held_back.errors == {"not_sent": 6, "timeout": 4}
    assert refused[0].errors == {"not_connected": 10}
    assert failed.overall == Latency.of([])
    assert failed.failed == 10


async def test_rounds_follow_each_other_without_a_gap_and_come_in_order() -> None:
    first, second, third = await load_on(answer, rate=50.0, seconds=0.3, rounds=3, warm_up_seconds=0.2)
    assert first.until == pytest.approx(second.start)
    assert second.until == pytest.approx(third.start)
    assert [one.sent for one in (first, second, third)] == [15, 15, 15]


async def test_the_warm_up_is_sent_and_not_counted() -> None:
    seen = 0

    async def count(request: web.Request) -> web.Response:
        nonlocal seen
        seen += 1
        return web.Response()

    (one,) = await load_on(count, rate=50.0, seconds=0.2, warm_up_seconds=0.4)
    assert (seen, one.sent) == (30, 10)


async def test_the_first_request_waits_for_the_moment_asked_for() -> None:
    moment = time.time() + 0.5
    (one,) = await load_on(answer, rate=50.0, seconds=0.2, start_at=moment)
    assert one.start == pytest.approx(moment, abs=0.01)


async def test_a_round_reads_back_from_its_line() -> None:
    (one,) = await load_on(answer, rate=50.0, seconds=0.2)
    assert Round.parse(one.line()) == one


@pytest.mark.parametrize(
    ("q", "expected"), [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (0.0, 1.0), (1.0, 100.0), (0.501, 51.0)]
)
def test_a_quantile_is_the_value_at_the_nearest_rank(q: float, expected: float) -> None:
    assert quantile([float(value) for value in range(1, 101)], q) == expected


def test_a_plan_has_a_bound_on_requests() -> None:
    with pytest.raises(BadSetting, match="requests"):
        Plan(url="http://127.0.0.1:1", rate=2000.0, seconds=3600.0, rounds=1000)
    with pytest.raises(BadSetting, match="nothing to send"):
        Plan(url="http://127.0.0.1:1", rate=1.0, seconds=0.1)


async def test_as_a_process_it_writes_one_line_and_ends_by_itself() -> None:
    app = web.Application()
    app.router.add_get("/{path}", answer)
    async with TestServer(app) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sidelight.demo.load", "--url", str(server.make_url("")).rstrip("/")),
            *("--rate", "50", "--seconds", "0.5"),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
    assert Round.parse(output).overall.answered == 25


def test_as_a_process_it_refuses_a_wrong_option_with_a_hint() -> None:
    argv = [sys.executable, "-m", "sidelight.demo.load", "--url", "http://127.0.0.1:1", "--rate", "fast"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert "'fast' is not a number" in ended.stderr
    assert "hint:" in ended.stderr
