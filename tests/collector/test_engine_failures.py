"""What becomes of a query when ClickHouse does not add up: the same answer and a word, or a refusal."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sidelight_collector.query.engines.clickhouse import clickhouse_client as query_clickhouse
from sidelight_collector.query.engines.clickhouse.clickhouse_client import ClickHouseClient
from sidelight_collector.query.engines.sum_statements import (
    MAX_ERROR_CHARACTERS,
    EngineError,
    EngineFailure,
    SqlStatement,
)
from sidelight_collector.settings.engine import ClickHouseUrl
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.segments import encode_parquet, list_segments, read_segment
from tests.collector.clickhouse import PASSWORD, Server
from tests.collector.conftest import Serve
from tests.collector.engines import KEPT
from tests.collector.stored_windows import START_NS, stored, window
from tests.loopback_server import LoopbackHandler, serving
from tests.processes import S3Server, collector, free_port

SPAN = {"from": str(START_NS // 10**9 - 60), "until": str(START_NS // 10**9 + 60)}


@pytest.fixture(scope="module")
def store(s3_server: S3Server, new_bucket: Callable[[], str]) -> S3Store:
    """A bucket with two windows of two segments."""
    store = S3Store(new_bucket(), endpoint=s3_server.endpoint)
    stored([window("main;a 1")], [window("main;b 2", pod="p2")], store=store)
    return store


@contextmanager
def silent() -> Iterator[ClickHouseUrl]:
    """Takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield ClickHouseUrl("127.0.0.1", listener.getsockname()[1], password=PASSWORD)


@contextmanager
def saying(status: int, body: bytes, certificate: Path | None = None) -> Iterator[ClickHouseUrl]:
    """Answers everything with this, over HTTPS with a certificate."""

    class Handler(LoopbackHandler):
        def do_POST(self) -> None:
            self.read_body()
            self.answer(status, body)

    context = None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    with serving(Handler, tls=context) as port:
        yield ClickHouseUrl("127.0.0.1", port, password=PASSWORD)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for localhost and its key in one file, signed by nobody."""
    file = tmp_path / "localhost.pem"
    argv = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    argv += ["-addext", "subjectAltName=DNS:localhost", "-addext", "keyUsage=digitalSignature,keyCertSign"]
    subprocess.run([*argv, "-keyout", file, "-out", tmp_path / "public.pem"], check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + (tmp_path / "public.pem").read_bytes())
    return file


@pytest.mark.parametrize(
    ("trusted", "cause"), [(False, EngineFailure.UNREACHABLE), (True, EngineFailure.REFUSED)]
)
def test_a_server_is_asked_over_https_only_if_its_certificate_is_trusted(
    trusted: bool, cause: EngineFailure, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_clickhouse, "CONNECT_TIMEOUT_SECONDS", 60.0)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with saying(500, b"it was asked", certificate) as at:
        secure = ClickHouseClient(replace(at, host="localhost", secure=True))
        with pytest.raises(EngineError) as failed:
            secure.query(SqlStatement("SELECT 1 FORMAT Arrow"), 60, lambda: 60.0)
    assert failed.value.cause is cause
    assert ("it was asked" if trusted else "certificate verify failed") in str(failed.value)


def arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return sink.getvalue().to_pybytes()


@contextmanager
def failing(kind: str, clickhouse: Server) -> Iterator[ClickHouseUrl]:
    if kind == "nobody there":
        yield ClickHouseUrl("127.0.0.1", free_port(), password=PASSWORD)
    elif kind == "no such name":
        yield ClickHouseUrl("clickhouse.invalid", password=PASSWORD)
    elif kind == "silence":
        with silent() as url:
            yield url
    elif kind == "another password":
        yield clickhouse.with_(password=f"not {PASSWORD}")
    elif kind == "no such collection":
        yield clickhouse.with_(collection="nothing")
    elif kind == "no such cluster":
        yield clickhouse.with_(cluster="nothing")
    elif kind == "a long error":
        with saying(500, f"{PASSWORD}\n".encode() + b"long " * 10_000) as url:
            yield url
    elif kind == "no table":
        with saying(200, b"Ok.") as url:
            yield url
    elif kind == "another table":
        with saying(200, arrow(pa.table({"a": [1]}))) as url:
            yield url
    elif kind == "other types":
        with saying(200, arrow(pa.table({name: ["x"] for name in "abcdef"}))) as url:
            yield url


KINDS = {
    "nobody there": "unreachable",
    "no such name": "unreachable",
    "silence": "timeout",
    "another password": "refused",
    "no such collection": "refused",
    "no such cluster": "refused",
    "a long error": "refused",
    "no table": "invalid",
    "another table": "invalid",
    "other types": "invalid",
}


def given(store: S3Store, server: S3Server, at: ClickHouseUrl, **more: object) -> dict[str, Any]:
    return {
        "store": store.location,
        "s3_endpoint": server.endpoint,
        "engine": at,
        "compact_interval_seconds": 0.0,
        **KEPT,
        "engine_timeout_seconds": 0.2 if more.pop("hasty", False) else 200.0,
        "query_timeout_seconds": 200.0,
        **more,
    }


@pytest.mark.parametrize(("kind", "cause"), KINDS.items())
async def test_the_collector_adds_up_what_clickhouse_did_not(
    kind: str,
    cause: str,
    serving: Serve,
    store: S3Store,
    s3_server: S3Server,
    clickhouse: Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with failing(kind, clickhouse) as at:
        async with serving(store, **given(store, s3_server, at, hasty=kind == "silence")) as running:
            for path in ("compare", "export"):
                alone = {"verdict": "0", "baseline": "{}", "comparison": "{}"} if path == "compare" else {}
                answer = await running.get(path, {**SPAN, **alone})
                assert answer.status == 200
                assert answer.headers["sidelight-engine"] == "fallback"
                assert "sidelight-windows" not in answer.headers or answer.headers["sidelight-samples"] == "3"
            # Both sides of a comparison: who was let down once in a query does not wait a second time.
            assert await running.metric(f'sidelight_engine_errors_total{{cause="{cause}"}}') == 2
            assert await running.metric("sidelight_engine_query_seconds_count") == 0
    said = capsys.readouterr().out
    (*_, line) = [line for line in said.splitlines() if "the engine failed" in line]
    assert "warning" in line
    assert f"cause={cause}" in line
    assert len(line) < MAX_ERROR_CHARACTERS + 300
    assert PASSWORD not in said


@pytest.mark.parametrize(("kind", "cause"), KINDS.items())
async def test_without_fallback_such_a_query_is_refused(
    kind: str,
    cause: str,
    serving: Serve,
    store: S3Store,
    s3_server: S3Server,
    clickhouse: Server,
) -> None:
    with failing(kind, clickhouse) as at:
        changes = given(store, s3_server, at, hasty=kind == "silence", engine_fallback=False)
        async with serving(store, **changes) as running:
            answer = await running.get("flamegraph", SPAN)
            assert (answer.status, answer.reason) == (503, "engine_unavailable")
            assert 5 <= int(answer.headers["retry-after"]) <= 10
            assert cause in answer.json["message"]
            assert "--engine" in answer.json["hint"]
            assert PASSWORD not in answer.body.decode()
            # What needs no stacks goes on.
            assert (await running.get("timeline", SPAN)).status == 200
            assert (await running.get("services", SPAN)).status == 200
            # Neither does a range without windows ask anybody.
            empty = {"from": SPAN["until"], "until": str(int(SPAN["until"]) + 1)}
            assert (await running.get("flamegraph", empty)).status == 200


async def test_a_query_that_is_out_of_time_is_no_failure_of_the_engine(
    serving: Serve, store: S3Store, s3_server: S3Server
) -> None:
    with silent() as at:
        changes = given(store, s3_server, at, query_timeout_seconds=0.5)
        async with serving(store, **changes) as running:
            answer = await running.get("flamegraph", SPAN)
            assert (answer.status, answer.reason) == (503, "query_timeout")


@pytest.mark.parametrize("seconds", [1.0, 1.9])
def test_the_server_itself_ends_what_takes_too_long(
    seconds: float, clickhouse: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a crowded machine the server notices its own limit late; here nobody is faster than it.
    monkeypatch.setattr(query_clickhouse, "GRACE_SECONDS", 50.0)
    endless = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1 FORMAT Arrow"
    with pytest.raises(EngineError, match=r"maximum: 1000\.000 ms\. \(TIMEOUT_EXCEEDED\)") as failed:
        ClickHouseClient(clickhouse.url).query(SqlStatement(endless), seconds, lambda: 60.0)
    assert failed.value.cause is EngineFailure.TIMEOUT


@pytest.mark.parametrize("change", ["emptied", "doubled", "missing"])
async def test_an_answer_that_does_not_add_up_is_not_given(
    change: str,
    serving: Serve,
    store: S3Store,
    s3_server: S3Server,
    new_bucket: Callable[[], str],
    clickhouse: Server,
) -> None:
    """ClickHouse reads a copy of the bucket, in which one object is another."""
    copy = S3Store(new_bucket(), endpoint=s3_server.endpoint)
    for entry in store.list("v1/"):
        copy.put(entry.key, store.get(entry.key))
    key = next(entry.key for entry in copy.list("v1/") if entry.key.endswith("samples.parquet"))
    (ref,) = [one for one in list_segments(copy, 0, 2**62) if one.key("samples") == key]
    table = read_segment(copy, ref, "samples")
    if change == "missing":
        copy.delete(key)
    else:
        copy.put(
            key,
            encode_parquet(table.slice(0, 0) if change == "emptied" else pa.concat_tables([table, table])),
        )
    async with (
        serving(store, **given(store, s3_server, clickhouse.url)) as plain,
        serving(store, **given(copy, s3_server, clickhouse.url)) as running,
    ):
        answer, expected = await running.get("flamegraph", SPAN), await plain.get("flamegraph", SPAN)
        assert answer.body == expected.body
        assert expected.headers["sidelight-engine"] == "clickhouse"
        assert answer.headers["sidelight-engine"] == "fallback"
        cause = "refused" if change == "missing" else "invalid"
        assert await running.metric(f'sidelight_engine_errors_total{{cause="{cause}"}}') == 1


def test_no_password_is_in_the_log_of_a_collector(
    store: S3Store, s3_server: S3Server, clickhouse: Server, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    at = clickhouse.url
    options = ["--s3-endpoint", s3_server.endpoint, "--log-level", "debug"]
    options += ["--engine-timeout-seconds", "200", "--query-timeout-seconds", "200"]
    options += [f"--{name.replace('_', '-')}={days}" for name, days in KEPT.items()]
    quoted = PASSWORD.replace("/", "%2F").replace("@", "%40").replace("#", "%23").replace(":", "%3A")
    ways: list[tuple[list[str], dict[str, str]]] = [
        ([], {"SIDELIGHT_ENGINE": f"clickhouse://{at.user}:{quoted}@{at.host}:{at.port}"}),
        (
            [
                f"--engine=clickhouse://{at.user}@{at.host}:{at.port}",
                f"--engine-password-file={secret}",
            ],
            {},
        ),
    ]
    for number, (flags, env) in enumerate(ways):
        with collector(
            tmp_path / str(number), store.location, *options, *flags, env={**s3_server.environment, **env}
        ) as running:
            query = f"/api/v1/flamegraph?from={SPAN['from']}&until={SPAN['until']}"
            assert running.get(query)["basis"]["windows"] == 2
            said = running.running.said()
            assert "an external engine sums for queries" in said
            assert "the engine failed" not in said
            assert PASSWORD not in said
            assert quoted not in said
