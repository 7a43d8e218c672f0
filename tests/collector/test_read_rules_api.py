"""Readers of some namespaces see nothing of others, on every path that there is.

All routes of the application are walked: a new one fails here until it is in the table, with a question that
tells something of the other namespace to who may see it.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, web
from ulid import ULID

from sidelight_collector import main
from sidelight_collector.auth.authorizer import Permission, required_permission
from sidelight_collector.auth.read_rules import parse_network
from sidelight_collector.auth_wiring import load_tokens
from sidelight_collector.deploys.deploy import DeployPolicy as DeployRules
from sidelight_collector.deploys.deploy import create_deploy
from sidelight_collector.deploys.deploy_repository import DeployRepository as DeployShelf
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.times import ObservedSpan
from sidelight_model.window import Window, encode_windows
from tests.collector.conftest import Answer, Running, Serve
from tests.collector.fake_sidecars import JSON, Sidecar, until

RULES = """
user:root = *
user:alice = alpha
user:eve = al*
user:both = alpha, beta
"""
MARK = "betamark"
RANGE = {"from": "-1h", "until": "now"}

Calls = Mapping[str, Iterable[tuple[str, Mapping[str, str]]]]


def calls(theirs: str, recording: str, link: str, deploy: str) -> Calls:
    """For each path that readers may ask, questions; a `!` before one that tells nobody of a namespace."""
    wide = [{**RANGE}, {**RANGE, "query": 'namespace="beta"'}, {**RANGE, "query": 'namespace=~".*"'}]
    sides = [{**RANGE, "baseline": 'namespace="beta"', "comparison": 'namespace=~".+"'}]
    every = [*wide, {**RANGE, "query": 'service=~"bet.*mark.*"'}, {**RANGE, "query": 'namespace!="alpha"'}]
    one = f"captures/{theirs}"
    return {
        "services": [("services", given) for given in every],
        "overview": [("overview", given) for given in every],
        "labels": [("labels", given) for given in every],
        "labels/{name}/values": [
            (f"labels/{name}/values", given)
            for name in ("service", "namespace", "pod", "version", f"{MARK}_team")
            for given in every
        ],
        "timeline": [("timeline", given) for given in every],
        "heatmap": [("heatmap", given) for given in every],
        "flamegraph": [("flamegraph", given) for given in every],
        "compare": [("compare", given) for given in sides],
        "verdict": [("verdict", given) for given in sides],
        "depth": [("depth", given) for given in [*every, *sides]],
        "stack-composition": [("stack-composition", given) for given in [*every, *sides]],
        "top": [("top", given) for given in [*every, *sides]],
        "lines": [("lines", {**given, "function": "main"}) for given in every],
        "export": [
            ("export", {**given, "format": form})
            for given in every
            for form in ("folded", "speedscope", "csv", "svg")
        ],
        "export/compare": [("export/compare", {**given, "format": "folded"}) for given in sides],
        "export/{name}.speedscope.json": [("export/x.speedscope.json", given) for given in every],
        "status": [("status", {})],
        "openapi.json": [("!openapi.json", {})],
        "captures": [("captures", {}), ("captures", {"service": f"{MARK}-shop"})],
        "captures/{id}": [(one, {})],
        "captures/{id}/events": [(f"{one}/events", {})],
        "captures/{id}/recordings": [(f"{one}/recordings", {})],
        "captures/{id}/{name}.speedscope.json": [(f"{one}/{recording}.speedscope.json", {})],
        "captures/{id}/subsecond-heatmap": [(f"{one}/subsecond-heatmap", {})],
        "captures/{id}/loops": [(f"{one}/loops", {})],
        "captures/{id}/flamegraph": [(f"{one}/flamegraph", {})],
        "agents": [("agents", {}), ("agents", {"service": f"{MARK}-shop"})],
        "workloads": [("!workloads", {})],  # without a cluster it has nothing to tell
        "deploys": [
            ("deploys", {}),
            ("deploys", {"service": f"{MARK}-shop"}),
            ("deploys", {"namespace": "beta"}),
        ],
        "deploys/{id}": [(f"deploys/{deploy}", {})],
        "/l/{id}": [(f"!/l/{link}", {})],
    }


_MOMENTS = ("captures/{id}/subsecond-heatmap", "captures/{id}/loops")
QUIET = ("timeline", "heatmap", "depth", "stack-composition", "lines", *_MOMENTS)
"""Paths whose answers are numbers: they tell how many pods or samples there are, by which they are judged."""


@dataclass
class Place:
    """A collector with two namespaces in it, all its routes, and a capture of each."""

    collector: Running
    app: web.Application
    theirs: str
    ours: str
    recording: str
    link: str
    deploy: str

    async def ask(
        self,
        who: str,
        path: str,
        given: Mapping[str, str] | None = None,
        method: str = "GET",
        body: bytes = b"",
    ) -> Answer:
        query = "?" + "&".join(f"{name}={_quoted(value)}" for name, value in (given or {}).items())
        full = path if path.startswith("/") else f"/api/v1/{path}"
        headers = {**JSON, **({"X-User": who} if who else {})}
        return await self.collector.ask(method, full + query, body or None, headers)


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


@pytest.fixture
def place(serving: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    (tmp_path / "rules").write_text(RULES)
    apps: list[web.Application] = []
    build = main.build_app

    def kept(*given: Any, **named: Any) -> web.Application:
        apps.append(build(*given, **named))
        return apps[-1]

    monkeypatch.setattr(main, "build_app", kept)

    @asynccontextmanager
    async def begin() -> AsyncIterator[Place]:
        settings: dict[str, Any] = {
            "read_rules_file": tmp_path / "rules",
            "read_proxy_header": "X-User",
            "trusted_proxies": (parse_network("127.0.0.1"),),
            "capture_check_interval_seconds": 0.1,
        }
        tokens = load_tokens(Settings(store="given", **settings))
        store = MemoryStore()
        async with serving(store, tokens, **settings) as collector:
            place = Place(collector, apps[-1], "", "", "", "", deployed(store, "beta", MARK))
            deployed(store, "alpha", "alphamark")
            place.theirs, place.recording = await filled(place, "beta", MARK)
            place.ours, _ = await filled(place, "alpha", "alphamark")
            made = await place.ask(
                "root", "links", method="POST", body=json.dumps({"path": f"/s/{MARK}-shop"}).encode()
            )
            place.link = made.json["id"]
            yield place

    return begin


def deployed(store: ObjectStore, namespace: str, mark: str) -> str:
    """A deploy of a namespace; its id."""
    labels, now = (namespace, f"{mark}-shop", f"{mark}-2"), time.time()
    deploy = create_deploy(labels, now, f"{mark}-1", ObservedSpan(now - 3600, now), None, DeployRules())
    with closing(DeployShelf(store)) as shelf:
        assert shelf.create(deploy)
    return deploy.id


async def filled(place: Place, namespace: str, mark: str) -> tuple[str, str]:
    """Windows of a namespace, a sidecar that asks and a capture; the capture's id, its recording's name."""
    labels = {
        "service": f"{mark}-shop",
        "version": f"{mark}-1",
        "namespace": namespace,
        "pod": f"{mark}-pod",
        f"{mark}_team": "x",
    }
    header = {
        "format": 1,
        "id": str(ULID()),
        "labels": labels,
        "start_ns": time.time_ns() - 10**9,
        "duration_ns": 10**9,
        "period_ns": 10**7,
    }
    text = f"# {json.dumps(header)}\nmain (a.py:1);{mark}_fn ({mark}.py:3) 7\n"
    assert (await place.collector.post(text.encode())).status == 200
    sidecar = Sidecar(place.collector, pod=f"{mark}-pod", service=f"{mark}-shop")
    sidecar.labels["namespace"] = namespace
    await sidecar.ask()
    made = await place.ask(
        "root", "captures", method="POST", body=json.dumps({"service": f"{mark}-shop", "seconds": 1}).encode()
    )
    assert made.status == 201, made.body

    async def ordered() -> bool:
        await sidecar.ask(hold=1)
        return bool(sidecar.orders)

    await until("it is given out", ordered)
    capture = made.json["id"]
    frames = {"frames": ["main (app.py:1)", f"{mark}_fn ({mark}.py:10)"]}
    stored = await sidecar.record(capture, changes=frames)
    assert stored.status == 201, stored.body
    await sidecar.ship(capture)
    await sidecar.told(capture, "done", samples=3, windows=1)
    return capture, stored.json["name"]


def reading(app: web.Application) -> dict[str, str]:
    """All paths of the application that who reads may ask with GET, by what they are without the API's."""
    found = {}
    for route in app.router.routes():
        path = route.resource.canonical if route.resource else ""
        if route.method == "GET" and required_permission("GET", path) is not Permission.OPEN:
            found[path.removeprefix("/api/v1/")] = path
    return found


async def test_no_path_tells_a_reader_of_other_namespaces(place: Any) -> None:
    async with place() as here:
        asked = calls(here.theirs, here.recording, here.link, here.deploy)
        assert set(asked) == set(reading(here.app)), "each path that may be read is asked here"
        for path, questions in asked.items():
            told = 0
            for address, given in questions:
                free, address = address.startswith("!"), address.removeprefix("!")
                whole = await here.ask("root", address, given)
                assert whole.status in (200, 303), (address, given, whole.body)
                told += MARK.encode() in whole.body or (path in QUIET and bool(counts(whole)))
                for who in ("alice", "eve"):
                    part = await here.ask(who, address, given)
                    if free:
                        assert part.status in (whole.status, 403)
                        continue
                    said = json.dumps(part.headers) + part.body.decode()
                    assert MARK not in said, (who, address, given, said[:2000])
                    if part.status == 200 and path in QUIET:
                        assert counts(part) != counts(whole) or not counts(whole), (who, address, given)
                    if path.startswith(("captures/", "deploys/")):
                        assert (part.status, part.reason) == (404, "not_found")
            assert told or all(one.startswith("!") for one, _ in questions), f"{path} tells nobody anything"


def counts(answer: Answer) -> object:
    """How much an answer stands on."""
    told = answer.json
    if "basis" in told:
        return told["basis"]["samples"]
    return sum(told["samples"])


async def test_each_path_that_changes_something_for_readers_is_tested_here(place: Any) -> None:
    async with place() as here:
        changing = {
            (route.method, route.resource.canonical)
            for route in here.app.router.routes()
            if route.method not in ("GET", "HEAD")
            and required_permission(route.method, route.resource.canonical)
            in (Permission.READ, Permission.CAPTURE)
        }
        assert changing == {
            ("POST", "/api/v1/captures"),
            ("POST", "/api/v1/captures/{id}/stop"),
            ("DELETE", "/api/v1/captures/{id}"),
            ("POST", "/api/v1/deploys/{id}/resolve"),
            ("POST", "/api/v1/links"),  # keeps an address, which tells nothing of any namespace
        }


async def test_each_reader_sees_its_own_and_one_of_both_sees_both(place: Any) -> None:
    async with place() as here:
        for who, seen in (
            ("alice", {"alphamark-shop"}),
            ("eve", {"alphamark-shop"}),
            ("both", {"alphamark-shop", f"{MARK}-shop"}),
            ("root", {"alphamark-shop", f"{MARK}-shop"}),
        ):
            # Twice, and in turns: an answer that is kept for one is not another's.
            for _ in range(2):
                listed = await here.ask(who, "services", RANGE)
                assert {one["service"] for one in listed.json["services"]} == seen
            agents = (await here.ask(who, "agents")).json
            assert {one["labels"]["service"] for one in agents["agents"]} == seen
            assert {one["service"] for one in agents["services"]} == seen
            assert agents["total"] == len(seen)
            captures = (await here.ask(who, "captures")).json["captures"]
            assert {one["service"] for one in captures} == seen
            sidecars = (await here.ask(who, "status")).json["sidecars"]
            assert {one["service"] for one in sidecars} == seen


async def test_a_token_sees_the_namespaces_of_its_name(
    serving: Serve, make_window: Callable[..., Window], tmp_path: Path
) -> None:
    (tmp_path / "rules").write_text("token:grafana = alpha\ntoken:root = *\n")
    (tmp_path / "tokens").write_text("grafana one\nroot two\nother three\nfour\n")
    settings: dict[str, Any] = {
        "read_rules_file": tmp_path / "rules",
        "read_tokens_file": tmp_path / "tokens",
    }
    tokens = load_tokens(Settings(store="given", **settings))
    async with serving(MemoryStore(), tokens, **settings) as collector:
        both = [make_window(service=name, namespace=name) for name in ("alpha", "beta")]
        assert (await collector.post(encode_windows(both))).status == 200
        for token, status, seen in (
            ("one", 200, {"alpha"}),
            ("two", 200, {"alpha", "beta"}),
            ("three", 403, set()),
            ("four", 403, set()),
            ("five", 401, set()),
        ):
            headers = {"Authorization": f"Bearer {token}"}
            answer = await collector.ask("GET", "/api/v1/services", None, headers)
            assert answer.status == status, token
            assert {one["service"] for one in answer.json.get("services", [])} == seen


async def test_an_etag_of_one_reader_says_nothing_to_another(place: Any) -> None:
    async with place() as here:
        of_root = await here.ask("root", "services", {"from": "-1h", "until": "-1s"})
        headers = {"X-User": "alice", "If-None-Match": of_root.headers["etag"]}
        answer = await here.collector.ask("GET", "/api/v1/services?from=-1h&until=-1s", None, headers)
        assert answer.status == 200
        assert MARK.encode() not in answer.body


async def test_who_reads_one_namespace_starts_captures_in_no_other(place: Any) -> None:
    async with place() as here:
        for query in ("", 'namespace="beta"', 'namespace=~".*"'):
            wish = {"service": f"{MARK}-shop", "query": query, "seconds": 1, "pods": "all"}
            made = await here.ask("alice", "captures", method="POST", body=json.dumps(wish).encode())
            assert made.status == 201, made.body
            assert made.json["requested_by"] == "alice"
            assert 'namespace=~"alpha"' in made.json["query"]
            sidecar = Sidecar(here.collector, pod=f"{MARK}-other", service=f"{MARK}-shop")
            sidecar.labels["namespace"] = "beta"
            await sidecar.ask(hold=0.5)
            assert sidecar.orders == []
            # It is alice's own to see and to end, though no sidecar took it; and why says nothing of others.
            own = await here.ask("alice", f"captures/{made.json['id']}")
            assert own.status == 200
            assert f"{MARK}-pod" not in own.body.decode()
            stopped = await here.ask("alice", f"captures/{made.json['id']}/stop", method="POST")
            assert stopped.status == 200


async def test_captures_of_others_are_neither_stopped_nor_deleted(place: Any) -> None:
    async with place() as here:
        for who in ("alice", "eve"):
            for method, path in (
                ("POST", f"captures/{here.theirs}/stop"),
                ("DELETE", f"captures/{here.theirs}"),
            ):
                answer = await here.ask(who, path, method=method)
                assert (answer.status, answer.reason) == (404, "not_found")
        kept = await here.ask("both", f"captures/{here.theirs}")
        assert kept.status == 200
        assert not kept.json["stopping"]
        assert (await here.ask("alice", f"captures/{here.ours}", method="DELETE")).status == 204


async def test_alerts_of_others_are_not_resolved(place: Any) -> None:
    async with place() as here:
        for who in ("alice", "eve"):
            answer = await here.ask(who, f"deploys/{here.deploy}/resolve", method="POST")
            assert (answer.status, answer.reason) == (404, "not_found")
        assert (await here.ask("both", f"deploys/{here.deploy}/resolve", method="POST")).status == 200


async def test_who_is_known_and_may_read_nothing_is_told_so(place: Any) -> None:
    async with place() as here:
        for path in ("services", "captures", "agents", "status", f"captures/{here.theirs}"):
            answer = await here.ask("mallory", path)
            assert (answer.status, answer.reason) == (403, "no_namespaces")
            assert "mallory" in answer.json["message"]
        nobody = await here.ask("", "services")
        assert (nobody.status, nobody.reason) == (401, "unauthorized")


async def test_a_path_that_forgets_to_ask_who_reads_answers_nothing(
    serving: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "rules").write_text(RULES)
    build = main.build_app

    async def forgetful(_: web.Request) -> web.Response:
        return web.json_response({"all": "of them"})

    async def streaming(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"all of them")
        return response

    def more(routes: Iterable[web.AbstractRouteDef], *given: Any, **named: Any) -> web.Application:
        added = [web.get("/api/v1/forgetful", forgetful), web.get("/api/v1/streaming", streaming)]
        return build([*routes, *added], *given, **named)

    monkeypatch.setattr(main, "build_app", more)
    async with serving(
        MemoryStore(),
        read_rules_file=tmp_path / "rules",
        read_proxy_header="X-User",
        trusted_proxies=(parse_network("127.0.0.1"),),
    ) as collector:
        for path in ("forgetful", "streaming"):
            answer = await collector.ask("GET", f"/api/v1/{path}", None, {"X-User": "root"})
            assert (answer.status, b"all" in answer.body) == (200, True)
        refused = await collector.ask("GET", "/api/v1/forgetful", None, {"X-User": "alice"})
        assert refused.reason == "forbidden"
        # What would be sent piece by piece ends before the first.
        with pytest.raises(ClientError):
            await collector.ask("GET", "/api/v1/streaming", None, {"X-User": "alice"})


async def test_a_header_from_elsewhere_is_no_way_in(serving: Serve) -> None:
    settings: dict[str, Any] = {
        "read_proxy_header": "X-User",
        "trusted_proxies": (parse_network("10.0.0.0/8"),),
    }
    tokens = load_tokens(Settings(store="given", **settings))
    async with serving(MemoryStore(), tokens, **settings) as collector:
        answer = await collector.ask("GET", "/api/v1/services", None, {"X-User": "root"})
        assert (answer.status, answer.reason) == (401, "unauthorized")
        assert "127.0.0.1" in answer.json["message"]
        assert (await collector.ask("GET", "/api/v1/services")).status == 401


async def test_people_start_captures_unless_captures_have_tokens_of_their_own(
    serving: Serve, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text("ci s3cret\n")
    settings: dict[str, Any] = {
        "read_proxy_header": "X-User",
        "trusted_proxies": (parse_network("127.0.0.1"),),
    }
    wish, person = json.dumps({"service": "x", "seconds": 1}).encode(), {**JSON, "X-User": "alice"}
    tokens = load_tokens(Settings(store="given", **settings))
    async with serving(MemoryStore(), tokens, **settings) as collector:
        made = await collector.ask("POST", "/api/v1/captures", wish, person)
        assert (made.status, made.json["requested_by"]) == (201, "alice")
    apart = {**settings, "capture_tokens_file": tmp_path / "tokens"}
    tokens = load_tokens(Settings(store="given", **apart))
    async with serving(MemoryStore(), tokens, **apart) as collector:
        assert (await collector.ask("POST", "/api/v1/captures", wish, person)).status == 401
        made = await collector.ask(
            "POST", "/api/v1/captures", wish, {**JSON, "Authorization": "Bearer s3cret"}
        )
        assert (made.status, made.json["requested_by"]) == (201, "ci")
