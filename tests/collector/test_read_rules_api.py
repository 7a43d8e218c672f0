"""Readers of some namespaces see nothing of others, on every path that there is.

All routes of the application are walked. A new one fails here until it is in `two_namespaces`, with a
question that tells something of the other namespace to readers that may see it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, web

from sidelight_collector import main
from sidelight_collector.auth.authorizer import (
    CONNECT_ROUTE,
    QUERIER_PREFIX,
    Permission,
    required_permission,
)
from sidelight_collector.auth.read_rules import parse_network
from sidelight_collector.auth_wiring import load_tokens
from sidelight_collector.http.pyroscope.querier_routes import METHODS
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.window import Window, encode_windows
from tests.collector.conftest import Answer, Serve
from tests.collector.fake_sidecars import JSON, Sidecar
from tests.collector.test_api_document import DOCUMENT
from tests.collector.two_namespaces import (
    MARK,
    NOTED_SERVICE,
    RANGE,
    RULES,
    Place,
    list_read_paths,
    open_place,
    querier_questions,
    questions,
)

NewPlace = Callable[[], AbstractAsyncContextManager[Place]]

_MOMENTS = ("captures/{id}/subsecond-heatmap", "captures/{id}/loops")
QUIET = ("timeline", "heatmap", "depth", "stack-composition", "lines", *_MOMENTS)
"""Paths whose answers are numbers: they tell how many pods or samples there are, by which they are judged."""


@pytest.fixture
def place(serving: Serve, tmp_path: Path) -> NewPlace:
    return lambda: open_place(serving, tmp_path)


async def test_no_path_tells_a_reader_of_other_namespaces(place: NewPlace) -> None:
    async with place() as here:
        asked = questions(here.theirs, here.link)
        assert set(asked) == list_read_paths(here.app), "each path that may be read is asked here"
        documented = {path for path, one in DOCUMENT["paths"].items() if "get" in one}
        assert set(asked) == {path.removeprefix("/api/v1/") for path in documented} | {"/l/{id}"}
        for path, of_path in asked.items():
            told = 0
            for address, given in of_path:
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
            assert told or all(one.startswith("!") for one, _ in of_path), f"{path} tells nobody anything"


async def test_no_query_of_grafana_tells_a_reader_of_other_namespaces(place: NewPlace) -> None:
    now_ms = int(time.time() * 1000)
    asked = querier_questions((now_ms - 3_600_000, now_ms + 1000))
    assert set(asked) == set(METHODS) - {"ProfileTypes"}
    async with place() as here:
        for method, messages in asked.items():
            for message in messages:
                whole = await here.call("root", method, message)
                assert whole.status == 200, (method, message, whole.body)
                assert MARK.encode() in whole.body or method == "GetProfileStats", (method, message)
                for who in ("alice", "eve"):
                    part = await here.call(who, method, message)
                    assert part.status == 200, (method, message, part.body)
                    assert MARK not in json.dumps(part.headers) + part.body.decode(), (who, method, message)
        for method in (*METHODS, "SelectHeatmap"):
            refused = await here.call("mallory", method, {})
            assert (refused.status, refused.json["code"]) == (403, "permission_denied"), method
            assert (await here.call("", method, {})).json["code"] == "unauthenticated", method


def counts(answer: Answer) -> object:
    """How much an answer stands on."""
    told = answer.json
    if "basis" in told:
        return told["basis"]["samples"]
    return sum(told["samples"])


async def test_each_path_that_changes_something_for_readers_is_tested_here(place: NewPlace) -> None:
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
            ("POST", "/api/v1/notes"),
            ("PATCH", "/api/v1/notes/{id}"),
            ("DELETE", "/api/v1/notes/{id}"),
            *(("POST", f"{QUERIER_PREFIX}{name}") for name in METHODS),  # change nothing, and are asked above
            ("POST", CONNECT_ROUTE),  # refuses any other method
            ("POST", "/api/v1/files/flamegraph"),  # these two answer on the files that they get
            ("POST", "/api/v1/files/compare"),
            ("POST", "/mcp"),  # sends requests of its own, each with the rights of its reader: test_mcp.py
            ("POST", "/api/v1/links"),  # keeps an address, which tells nothing of any namespace
        }


async def test_each_reader_sees_its_own_and_one_of_both_sees_both(place: NewPlace) -> None:
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


async def test_an_etag_of_one_reader_says_nothing_to_another(place: NewPlace) -> None:
    async with place() as here:
        of_root = await here.ask("root", "services", {"from": "-1h", "until": "-1s"})
        headers = {"X-User": "alice", "If-None-Match": of_root.headers["etag"]}
        answer = await here.collector.ask("GET", "/api/v1/services?from=-1h&until=-1s", None, headers)
        assert answer.status == 200
        assert MARK.encode() not in answer.body


async def test_who_reads_one_namespace_starts_captures_in_no_other(place: NewPlace) -> None:
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


async def test_captures_of_others_are_neither_stopped_nor_deleted(place: NewPlace) -> None:
    async with place() as here:
        for who in ("alice", "eve"):
            for method, path in (
                ("POST", f"captures/{here.theirs.capture}/stop"),
                ("DELETE", f"captures/{here.theirs.capture}"),
            ):
                answer = await here.ask(who, path, method=method)
                assert (answer.status, answer.reason) == (404, "not_found")
        kept = await here.ask("both", f"captures/{here.theirs.capture}")
        assert kept.status == 200
        assert not kept.json["stopping"]
        assert (await here.ask("alice", f"captures/{here.ours.capture}", method="DELETE")).status == 204


async def test_alerts_of_others_are_not_resolved(place: NewPlace) -> None:
    async with place() as here:
        for who in ("alice", "eve"):
            answer = await here.ask(who, f"deploys/{here.theirs.deploy}/resolve", method="POST")
            assert (answer.status, answer.reason) == (404, "not_found")
        assert (await here.ask("both", f"deploys/{here.theirs.deploy}/resolve", method="POST")).status == 200


async def test_notes_of_others_are_neither_changed_nor_deleted(place: NewPlace) -> None:
    text = json.dumps({"text": "new"}).encode()
    async with place() as here:
        theirs, ours = f"notes/{here.theirs.note}", f"notes/{here.ours.note}"
        for who in ("alice", "eve"):
            for method, body in (("PATCH", text), ("DELETE", b"")):
                answer = await here.ask(who, theirs, method=method, body=body)
                missing = await here.ask(who, theirs[:-1] + "a", method=method, body=body)
                assert (
                    (answer.status, answer.reason) == (missing.status, missing.reason) == (404, "not_found")
                )
        listed = await here.ask("both", "notes", {"service": NOTED_SERVICE, "namespace": "beta"})
        assert [note["text"] for note in listed.json["notes"]] == [f"{MARK} slow"]
        changed = await here.ask("alice", ours, method="PATCH", body=text)
        assert (changed.json["text"], changed.json["changed_by"], changed.json["author"]) == (
            "new",
            "alice",
            "root",
        )
        assert (await here.ask("alice", ours, method="DELETE")).status == 204


async def test_a_note_is_written_in_a_namespace_that_its_author_may_read(place: NewPlace) -> None:
    async with place() as here:
        for who, namespace, status, written in (
            ("alice", None, 201, "alpha"),
            ("alice", "beta", 403, ""),
            ("eve", None, 400, ""),
            ("eve", "alpine", 201, "alpine"),
            ("both", None, 400, ""),
            ("both", "beta", 201, "beta"),
            ("root", None, 201, ""),
        ):
            wish = {"service": "x", "text": "y", **({} if namespace is None else {"namespace": namespace})}
            made = await here.ask(who, "notes", method="POST", body=json.dumps(wish).encode())
            assert made.status == status, (who, namespace, made.body)
            if status == 201:
                assert (made.json["namespace"], made.json["author"]) == (written, who)


async def test_who_is_known_and_may_read_nothing_is_told_so(place: NewPlace) -> None:
    async with place() as here:
        for path in ("services", "captures", "agents", "status", f"captures/{here.theirs.capture}"):
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


async def test_users_of_the_proxy_start_captures_also_beside_capture_tokens(
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
        made = await collector.ask("POST", "/api/v1/captures", wish, person)
        assert (made.status, made.json["requested_by"]) == (201, "alice")
        assert (await collector.ask("POST", "/api/v1/captures", wish, JSON)).status == 401
        made = await collector.ask(
            "POST", "/api/v1/captures", wish, {**JSON, "Authorization": "Bearer s3cret"}
        )
        assert (made.status, made.json["requested_by"]) == (201, "ci")


async def test_capture_groups_limit_who_starts_captures(serving: Serve, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("ci s3cret\n")
    settings: dict[str, Any] = {
        "read_proxy_header": "X-User",
        "read_proxy_groups_header": "X-Groups",
        "trusted_proxies": (parse_network("127.0.0.1"),),
        "capture_groups": ("sre", "shop team"),
        "capture_tokens_file": tmp_path / "tokens",
    }
    wish = json.dumps({"service": "x", "seconds": 1}).encode()
    tokens = load_tokens(Settings(store="given", **settings))
    async with serving(MemoryStore(), tokens, **settings) as collector:
        for groups, status in (("sre", 201), ("guests, shop team", 201), ("guests", 403), ("", 403)):
            person = {**JSON, "X-User": "alice", "X-Groups": groups}
            answer = await collector.ask("POST", "/api/v1/captures", wish, person)
            assert answer.status == status, groups
            assert (await collector.ask("GET", "/api/v1/services", None, person)).status == 200
        token = {**JSON, "Authorization": "Bearer s3cret"}
        assert (await collector.ask("POST", "/api/v1/captures", wish, token)).status == 201
