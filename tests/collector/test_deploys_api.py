"""Deploys over HTTP: as the document describes them, and for who may see and resolve them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.deploys.deploy import (
    Delivery,
    Deploy,
    DeployAnalysis,
    DeployEnd,
    DeployPolicy,
    DeployRollout,
    DeployState,
    FinishReason,
    TimeRange,
    create_deploy,
)
from sidelight_collector.deploys.deploy_repository import DeployRepository
from sidelight_collector.deploys.notify import notifiers
from sidelight_collector.deploys.routes import PARAMETERS, PATH
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.times import ObservedSpan
from tests.collector.alertmanagers import Webhook, webhook
from tests.collector.conftest import Answer, Serve
from tests.collector.deploy_world import HOUR, MINUTE, ships_until_now, working
from tests.collector.test_api_document import DOCUMENT, check, resolved

START = 1_795_253_400.0
DAY = 86_400.0
EFFECT = {
    "baseline": 0.5,
    "comparison": 0.54,
    "delta": 0.04,
    "low": 0.03,
    "high": 0.05,
    "relative": 0.08,
    "relative_low": 0.06,
    "relative_high": 0.1,
    "p": 0.001,
    "direction": "increased",
    "min_detectable_effect": 0.02,
}
LOOK = DeployAnalysis(
    1,
    START + 720,
    600.0,
    DeployState.REGRESSED,
    "previous_period",
    TimeRange(START - 540, START),
    TimeRange(START + 60, START + 600),
    "Version 2 takes more.",
    EFFECT,
    ({"condition": "cpu>+5%", "state": "regressed", "summary": "up", "effect": EFFECT},),
)


def deploy(service: str = "shop", version: str = "2", namespace: str = "ns", at: float = START) -> Deploy:
    rolled = DeployRollout("Deployment", "web", 4, at - 20, None)
    return create_deploy(
        (namespace, service, version), at, "1", ObservedSpan(at - DAY, at), rolled, DeployPolicy()
    )


def regressed(**of: Any) -> Deploy:
    told = Delivery("webhook", "regressed", 1, START, START, "sent", 1, START)
    one = replace(deploy(**of), state=DeployState.REGRESSED, conclusion="regressed", analyses=(LOOK,))
    return replace(one, verdict={"baseline": 1}, deliveries=(told,), regressed_at=START + 720)


def kept(*deploys: Deploy) -> MemoryStore:
    store = MemoryStore()
    with closing(DeployRepository(store)) as shelf:
        for one in deploys:
            assert shelf.create(one)
    return store


def schema(path: str, method: str = "get") -> Any:
    return resolved(DOCUMENT["paths"][path][method]["responses"]["200"])["content"]["application/json"][
        "schema"
    ]


def listed(answer: Answer) -> list[str]:
    check(answer.json, schema(PATH))
    return [one["version"] for one in answer.json["deploys"]]


async def test_deploys_are_listed_the_newest_first_by_what_is_asked_for(serving: Serve) -> None:
    ended = DeployEnd(START, FinishReason.ROLLED_BACK, "1")
    store = kept(
        deploy(version="a", at=START - 2 * DAY),
        regressed(version="c"),
        replace(
            deploy(version="b", at=START - DAY, namespace="other"), state=DeployState.FINISHED, finished=ended
        ),
        deploy(version="d", service="cart", at=START + DAY),
    )
    async with serving(store) as collector:
        assert listed(await collector.get("deploys", {})) == ["d", "c", "b", "a"]
        assert listed(await collector.get("deploys", {"limit": "2"})) == ["d", "c"]
        assert listed(await collector.get("deploys", {"service": "shop"})) == ["c", "b", "a"]
        assert listed(await collector.get("deploys", {"namespace": "other"})) == ["b"]
        assert listed(await collector.get("deploys", {"state": "regressed"})) == ["c"]
        times = {"from": str(START - DAY), "until": str(START + 1)}
        assert listed(await collector.get("deploys", times)) == ["c", "b"]
        assert listed(await collector.get("deploys", {"service": "none"})) == []


@pytest.mark.parametrize(
    "given",
    [{"limit": "0"}, {"state": "bad"}, {"from": "x"}, {"from": "now", "until": "-1h"}, {"versions": "1"}],
)
async def test_a_parameter_that_cannot_be_used_is_refused(serving: Serve, given: dict[str, str]) -> None:
    async with serving(MemoryStore()) as collector:
        answer = await collector.get("deploys", given)
        assert answer.status == 400
        assert answer.json["hint"]


def test_the_parameters_are_those_documented() -> None:
    documented = {one["name"] for one in DOCUMENT["paths"][PATH]["get"]["parameters"]}
    assert documented == set(PARAMETERS)


async def test_one_deploy_has_its_verdict_and_links_to_what_it_was_compared_with(serving: Serve) -> None:
    one = regressed()
    async with serving(kept(one)) as collector:
        answer = await collector.get(f"deploys/{one.id}", {})
        check(answer.json, schema(f"{PATH}/{{id}}"))
        assert answer.json["verdict"] == {"baseline": 1}
        assert answer.json["firing"] is True
        links = answer.json["links"]
        assert links["view"] == (
            "/s/shop/compare?from=2026-11-21T09%3A31%3A00Z&until=2026-11-21T09%3A40%3A00Z"
            "&query=namespace%3D%22ns%22%2C+capture%3D%22%22&baseline=version%3A1&comparison=version%3A2"
            "&baseline_from=2026-11-21T09%3A21%3A00Z&baseline_until=2026-11-21T09%3A30%3A00Z"
        )
        assert links["self"] == f"/api/v1/deploys/{one.id}"


@pytest.mark.parametrize(
    "name", ["20261121-aaaaaaaaaaaaaaaa", "x", "..%2f..", "20261121-aaaaaaaaaaaaaaaa%0a"]
)
async def test_a_deploy_that_is_not_there_is_not_found(serving: Serve, name: str) -> None:
    async with serving(kept(regressed())) as collector:
        for method, path in (("GET", f"deploys/{name}"), ("POST", f"deploys/{name}/resolve")):
            answer = await collector.ask(method, f"/api/v1/{path}")
            assert (answer.status, answer.reason) == (404, "not_found")


async def test_an_alert_is_resolved_once_and_by_name(serving: Serve) -> None:
    one, other = regressed(), deploy(service="cart")
    tokens = BearerTokens(capture=("ops",), token_names={"ops": "olga"})
    async with serving(kept(one, other), tokens) as collector:
        path = f"/api/v1/deploys/{one.id}/resolve"
        assert (await collector.ask("POST", path)).status == 401
        token = {"Authorization": "Bearer ops"}
        elsewhere = await collector.ask("POST", path, None, {**token, "Sec-Fetch-Site": "cross-site"})
        assert (elsewhere.status, elsewhere.reason) == (403, "forbidden")
        first = await collector.ask("POST", path, None, token)
        check(first.json, schema(f"{PATH}/{{id}}/resolve", "post"))
        assert first.json["resolved"]["user"] == "olga"
        assert (first.json["state"], first.json["firing"]) == ("regressed", False)
        again = await collector.ask("POST", path, None, token)
        assert again.json["resolved"] == first.json["resolved"]
        # What is not regressed has nothing to be resolved.
        nothing = await collector.ask("POST", f"/api/v1/deploys/{other.id}/resolve", None, token)
        assert (nothing.status, nothing.json["resolved"]) == (200, None)


async def test_deploys_that_are_too_old_go_with_what_else_is(serving: Serve) -> None:
    now = time.time()
    old, young = deploy(at=now - 12 * DAY), deploy(version="3", at=now - 8 * DAY)
    async with serving(
        kept(old, young), retention_interval_seconds=0.05, deploy_retention_days=10.0
    ) as collector:
        async with asyncio.timeout(300):
            while (await collector.get(f"deploys/{old.id}", {})).status != 404:
                await asyncio.sleep(0.02)
        assert listed(await collector.get("deploys", {})) == ["3"]


async def test_where_deploys_are_switched_off_the_paths_say_so(serving: Serve) -> None:
    async with serving(MemoryStore(), deploys=False) as collector:
        for method, path in (("GET", ""), ("GET", "/x"), ("POST", "/x/resolve")):
            answer = await collector.ask(method, f"{PATH}{path}")
            assert (answer.status, answer.reason) == (404, "not_found")
            assert "--no-deploys" in answer.json["hint"]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setattr(notifiers, "TIMEOUT_SECONDS", 60.0)
    with webhook() as server:
        yield server


async def test_a_collector_that_runs_finds_compares_tells_and_lists(serving: Serve, hook: Webhook) -> None:
    world = ships_until_now(2 * HOUR, 0, "1", working(0.30))
    after = ships_until_now(30 * MINUTE, 0, "2", working(0.42, 2))
    for entry in after.store.list(""):
        world.store.put(entry.key, after.store.get(entry.key))
    settings = {
        "deploy_check_interval_seconds": 0.1,
        "deploy_webhook_url": hook.url,
        "public_url": "https://sidelight.example",
        "compact_interval_seconds": 0.0,
    }
    async with serving(world.store, **settings) as collector:

        async def listed() -> dict[str, Any]:
            answer = await collector.get("deploys", {"service": "shop"})
            check(answer.json, schema("/api/v1/deploys"))
            found: dict[str, Any] = (answer.json["deploys"] or [{}])[0]
            return found

        async with asyncio.timeout(300):
            while (one := await listed()).get("state") != "regressed" or not hook.got:
                await asyncio.sleep(0.1)
            while not (one := await listed())["alerts"] or one["alerts"][0]["outcome"] != "sent":
                await asyncio.sleep(0.1)
        assert (one["version"], one["previous"], one["analyses"][0]["comparison_mode"]) == (
            "2",
            "1",
            "canary",
        )
        assert hook.got[0].json["links"]["view"] == "https://sidelight.example" + one["links"]["view"]
        # The link asks the same question: the same answer, and the same number of looks is counted.
        path = one["links"]["verdict"]
        again = await collector.ask("GET", path)
        assert again.status == 200, again.body
        assert again.json["type"] == "cpu"
        assert again.json["verdict"]["rate"] == one["analyses"][0]["rate"]
        assert again.json["verdict"]["conditions"] == one["analyses"][0]["conditions"]
        assert await collector.metric('sidelight_deploy_analyses_total{state="regressed"}') == 1
        resolved = await collector.ask("POST", one["links"]["resolve"])
        assert resolved.json["firing"] is False
        async with asyncio.timeout(300):
            while hook.events != ["regressed", "resolved"]:
                await asyncio.sleep(0.1)
        assert hook.got[1].json["reason"] == "resolved"
