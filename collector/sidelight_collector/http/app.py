"""The HTTP application, put together from parts that are given to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from aiohttp import web

from sidelight import __version__
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
    """Whether new requests should come here; false while the collector shuts down.

    `problems` tells what does not work and keeps no request from being answered, a line each.
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
) -> web.Application:
    """An application that serves these routes, and /livez, /readyz and /metrics, below a path prefix.

    The three are served without the prefix as well: those who ask for them come without a proxy. Every
    answer of the API, refusals too, names `build`: pages that were made for another one offer to reload.
    """
    if isinstance(authorizer, BearerTokens):
        authorizer = Authorizer(authorizer)
    app = web.Application(middlewares=build_middlewares(metrics, authorizer, path_prefix))
    api = f"{path_prefix}/api/"

    async def name_build(request: web.Request, response: web.StreamResponse) -> None:
        if not isinstance(response, web.Response):
            # What is sent piece by piece is on its way before the door sees it, and cannot be exchanged now.
            try:
                check_principal_used(request)
            except SidelightError:
                if request.transport is not None:
                    request.transport.abort()
                raise
        if request.path.startswith(api):
            response.headers["Sidelight-Build"] = build

    app.on_response_prepare.append(name_build)
    own = _probe_routes(metrics, readiness)
    app.add_routes([_add_prefix(path_prefix, route) for route in [*own, *routes]])
    if path_prefix:
        app.add_routes(own)
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
