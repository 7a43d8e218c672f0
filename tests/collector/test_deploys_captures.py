"""Windows of captures are not what a version costs: somebody took them because something was wrong."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from sidelight.collector.deploys.appeared import of_version, span_of
from sidelight.collector.deploys.deploy import Rules, Span, State, new
from sidelight.collector.deploys.judging import comparing, judge_with
from sidelight.collector.deploys.sides import sides
from sidelight.collector.deploys.views import api_link, view_link
from sidelight.collector.query.limits import QueryLimits
from tests.collector.deploying import HOUR, MINUTE, START, Looker, World, working

RULES = Rules(last_seconds=20 * MINUTE)
ID = "c_01M7YQVZYKSX6KCDH95ZVGXJS6"


def captured() -> World:
    """Version 2 takes as much as version 1, but for the minutes in which somebody looked closer."""
    world = World(at=-5 * MINUTE)
    world.ships("1", -HOUR, HOUR, text=working(0.30), pods="abcdef")
    world.ships("2", 0, HOUR, text=working(0.30, 2), pods="abcdef")
    world.ships("2", 2 * MINUTE, 8 * MINUTE, text=working(0.90, 3), pods="abcdef", capture=ID)
    return world


def test_a_capture_of_a_bad_moment_does_not_make_a_deploy_regressed() -> None:
    world = captured()
    rules = replace(RULES, fail_on=("cpu>+10%",))
    looker = Looker(world, judge_with(comparing(QueryLimits(), rules.fail_on), rules), rules)
    looker.until(15 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert deploy.state is State.FINE
    (look,) = deploy.looks
    assert look.rate is not None
    assert abs(look.rate["relative"]) < 0.05
    looker.ends()
    # What the look links to is the same question.
    asked = parse_qs(urlsplit(api_link(deploy) or "").query)
    assert 'capture=""' in asked["baseline"][0]
    assert 'capture=""' in asked["comparison"][0]
    assert parse_qs(urlsplit(view_link(deploy)).query)["query"] == ['capture=""']


def test_the_time_of_a_capture_is_no_time_in_which_a_version_ran() -> None:
    """A capture of old pods beside the new version makes no canary."""
    world = World()
    world.ships("1", -HOUR, 0)
    world.ships("1", MINUTE, 10 * MINUTE, capture=ID)
    world.ships("2", 0, HOUR)
    deploy = new(("", "shop", "2"), START, "1", Span(START - HOUR, START), None, RULES)

    def ran(version: str, start: float, until: float) -> Span | None:
        selector = of_version("", "shop", version)
        return Looker(world).ask(lambda reading: span_of(reading, selector, start, until))

    chosen = sides(deploy, 600.0, ran, RULES)
    assert chosen is not None
    assert chosen.way == "before"


def test_a_version_that_is_seen_in_captures_alone_is_a_deploy_that_cannot_be_told_yet() -> None:
    world = World(at=-5 * MINUTE)
    world.ships("1", -HOUR, HOUR)
    world.ships("2", 0, HOUR, capture=ID)
    looker = Looker(world, judge_with(comparing(QueryLimits(), RULES.fail_on), RULES), RULES)
    looker.until(15 * MINUTE, step=5 * MINUTE)
    assert world.only().looks[0].problem == "There are no windows of both versions to compare."
    looker.ends()
