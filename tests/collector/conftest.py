"""Real stores for tests: in memory, in a directory, and in a bucket of a real S3 server on this machine."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession
from ulid import ULID

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.main import serve
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.backends.no_conditional_writes import SingleWriterStore
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.objects import ObjectStore, StoreRefused
from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Window
from tests import processes
from tests.collector.clickhouse import Server
from tests.collector.clickhouse import clickhouse as start_clickhouse
from tests.collector.engines import EngineServer
from tests.collector.processes import Process
from tests.collector.trino_cluster import TrinoCluster, trino_cluster
from tests.processes import S3Server

START_SECONDS = 120.0


@pytest.fixture(scope="package")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One S3 server for these tests, its credentials in the environment as an operator would give them."""
    with processes.s3_server(tmp_path_factory.mktemp("s3")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="package")
def new_bucket(s3_server: S3Server) -> Callable[[], str]:
    """Makes an empty bucket and gives its name."""
    numbers = count(1)
    return lambda: s3_server.create_bucket(f"sidelight-{next(numbers)}")


@pytest.fixture(scope="package")
def clickhouse(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One ClickHouse for these tests, which may read every bucket of the S3 server."""
    with start_clickhouse(tmp_path_factory.mktemp("clickhouse"), s3_server.environment) as server:
        yield server


@pytest.fixture(scope="package")
def trino(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrinoCluster]:
    """One cluster of Trino for these tests, which may read every bucket of the S3 server."""
    with trino_cluster(tmp_path_factory.mktemp("trino"), s3_server) as cluster:
        yield cluster


@pytest.fixture(scope="package", params=["clickhouse", pytest.param("trino", marks=pytest.mark.trino)])
def engine(request: pytest.FixtureRequest) -> EngineServer:
    """Each external engine in turn."""
    server: EngineServer = request.getfixturevalue(request.param)
    return server


class Forgetful(MemoryStore):
    """A store that never heard of conditions."""

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        if if_absent or if_match:
            raise StoreRefused("NotImplemented")
        return super().put(key, content)


@pytest.fixture(params=["memory", "directory", "s3", "unconditional"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store, of each kind in turn."""
    if request.param == "memory":
        return MemoryStore()
    if request.param == "directory":
        return DirectoryStore(tmp_path / "store")
    if request.param == "unconditional":
        return SingleWriterStore(Forgetful())
    server: S3Server = request.getfixturevalue("s3_server")
    bucket = request.getfixturevalue("new_bucket")()
    return S3Store(bucket, "some/prefix", endpoint=server.endpoint)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: status, headers (names in lower case) and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return str(self.json["error"])


class Running:
    """A collector served in this process on a free port."""

    def __init__(self, port: int, stop: asyncio.Event, session: ClientSession) -> None:
        self.port = port
        self.stop = stop
        self._session = session

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        async with self._session.request(
            method, self.url(path), data=body, headers=headers, skip_auto_headers=["Content-Type"]
        ) as answer:
            names = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.status, names, await answer.read())

    async def post(self, body: bytes, query: str = "", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask("POST", f"/api/v1/windows{query}", body, named)

    async def get(self, path: str, given: Mapping[str, str]) -> Answer:
        """The answer of a path under /api/v1."""
        return await self.ask("GET", f"/api/v1/{path}?{urlencode(given)}")

    async def metric(self, line: str) -> float:
        """The value of one line of /metrics, named with its labels; 0 when it is not there."""
        for text in (await self.ask("GET", "/metrics")).body.decode().splitlines():
            name, _, value = text.rpartition(" ")
            if name == line:
                return float(value)
        return 0.0


Serve = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def serving() -> Serve:
    """`async with serving(store, tokens=…, flush_seconds=0) as collector`: all of it, on a free port."""

    @asynccontextmanager
    async def begin(
        store: ObjectStore, /, tokens: BearerTokens | None = None, **changes: object
    ) -> AsyncIterator[Running]:
        values: dict[str, Any] = {"store": "given", "listen": "127.0.0.1:0", "flush_seconds": 0.0, **changes}
        stop = asyncio.Event()
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group, ClientSession() as session:
            task = group.create_task(
                serve(Settings(**values), store, tokens or BearerTokens(), stop, port.set_result)
            )
            async with asyncio.timeout(START_SECONDS):
                await asyncio.wait([port, task], return_when=asyncio.FIRST_COMPLETED)
            try:
                yield Running(port.result(), stop, session)
            finally:
                stop.set()
                async with asyncio.timeout(START_SECONDS):
                    await task

    return begin


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(store: str, *options: str, alone: bool = False) -> Process:
        started.append(Process(tmp_path, store, *options, alone=alone))
        return started[-1]

    yield begin
    for one in started:
        one.kill()


@pytest.fixture
def make_window() -> Callable[..., Window]:
    """`make_window("main;f 3", pod="p1", start_ns=…)`: a window of service `shop`, ended just now."""

    def make(
        folded: str = "main;f 1",
        *,
        window_id: str = "",
        start_ns: int = 0,
        duration_ns: int = 10**9,
        **labels: str,
    ) -> Window:
        start_ns = start_ns or time.time_ns() - duration_ns
        return Window(
            window_id or str(ULID.from_timestamp(start_ns // 10**6)),
            Labels({"service": "shop", **labels}),
            start_ns,
            duration_ns,
            10**7,
            parse_folded(folded.replace(" | ", "\n")),
        )

    return make
