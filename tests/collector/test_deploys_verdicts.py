"""Deploys end to end: real windows, the verdicts of the API, and what is told of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from sidelight.collector.deploys.deploy import Rules, State, Why
from sidelight.collector.deploys.judging import Judge, comparing, judge_with
from sidelight.collector.deploys.made import judge as made_judge
from sidelight.collector.deploys.receivers import Address, Receivers
from sidelight.collector.query.limits import QueryLimits
from sidelight.collector.store.directory import DirectoryStore
from sidelight.collector.store.objects import ObjectStore
from sidelight.collector.store.s3 import S3Store
from sidelight.settings import BadSetting
from tests.collector.alertmanagers import Webhook, webhook
from tests.collector.conftest import Serve
from tests.collector.deploying import DAY, HOUR, MINUTE, Looker, World, working
from tests.collector.test_api_document import check
from tests.collector.test_deploys_api import schema
from tests.running import S3Server

PODS = "abcdef"
RULES = Rules(last_seconds=40 * MINUTE)


def judging(rules: Rules = RULES) -> Judge:
    return judge_with(comparing(QueryLimits(), rules.fail_on), rules)


@pytest.fixture(params=["directory", "s3"])
def kept(request: pytest.FixtureRequest, tmp_path: Any) -> ObjectStore:
    """A store that lasts."""
    if request.param == "directory":
        return DirectoryStore(tmp_path / "store")
    server: S3Server = request.getfixturevalue("s3_server")
    return S3Store(request.getfixturevalue("new_bucket")(), "some/prefix", endpoint=server.endpoint)


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as server:
        yield server


def telling(looker: Looker, hook: Webhook) -> Receivers:
    return Receivers(looker.shelf, looker.metrics, webhook=Address(hook.url), clock=lambda: looker.world.now)


def test_a_planted_regression_is_found_while_both_run_told_and_resolved_when_it_is_rolled_back(
    kept: ObjectStore, hook: Webhook
) -> None:
    world = World(kept, at=-5 * MINUTE)
    world.ships("1", -HOUR, 70 * MINUTE, text=working(0.30), pods=PODS)
    world.ships("2", 0, 40 * MINUTE, text=working(0.36, 2), pods=PODS)
    looker = Looker(world, judging())
    looker.watch._alerts = telling(looker, hook)
    looker.until(15 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert deploy.state is State.REGRESSED
    (look,) = deploy.looks
    assert (look.way, look.rate["direction"] if look.rate else "") == ("canary", "more")
    assert look.rate is not None
    assert 0.10 < look.rate["relative"] < 0.30
    assert look.rate["relative_low"] < 0.20 < look.rate["relative_high"]
    assert [one["state"] for one in look.conditions] == ["regressed"]
    assert deploy.verdict is not None
    assert deploy.verdict["method"]["look"] == 1
    assert deploy.verdict["method"]["paired"] == "time"
    assert len(deploy.verdict["functions"]["function"]) <= 20
    assert hook.events == ["regressed"]
    looker.ends()
    # Another collector goes on, and its look is the second.
    second = Looker(world, judging())
    second.watch._alerts = telling(second, hook)
    second.until(25 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert [one.k for one in deploy.looks] == [1, 2]
    assert deploy.verdict is not None
    assert deploy.verdict["method"]["look"] == 2
    assert hook.events == ["regressed"]
    second.until(65 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert deploy.over is not None
    assert (deploy.state, deploy.over.why, deploy.judged) == (State.OVER, Why.ROLLED_BACK, "regressed")
    assert hook.events == ["regressed", "resolved"]
    second.ends()


def test_a_version_that_takes_as_much_is_fine() -> None:
    world = World(at=-5 * MINUTE)
    world.ships("1", -HOUR, HOUR, text=working(0.30), pods=PODS)
    world.ships("2", 0, HOUR, text=working(0.30, 2), pods=PODS)
    rules = replace(RULES, fail_on=("cpu>+10%", "function:json.*>+20%"))
    looker = Looker(world, judging(rules), rules)
    looker.until(45 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert (deploy.state, deploy.due) == (State.FINE, None)
    assert [one["condition"] for one in deploy.looks[-1].conditions] == list(rules.fail_on)
    looker.ends()


def test_too_little_data_is_said_to_be_too_little() -> None:
    world = World(at=-5 * MINUTE)
    world.ships("1", -HOUR, 30 * MINUTE, text=working(0.01, seconds=1), pods="a", step=300)
    world.ships("2", 0, 30 * MINUTE, text=working(0.01, 2, seconds=1), pods="b", step=300)
    rules = replace(RULES, last_seconds=20 * MINUTE, fail_on=("cpu>+1%",))
    looker = Looker(world, judging(rules), rules)
    looker.until(15 * MINUTE, step=5 * MINUTE)
    assert world.only().state is State.WATCHING
    looker.until(25 * MINUTE, step=5 * MINUTE)
    assert world.only().state is State.UNCLEAR
    assert world.only().looks[-1].sentence
    looker.ends()


@pytest.mark.parametrize("way", ["hours", "before"])
def test_a_version_that_took_the_place_of_another_is_compared_with_its_hours_or_the_time_before(
    way: str,
) -> None:
    world = World(at=-5 * MINUTE)
    world.ships("1", -2.2 * DAY if way == "hours" else -5 * HOUR, 0, text=working(0.30), pods=PODS)
    world.ships("2", 0, HOUR, text=working(0.40, 2), pods=PODS)
    looker = Looker(world, judging())
    looker.until((45 if way == "hours" else 25) * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    look = deploy.looks[-1]
    assert look.way == way
    assert look.baseline is not None
    assert look.comparison is not None
    assert look.comparison.start - look.baseline.start == (DAY if way == "hours" else 20 * MINUTE)
    assert deploy.verdict is not None
    assert deploy.verdict["method"]["paired"] == ("hours" if way == "hours" else "")
    assert deploy.state is State.REGRESSED
    looker.ends()


def test_a_pattern_that_re2_does_not_take_keeps_a_collector_from_starting() -> None:
    with pytest.raises(BadSetting, match="regular expression"):
        made_judge(QueryLimits(), replace(RULES, fail_on=("function:(?=x)>+1%",)))


def shipped(ago: float, until: float, version: str, text: Callable[[str, float], str]) -> World:
    """A store with windows of a version that are as old as that by now."""
    from tests.collector.storing import START_NS

    world = World()
    now = int(time.time() - START_NS / 1e9)
    world.ships(version, now - ago, now - until, text=text, pods="abcd")
    return world


async def test_a_collector_that_runs_finds_compares_tells_and_lists(serving: Serve, hook: Webhook) -> None:
    world = shipped(2 * HOUR, 0, "1", working(0.30))
    after = shipped(30 * MINUTE, 0, "2", working(0.42, 2))
    for entry in after.store.list(""):
        world.store.put(entry.key, after.store.get(entry.key))
    settings = {
        "deploy_interval_seconds": 0.1,
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

        async with asyncio.timeout(60):
            while (one := await listed()).get("state") != "regressed" or not hook.got:
                await asyncio.sleep(0.1)
            while not (one := await listed())["alerts"] or one["alerts"][0]["outcome"] != "sent":
                await asyncio.sleep(0.1)
        assert (one["version"], one["previous"], one["looks"][0]["way"]) == ("2", "1", "canary")
        assert hook.got[0].json["links"]["view"] == "https://sidelight.example" + one["links"]["view"]
        # The link asks the same question: the same answer, and the same number of looks is counted.
        path = one["links"]["verdict"]
        again = await collector.ask("GET", path)
        assert again.status == 200, again.body
        assert again.json["type"] == "cpu"
        assert again.json["verdict"]["rate"] == one["looks"][0]["rate"]
        assert again.json["verdict"]["conditions"] == one["looks"][0]["conditions"]
        assert await collector.metric('sidelight_deploy_looks_total{state="regressed"}') == 1
        resolved = await collector.ask("POST", one["links"]["resolve"])
        assert resolved.json["firing"] is False
        async with asyncio.timeout(60):
            while hook.events != ["regressed", "resolved"]:
                await asyncio.sleep(0.1)
        assert hook.got[1].json["reason"] == "resolved"
