"""One handler for each path of the read API."""

import asyncio
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from hashlib import sha256
from typing import Final, TypeVar

from aiohttp import web

import sidelight
from sidelight.collector.activity import Activity
from sidelight.collector.api import document
from sidelight.collector.api.answers import Answers, Asked, Origin
from sidelight.collector.api.parameters import RANGE, SIDES, STACKS, Parameters
from sidelight.collector.api.reply import Reply, json_reply, reply, takes_gzip
from sidelight.collector.query.anatomy import anatomy
from sidelight.collector.query.engine import QueryEngine
from sidelight.collector.query.export import Exported, folded, speedscope, svg
from sidelight.collector.query.flame import Flame, flame
from sidelight.collector.query.listing import label_names, label_values, services
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.series import timeline
from sidelight.collector.query.tables import By, depth, functions
from sidelight.collector.query.windows import Question
from sidelight.collector.times import rfc3339
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.svg_script import SCRIPT

PREFIX: Final = "/api/v1"
DEFAULT_ROWS: Final = 100
_DIGEST = b64encode(sha256(SCRIPT.encode()).digest()).decode()
SVG_POLICY: Final = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_DIGEST}'; sandbox allow-scripts"
)
"""Opened here, a flame graph runs its own script and no other, and reaches nothing of this origin."""

PARAMETERS: Final[Mapping[str, Collection[str]]] = {
    "/services": RANGE,
    "/labels": RANGE,
    "/labels/{name}/values": RANGE,
    "/timeline": (*RANGE, "type", "step"),
    "/flamegraph": (*RANGE, *STACKS, "type", "nodes", "lines"),
    "/compare": (*RANGE, *SIDES, *STACKS, "type", "nodes", "lines"),
    "/depth": (*RANGE, *SIDES, *STACKS, "type"),
    "/depth/frames": (*RANGE, *SIDES, *STACKS, "type", "limit"),
    "/top": (*RANGE, *SIDES, *STACKS, "type", "by", "limit"),
    "/export": (*RANGE, "type", "format", "lines", "states"),
    "/export/{name}.speedscope.json": (*RANGE, "type", "lines"),
    "/status": (),
    "/openapi.json": (),
}
"""The query parameters of each path; any other is refused."""


Answer = TypeVar("Answer")
JsonAnswer = TypeVar("JsonAnswer", bound=Mapping[str, object])
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def routes(
    engine: QueryEngine,
    activity: Activity,
    store_kind: str,
    clock_ns: Callable[[], int] = time.time_ns,
    told: Callable[[Origin], None] = lambda _: None,
) -> list[web.RouteDef]:
    """The routes of the read API. Handlers raise SidelightError for whatever cannot be answered.

    `told` hears where each answer came from.
    """
    api = _Api(engine, Answers(engine, told), activity, store_kind, clock_ns)
    handlers: Mapping[str, Handler] = {
        "/services": api.services,
        "/labels": api.labels,
        "/labels/{name}/values": api.label_values,
        "/timeline": api.timeline,
        "/flamegraph": api.flamegraph,
        "/compare": api.compare,
        "/depth": api.depth,
        "/depth/frames": api.frames,
        "/top": api.top,
        "/export": api.export,
        "/export/{name}.speedscope.json": api.export_for_speedscope,
        "/status": api.status,
        "/openapi.json": api.openapi,
    }
    return [web.get(PREFIX + path, handler) for path, handler in handlers.items()]


class _Api:
    """The handlers. Selectors are read in the query's thread, because there are some that take seconds."""

    def __init__(
        self,
        engine: QueryEngine,
        answers: Answers,
        activity: Activity,
        store_kind: str,
        clock_ns: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._answers = answers
        self._limits = engine.limits
        self._activity = activity
        self._store_kind = store_kind
        self._clock_ns = clock_ns

    async def services(self, request: web.Request) -> web.Response:
        given = self._read(request, "/services")
        return await self._answer(request, lambda: partial(services, question=given.question()))

    async def labels(self, request: web.Request) -> web.Response:
        given = self._read(request, "/labels")
        return await self._answer(request, lambda: partial(label_names, question=given.question()))

    async def label_values(self, request: web.Request) -> web.Response:
        given, name = self._read(request, "/labels/{name}/values"), request.match_info["name"]
        return await self._answer(
            request, lambda: partial(label_values, question=given.question(), name=name)
        )

    async def timeline(self, request: web.Request) -> web.Response:
        given = self._read(request, "/timeline")
        kind, step, most = given.kind(), given.step_ns(), self._limits.max_points
        return await self._answer(
            request,
            lambda: partial(timeline, question=given.question(), kind=kind, step_ns=step, most=most),
        )

    async def flamegraph(self, request: web.Request) -> web.Response:
        given = self._read(request, "/flamegraph")
        return await self._flame(request, given, two=False)

    async def compare(self, request: web.Request) -> web.Response:
        given = self._read(request, "/compare")
        return await self._flame(request, given, two=True)

    async def depth(self, request: web.Request) -> web.Response:
        given = self._read(request, "/depth")
        kind, pick = given.kind(), given.pick()
        return await self._answer(
            request, lambda: partial(depth, sides=given.one_or_two(), kind=kind, pick=pick)
        )

    async def frames(self, request: web.Request) -> web.Response:
        given = self._read(request, "/depth/frames")
        kind, pick, limit = given.kind(), given.pick(), given.limit(DEFAULT_ROWS)
        return await self._answer(
            request,
            lambda: partial(anatomy, sides=given.one_or_two(), kind=kind, pick=pick, limit=limit),
        )

    async def top(self, request: web.Request) -> web.Response:
        given = self._read(request, "/top")
        kind, pick, limit = given.kind(), given.pick(), given.limit(DEFAULT_ROWS)
        by = By(given.word("by", [by.value for by in By]))
        return await self._answer(
            request,
            lambda: partial(functions, sides=given.one_or_two(), kind=kind, by=by, limit=limit, pick=pick),
        )

    async def export(self, request: web.Request) -> web.Response:
        given = self._read(request, "/export")
        kind, wanted = given.kind(), given.word("format", ("folded", "speedscope", "svg"))
        lines, states = given.switch("lines", default=False), given.switch("states", default=True)
        if wanted == "speedscope":
            return await self._speedscope(request, given)
        if wanted == "svg":
            return await self._export(
                request,
                lambda: _named(svg, given.question(), kind, lines=lines),
                "image/svg+xml; charset=utf-8",
                {"Content-Security-Policy": SVG_POLICY},
            )
        return await self._export(
            request,
            lambda: partial(folded, question=given.question(), kind=kind, lines=lines, states=states),
            "text/plain; charset=utf-8",
        )

    async def export_for_speedscope(self, request: web.Request) -> web.Response:
        given = self._read(request, "/export/{name}.speedscope.json")
        return await self._speedscope(request, given, request.match_info["name"])

    async def status(self, request: web.Request) -> web.Response:
        self._read(request, "/status")
        seen = await asyncio.to_thread(self._activity.of_all)
        answer = {
            "version": sidelight.__version__,
            "store": {"kind": self._store_kind, "ok": await self._engine.store_answers()},
            "windows_acknowledged": seen.windows_acknowledged,
            "last_ingest": None if seen.last_ingest_ns is None else rfc3339(seen.last_ingest_ns),
            "sidecars": [
                {"pod": one.pod, "service": one.service, "last_seen": rfc3339(one.last_seen_ns)}
                for one in seen.sidecars()
            ],
        }
        return json_reply(answer, gzip=False).response(request)

    async def openapi(self, request: web.Request) -> web.Response:
        self._read(request, "/openapi.json")
        return Reply(document.text(), "application/json; charset=utf-8").response(request)

    def _read(self, request: web.Request, path: str) -> Parameters:
        # Whole milliseconds: the range that an answer names can be asked for again exactly, by a browser too.
        now_ns = self._clock_ns() // 1_000_000 * 1_000_000
        return Parameters(request.query, PARAMETERS[path], self._limits, now_ns)

    async def _flame(self, request: web.Request, given: Parameters, *, two: bool) -> web.Response:
        kind, nodes, lines = given.kind(), given.nodes(), given.switch("lines", default=False)
        most, pick = self._limits.max_nodes, given.pick()

        def drawn() -> partial[Flame]:
            sides = given.sides() if two else [given.question()]
            return partial(flame, sides=sides, kind=kind, lines=lines, nodes=nodes, most=most, pick=pick)

        return await self._answer(request, drawn)

    async def _speedscope(self, request: web.Request, given: Parameters, name: str = "") -> web.Response:
        kind, lines = given.kind(), given.switch("lines", default=False)
        return await self._export(
            request,
            lambda: _named(speedscope, given.question(), kind, lines=lines, name=name),
            "application/json; charset=utf-8",
        )

    async def _answer(self, request: web.Request, read: Callable[[], partial[JsonAnswer]]) -> web.Response:
        gzip = takes_gzip(request)

        def whole(make: partial[JsonAnswer], reading: Reading) -> Reply:
            made = make(reading)
            return json_reply(made, gzip=gzip, headers=_engine(reading))

        def asked() -> Asked:
            make = read()
            return _asked(make, gzip, partial(whole, make))

        return (await self._answers.answer(asked)).response(request)

    async def _export(
        self,
        request: web.Request,
        read: Callable[[], partial[Exported]],
        content_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> web.Response:
        gzip = takes_gzip(request)

        def whole(make: partial[Exported], reading: Reading) -> Reply:
            made = make(reading)
            numbers = {name: n for name, n in made.basis.items() if isinstance(n, int)}
            basis = {f"Sidelight-{name.replace('_', '-').title()}": str(n) for name, n in numbers.items()}
            return reply(
                made.content,
                content_type,
                gzip=gzip,
                headers={**basis, **_engine(reading), **(headers or {})},
            )

        def asked() -> Asked:
            make = read()
            return _asked(make, gzip, partial(whole, make))

        return (await self._answers.answer(asked)).response(request)


def _named(
    make: Callable[..., Exported], question: Question, kind: ProfileType, *, lines: bool, name: str = ""
) -> partial[Exported]:
    """An export with a title, which is the question unless another was given."""
    called = name or f"{question.selector} {kind}"
    return partial(make, question=question, kind=kind, lines=lines, name=called)


def _asked(make: partial[Answer], gzip: bool, whole: Callable[[Reading], Reply]) -> Asked:
    # `make` is a function of the query package with its keywords, of which one is `question` or `sides`. They
    # are the words, so that no parameter can be missing from them.
    given = make.keywords
    words = (make.func.__name__, *sorted((name, repr(value)) for name, value in given.items()), gzip)
    return Asked(repr(words), given.get("sides") or [given["question"]], whole)


def _engine(reading: Reading) -> Mapping[str, str]:
    """Where samples were added up, if a collector has a choice."""
    return {"Sidelight-Engine": reading.engine} if reading.engine else {}
