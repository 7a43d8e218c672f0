"""What the read API will not answer, and how it says so."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectEntry, StoreUnavailable
from tests.collector.api_client import Client, get, refused, serving
from tests.collector.stored_windows import stored, window


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving(stored([window()])) as client:
        yield client


async def test_an_unknown_parameter_is_refused_by_name_with_those_that_exist(client: Client) -> None:
    status, body = await refused(client, "flamegraph", form="-15m")
    assert (status, body["error"]) == (400, "bad_parameter")
    assert "'form'" in body["message"]
    names = "focus, from, function, group_by, lines, max_depth, min_depth, nodes, query, states, type, until"
    assert body["hint"] == f"The parameters are: {names}."


async def test_a_parameter_given_twice_is_refused(client: Client) -> None:
    async with client.get("/api/v1/flamegraph?type=cpu&type=wall") as response:
        assert response.status == 400
        assert (await response.json())["message"] == "type is given more than once"


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("flamegraph", "type", "memory"),
        ("flamegraph", "nodes", "0"),
        ("flamegraph", "nodes", "-1"),
        ("flamegraph", "nodes", "many"),
        ("flamegraph", "lines", "yes"),
        ("compare", "states", "idle"),
        ("lines", "limit", "0"),
        ("timeline", "step", "0"),
        ("timeline", "step", "1y"),
        ("top", "by", "name"),
        ("top", "limit", "1.5"),
        ("export", "format", "jpeg"),
        ("export", "about", "yes"),
        ("export/compare", "format", "pprof"),
        ("export", "states", "2"),
    ],
)
async def test_a_value_that_cannot_be_used_is_refused_with_what_would_do(
    client: Client, path: str, name: str, value: str
) -> None:
    status, body = await refused(client, path, **{name: value})
    assert (status, body["error"]) == (400, "bad_parameter")
    assert body["message"].startswith(f"{name}=")
    assert body["hint"].startswith(f"{name} is ")


async def test_a_bad_selector_is_refused_with_its_position(client: Client) -> None:
    status, body = await refused(client, "flamegraph", query='{service="shop", version="1}')
    assert (status, body["error"]) == (400, "bad_selector")
    assert "position 25" in body["message"]
    status, body = await refused(client, "compare", baseline='version=~"("')
    assert (status, body["error"]) == (400, "bad_selector")


async def test_a_bad_time_is_refused_by_the_name_of_its_parameter(client: Client) -> None:
    for name in ("from", "until", "baseline_from", "comparison_until"):
        status, body = await refused(client, "compare", **{name: "yesterday"})
        assert (status, body["error"]) == (400, "bad_time")
        assert body["message"] == f"{name}='yesterday' is not a time"


async def test_an_empty_range_and_one_that_is_too_long_are_refused(client: Client) -> None:
    status, body = await refused(client, "services", **{"from": "-1h", "until": "-2h"})
    assert (status, body["message"]) == (400, "from is not before until: the range is empty")
    status, body = await refused(client, "depth", baseline_from="now")
    assert (status, body["message"]) == (400, "baseline_from is not before until: the range is empty")
    status, body = await refused(client, "services", **{"from": "-900d"})
    assert (status, body["error"]) == (400, "bad_parameter")
    assert "400 days" in body["message"]


async def test_a_timeline_of_too_many_steps_is_refused(client: Client) -> None:
    status, body = await refused(client, "timeline", **{"from": "-30d", "step": "1"})
    assert (status, body["error"]) == (400, "bad_parameter")
    assert "2592000 steps" in body["message"]


async def test_a_path_or_method_that_is_not_there_is_refused_in_json(client: Client) -> None:
    status, body = await refused(client, "flamegraphs")
    assert (status, body["error"]) == (404, "not_found")
    async with client.post("/api/v1/flamegraph") as response:
        assert (response.status, (await response.json())["error"]) == (405, "method_not_allowed")


async def test_a_reader_without_a_token_is_refused_where_tokens_are_asked_for() -> None:
    async with serving(stored([window()]), tokens=BearerTokens(read=("secret",))) as client:
        status, body = await refused(client, "services")
        assert (status, body["error"]) == (401, "unauthorized")


class Gate(MemoryStore):
    """A store whose listings wait until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.waiting = threading.Semaphore(0)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        self.waiting.release()
        assert self.opened.wait(120)
        return super().list(prefix, start_after)


async def test_when_all_places_are_taken_a_query_is_turned_away_and_told_when_to_return() -> None:
    gate = Gate()
    async with serving(gate, QueryLimits(running=1, waiting=1)) as client, asyncio.TaskGroup() as asking:
        three = [asking.create_task(client.get("/api/v1/services")) for _ in range(3)]
        first, others = await asyncio.wait(three, return_when=asyncio.FIRST_COMPLETED)
        gate.opened.set()
        turned_away = first.pop().result()
        assert turned_away.status == 429
        assert (await turned_away.json())["error"] == "overloaded"
        assert int(turned_away.headers["Retry-After"]) > 0
        for one in others:
            assert (await one).status == 200


async def test_a_query_that_takes_too_long_is_given_up_and_its_place_comes_free() -> None:
    gate = Gate()
    async with serving(gate, QueryLimits(running=1, waiting=0, timeout_seconds=10)) as client:
        asking = asyncio.ensure_future(client.get("/api/v1/services"))
        # A query whose time is over before its thread runs leaves no place taken.
        assert await asyncio.to_thread(gate.waiting.acquire, timeout=30)
        async with await asking as response:
            assert response.status == 503
            assert (await response.json())["error"] == "query_timeout"
            assert int(response.headers["Retry-After"]) > 0
        status, body = await refused(client, "services")
        assert (status, body["error"]) == (429, "overloaded")
        gate.opened.set()
        deadline = time.monotonic() + 30
        while True:
            async with client.get("/api/v1/services") as response:
                if response.status == 200:
                    break
            assert time.monotonic() < deadline


async def test_the_loop_answers_while_queries_run() -> None:
    gate = Gate()
    async with serving(gate) as client, asyncio.TaskGroup() as asking:
        asking.create_task(get(client, "services"), name="slow")
        assert await asyncio.to_thread(gate.waiting.acquire, timeout=30)
        async with client.get("/livez") as response:
            assert response.status == 200
        gate.opened.set()


class Gone(MemoryStore):
    """A store that does not answer."""

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        raise StoreUnavailable("the bucket does not answer", hint="Is the network there?")


async def test_a_store_that_does_not_answer_fails_the_query_and_shows_in_the_status() -> None:
    async with serving(Gone()) as client:
        status, body = await refused(client, "services")
        assert (status, body["error"]) == (503, "store_unavailable")
        assert (await get(client, "status"))["store"] == {"kind": "memory", "ok": False}
