"""Stage 1 on Trino: its statements, its failures, and what becomes of a query that ends early.

The tests of a real cluster are part of `make test-trino`. The others ask a server that speaks as much of
Trino's protocol as they need. https://trino.io/docs/current/develop/client-protocol.html
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pyarrow as pa
import pytest

from sidelight_collector.query.engine.window_sums import SUM_SCHEMA, Scan
from sidelight_collector.query.engines.sum_statements import EngineError, EngineFailure, SqlStatement
from sidelight_collector.query.engines.trino import trino_sql
from sidelight_collector.query.engines.trino.trino_client import TrinoClient
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.settings.engine import TrinoUrl
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.s3 import S3Store
from tests import loopback_server
from tests.collector.conftest import Answer, Running, Serve
from tests.collector.engines import KEPT
from tests.collector.stored_windows import START_NS, stored, window
from tests.collector.trino_cluster import WORKERS, TrinoCluster
from tests.processes import S3Server, eventually, free_port

LOCATION = "s3://bucket/some/prefix"
REFS = [
    manifest.parse_key_prefix(f"v1/{folder}/1795252800000-1795256399000-{number:016x}/")
    for number, folder in enumerate(("raw/2026-11-21", "l0/2026-11-22"))
]
SPAN = {"from": str(START_NS // 10**9 - 60), "until": str(START_NS // 10**9 + 60)}
ROW = ["shop", -1, 10**7, *range(len(SUM_SCHEMA) - 3)]


def test_a_statement_reads_its_objects_alone_and_of_their_rows_those_of_its_keys() -> None:
    ids = pa.array(["0" * 26, "7" * 26])
    scans = [Scan(REFS[0], "samples", ids), Scan(REFS[1], "samples", ids[:1]), Scan(REFS[0], "sums")]
    some, whole = (one.text for one in trino_sql.build_statements(LOCATION, scans))
    for text, part in ((some, "samples"), (whole, "sums")):
        assert f"FROM {part}\n" in text
        assert f"{LOCATION}/{REFS[0].key_prefix}{part}.parquet" in text
    assert "level IN ('l0', 'raw') AND day IN ('2026-11-21', '2026-11-22')" in some
    (names,) = re.findall(r"split\('([^']*)', ','\)", some)
    first, second = (ref.key_prefix.split("/")[-2] for ref in REFS)
    assert names.split(",") == [f"{first}:{ids[0]}", f"{first}:{ids[1]}", f"{second}:{ids[0]}"]
    assert "UNNEST" not in whole


def test_the_largest_statement_is_shorter_than_trino_allows() -> None:
    longest = f"s3://{'b' * 63}/{'p' * 900}"
    ids = pa.array([f"{at:026d}" for at in range(trino_sql.MAX_KEYS // trino_sql.MAX_OBJECTS)])
    scans = [Scan(REFS[0], "samples", ids)] * trino_sql.MAX_OBJECTS
    (one,) = trino_sql.build_statements(longest, scans)
    assert 750_000 < len(one.text) < 1_000_000


@pytest.mark.parametrize("ids", [["it's"], ["0,0"], ["0" * 27]])
def test_a_window_id_that_is_no_ulid_gets_into_no_statement(ids: list[str]) -> None:
    with pytest.raises(EngineError, match="no ULID"):
        list(trino_sql.build_statements(LOCATION, [Scan(REFS[0], "samples", pa.array(ids))]))


@contextmanager
def speaking(*answers: Any, status: int = 200, seconds: float = 0.0) -> Iterator[tuple[TrinoUrl, list[str]]]:
    """A server that gives these answers in turn, the last for ever, and what it was asked."""
    asked: list[str] = []

    class Handler(loopback_server.LoopbackHandler):
        def do_POST(self) -> None:
            self.read_body()
            self.do_GET()

        def do_GET(self) -> None:
            asked.append(self.command)
            time.sleep(seconds)
            answer = answers[min(len(asked), len(answers)) - 1]
            if isinstance(answer, dict):
                port = self.server.server_address[1]
                answer = {"id": "1", "infoUri": "", "stats": {}, **answer}
                if answer.get("nextUri"):
                    answer["nextUri"] = f"http://127.0.0.1:{port}/{len(asked)}"
                answer = json.dumps(answer)
            self.answer(status, answer.encode(), {"Content-Type": "application/json"})

        def do_DELETE(self) -> None:  # noqa: N802
            asked.append(self.command)
            self.answer(204, b"")

    with loopback_server.serving(Handler) as port:
        yield TrinoUrl("127.0.0.1", port), asked


WAIT = {"nextUri": True}
FAILED = {
    "error": {"errorName": "NO_NODES_AVAILABLE", "errorType": "INTERNAL_ERROR", "message": "none\nthere"}
}
LATE = {"error": {**FAILED["error"], "errorName": "EXCEEDED_TIME_LIMIT"}}


def test_rows_of_several_answers_are_one_table_with_hashes_of_all_bits() -> None:
    with speaking(WAIT, {**WAIT, "data": [ROW]}, WAIT, {"data": [ROW, ROW]}) as (url, asked):
        table = TrinoClient(url).query(SqlStatement("SELECT"), 60, lambda: 60.0)
        assert asked == ["POST", "GET", "GET", "GET"]
    assert table.to_pylist()[2]["h"] == 2**64 - 1
    assert len(table) == 3
    with speaking(WAIT, {}) as (url, _):
        assert len(TrinoClient(url).query(SqlStatement("SELECT"), 60, lambda: 60.0)) == 0


@pytest.mark.parametrize(
    ("answers", "status", "cause", "text"),
    [
        ([WAIT, FAILED], 200, EngineFailure.REFUSED, "NO_NODES_AVAILABLE: none there"),
        ([WAIT, LATE], 200, EngineFailure.TIMEOUT, "EXCEEDED_TIME_LIMIT"),
        (["nobody logs in like this"], 401, EngineFailure.REFUSED, "401"),
        ([""], 503, EngineFailure.REFUSED, "503"),
        ([""], 200, EngineFailure.INVALID_RESPONSE, "empty response"),
        (["<html>"], 200, EngineFailure.INVALID_RESPONSE, "no Trino"),
        (["{}"], 200, EngineFailure.INVALID_RESPONSE, "no Trino"),
        ([WAIT, {"data": [["shop", "x", *ROW[2:]]]}], 200, EngineFailure.INVALID_RESPONSE, "no sums"),
        ([WAIT, {"data": [ROW[:-1]]}], 200, EngineFailure.INVALID_RESPONSE, "no sums"),
    ],
)
def test_a_failure_of_the_server_has_a_cause(
    answers: list[Any], status: int, cause: EngineFailure, text: str
) -> None:
    with speaking(*answers, status=status) as (url, _), pytest.raises(EngineError, match=text) as failed:
        TrinoClient(url).query(SqlStatement("SELECT"), 60, lambda: 60.0)
    assert failed.value.cause is cause


def test_nobody_there_and_silence_are_told_apart() -> None:
    with speaking(WAIT, seconds=1.0) as (url, _), pytest.raises(EngineError) as failed:
        TrinoClient(url).query(SqlStatement("SELECT"), 0.2, lambda: 60.0)
    assert failed.value.cause is EngineFailure.TIMEOUT
    with pytest.raises(EngineError) as failed:
        TrinoClient(TrinoUrl("127.0.0.1", free_port())).query(SqlStatement("SELECT"), 60, lambda: 60.0)
    assert failed.value.cause is EngineFailure.UNREACHABLE


@pytest.mark.parametrize("end", ["the time limit", "the request"])
def test_a_query_that_ends_early_is_cancelled_on_the_server(end: str) -> None:
    with speaking(WAIT) as (url, asked):

        def remaining() -> float:
            if len(asked) <= 3:
                return 60.0
            if end == "the request":
                raise QueryTimeout(60)
            return 0.0

        with pytest.raises(QueryTimeout if end == "the request" else EngineError):
            TrinoClient(url).query(SqlStatement("SELECT"), 60, remaining)
        eventually("the query is cancelled", lambda: asked[-1] == "DELETE")
        assert asked.count("DELETE") == 1


async def test_the_collector_sums_what_trino_did_not(
    serving: Serve, s3_server: S3Server, new_bucket: Callable[[], str]
) -> None:
    name = f"s3://{new_bucket()}"
    stored([window("a 1")], store=S3Store(name.removeprefix("s3://"), endpoint=s3_server.endpoint))
    with speaking(WAIT, FAILED) as (url, _):
        given: dict[str, Any] = {"store": name, "s3_endpoint": s3_server.endpoint, "engine": url, **KEPT}
        given |= {"engine_timeout_seconds": 200.0, "query_timeout_seconds": 200.0}
        store = S3Store(name.removeprefix("s3://"), endpoint=s3_server.endpoint)
        async with serving(store, **given, compact_interval_seconds=0.0) as running:
            answer = await running.get("flamegraph", SPAN)
            assert (answer.status, answer.headers["sidelight-engine"]) == (200, "fallback")
            assert await running.metric('sidelight_engine_errors_total{cause="refused"}') == 1
        async with serving(store, **given, compact_interval_seconds=0.0, engine_fallback=False) as running:
            answer = await running.get("flamegraph", SPAN)
            assert (answer.status, answer.reason) == (503, "engine_unavailable")
            assert "trino://" in answer.json["message"]


async def test_a_client_that_leaves_ends_the_query_on_the_engine(
    serving: Serve, s3_server: S3Server, new_bucket: Callable[[], str]
) -> None:
    bucket = new_bucket()
    store = S3Store(bucket, endpoint=s3_server.endpoint)
    stored([window("a 1")], store=store)
    with speaking(WAIT, seconds=0.01) as (url, asked):
        given: dict[str, Any] = {"store": f"s3://{bucket}", "s3_endpoint": s3_server.endpoint, **KEPT}
        async with serving(store, engine=url, engine_fallback=False, **given) as running:
            request = asyncio.create_task(running.get("flamegraph", SPAN))
            await asyncio.to_thread(eventually, "the engine works", lambda: "GET" in asked)
            request.cancel()
            await asyncio.to_thread(eventually, "the query is cancelled", lambda: asked[-1] == "DELETE")


# --- On a real cluster ------------------------------------------------------------------------------


@pytest.fixture
async def collector(
    trino: TrinoCluster, s3_server: S3Server, new_bucket: Callable[[], str], serving: Serve
) -> AsyncIterator[Running]:
    """A collector whose windows Trino sums, with time for a busy machine."""
    bucket = new_bucket()
    store = S3Store(bucket, endpoint=s3_server.endpoint)
    stored(*([window(f"main;f{number} 1", pod=f"p{number}")] for number in range(20)), store=store)
    async with serving(
        store,
        store=f"s3://{bucket}",
        s3_endpoint=s3_server.endpoint,
        engine=trino.url_of(f"s3://{bucket}"),
        engine_fallback=False,
        engine_timeout_seconds=200.0,
        query_timeout_seconds=200.0,
        deletion_delay_seconds=600.0,
        compact_interval_seconds=0.0,
        **KEPT,
    ) as running:
        yield running


def list_queries(trino: TrinoCluster) -> list[Any]:
    """The queries of collectors that the coordinator has."""
    return [one for one in trino.ask("query") if one["session"].get("source", "").startswith("sidelight/")]


@asynccontextmanager
async def waiting_for_a_worker(
    trino: TrinoCluster, collector: Running
) -> AsyncIterator[tuple[asyncio.Task[Answer], str]]:
    """A request and the id of its query, which waits for the last worker: that is stopped in its midst."""
    assert (await collector.get("flamegraph", SPAN)).headers["sidelight-engine"] == "trino"
    before = {one["queryId"] for one in list_queries(trino)}
    (worker,) = trino.run(f"SELECT http_uri FROM system.runtime.nodes WHERE node_id = 'worker{WORKERS - 1}'")
    trino.workers[-1].process.send_signal(signal.SIGSTOP)
    try:
        request = asyncio.create_task(collector.get("export", SPAN))

        def find() -> str | None:
            new = [one["queryId"] for one in list_queries(trino) if one["queryId"] not in before]
            return next(
                (one for one in new if f"{worker[0]}/v1/task/" in str(trino.ask(f"query/{one}"))), None
            )

        yield request, await asyncio.to_thread(eventually, "the worker has a task", find)
    finally:
        trino.workers[-1].process.send_signal(signal.SIGCONT)


@pytest.mark.trino
async def test_a_request_that_ends_cancels_its_query(trino: TrinoCluster, collector: Running) -> None:
    async with waiting_for_a_worker(trino, collector) as (request, query):
        request.cancel()
        await asyncio.to_thread(
            eventually, "the query ends", lambda: trino.ask(f"query/{query}")["state"] == "FAILED"
        )
        assert trino.ask(f"query/{query}")["errorCode"]["name"] == "USER_CANCELED"


@pytest.mark.trino
async def test_a_query_gives_its_answer_though_a_worker_dies(trino: TrinoCluster, collector: Running) -> None:
    async with waiting_for_a_worker(trino, collector) as (request, _):
        trino.workers[-1].process.kill()
        answer = await request
        assert (answer.status, answer.headers["sidelight-engine"]) == (200, "trino")
        assert answer.headers["sidelight-samples"] == "20"
