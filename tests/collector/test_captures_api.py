"""Captures over HTTP: real collectors and stores, and sidecars that speak the protocol and sample nothing."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import zstandard
from aiohttp import ClientSession
from ulid import ULID

from sidelight_collector.auth.authorizer import Authorizer, BearerTokens
from sidelight_collector.auth.write_identity import LabelMismatch, OneShotWriterIdentity, TokenRejected
from sidelight_collector.auth_wiring import load_tokens
from sidelight_collector.captures import capture as capture_states
from sidelight_collector.captures.attach.one_time_tokens import (
    OneTimeTokenVerifier,
    build_agent_name,
    issue_token,
)
from sidelight_collector.captures.capture import Capture, CaptureRequest, Claim, EphemeralSidecar
from sidelight_collector.captures.capture_codec import decode_capture, encode_capture
from sidelight_collector.captures.capture_repository import (
    AGENTS_ROOT,
    ROOT,
    CaptureRepository,
    generate_capture_id,
)
from sidelight_collector.captures.capture_requests import MAX_CAPTURE_REQUEST_BYTES
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.errors import BadLabel
from sidelight_model.selectors import Selector
from tests.collector.conftest import Running, Serve
from tests.collector.fake_sidecars import (
    JSON,
    Sidecar,
    capture,
    recording,
    started,
    state,
    until,
    wished,
)
from tests.collector.processes import Process
from tests.collector.test_api_document import CAPTURES, DOCUMENT, resolved

HOLD = 240.0
"""Longer than any test waits: a poll is answered because there is something to say."""
MAX_POLL_BYTES = 100_000
QUICK = {"capture_check_interval_seconds": 0.1, "capture_poll_timeout_seconds": HOLD}


def held_to(path: str, method: str, status: int, answer: object) -> None:
    """Fails unless an answer is as the document describes it."""
    described = resolved(DOCUMENT["paths"][path][method]["responses"][str(status)])
    schema = described["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({"components": DOCUMENT["components"], **schema}).validate(answer)


async def test_a_capture_goes_from_asked_for_to_queried(store: ObjectStore, serving: Serve) -> None:
    async with serving(store, **QUICK) as collector:
        sidecar = Sidecar(collector)
        asking = asyncio.create_task(sidecar.ask(hold=HOLD))
        await until("the sidecar asks", lambda: agents(collector))
        made = await started(collector, query='version="2"', rate=50, mode="gil", timeline=False)
        await asking  # held until there is an order, not until its time is over
        (order,) = sidecar.orders
        assert order == {
            "capture": made["id"],
            "seconds": 2,
            "rate": 50,
            "mode": "gil",
            "pids": [],
            "timeline": False,
            "max_recording_bytes": 8 << 20,
        }
        assert (await capture(collector, made["id"]))["state"] == "scheduled"
        top = [{"function": "shop.cart:total", "self_samples": 31}]
        await sidecar.told(made["id"], "sampling", samples=100, top_functions=top, errors={"read": 2})
        going = await state(collector, made["id"], "sampling")
        assert going["parts"][0]["top_functions"] == top
        assert going["parts"][0]["errors"] == {"read": 2}
        await sidecar.told(made["id"], "uploading", samples=200, windows=2)
        await state(collector, made["id"], "uploading")
        # It says that it is done and one window of two is missing: not yet.
        await sidecar.ship(made["id"])
        await sidecar.told(made["id"], "done", samples=200, windows=2, elapsed_seconds=2.0)
        assert (await capture(collector, made["id"]))["state"] == "uploading"
        await sidecar.ship(made["id"])
        ready = await state(collector, made["id"], "ready")
        assert (ready["samples"], ready["elapsed_seconds"], ready["problem"]) == (200, 2.0, "")
        seen = {"query": f'capture="{made["id"]}"', "from": str(ready["from"]), "until": str(ready["until"])}
        flame = (await collector.get("flamegraph", {**seen, "type": "wall"})).json
        assert flame["basis"]["windows"] == 2

        async def counted() -> float:
            return await collector.metric('sidelight_captures_ended_total{outcome="ready"}')

        assert await until("its end is counted", counted) == 1


async def test_orders_are_repeated_until_a_report_names_their_capture(serving: Serve) -> None:
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        await sidecar.ask(hold=HOLD)
        await sidecar.ask(hold=HOLD)
        assert [order["capture"] for order in sidecar.orders] == [made["id"]] * 2
        await sidecar.told(made["id"], "sampling")
        await sidecar.ask()
        assert len(sidecar.orders) == 2


async def test_a_capture_asked_for_at_one_collector_is_given_out_by_another(
    store: ObjectStore, serving: Serve
) -> None:
    async with serving(store, **QUICK) as first, serving(store, **QUICK) as second:
        sidecar = Sidecar(second)
        asking = asyncio.create_task(sidecar.ask(hold=HOLD))
        await until("the sidecar asks", lambda: agents(second))
        made = await started(first)
        await asking
        assert [order["capture"] for order in sidecar.orders] == [made["id"]]
        await sidecar.told(made["id"], "sampling", samples=7)
        assert (await state(first, made["id"], "sampling"))["samples"] == 7
        # The next question goes to the other one, as behind a Service; so does the stop.
        sidecar.collector = first
        stop = await second.ask("POST", f"/api/v1/captures/{made['id']}/stop")
        assert stop.json["stopping"]

        async def stops() -> bool:
            await sidecar.told(made["id"], "sampling", samples=8)
            return made["id"] in sidecar.stops

        await until("the sidecar is told to stop", stops)
        await sidecar.ship(made["id"])
        await sidecar.told(made["id"], "stopped", windows=1, samples=8)
        for collector in (first, second):
            assert (await state(collector, made["id"], "stopped"))["samples"] == 8
        ended = 'sidelight_captures_ended_total{outcome="stopped"}'

        async def counted() -> float:
            return await first.metric(ended) + await second.metric(ended)

        assert await until("its end is counted", counted) == 1


async def test_what_goes_on_survives_a_restart_of_the_collector(store: ObjectStore, serving: Serve) -> None:
    async with serving(store, **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        await sidecar.told(made["id"], "sampling", samples=5)
    async with serving(store, **QUICK) as again:
        sidecar.collector = again
        assert (await capture(again, made["id"]))["samples"] == 5
        await sidecar.ship(made["id"])
        await sidecar.told(made["id"], "done", samples=9, windows=1)
        assert (await state(again, made["id"], "ready"))["samples"] == 9
    # One whose last report came just before the end is settled by who is asked next.
    async with serving(store, **QUICK) as last:
        assert (await capture(last, made["id"]))["state"] == "ready"


async def test_a_held_question_is_answered_when_the_collector_ends(serving: Serve) -> None:
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector)
        asking = asyncio.create_task(sidecar.ask(hold=HOLD))
        await until("the sidecar waits", lambda: waits(collector))
        collector.stop.set()
        answer = (await asking).json
        assert (answer["capture_jobs"], answer["stop_captures"]) == ([], [])


async def test_stop_while_it_starts_reaches_a_sidecar_that_has_the_order_already(serving: Serve) -> None:
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        await sidecar.ask(hold=HOLD)
        assert sidecar.orders
        await collector.ask("POST", f"/api/v1/captures/{made['id']}/stop")
        await sidecar.told(made["id"], "sampling")
        assert sidecar.stops == [made["id"]]
        await sidecar.told(made["id"], "stopped")
        ended = await state(collector, made["id"], "stopped")
        assert ended["problem"] == "it was stopped before anything was sampled"


async def test_a_sidecar_that_never_began_is_told_to_stop_and_not_to_begin(
    serving: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_states, "STOP_GRACE_SECONDS", HOLD)
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        await collector.ask("POST", f"/api/v1/captures/{made['id']}/stop")
        await sidecar.ask(hold=HOLD)
        assert (sidecar.orders, sidecar.stops) == ([], [made["id"]])


async def test_a_deleted_capture_is_gone_and_its_sidecar_ends(store: ObjectStore, serving: Serve) -> None:
    async with serving(store, **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        await sidecar.told(made["id"], "sampling")
        assert (await sidecar.record(made["id"])).status == 201
        path = f"/api/v1/captures/{made['id']}"
        assert (await collector.ask("DELETE", path)).status == 204
        assert [entry.key for entry in store.list(ROOT)] == []
        assert (await collector.ask("GET", path)).reason == "not_found"
        await sidecar.told(made["id"], "sampling")
        assert sidecar.stops == [made["id"]]
        assert (await sidecar.record(made["id"])).status == 404
        assert (await collector.ask("DELETE", path)).status == 404
        assert [entry.key for entry in store.list(ROOT)] == []


async def test_a_capture_that_no_sidecar_can_take_says_why_and_what_to_do(serving: Serve) -> None:
    none = "none of the 1 sidecars of {} has the requested labels or pods"
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"paused": True}, {}, "the sidecar of p-1 is paused"),
        ({"ready": False, "problem": "ptrace denied (yama=2)"}, {}, "p-1: ptrace denied (yama=2)"),
        ({"modes": ["gil"]}, {"mode": "native"}, "has no mode native"),
        ({"max_seconds": 10}, {"seconds": 11}, "captures for at most 10 s"),
        ({"max_rate": 50}, {"rate": 51}, "samples at most 50 times a second"),
        ({}, {"query": 'version="9"'}, none),
        ({}, {"pods": ["p-9"]}, none),
        ({}, {"service": "cart"}, "no sidecar of cart polls this collector"),
    ]
    async with serving(MemoryStore(), **QUICK, capture_wait_seconds=0.2) as collector:
        made = []
        for at, (shown, wish, _) in enumerate(cases):
            service = f"service-{at}"
            await Sidecar(collector, service=service, **shown).ask()
            made.append(await started(collector, **{"service": service, **wish}))
        for at, (one, (_, wish, problem)) in enumerate(zip(made, cases, strict=True)):
            failed = await state(collector, one["id"], "failed")
            assert problem.format(f"service-{at}") in failed["problem"], wish
            assert failed["hint"]


async def test_a_sidecar_at_its_limits_takes_a_capture(serving: Serve) -> None:
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector, max_seconds=10, max_rate=50)
        await sidecar.ask()
        await started(collector, seconds=10, rate=50)
        await sidecar.ask(hold=HOLD)
        assert len(sidecar.orders) == 1


async def test_a_sidecar_that_is_lost_fails_its_part_and_may_come_back(serving: Serve) -> None:
    # It may come back until the collector looks again and writes down that the capture has failed.
    looks = {"capture_check_interval_seconds": 30.0, "capture_poll_timeout_seconds": HOLD}
    async with serving(MemoryStore(), **looks, capture_agent_timeout_seconds=0.5) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        await sidecar.told(made["id"], "sampling")
        failed = await state(collector, made["id"], "failed")
        # The collector may have looked before the first report came.
        assert re.search("has not reported for|did not report within", failed["problem"])
        await sidecar.ship(made["id"])
        await sidecar.told(made["id"], "done", windows=1, samples=3)
        assert (await state(collector, made["id"], "ready"))["samples"] == 3


async def test_a_wish_beyond_what_may_be_is_refused(serving: Serve) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"service": ""}, "bad_parameter"),
        ({"service": "s" * 257}, "bad_parameter"),
        ({"seconds": 601}, "bad_parameter"),
        ({"seconds": 0}, "bad_parameter"),
        ({"rate": 1001}, "bad_parameter"),
        ({"rate": 1.5}, "bad_parameter"),
        ({"rate": True}, "bad_parameter"),
        ({"pods": 0}, "bad_parameter"),
        ({"pods": 6}, "bad_parameter"),
        ({"pods": []}, "bad_parameter"),
        ({"pods": ["a", "b", "c", "d", "e", "f"]}, "bad_parameter"),
        ({"pods": "some"}, "bad_parameter"),
        ({"mode": "fast"}, "bad_parameter"),
        ({"timeline": 1}, "bad_parameter"),
        ({"pod": "p-1"}, "bad_parameter"),
        ({"query": 'version=~"("'}, "bad_selector"),
    ]
    async with serving(MemoryStore()) as collector:
        for wish, reason in cases:
            answer = await wished(collector, **wish)
            assert (answer.status, answer.reason) == (400, reason), wish
            assert answer.json["hint"]
            held_to("/api/v1/captures", "post", 400, answer.json)


async def test_a_wish_at_the_edge_of_what_may_be_is_taken(serving: Serve) -> None:
    wishes: list[dict[str, Any]] = [
        {"seconds": 600, "rate": 1000, "pods": 5},
        {"seconds": 0.01, "rate": 1, "pods": ["a", "b", "c", "d", "e", "a"]},
        {"pods": "all", "mode": "native"},
        {"service": "s" * 256},
    ]
    async with serving(MemoryStore()) as collector:
        for wish in wishes:
            held_to("/api/v1/captures", "post", 201, await started(collector, **wish))


async def test_no_more_captures_go_on_than_may(serving: Serve) -> None:
    store = MemoryStore()
    async with serving(store, capture_max_running=2) as first, serving(store, capture_max_running=2) as other:
        made = [await started(one) for one in (first, other)]
        refused = await wished(first)
        assert (refused.status, refused.reason) == (429, "overloaded")
        assert "that no sidecar serves" in refused.json["message"]
        assert refused.headers["retry-after"]
        await other.ask("POST", f"/api/v1/captures/{made[0]['id']}/stop")
        await state(other, made[0]["id"], "stopped")
        await until("there is room", lambda: room(first))


async def room(collector: Running) -> bool:
    return (await wished(collector)).status == 201


@pytest.mark.parametrize("limit", [{"capture_max_polls": 1}, {"max_connections": 3}])
async def test_no_more_sidecars_are_kept_waiting_than_may(serving: Serve, limit: dict[str, int]) -> None:
    async with serving(MemoryStore(), **QUICK, **limit) as collector:
        asking = asyncio.create_task(Sidecar(collector, "p-1").ask(hold=HOLD))
        await until("one waits", lambda: waits(collector))
        second = Sidecar(collector, "p-2")
        refused = await second.ask(hold=HOLD)
        assert (refused.status, refused.reason) == (429, "overloaded")
        assert (await second.ask(hold=0)).status == 200  # whoever does not wait is answered
        await started(collector, pods=["p-1"])
        await asking


async def waits(collector: Running) -> bool:
    return await collector.metric("sidelight_pending_polls") == 1


async def test_bodies_are_bounded_as_sent_and_as_unpacked(serving: Serve) -> None:
    async with serving(MemoryStore(), capture_max_poll_bytes=MAX_POLL_BYTES) as collector:
        poll = "/api/v1/agents/poll"
        most = json.dumps({"agent": "a", "labels": {"service": "s"}, "x": ""}).encode()
        most = most.replace(b'""', b'"' + b"x" * (MAX_POLL_BYTES - len(most)) + b'"')
        assert len(most) == MAX_POLL_BYTES
        assert (await collector.ask("POST", poll, most, JSON)).status == 200
        assert (await collector.ask("POST", poll, most + b" ", JSON)).status == 413
        encoded = {**JSON, "Content-Encoding": "zstd"}
        assert (await collector.ask("POST", poll, zstandard.compress(most), encoded)).status == 200
        bomb = zstandard.compress(most + b" " * (64 << 20))
        assert (await collector.ask("POST", poll, bomb, encoded)).reason == "too_large"
        wish = b'{"service":"s"}' + b" " * (MAX_CAPTURE_REQUEST_BYTES - 15)
        assert (await collector.ask("POST", "/api/v1/captures", wish, JSON)).status == 201
        assert (await collector.ask("POST", "/api/v1/captures", wish + b" ", JSON)).status == 413
        assert (await collector.ask("POST", poll, b"[]", JSON)).reason == "bad_json"
        assert (await collector.ask("POST", poll, b"{", JSON)).reason == "bad_json"


async def test_a_recording_is_kept_listed_and_drawn(store: ObjectStore, serving: Serve) -> None:
    async with serving(store, **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        await sidecar.told(made["id"], "sampling")
        for pid in (7, 12):
            kept = await sidecar.record(made["id"], pid)
            assert kept.status == 201, kept.body
            held_to("/api/v1/captures/{id}/recordings/{name}", "put", 201, kept.json)
        listed = await collector.get(f"captures/{made['id']}/recordings", {})
        held_to("/api/v1/captures/{id}/recordings", "get", 200, listed.json)
        first, second = sorted(listed.json["recordings"], key=lambda one: one["pid"])
        assert (first["pid"], second["pid"], second["samples"], second["seconds"]) == (7, 12, 4, 0.11)
        drawn = await collector.ask("GET", second["links"]["speedscope"])
        held_to("/api/v1/captures/{id}/{name}.speedscope.json", "get", 200, drawn.json)
        assert drawn.json["name"] == "p-1 · process 12"
        missing = await collector.get(f"captures/{made['id']}/nobody-1.speedscope.json", {})
        assert (missing.status, missing.reason) == (404, "not_found")


async def test_a_recording_that_is_not_one_is_refused(serving: Serve) -> None:
    bad_periods = [[[0]], [[0, 0]], [[-1, 5]], [[0, 5], [0, 6]], ["ab"], [[0, 1.5]], 7, [[True, 1]]]
    bad: list[dict[str, Any]] = [
        {"v": 2},
        {"pid": 13},
        {"capture": "c_01M7YQVZYKSX6KCDH95ZVGXJS6"},
        {"stacks": [[0], [0, 2]]},
        {"frames": [1, 2]},
        {"period_us": 0},
        {"labels": {}},
        {"threads": None},
        {"threads": [{"name": "x", "at_us": [0], "stack": [2], "state": [0]}]},
        {"threads": [{"name": "x", "at_us": [0], "stack": [0], "state": [99]}]},
        {"threads": [{"name": "x", "at_us": [5, 4], "stack": [0, 0], "state": [0, 0]}]},
        {"threads": [{"name": "x", "at_us": [5], "stack": [0, 0], "state": [0]}]},
        *({"periods": periods} for periods in bad_periods),
    ]
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        for changes in bad:
            refused = await sidecar.record(made["id"], changes=changes)
            assert (refused.status, refused.reason) == (400, "bad_parameter"), (changes, refused.body)
        good = await sidecar.record(made["id"], changes={"periods": [[0, 10_000], [20_000, 5_000]]})
        assert good.status == 201


async def test_a_recording_may_be_as_large_as_allowed_and_comes_from_who_took_part(serving: Serve) -> None:
    store = MemoryStore()
    async with serving(
        store, **QUICK, timeline_recording_max_bytes=4096, timeline_recording_max_decompressed_bytes=8192
    ) as one:
        sidecar, other = Sidecar(one), Sidecar(one, "p-2")
        await sidecar.ask()
        made = await started(one)
        path = f"/api/v1/captures/{made['id']}/recordings/{sidecar.agent}-12"
        text = json.dumps(recording(made["id"], sidecar.agent, sidecar.labels, 12)).encode()
        most = text + b" " * (4096 - len(text))
        assert (await one.ask("PUT", path, most, JSON)).status == 201
        assert (await one.ask("PUT", path, most + b" ", JSON)).reason == "too_large"
        packed = {**JSON, "Content-Encoding": "zstd"}
        whole = text + b" " * (8192 - len(text))
        assert (await one.ask("PUT", path, zstandard.compress(whole), packed)).status == 201
        assert (await one.ask("PUT", path, zstandard.compress(whole + b" "), packed)).reason == "too_large"
        assert "no part" in (await other.record(made["id"])).json["message"]
        of_another = await sidecar.record(made["id"], changes={"labels": other.labels})
        assert (of_another.status, of_another.reason) == (403, "wrong_pod")
        assert await one.metric("sidelight_timeline_recording_bytes_total") > 0


async def test_answers_are_as_the_document_describes_them(serving: Serve) -> None:
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector)
        held_to("/api/v1/agents/poll", "post", 200, (await sidecar.ask()).json)
        made = await started(collector)
        held_to("/api/v1/captures", "post", 201, made)
        held_to("/api/v1/agents/poll", "post", 200, (await sidecar.ask()).json)
        await sidecar.told(
            made["id"], "sampling", samples=3, top_functions=[{"function": "f", "self_samples": 3}]
        )
        held_to("/api/v1/captures/{id}", "get", 200, await capture(collector, made["id"]))
        held_to("/api/v1/captures", "get", 200, (await collector.get("captures", {})).json)
        held_to("/api/v1/agents", "get", 200, (await collector.get("agents", {})).json)
        stop = await collector.ask("POST", f"/api/v1/captures/{made['id']}/stop")
        held_to("/api/v1/captures/{id}/stop", "post", 200, stop.json)


async def test_every_path_of_captures_is_served_and_no_other(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        for path, method in CAPTURES:
            answer = await collector.ask(method.upper(), re.sub(r"{\w+}", "x", path) + "?unknown=1")
            assert answer.status in (400, 404, 415), (path, method)
            assert "unknown" in answer.json["message"] or answer.reason != "method_not_allowed"
        assert (await collector.ask("PUT", "/api/v1/captures")).reason == "method_not_allowed"
        limits = [
            (await collector.get("captures", {"limit": text})).status for text in ("1", "500", "0", "x")
        ]
        assert limits == [200, 200, 400, 400]


async def test_lists_are_of_one_service_and_the_newest_first(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        made = [await started(collector, service=name) for name in ("shop", "cart", "shop")]
        listed = (await collector.get("captures", {"service": "shop"})).json["captures"]
        assert [one["id"] for one in listed] == sorted((made[0]["id"], made[2]["id"]), reverse=True)
        assert len((await collector.get("captures", {"limit": "1"})).json["captures"]) == 1


async def test_sidecars_that_ask_another_collector_are_known_here(serving: Serve) -> None:
    store = MemoryStore()
    async with serving(store, **QUICK) as first, serving(store, **QUICK) as second:
        await Sidecar(first, "p-1").ask()
        await Sidecar(second, "p-2", paused=True).ask()

        async def both() -> list[dict[str, Any]] | None:
            found = (await first.get("agents", {})).json["agents"]
            return found if len(found) == 2 else None

        found = await until("both are known", both)
        assert {one["labels"]["pod"]: one["paused"] for one in found} == {"p-1": False, "p-2": True}
    assert [entry.key for entry in store.list(AGENTS_ROOT)] == []


async def test_captures_may_be_switched_off(serving: Serve) -> None:
    async with serving(MemoryStore(), captures=False) as collector:
        answer = await Sidecar(collector).ask()
        assert (answer.status, answer.reason) == (404, "not_found")
        assert (await wished(collector)).status == 404
        assert "--no-captures" in (await collector.get("captures", {})).json["hint"]


async def test_who_may_start_captures(tmp_path: Path, serving: Serve) -> None:
    files = {name: tmp_path / name for name in ("write", "read", "capture")}
    for name, file in files.items():
        file.write_text(f"{name}-token\n")

    async def allowed(tokens: BearerTokens) -> dict[str, set[str]]:
        may: dict[str, set[str]] = {}
        async with serving(MemoryStore(), tokens) as collector:
            for who in ("", "write-token", "read-token", "capture-token"):
                headers = {**JSON, "Authorization": f"Bearer {who}"}
                start = await collector.ask("POST", "/api/v1/captures", b'{"service":"s"}', headers)
                read = await collector.ask("GET", "/api/v1/captures", None, headers)
                poll = await collector.ask(
                    "POST", "/api/v1/agents/poll", b'{"agent":"a","labels":{"service":"s"}}', headers
                )
                answers = {"start": start, "read": read, "poll": poll}
                may[who] = {what for what, answer in answers.items() if answer.status < 300}
        return may

    def given(listen: str, *names: str) -> BearerTokens:
        tokens = {f"{name}_tokens_file": files[name] for name in names}
        anonymous = "read" not in names
        settings = Settings(store="given", listen=listen, allow_anonymous_reads=anonymous, **tokens)  # type: ignore[arg-type]
        return load_tokens(settings)

    on_loopback = await allowed(given("127.0.0.1:0"))
    assert all(may == {"start", "read", "poll"} for may in on_loopback.values())
    assert await allowed(given("127.0.0.1:0", "write", "read", "capture")) == {
        "": set(),
        "write-token": {"poll"},
        "read-token": {"read"},
        "capture-token": {"read", "start"},
    }
    assert await allowed(given("0.0.0.0:0", "write", "read")) == {
        "": set(),
        "write-token": {"poll"},
        "read-token": {"read", "start"},
        "capture-token": set(),
    }
    anybody = await allowed(given("0.0.0.0:0", "write"))
    assert anybody[""] == {"read"}
    assert not any("start" in may for may in anybody.values())


async def test_a_page_of_another_site_starts_nothing(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        for headers, status in [
            ({"Content-Type": "text/plain"}, 415),
            ({**JSON, "Sec-Fetch-Site": "cross-site"}, 403),
            ({**JSON, "Sec-Fetch-Site": "same-site"}, 403),
            ({**JSON, "Sec-Fetch-Site": "same-origin"}, 201),
        ]:
            answer = await collector.ask("POST", "/api/v1/captures", b'{"service":"s"}', headers)
            assert answer.status == status
        path = f"/api/v1/captures/{answer.json['id']}"
        elsewhere = {"Sec-Fetch-Site": "cross-site"}
        assert (await collector.ask("POST", f"{path}/stop", None, elsewhere)).status == 403
        assert (await collector.ask("DELETE", path, None, elsewhere)).status == 403


async def test_any_of_several_workers_answers_for_a_capture_and_gives_it_out(
    tmp_path: Path, start: Callable[..., Process]
) -> None:
    quick = ["--capture-check-interval-seconds", "0.2", "--capture-poll-timeout-seconds", f"{HOLD:g}"]
    process = start(str(tmp_path / "store"), "--workers", "2", *quick)
    async with ClientSession() as session:
        collector = Running(process.port(), asyncio.Event(), session)
        sidecars = [Sidecar(collector, f"p-{at}") for at in range(4)]
        asking = [asyncio.create_task(one.ask(hold=HOLD)) for one in sidecars]
        await until("all ask", lambda: waiting(collector, 4))
        made = await started(collector, pods=4)
        await asyncio.gather(*asking)
        assert [len(one.orders) for one in sidecars] == [1] * 4
        for one in sidecars:
            await one.ship(made["id"])
            await one.told(made["id"], "done", windows=1, samples=3)
        assert (await state(collector, made["id"], "ready"))["samples"] == 12


async def waiting(collector: Running, most: int) -> bool:
    return await collector.metric("sidelight_pending_polls") == most


async def agents(collector: Running, least: int = 1) -> bool:
    found = (await collector.get("agents", {})).json["agents"]
    return len(found) >= least


async def test_sidecars_are_counted_by_service_and_listed_as_asked(serving: Serve) -> None:
    async with serving(MemoryStore(), **QUICK) as collector:
        for pod in ("p-1", "p-2"):
            await Sidecar(collector, pod).ask()
        await Sidecar(collector, "c-1", "cart", ready=False, problem="ptrace denied", hint="Add it.").ask()
        all_of_it = (await collector.get("agents", {"service": "shop", "limit": "1"})).json
        assert (len(all_of_it["agents"]), all_of_it["total"]) == (1, 2)
        assert all_of_it["services"] == [
            {"service": "cart", "sidecars": 1, "available": 0, "problem": "c-1: ptrace denied"},
            {"service": "shop", "sidecars": 2, "available": 2, "problem": ""},
        ]
        (cart,) = (await collector.get("agents", {"service": "cart"})).json["agents"]
        assert (cart["problem"], cart["hint"]) == ("ptrace denied", "Add it.")


async def test_a_capture_of_fewer_pods_than_asked_for_says_so(serving: Serve) -> None:
    cases: list[tuple[int | str | list[str], str]] = [
        (1, ""),
        (3, "1 of 3 requested pods could take it"),
        (["p-1", "p-2"], "no sidecar took it for p-2"),
        ("all", ""),
    ]
    async with serving(MemoryStore(), **QUICK) as collector:
        for at, (asked, problem) in enumerate(cases):
            sidecar = Sidecar(collector, service=f"service-{at}")
            await sidecar.ask()
            made = await started(collector, service=f"service-{at}", pods=asked)
            await sidecar.ship(made["id"])
            await sidecar.told(made["id"], "done", windows=1, samples=3)
            assert (await state(collector, made["id"], "ready"))["problem"] == problem


async def test_a_request_that_is_sent_again_starts_nothing_new(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        name = generate_capture_id(time.time())
        first = await wished(collector, id=name, seconds=3)
        again = await wished(collector, id=name, seconds=3)
        other = await wished(collector, id=name, seconds=4)
        assert (first.status, again.status, other.status) == (201, 200, 409)
        assert first.json["id"] == again.json["id"] == name
        assert other.json["error"] == "duplicate_id"
        kept = await collector.ask("GET", "/api/v1/captures")
        assert len(kept.json["captures"]) == 1


async def test_a_capture_is_told_as_it_goes_on_until_it_has_ended(serving: Serve) -> None:
    async with serving(MemoryStore(), capture_check_interval_seconds=0.1) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        states: list[str] = []

        async def follow() -> None:
            url = f"http://127.0.0.1:{collector.port}/api/v1/captures/{made['id']}/events"
            async with ClientSession() as session, session.get(url) as answer:
                assert answer.content_type == "text/event-stream"
                async for line in answer.content:
                    if line.startswith(b"data: "):
                        states.append(json.loads(line[6:])["state"])  # noqa: PERF401 - it is read meanwhile

        following = asyncio.create_task(follow())
        await sidecar.ask()
        await sidecar.told(made["id"], "sampling", samples=3)

        async def sampling() -> bool:
            return "sampling" in states

        await until("sampling is told", sampling)
        await sidecar.ship(made["id"])
        await sidecar.told(made["id"], "done", samples=5, windows=1)
        await asyncio.wait_for(following, 120)
        assert states[-1] == "ready"
        assert states == sorted(states, key=["queued", "scheduled", "sampling", "uploading", "ready"].index)
        gone = await collector.ask("GET", f"/api/v1/captures/{generate_capture_id(time.time())}/events")
        assert gone.status == 404


def ticket(store: MemoryStore, until_unix: float) -> tuple[str, str, str]:
    """A capture with an attached sidecar; its id, the sidecar's name and its token."""
    capture_id, agent = generate_capture_id(time.time()), str(ULID())
    token, secret = issue_token(capture_id, agent)
    attached = EphemeralSidecar("sidelight-x", agent, "uid-1", secret, until_unix)
    labels = {"service": "shop", "namespace": "ns", "pod": "p-1", "version": "2"}
    wish = CaptureRequest("shop", "", Selector(), 1, 2.0, 100, "auto", True, True)
    claim = Claim(build_agent_name(attached), labels, 1.0, attached)
    capture = Capture(capture_id, wish, 1.0, claims=(claim,))
    assert decode_capture("key", encode_capture(capture)) == capture
    CaptureRepository(store).create(capture)
    return capture_id, agent, token


async def test_a_one_time_token_is_good_for_one_pod_and_one_capture() -> None:
    store = MemoryStore()
    capture_id, agent, token = ticket(store, time.time() + 60)
    writer = await OneTimeTokenVerifier(CaptureRepository(store)).identify(token)
    assert isinstance(writer, OneShotWriterIdentity)
    assert (writer.namespace, writer.pod, writer.service, writer.capture) == ("ns", "p-1", "shop", capture_id)
    assert writer.bind_labels({"service": "shop"})["capture"] == capture_id
    for wrong in ({"pod": "p-2"}, {"service": "cart"}, {"namespace": "x"}, {"capture": "c_other"}):
        with pytest.raises((LabelMismatch, BadLabel)):
            writer.bind_labels({"service": "shop", **wrong})
    writer.qualify_agent_name(agent)
    with pytest.raises(LabelMismatch):
        writer.qualify_agent_name("another")


async def test_a_one_time_token_counts_as_such_where_anybody_may_write() -> None:
    store = MemoryStore()
    _, _, token = ticket(store, time.time() + 60)
    guard = Authorizer(BearerTokens(), one_time_identities=OneTimeTokenVerifier(CaptureRepository(store)))
    assert isinstance(await guard.identify_writer(f"Bearer {token}"), OneShotWriterIdentity)
    assert await guard.identify_writer("Bearer of a file") is None


async def test_a_token_that_is_old_changed_or_of_no_capture_is_refused() -> None:
    store = MemoryStore()
    shelf = CaptureRepository(store)
    _, _, token = ticket(store, time.time() + 60)
    _, _, old = ticket(store, time.time() - 1)
    gone, _ = issue_token(generate_capture_id(time.time()), str(ULID()))
    last = "A" if token[-1] != "A" else "B"
    for bad in (old, gone, token[:-1] + last, token[:-1], "slat_", "other"):
        with pytest.raises(TokenRejected):
            await OneTimeTokenVerifier(shelf).identify(bad)


async def test_a_token_reads_nothing_and_starts_nothing(serving: Serve) -> None:
    store = MemoryStore()
    _, _, token = ticket(store, time.time() + 60)
    bearer = {"Authorization": f"Bearer {token}", **JSON}
    async with serving(
        store, tokens=BearerTokens(write=(), read=("reader",), capture=("reader",))
    ) as collector:
        for method, path in (
            ("GET", "/api/v1/services"),
            ("GET", "/api/v1/captures"),
            ("POST", "/api/v1/captures"),
        ):
            body = b'{"service": "shop"}' if method == "POST" else b""
            assert (await collector.ask(method, path, body, bearer)).status == 401
