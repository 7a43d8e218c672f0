from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.errors import Reason
from sidelight_model.window import Window
from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.shipping.collector_client import ClientConfig
from sidelight_sidecar.shipping.ingest_response import (
    RETRY_SPREAD_SECONDS,
    RequestOutcome,
    compute_backoff,
    compute_retry_delay,
    parse_ingest_response,
    parse_retry_after,
)
from sidelight_sidecar.shipping.ship import Shipper
from sidelight_sidecar.shipping.spool import Spool
from tests.processes import free_port
from tests.sidecar.fake_collector import FakeCollector, Reply, collecting
from tests.sidecar.windows import make_id, window

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


class Shipping:
    """A shipper that runs on a spool."""

    def __init__(
        self, folder: Path, url: str, http: aiohttp.ClientSession, token_file: Path | None = None
    ) -> None:
        self.metrics, self.board = SidecarMetrics(), HealthBoard()
        self.spool = Spool(folder, 1 << 20, self.metrics, make_id)
        route = ClientConfig(
            url, token_file, batch_max_bytes=1 << 16, timeout_seconds=60.0, max_backoff_seconds=0.05
        )
        self.shipper = Shipper(self.spool, route, http, self.metrics, self.board, lambda: 0.5)

    def put(self, *windows: Window) -> None:
        for one in windows:
            self.spool.put(one)
        self.shipper.wake()

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"sidelight_sidecar_{name}", labels) or 0.0

    async def until(self, check: Callable[[], bool]) -> None:
        """Run the shipper until `check` holds."""
        running = asyncio.create_task(self.shipper.run())
        try:
            async with asyncio.timeout(90):
                while not check():
                    await asyncio.sleep(0.01)
                    if running.done():
                        running.result()
        finally:
            running.cancel()

    async def emptied(self) -> None:
        await self.until(lambda: len(self.spool) == 0)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def shipping(tmp_path: Path, collector: FakeCollector, http: aiohttp.ClientSession) -> Shipping:
    return Shipping(tmp_path / "spool", collector.url, http)


async def test_windows_leave_the_spool_once_they_are_acknowledged(
    shipping: Shipping, collector: FakeCollector
) -> None:
    windows = [window(number) for number in range(5)]
    shipping.put(*windows)
    await shipping.emptied()
    assert collector.taken == windows
    assert len(collector.requests) == 1
    assert shipping.count("shipped_windows_total", outcome="accepted") == 5


async def test_a_window_that_is_acknowledged_as_a_duplicate_leaves_the_spool(
    shipping: Shipping, collector: FakeCollector
) -> None:
    one = window(0)
    collector.windows[one.id] = one
    shipping.put(one)
    await shipping.emptied()
    assert shipping.count("shipped_windows_total", outcome="duplicate") == 1


async def test_only_what_was_acknowledged_is_deleted(shipping: Shipping, collector: FakeCollector) -> None:
    first, second = window(0), window(1)
    collector.decide = lambda windows: (
        Reply(200, {"accepted": [first.id], "duplicates": []}) if len(windows) == 2 else None
    )
    shipping.put(first, second)
    await shipping.emptied()
    assert collector.requests == [[first.id, second.id], [second.id]]


async def test_one_bad_window_costs_only_itself(
    shipping: Shipping, collector: FakeCollector, tmp_path: Path
) -> None:
    windows = [window(number) for number in range(6)]
    bad = windows[2].id

    def decide(sent: list[Window]) -> Reply | None:
        if bad in [one.id for one in sent]:
            return Reply(422, {"error": "clock_skew", "message": "from the future", "hint": ""})
        return None

    collector.decide = decide
    shipping.put(*windows)
    await shipping.emptied()
    assert [one.id for one in collector.taken] == [one.id for one in windows if one.id != bad]
    assert (tmp_path / "spool" / "refused" / f"{bad}.zst").exists()
    assert shipping.count("refused_windows_total", reason="clock_skew") == 1
    assert shipping.board.issues == {}


async def test_a_reason_nobody_knows_is_counted_as_other(
    shipping: Shipping, collector: FakeCollector
) -> None:
    collector.decide = lambda windows: Reply(400, {"error": "weird"})
    shipping.put(window(0))
    await shipping.emptied()
    assert shipping.count("refused_windows_total", reason="other") == 1


async def test_a_body_too_large_for_a_proxy_is_sent_window_by_window(
    shipping: Shipping, collector: FakeCollector
) -> None:
    collector.decide = lambda windows: Reply(413) if len(windows) > 1 else None
    shipping.put(*[window(number) for number in range(3)])
    await shipping.emptied()
    assert [len(request) for request in collector.requests] == [3, 1, 1, 1]


async def test_batches_are_bounded_in_bytes(shipping: Shipping, collector: FakeCollector) -> None:
    long = "".join(f"main;{n:0100d} 1\n" for n in range(250))
    shipping.put(*[window(number, long) for number in range(5)])
    await shipping.emptied()
    assert [len(request) for request in collector.requests] == [2, 2, 1]


@pytest.mark.parametrize("status", [400, 404, 422, 502])
async def test_a_refusal_that_is_not_the_collectors_own_loses_nothing(
    shipping: Shipping, collector: FakeCollector, status: int
) -> None:
    answers = iter([Reply(status)] * 3)
    collector.decide = lambda windows: next(answers, None)
    shipping.put(window(0))
    await shipping.emptied()
    assert len(collector.taken) == 1
    assert len(collector.requests) == 4


async def test_a_busy_collector_is_left_alone_as_long_as_it_asks(
    shipping: Shipping, collector: FakeCollector
) -> None:
    times: list[float] = []

    def decide(windows: list[Window]) -> Reply | None:
        times.append(time.monotonic())
        return Reply(429, {"error": "overloaded"}, {"Retry-After": "1"}) if len(times) == 1 else None

    collector.decide = decide
    shipping.put(window(0))
    await shipping.emptied()
    assert times[1] - times[0] >= 1.0


@pytest.mark.parametrize("status", [401, 403])
async def test_a_token_that_is_not_accepted_keeps_the_windows_and_says_what_to_do(
    shipping: Shipping, collector: FakeCollector, status: int
) -> None:
    collector.decide = lambda windows: Reply(status, {"error": "unauthorized", "message": "who is it"})
    shipping.put(window(0))
    await shipping.until(lambda: len(collector.requests) >= 3)
    assert len(shipping.spool) == 1
    problem = shipping.board.issues["collector"]
    assert problem.reason is Reason.UNAUTHORIZED
    assert "--token-file" in problem.hint
    collector.decide = lambda windows: None
    await shipping.emptied()
    assert shipping.board.issues == {}


async def test_the_token_file_is_read_for_every_request(
    tmp_path: Path, collector: FakeCollector, http: aiohttp.ClientSession
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    shipping = Shipping(tmp_path / "spool", collector.url, http, token)
    shipping.put(window(0))
    await shipping.emptied()
    token.write_text("second\n")
    shipping.put(window(1))
    await shipping.emptied()
    assert collector.tokens == ["Bearer first", "Bearer second"]
    token.unlink()
    shipping.put(window(2))
    await shipping.until(lambda: "collector" in shipping.board.issues)
    assert "token file" in shipping.board.issues["collector"].message


async def test_windows_wait_for_a_collector_that_is_away(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    port = free_port()
    shipping = Shipping(tmp_path / "spool", f"http://127.0.0.1:{port}", http)
    shipping.put(window(0), window(1))
    await shipping.until(lambda: "collector" in shipping.board.issues)
    assert shipping.board.issues["collector"].reason is Reason.COLLECTOR_UNREACHABLE
    assert [entry.was_sent for entry in shipping.spool.list_oldest(2)] == [False, False]
    with collecting(port) as back:
        await shipping.emptied()
        assert len(back.taken) == 2


async def test_windows_sent_without_a_clear_answer_keep_their_ids(
    shipping: Shipping, collector: FakeCollector
) -> None:
    collector.decide = lambda windows: Reply(503, {"error": "store_unavailable"})
    shipping.put(window(0))
    await shipping.until(lambda: len(collector.requests) >= 2)
    assert [entry.was_sent for entry in shipping.spool.list_oldest(1)] == [True]


async def test_draining_ends_when_the_spool_is_empty(shipping: Shipping, collector: FakeCollector) -> None:
    shipping.put(window(0))
    shipping.shipper.drain()
    async with asyncio.timeout(90):
        await shipping.shipper.run()
    assert len(collector.taken) == 1


@given(st.integers(1, 100), st.floats(0.05, 600), st.none() | st.floats(0, 600), st.integers(0, 2**32))
def test_a_retry_waits_at_least_retry_after_and_a_bounded_time(
    attempt: int, max_seconds: float, retry_after: float | None, seed: int
) -> None:
    delay = compute_retry_delay(attempt, max_seconds, retry_after, random.Random(seed).random)
    required = retry_after or 0.0
    assert required <= delay <= max(max_seconds, 1.5 * required) + min(RETRY_SPREAD_SECONDS, max_seconds)


@pytest.mark.parametrize("retry_after", [None, 2.0, 10.0])
def test_sidecars_that_failed_together_do_not_return_together(retry_after: float | None) -> None:
    rng = random.Random(7).random
    delays = [compute_retry_delay(1, 60, retry_after, rng) for _ in range(10_000)]
    in_the_busiest_second = max(Counter(map(int, delays)).values())
    assert in_the_busiest_second < 2_500


def test_retry_after_is_seconds_or_a_date_and_never_more_than_ten_minutes() -> None:
    assert parse_retry_after("7", NOW) == 7
    assert parse_retry_after("Sat, 21 Nov 2026 12:00:30 GMT", NOW) == 30
    assert parse_retry_after("Sat, 21 Nov 2026 11:00:00 GMT", NOW) == 0
    assert parse_retry_after("999999999", NOW) == 600
    assert parse_retry_after("soon", NOW) is None
    assert parse_retry_after(None, NOW) is None


def test_pauses_double_up_to_the_longest_and_differ_by_chance() -> None:
    assert [compute_backoff(attempt, 60, 1.0) for attempt in (1, 2, 3, 8, 9, 5000)] == [0.5, 1, 2, 60, 60, 60]
    assert compute_backoff(3, 60, 0.0) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"accepted": 3}', b"\xff", b"[" * 100_000])
def test_any_answer_can_be_read(body: bytes) -> None:
    answer = parse_ingest_response(200, None, body, NOW)
    assert (answer.outcome, answer.stored) == (RequestOutcome.UNEXPECTED, None)


async def test_a_window_whose_file_was_removed_holds_up_no_other(
    shipping: Shipping, collector: FakeCollector, tmp_path: Path
) -> None:
    removed, kept = window(0), window(1)
    shipping.put(removed, kept)
    (tmp_path / "spool" / f"{removed.id}.zst").unlink()
    await shipping.emptied()
    assert collector.taken == [kept]
    assert shipping.count("spool_dropped_windows_total", reason="missing") == 1


async def test_a_spool_that_cannot_be_changed_is_reported_until_it_can(
    shipping: Shipping, collector: FakeCollector, tmp_path: Path
) -> None:
    spool, away = tmp_path / "spool", tmp_path / "away"
    waiting = window(0)
    shipping.put(waiting)
    spool.rename(away)
    spool.touch()
    await shipping.until(lambda: "sending from the spool" in shipping.board.issues)
    assert shipping.board.issues["sending from the spool"].reason is Reason.SPOOL_UNWRITABLE
    spool.unlink()
    away.rename(spool)
    await shipping.until(lambda: not shipping.board.issues and len(shipping.spool) == 0)
    assert collector.taken == [waiting]


async def test_a_collector_that_acknowledges_other_windows_only_has_taken_none(
    shipping: Shipping, collector: FakeCollector
) -> None:
    collector.decide = lambda windows: Reply(200, {"accepted": ["01M7Q5DMSGQFZAFGTVC7BAK854"]})
    shipping.put(window(0))
    await shipping.until(lambda: "collector" in shipping.board.issues)
    assert "acknowledged none" in shipping.board.issues["collector"].message
    assert shipping.count("sends_total", outcome="accepted") == 0
    assert shipping.count("last_shipped_timestamp_seconds") == 0
    collector.decide = lambda windows: None
    await shipping.emptied()
