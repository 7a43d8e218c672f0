"""A version that comes back is a deploy of its own; one that pauses, or runs beside another, is not."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
import zstandard

from sidelight.collector.deploys import known
from sidelight.collector.deploys.alerts import ALERTMANAGER, REGRESSED
from sidelight.collector.deploys.appeared import Seen, versions_seen
from sidelight.collector.deploys.deploy import (
    Deploy,
    Over,
    Rules,
    Span,
    State,
    Why,
    deploy_id,
    ended,
    looked,
    new,
)
from sidelight.collector.deploys.known import Known
from sidelight.collector.deploys.receivers import Address, Receivers
from sidelight.collector.deploys.shelf import Shelf
from sidelight.collector.discovery.rollouts import Rollout
from sidelight.collector.metrics import Metrics
from sidelight.collector.query.windows import Question
from sidelight.collector.settings import Settings
from sidelight.collector.store.memory import MemoryStore
from sidelight.stacks.selectors import Selector
from tests.collector.alertmanagers import alertmanager, webhook
from tests.collector.deploying import DAY, HOUR, MINUTE, START, Asked, Looker, World
from tests.collector.test_api_caching import compact
from tests.collector.test_deploys_alerts import look
from tests.running import eventually

RULES = Rules()
GONE = RULES.gone_seconds


def shipped(version: str, spans: list[tuple[float, float]], world: World, **labels: str) -> None:
    for start, until in spans:
        world.ships(version, start, until, pods="a", **labels)


def found(world: World) -> list[tuple[str, str, float]]:
    """Version, the one before, and the minute of arrival of each deploy, the newest first."""
    return [(one.version, one.previous, (one.first_seen - START) / MINUTE) for one in world.deploys()]


def back_and_forth() -> World:
    world = World()
    shipped("1", [(-3 * HOUR, 20 * MINUTE), (60 * MINUTE, 100 * MINUTE)], world)
    shipped("2", [(20 * MINUTE, 60 * MINUTE), (100 * MINUTE, 4 * HOUR)], world)
    return world


BACK_AND_FORTH = [("2", "1", 100), ("1", "2", 60), ("2", "1", 20)]


def test_each_arrival_is_compared_with_the_version_that_ran_before_it() -> None:
    world = back_and_forth()
    looker = Looker(world)
    looker.until(50 * MINUTE)
    first = world.only()
    looker.until(80 * MINUTE)
    assert found(world) == BACK_AND_FORTH[1:]
    back, before = world.deploys()
    assert (before.id, before.over) == (first.id, Over(START + 60 * MINUTE, Why.ROLLED_BACK, "1"))
    assert (back.state, back.due) == (State.WATCHING, START + 72 * MINUTE)
    assert back.previous_seen.first == START + 20 * MINUTE
    looker.until(2 * HOUR)
    assert found(world) == BACK_AND_FORTH
    again, back, _ = world.deploys()
    assert back.over == Over(START + 100 * MINUTE, Why.ROLLED_BACK, "2")
    assert (again.state, again.over) == (State.WATCHING, None)
    assert again.id != first.id
    assert looker.value("sidelight_deploys_found_total") == 3
    looker.ends()


def test_who_was_away_finds_the_same_arrivals_under_the_same_ids() -> None:
    watched, missed = back_and_forth(), back_and_forth()
    looker = Looker(watched)
    looker.until(4 * HOUR, step=3 * MINUTE)
    looker.ends()
    late = Looker(missed)
    late.until(5 * MINUTE)
    late.dies()
    missed.at = 4 * HOUR
    second = Looker(missed)
    second.until(4 * HOUR + 5 * MINUTE)
    assert found(missed) == BACK_AND_FORTH
    assert [one.id for one in missed.deploys()] == [one.id for one in watched.deploys()]
    assert [one.over for one in missed.deploys()] == [one.over for one in watched.deploys()]
    second.ends()


def test_an_arrival_within_an_hour_that_was_added_up_by_now_is_found() -> None:
    """All of it between 10:00 and 11:00, and nobody looked until 15:00."""
    world, begin = World(), 30 * MINUTE
    shipped("1", [(-3 * HOUR, begin + 10 * MINUTE), (begin + 40 * MINUTE, 6 * HOUR)], world)
    shipped("2", [(begin + 10 * MINUTE, begin + 40 * MINUTE)], world)
    compact(world.store)
    first = Looker(world)
    first.until(10 * MINUTE)
    first.dies()
    world.at = 5.5 * HOUR
    second = Looker(world)
    second.until(5.6 * HOUR)
    assert found(world) == [("1", "2", 70), ("2", "1", 40)]
    second.ends()


@pytest.mark.parametrize(("pause", "deploys"), [(GONE - 60, 1), (GONE, 2)])
def test_a_version_is_gone_once_its_service_was_seen_without_it_for_so_long(
    pause: float, deploys: int
) -> None:
    """To the window: version 2 is a canary that pauses while version 1 goes on."""
    world = World()
    shipped("1", [(-3 * HOUR, 2 * HOUR)], world)
    shipped("2", [(20 * MINUTE, 40 * MINUTE), (40 * MINUTE + pause, 2 * HOUR)], world)
    looker = Looker(world)
    looker.until(90 * MINUTE)
    assert [version for version, *_ in found(world)] == ["2"] * deploys
    assert [one.over is not None for one in world.deploys()] == [False, True][:deploys]
    looker.ends()


def test_how_long_that_is_can_be_set() -> None:
    world = World()
    shipped("1", [(-3 * HOUR, 2 * HOUR)], world)
    shipped("2", [(20 * MINUTE, 40 * MINUTE), (45 * MINUTE, 2 * HOUR)], world)
    looker = Looker(world, rules=replace(RULES, gone_seconds=300.0))
    looker.until(90 * MINUTE)
    assert [version for version, *_ in found(world)] == ["2", "2"]
    looker.ends()


@pytest.mark.parametrize("first", ["1", "2"])
def test_after_a_night_of_nobody_none_has_come_back(first: str) -> None:
    """Whichever is seen first in the morning, the other was not gone while it was seen."""
    world = World()
    for version in ("1", "2"):
        morning = 10 * HOUR + (0 if version == first else GONE - 120)
        begin = -3 * HOUR if version == "1" else 20 * MINUTE
        shipped(version, [(begin, HOUR), (morning, 12 * HOUR)], world)
    looker = Looker(world)
    looker.until(HOUR, step=2 * MINUTE)
    looker.until(10 * HOUR, step=20 * MINUTE)
    looker.until(12 * HOUR, step=2 * MINUTE)
    assert found(world) == [("2", "1", 20)]
    assert world.only().over is None
    looker.ends()


def test_a_pause_of_all_adds_nothing_to_the_time_that_one_was_gone_before_it() -> None:
    """Gone for long while the other ran, then nobody runs, then both: it came back."""
    world = World()
    shipped("1", [(-3 * HOUR, 40 * MINUTE), (3 * HOUR, 4 * HOUR)], world)
    shipped("2", [(20 * MINUTE, 2 * HOUR), (3 * HOUR - 60, 4 * HOUR)], world)
    for away in (False, True):
        own = World(world.store)
        looker = Looker(own)
        looker.until(4 * HOUR, step=4 * HOUR if away else 3 * MINUTE)
        assert found(own) == [("1", "2", 180), ("2", "1", 20)]
        looker.ends()
        for key in [entry.key for entry in own.store.list("v1/deploys/")]:
            own.store.delete(key)


def test_one_that_comes_back_beside_a_newer_one_does_not_end_its_deploy() -> None:
    world = World()
    shipped("1", [(-3 * HOUR, -2 * HOUR), (40 * MINUTE, 45 * MINUTE)], world)
    shipped("2", [(-2 * HOUR, 20 * MINUTE)], world)
    shipped("3", [(20 * MINUTE, 2 * HOUR)], world)
    looker = Looker(world)
    looker.until(90 * MINUTE)
    stands = {one.version: one for one in world.deploys()}
    assert stands["1"].previous == "3"
    assert stands["1"].over == Over(START + 45 * MINUTE, Why.ROLLED_BACK, "3")
    assert (stands["3"].state, stands["3"].over) == (State.WATCHING, None)
    looker.ends()


@pytest.mark.parametrize(("most", "deploys", "passed"), [(3, 3, 0), (2, 2, 1), (1, 1, 2)])
def test_what_comes_and_goes_all_day_is_compared_so_often_and_no_more(
    most: int, deploys: int, passed: int
) -> None:
    world = World()
    shipped("1", [(-3 * HOUR, 4 * HOUR)], world)
    shipped("2", [(at * HOUR, at * HOUR + 10 * MINUTE) for at in (1, 2, 3)], world)
    looker = Looker(world, rules=replace(RULES, arrivals=most))
    looker.until(4 * HOUR, step=3 * MINUTE)
    assert [version for version, *_ in found(world)] == ["2"] * deploys
    assert looker.value("sidelight_deploys_passed_over_total") == passed
    looker.ends()


def test_two_that_look_in_the_same_moment_find_an_arrival_once() -> None:
    world = back_and_forth()
    lookers = [Looker(world, leased=False) for _ in range(2)]
    while world.at < 3 * HOUR:
        world.at += 5 * MINUTE
        for one in lookers:
            one.watch.tick()
    assert found(world) == BACK_AND_FORTH
    assert sum(one.value("sidelight_deploys_found_total") for one in lookers) == 3
    for one in lookers:
        one.ends()


def test_late_windows_move_an_arrival_and_make_no_other() -> None:
    world = back_and_forth()
    looker = Looker(world)
    looker.until(62 * MINUTE)
    assert len(world.deploys()) == 2
    looker.dies()  # what it knew last is not written
    world.ships("1", 55 * MINUTE, 60 * MINUTE, pods="late")
    world.store.delete("v1/deploys/seen.json.zst")
    world.at += 3 * MINUTE
    second = Looker(world)
    second.until(80 * MINUTE)
    assert found(world) == BACK_AND_FORTH[1:]
    second.ends()


def test_the_rollout_of_an_earlier_arrival_is_not_that_of_a_later_one() -> None:
    world = World()
    shipped("1", [(-3 * HOUR, 20 * MINUTE), (60 * MINUTE, 2 * HOUR)], world, namespace="n")
    shipped("2", [(20 * MINUTE, 60 * MINUTE), (100 * MINUTE, 3 * HOUR)], world, namespace="n")
    rollouts = [
        Rollout("b", 2, "n", "Deployment", "web", "shop", "2", START + 1190, START + 1200),
        Rollout("a", 3, "n", "Deployment", "web", "shop", "1", START + 3590, START + 3600),
    ]
    looker = Looker(world, rollouts=rollouts)
    looker.until(2 * HOUR)
    assert [one.rollout and one.rollout.revision for one in world.deploys()] == [None, 3, 2]
    looker.ends()


def test_what_was_known_before_arrivals_were_told_apart_is_read() -> None:
    old = {"format": 1, "until": 30.0, "services": [["n", "shop", [["1", 10.0, 20.0], ["2", 15.0, 30.0]]]]}
    read = known.decode(zstandard.compress(orjson.dumps(old)))
    assert read is not None
    assert read.services["n", "shop"]["1"] == known.Run(10.0, 20.0, 10.0)
    assert read.over(new(("n", "shop", "2"), 15.0, "1", Span(10, 15), None, RULES)) is None
    assert known.decode(known.encode(read)) == read
    assert known.decode(zstandard.compress(orjson.dumps({**old, "format": 3}))) is None


def test_a_run_is_cut_where_a_version_pauses_for_so_long() -> None:
    world = World()
    shipped("1", [(0, 300), (360, 600), (480, 900), (1500, 1560)], world)
    shipped("2", [(100, 160)], world)
    question = Question(Selector(), round((START - 10) * 1e9), round((START + DAY) * 1e9))

    def spans(pause: float) -> list[tuple[str, float, float]]:
        seen = Asked(world.store)(lambda reading: versions_seen(reading, question, pause))
        return [(one.version, one.span.first - START, one.span.last - START) for one in seen]

    assert spans(601) == [("1", 0, 1560), ("2", 100, 160)]
    assert spans(600) == [("1", 0, 900), ("2", 100, 160), ("1", 1500, 1560)]
    assert spans(60) == [("1", 0, 300), ("2", 100, 160), ("1", 360, 900), ("1", 1500, 1560)]


def test_looking_through_the_same_windows_again_changes_nothing() -> None:
    def seen(version: str, first: float, last: float) -> Seen:
        return Seen("", "shop", version, Span(START + first, START + last))

    runs = [seen("1", 0, 1200), seen("2", 1200, 3600), seen("1", 3600, 6000)]
    learnt = Known()
    assert [one.version for one in learnt.learn(runs, GONE)] == ["2", "1"]
    before = {name: dict(versions) for name, versions in learnt.services.items()}
    assert learnt.learn(runs, GONE) == []
    assert learnt.learn([seen("1", 900, 1200), seen("2", 3000, 3600), seen("1", 4000, 4100)], GONE) == []
    assert learnt.services == before


def test_an_id_has_the_arrival_of_the_day_from_the_second_on() -> None:
    ids = [deploy_id("n", "shop", "2", START, number) for number in (1, 2, 3)]
    assert ids[0] == deploy_id("n", "shop", "2", START)
    assert len(set(ids)) == 3
    assert all(one[:17] == other[:17] for one, other in pairwise(ids))


def test_how_often_a_day_has_an_edge() -> None:
    assert Settings(store="given", deploy_arrivals_per_day=1).deploy_arrivals_per_day == 1
    with pytest.raises(ValueError, match="deploy_arrivals_per_day must be at least 1"):
        Settings(store="given", deploy_arrivals_per_day=0)


def test_the_alert_of_a_version_that_came_back_is_not_ended_by_what_was_to_be_told_of_its_first_arrival(
    tmp_path: Path,
) -> None:
    now = float(int(time.time()))
    shelf, labels = Shelf(MemoryStore()), ("prod", "shop", "2")

    def regressed(number: int, at: float) -> Deploy:
        one = new(labels, at - 900, "1", Span(at - 9000, at - 900), None, RULES, number)
        judged = looked(one, look(1, at, State.REGRESSED), None, RULES)
        assert shelf.create(judged)
        return judged

    with closing(shelf), webhook() as hook, alertmanager(tmp_path, hook.url) as server:
        to = Receivers(shelf, Metrics(), alertmanagers=(Address(server.url),), clock=lambda: now)
        first = regressed(1, now - 7200)
        to.tell([first], lambda: False)
        gone = shelf.change(first.id, lambda one: ended(one, Over(now - 3600, Why.ROLLED_BACK, "1")))
        again = regressed(2, now)
        to.tell([again, gone], lambda: False)
        eventually("it fires", lambda: [one["status"]["state"] for one in server.alerts()] == ["active"])
        assert [one.event for one in shelf.deploy(again.id).deliveries] == [REGRESSED]
        (told,) = shelf.deploy(first.id).deliveries
        assert (told.receiver, told.event, told.outcome) == (ALERTMANAGER, "resolved", "sent")
        over = shelf.change(again.id, lambda one: ended(one, Over(now, Why.ROLLED_BACK, "1")))
        to.tell([over], lambda: False)
        eventually("it ends", lambda: server.alerts() == [])
