"""The read API on its real routes, behind the real door, over a store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from sidelight_collector.auth.authorizer import Authorizer, BearerTokens
from sidelight_collector.http.api.answer_cache import AnswerOrigin
from sidelight_collector.http.api.routes import build_context, routes
from sidelight_collector.http.app import Readiness, build_app
from sidelight_collector.http.pyroscope.querier_routes import QuerierApi
from sidelight_collector.http.pyroscope.render_routes import RenderApi
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.ingest.memory_budget import MemoryBudget
from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.objects import ObjectStore
from tests.collector.stored_windows import SECOND_NS, START_NS

NOW_NS = START_NS + 3600 * SECOND_NS
"""The collector's clock stands an hour after the first window."""

Client = TestClient[Request, Application]


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    read: dict[str, Any] = json.loads(
        files("sidelight_collector.http.api").joinpath("openapi.json").read_text()
    )
    return read


@asynccontextmanager
async def serving(
    store: ObjectStore,
    limits: QueryLimits | None = None,
    *,
    activity: IngestStats | None = None,
    tokens: Authorizer | BearerTokens | None = None,
    clock_ns: Callable[[], int] = lambda: NOW_NS,
    told: Callable[[AnswerOrigin], None] = lambda _: None,
    page: str | None = None,
) -> AsyncIterator[Client]:
    """A client of a collector's read API on a free port."""
    engine = QueryEngine(store, limits or QueryLimits())
    context = build_context(engine, clock_ns, told)
    api = routes(engine, activity or IngestStats(), store.kind, offline_page=page, context=context)
    body_reader = BodyReader(MemoryBudget(64 << 20, lambda _: None), 30)
    of_pyroscope = [*QuerierApi(context, body_reader).routes(), *RenderApi(context).routes()]
    app = build_app([*api, *of_pyroscope], Metrics(), tokens or BearerTokens(), Readiness())
    try:
        server = TestServer(app)
        await server.start_server(auto_decompress=False)
        async with TestClient(server) as client:
            yield client
    finally:
        engine.close()


async def get(client: Client, path: str, **parameters: str) -> Any:
    """The JSON answer of a path under /api/v1; the test fails when it is refused."""
    async with client.get(f"/api/v1/{path}", params=parameters) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def refused(client: Client, path: str, **parameters: str) -> tuple[int, dict[str, str]]:
    """Status and body of a refusal."""
    async with client.get(f"/api/v1/{path}", params=parameters) as response:
        body: dict[str, str] = await response.json()
        assert set(body) == {"error", "message", "hint"}
        assert all(body.values()), body
        return response.status, body
