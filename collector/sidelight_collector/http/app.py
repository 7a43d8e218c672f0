"""The HTTP application, assembled from routes and middlewares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from aiohttp import web

from sidelight import __version__
from sidelight.request_origin import ANY_HOST, OriginPolicy
from sidelight_collector.auth.authorizer import (
    Authorizer,
    BearerTokens,
    build_error_response,
    build_middlewares,
    check_principal_used,
)
from sidelight_collector.ingest.segment_writer import ShuttingDown
from sidelight_collector.metrics import Metrics
from sidelight_model.errors import SidelightError


@dataclass(slots=True)
class Readiness:
    """The readiness of the collector, which ends when it begins to shut down.

    `problems` returns a line for each fault that does not keep requests from being answered.
    """

    is_ready: bool = True
    problems: Callable[[], Sequence[str]] = lambda: ()


def build_app(
    routes: Iterable[web.AbstractRouteDef],
    metrics: Metrics,
    authorizer: Authorizer | BearerTokens,
    readiness: Readiness,
    *,
    path_prefix: str = "",
    build: str = __version__,
    origin_policy: OriginPolicy = ANY_HOST,
    metric_routes: Sequence[web.RouteDef] = (),
) -> web.Application:
    """Build an application that serves `routes` below `path_prefix`.

    It also serves /livez, /readyz, /metrics and `metric_routes`, all with and without the prefix, because
    probes and Prometheus connect without a proxy. Every response of the API, errors included, has `build` in
    a header: pages of another build then offer to reload.
    """
    if isinstance(authorizer, BearerTokens):
        authorizer = Authorizer(authorizer)
    app = web.Application(middlewares=build_middlewares(metrics, authorizer, path_prefix, origin_policy))
    api = f"{path_prefix}/api/"

    async def name_build(request: web.Request, response: web.StreamResponse) -> None:
        if not isinstance(response, web.Response):
            # The middleware cannot replace a streamed response by an error. This check must therefore run
            # before the response starts.
            try:
                check_principal_used(request)
            except SidelightError:
                if request.transport is not None:
                    request.transport.abort()
                raise
        if request.path.startswith(api):
            response.headers["Sidelight-Build"] = build

    app.on_response_prepare.append(name_build)
    probe_routes = [*_probe_routes(metrics, readiness), *metric_routes]
    app.add_routes([_add_prefix(path_prefix, route) for route in [*probe_routes, *routes]])
    if path_prefix:
        app.add_routes(probe_routes)
    return app


def _probe_routes(metrics: Metrics, readiness: Readiness) -> list[web.RouteDef]:
    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if not readiness.is_ready:
            return build_error_response(ShuttingDown())
        return web.Response(text="".join(f"{line}\n" for line in ("ok", *readiness.problems())))

    async def serve_metrics(_: web.Request) -> web.Response:
        text = await asyncio.to_thread(metrics.render)
        return web.Response(body=text, headers={"Content-Type": metrics.content_type})

    return [web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", serve_metrics)]


def _add_prefix(prefix: str, route: web.AbstractRouteDef) -> web.AbstractRouteDef:
    if isinstance(route, web.RouteDef):
        return web.RouteDef(route.method, prefix + route.path, route.handler, route.kwargs)
    if isinstance(route, web.StaticDef):
        return web.StaticDef(prefix + route.prefix, route.path, route.kwargs)
    raise TypeError(f"a route that cannot be moved below a prefix: {route!r}")
