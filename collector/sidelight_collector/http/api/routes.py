"""One handler for each path of the read API."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from aiohttp import web

import sidelight
from sidelight_collector.answers.catalog import label_names, label_values, services
from sidelight_collector.answers.export import Exported, Template, csv, folded, html, pprof, speedscope, svg
from sidelight_collector.answers.flame import Flame, flame
from sidelight_collector.answers.heatmap import Bounds, heatmap
from sidelight_collector.answers.lines import function_lines
from sidelight_collector.answers.service_overview import overview
from sidelight_collector.answers.stack_composition import anatomy
from sidelight_collector.answers.timeline import Rolled, Timeline, timeline
from sidelight_collector.answers.top_and_depth import By, depth, functions
from sidelight_collector.auth.authorizer import reader_of
from sidelight_collector.comparison.answer import verdict
from sidelight_collector.http.api import openapi
from sidelight_collector.http.api.answer_cache import Answers, Asked, Origin
from sidelight_collector.http.api.exports import (
    CONTENT_TYPES,
    HEADERS,
    ONE_SIDE,
    TWO_SIDES,
    headers_of,
    policy_of,
)
from sidelight_collector.http.api.parameters import JUDGED, RANGE, SIDES, STACKS, Parameters
from sidelight_collector.http.api.responses import Reply, json_reply, reply, takes_gzip
from sidelight_collector.ingest.stats import Activity
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.settings.types import Days
from sidelight_collector.times import rfc3339
from sidelight_model.counts import ProfileType
from sidelight_model.errors import Reason, SidelightError

PREFIX: Final = "/api/v1"
DEFAULT_ROWS: Final = 100
DEFAULT_LINES: Final = 1000
PARAMETERS: Final[Mapping[str, Collection[str]]] = {
    "/services": RANGE,
    "/overview": (*RANGE, "type", "limit"),
    "/labels": RANGE,
    "/labels/{name}/values": RANGE,
    "/timeline": (*RANGE, "type", "step"),
    "/flamegraph": (*RANGE, *STACKS, "type", "nodes", "lines", "states"),
    "/compare": (*RANGE, *SIDES, *STACKS, "type", "nodes", "lines", "states", "verdict", *JUDGED),
    "/verdict": (*RANGE, *SIDES, *STACKS, "type", "nodes", *JUDGED),
    "/heatmap": (*RANGE, "type", "rows", "step", "zone", "limit"),
    "/depth": (*RANGE, *SIDES, *STACKS, "type"),
    "/stack-composition": (*RANGE, *SIDES, *STACKS, "type", "limit"),
    "/top": (*RANGE, *SIDES, *STACKS, "type", "by", "limit"),
    "/lines": (*RANGE, *SIDES, *STACKS, "type", "file", "limit"),
    "/export": (*RANGE, *STACKS, "type", "format", "lines", "states", "nodes", "about"),
    "/export/compare": (
        *(*RANGE, *SIDES, *STACKS, "type", "format", "lines", "states", "nodes", "about", "load"),
    ),
    "/export/{name}.speedscope.json": (*RANGE, *STACKS, "type", "lines", "nodes"),
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
    kept: Days | None = None,
    page: str | None = None,
    rolled: Callable[[Question], Sequence[Rolled]] = lambda _: (),
) -> list[web.RouteDef]:
    """The routes of the read API. Handlers raise SidelightError for whatever cannot be answered.

    `told` hears where each answer came from; `kept` is how long windows are kept, to be told. `page` is the
    built page that HTML exports are made of. `rolled` tells the rollouts that belong to a question.
    """
    api = _Api(engine, Answers(engine, told), activity, store_kind, clock_ns, kept, page, rolled)
    handlers: Mapping[str, Handler] = {
        "/services": api.services,
        "/overview": api.overview,
        "/labels": api.labels,
        "/labels/{name}/values": api.label_values,
        "/timeline": api.timeline,
        "/heatmap": api.heatmap,
        "/flamegraph": api.flamegraph,
        "/compare": api.compare,
        "/verdict": api.verdict,
        "/depth": api.depth,
        "/stack-composition": api.frames,
        "/top": api.top,
        "/lines": api.lines,
        "/export": api.export,
        "/export/compare": api.export_comparison,
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
        kept: Days | None,
        page: str | None,
        rolled: Callable[[Question], Sequence[Rolled]],
    ) -> None:
        self._rolled = rolled
        self._engine = engine
        self._page = page
        self._answers = answers
        self._limits = engine.limits
        self._activity = activity
        self._store_kind = store_kind
        self._clock_ns = clock_ns
        self._kept = kept

    async def services(self, request: web.Request) -> web.Response:
        given = self._read(request, "/services")
        return await self._answer(request, lambda: partial(services, question=given.question()))

    async def overview(self, request: web.Request) -> web.Response:
        given = self._read(request, "/overview")
        kind, most = given.kind(), given.limit(self._limits.max_rows)
        return await self._answer(
            request, lambda: partial(overview, question=given.question(), kind=kind, most=most)
        )

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

        def asked() -> partial[Timeline]:
            question = given.question()
            drawn = partial(timeline, question=question, kind=kind, step_ns=step, most=most)
            # They are part of the question, so that an answer that is kept has all that are known by now.
            return partial(drawn, rolled=self._rolled(question))

        return await self._answer(request, asked)

    async def heatmap(self, request: web.Request) -> web.Response:
        given, limits = self._read(request, "/heatmap"), self._limits
        kind, step, rows = given.kind(), given.step_ns(), given.rows()
        zone = given.text("zone", "UTC")
        bounds = Bounds(limits.max_points, given.limit(DEFAULT_ROWS), limits.max_cells)
        return await self._answer(
            request,
            lambda: partial(
                heatmap,
                question=given.question(),
                kind=kind,
                rows=rows,
                step_ns=step,
                zone=zone,
                bounds=bounds,
            ),
        )

    async def flamegraph(self, request: web.Request) -> web.Response:
        given = self._read(request, "/flamegraph")
        return await self._flame(request, given, two=False)

    async def compare(self, request: web.Request) -> web.Response:
        given = self._read(request, "/compare")
        return await self._flame(request, given, two=True)

    async def verdict(self, request: web.Request) -> web.Response:
        given, most = self._read(request, "/verdict"), self._limits.max_nodes
        kind, pick, wanted = given.kind(), given.pick(), given.wanted()
        judged = partial(verdict, kind=kind, pick=pick, wanted=wanted, most=min(given.nodes() or most, most))
        return await self._answer(request, lambda: partial(judged, sides=given.sides()))

    async def depth(self, request: web.Request) -> web.Response:
        given = self._read(request, "/depth")
        kind, pick = given.kind(), given.pick()
        return await self._answer(
            request, lambda: partial(depth, sides=given.one_or_two(), kind=kind, pick=pick)
        )

    async def frames(self, request: web.Request) -> web.Response:
        given = self._read(request, "/stack-composition")
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

    async def lines(self, request: web.Request) -> web.Response:
        given = self._read(request, "/lines")
        kind, limit = given.kind(), given.limit(DEFAULT_LINES)
        # Here it is the function whose lines are listed, and leaves no samples out.
        function, file, pick = given.text("function"), given.text("file"), replace(given.pick(), function="")
        return await self._answer(
            request,
            lambda: partial(
                function_lines,
                sides=given.one_or_two(),
                kind=kind,
                function=function,
                file=file,
                limit=limit,
                pick=pick,
            ),
        )

    async def export(self, request: web.Request) -> web.Response:
        given = self._read(request, "/export")
        return await self._export(request, given, ONE_SIDE, lambda: [given.question()])

    async def export_comparison(self, request: web.Request) -> web.Response:
        given = self._read(request, "/export/compare")
        return await self._export(request, given, TWO_SIDES, given.sides)

    async def export_for_speedscope(self, request: web.Request) -> web.Response:
        given = self._read(request, "/export/{name}.speedscope.json")
        name = request.match_info["name"]
        return await self._export(request, given, ("speedscope",), lambda: [given.question()], name)

    async def status(self, request: web.Request) -> web.Response:
        self._read(request, "/status")
        reader = reader_of(request)
        seen = await asyncio.to_thread(self._activity.of_all)
        answer = {
            "version": sidelight.__version__,
            "store": {"kind": self._store_kind, "ok": await self._engine.store_answers()},
            "retention_days": None if self._kept is None else self._kept._asdict(),
            "windows_acknowledged": seen.windows_acknowledged,
            "last_ingest": None if seen.last_ingest_ns is None else rfc3339(seen.last_ingest_ns),
            "sidecars": [
                {"pod": one.pod, "service": one.service, "last_seen": rfc3339(one.last_seen_ns)}
                for one in seen.sidecars()
                if reader.sees({"namespace": one.namespace})
            ],
        }
        return json_reply(answer, gzip=False).response(request)

    async def openapi(self, request: web.Request) -> web.Response:
        self._read(request, "/openapi.json")
        return Reply(openapi.text(), "application/json; charset=utf-8").response(request)

    def _read(self, request: web.Request, path: str) -> Parameters:
        # Whole milliseconds: the range that an answer names can be asked for again exactly, by a browser too.
        now_ns = self._clock_ns() // 1_000_000 * 1_000_000
        must = reader_of(request).selector
        return Parameters(request.query, PARAMETERS[path], self._limits, now_ns, must)

    async def _flame(self, request: web.Request, given: Parameters, *, two: bool) -> web.Response:
        given_states = given.switch("states", default=False)
        kind, nodes, lines = given.kind(), given.nodes(), given.switch("lines", default=False)
        wanted = given.wanted() if two and given.switch("verdict", default=True) else None
        drawing = partial(
            flame,
            kind=kind,
            lines=lines,
            nodes=nodes,
            most=self._limits.max_nodes,
            states=given_states,
            pick=given.pick(),
            wanted=wanted,
        )

        def drawn() -> partial[Flame]:
            return partial(drawing, sides=given.sides() if two else [given.question()])

        return await self._answer(request, drawn)

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
        given: Parameters,
        formats: Sequence[str],
        sides: Callable[[], list[Question]],
        name: str = "",
    ) -> web.Response:
        gzip, wanted = takes_gzip(request), given.word("format", formats)
        make = self._exporter(given, wanted)
        content_type, headers = CONTENT_TYPES[wanted], dict(HEADERS.get(wanted, {}))
        if wanted == "html":
            headers["Content-Security-Policy"] = policy_of(self._offline().text)

        def whole(made_by: partial[Exported], reading: Reading) -> Reply:
            made = made_by(reading)
            told = {**headers_of(made, wanted), **_engine(reading), **headers}
            # What is packed already only grows.
            return reply(made.content, content_type, gzip=gzip and wanted != "pprof", headers=told)

        def asked() -> Asked:
            of = sides()
            called = name or " against ".join(str(side.selector) for side in of) + f" {given.kind()}"
            made_by = partial(make, sides=of, name=called)
            return _asked(made_by, gzip, partial(whole, made_by))

        return (await self._answers.answer(asked)).response(request)

    def _exporter(self, given: Parameters, wanted: str) -> partial[Exported]:
        """What makes an export of sides and a name. Its parameters are read here, all of them."""
        kind, pick, nodes, limits = given.kind(), given.pick(), given.nodes(), self._limits
        lines = given.switch("lines", default=wanted == "pprof")
        states, says = given.switch("states", default=True), given.switch("about", default=False)
        judged = given.wanted()
        most = limits.max_export_frames
        if wanted == "csv":
            return partial(csv, kind=kind, pick=pick, says=says, most=limits.max_rows)
        if wanted == "html":
            page, apart = self._offline(), states and kind is ProfileType.WALL
            drawing = partial(html, kind=kind, pick=pick, lines=lines, states=apart, template=page)
            return partial(drawing, nodes=nodes, most=limits.max_nodes, wanted=judged)
        if wanted == "folded":
            of = partial(folded, kind=kind, pick=pick, lines=lines, most=most)
            return partial(of, states=states, says=says)
        if wanted == "speedscope":
            few = min(nodes or limits.max_nodes, limits.max_nodes) if given.has("nodes") else None
            return partial(speedscope, kind=kind, pick=pick, lines=lines, most=most, nodes=few)
        if wanted == "svg":
            return partial(svg, kind=kind, pick=pick, lines=lines)
        return partial(pprof, kind=kind, pick=pick, lines=lines, most=most)

    def _offline(self) -> Template:
        if self._page is None:
            raise SidelightError(
                "the page that an HTML export is made of is not built",
                reason=Reason.UI_MISSING,
                hint="In a source tree run `make ui` and start the collector again; a released wheel has it.",
            )
        return Template(self._page)


def _asked(make: partial[Answer], gzip: bool, whole: Callable[[Reading], Reply]) -> Asked:
    # `make` is a function of the query package with its keywords, of which one is `question` or `sides`. They
    # are the words, so that no parameter can be missing from them.
    given = make.keywords
    words = (make.func.__name__, *sorted((name, repr(value)) for name, value in given.items()), gzip)
    return Asked(repr(words), given.get("sides") or [given["question"]], whole)


def _engine(reading: Reading) -> Mapping[str, str]:
    """Where samples were added up, if a collector has a choice."""
    return {"Sidelight-Engine": reading.engine} if reading.engine else {}
