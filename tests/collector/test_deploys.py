"""New versions are found once, whoever looks and however often, and end when they are over."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from datetime import UTC, datetime

import pytest

from sidelight.collector.deploys import known, shelf
from sidelight.collector.deploys.asking import Busy
from sidelight.collector.deploys.deploy import Deploy, Rules, Span, State, Why, deploy_id, new, offsets
from sidelight.collector.deploys.pace import Pace
from sidelight.collector.discovery.rollouts import Rollout
from sidelight.collector.doctor.places import survey
from sidelight.collector.query.errors import QueryTimeout
from sidelight.collector.store import lease
from sidelight.collector.store.objects import ObjectStore, StoreUnavailable
from tests.collector.deploying import DAY, HOUR, MINUTE, START, Looker, World, states


def test_a_new_version_is_a_deploy_and_what_was_there_before_is_none() -> None:
    world = World()
    world.ships("1", -3 * HOUR, 2 * HOUR)
    world.ships("2", HOUR, 2 * HOUR)
    world.ships("5", -2 * HOUR, 2 * HOUR, service="cart")
    looker = Looker(world)
    looker.until(HOUR + 5 * MINUTE, step=10 * MINUTE)
    deploy = world.only()
    assert (deploy.namespace, deploy.service, deploy.version, deploy.previous) == ("", "shop", "2", "1")
    assert deploy.first_seen == deploy.started == START + HOUR
    assert deploy.state is State.WATCHING
    assert deploy.due == START + HOUR + 12 * MINUTE
    assert looker.value("sidelight_deploys_found_total") == 1
    assert looker.value("sidelight_deploys_watched") == 1
    looker.ends()


def test_what_is_there_when_a_collector_looks_for_the_first_time_is_known() -> None:
    world = World()
    for version in ("1", "2", "3"):
        world.ships(version, -30 * HOUR, HOUR, step=300)
    looker = Looker(world)
    looker.until(30 * MINUTE)
    assert world.deploys() == []
    world.ships("4", 30 * MINUTE, HOUR)
    looker.until(40 * MINUTE)
    assert world.only().version == "4"
    looker.ends()


def test_a_version_that_appeared_on_the_day_before_the_first_look_is_a_deploy() -> None:
    world = World()
    world.ships("1", -30 * HOUR, -5 * HOUR, step=300)
    world.ships("2", -5 * HOUR, HOUR)
    looker = Looker(world)
    looker.until(10 * MINUTE)
    assert (world.only().version, world.only().previous) == ("2", "1")
    looker.ends()


def test_namespaces_are_apart() -> None:
    world = World()
    world.ships("1", -3 * HOUR, HOUR, namespace="a")
    world.ships("2", -3 * HOUR, HOUR, namespace="b")
    world.ships("2", 20 * MINUTE, HOUR, namespace="a")
    looker = Looker(world)
    looker.until(30 * MINUTE)
    assert (world.only().namespace, world.only().version) == ("a", "2")
    looker.ends()


def test_windows_without_a_version_are_no_deploy() -> None:
    world = World()
    world.ships("1", -3 * HOUR, HOUR)
    world.ships("", 10 * MINUTE, HOUR)
    looker = Looker(world)
    looker.until(30 * MINUTE)
    assert world.deploys() == []
    looker.ends()


@pytest.mark.parametrize("how", ["ends", "dies"])
def test_nothing_is_found_again_after_a_restart_and_nothing_is_missed(how: str, store: ObjectStore) -> None:
    world = World(store)
    world.ships("1", -3 * HOUR, HOUR, step=300)
    world.ships("2", 20 * MINUTE, 3 * HOUR, step=300)
    first = Looker(world)
    first.until(30 * MINUTE, step=5 * MINUTE)
    before = world.only()
    getattr(first, how)()
    world.at = 3 * HOUR  # nobody looked for two hours and a half
    world.ships("3", 2 * HOUR, 5 * HOUR, step=300)
    second = Looker(world)
    second.until(3 * HOUR + 20 * MINUTE, step=3 * MINUTE)
    assert [one.version for one in world.deploys()] == ["3", "2"]
    assert world.deploys()[0].previous == "2"
    assert world.deploys()[1].id == before.id
    assert second.value("sidelight_deploys_found_total") == 1
    second.ends()


def test_of_two_collectors_one_looks_and_the_other_takes_over() -> None:
    world = World()
    world.ships("1", -3 * HOUR, 3 * HOUR, step=300)
    world.ships("2", 10 * MINUTE, 3 * HOUR, step=300)
    one, other = Looker(world), Looker(world)
    for _ in range(20):
        world.at += MINUTE
        one.watch.tick()
        other.watch.tick()
    assert (one.value("sidelight_deploys_watched"), other.value("sidelight_deploys_watched")) == (1, 0)
    assert [entry.key for entry in world.store.list(lease.ROOT)] == [f"{lease.ROOT}deploys.json"]
    one.dies()
    world.ships("3", 30 * MINUTE, 3 * HOUR, step=300)
    other.until(40 * MINUTE)
    assert other.value("sidelight_deploys_watched") == 1
    assert states(world.deploys()) == {"2": "over", "3": "watching"}
    other.ends()
    assert list(world.store.list(lease.ROOT)) == []


def test_two_that_look_in_the_same_moment_find_a_deploy_once(store: ObjectStore) -> None:
    world = World(store)
    world.ships("1", -3 * HOUR, 2 * HOUR, step=300)
    world.ships("2", 10 * MINUTE, 2 * HOUR, step=300)
    lookers = [Looker(world, leased=False) for _ in range(2)]
    for _ in range(6):
        world.at += 5 * MINUTE
        for looker in lookers:
            looker.watch.tick()
    assert world.only().version == "2"
    assert sum(one.value("sidelight_deploys_found_total") for one in lookers) == 1
    world.ships("3", 20 * MINUTE, 2 * HOUR, step=300)
    for _ in range(6):
        world.at += 5 * MINUTE
        for looker in lookers:
            looker.watch.tick()
    assert states(world.deploys()) == {"2": "over", "3": "watching"}
    for looker in lookers:
        looker.ends()


def test_the_next_version_ends_the_deploy_of_the_one_before() -> None:
    world = World()
    world.ships("1", -3 * HOUR, HOUR)
    world.ships("2", 20 * MINUTE, HOUR)
    world.ships("3", 40 * MINUTE, HOUR)
    looker = Looker(world)
    looker.until(50 * MINUTE)
    newest, older = world.deploys()
    assert (newest.version, newest.previous, newest.state) == ("3", "2", State.WATCHING)
    assert older.over is not None
    assert (older.state, older.over.why, older.over.by) == (State.OVER, Why.REPLACED, "3")
    assert older.due is None
    looker.ends()


def test_a_version_that_is_gone_while_its_service_is_not_was_rolled_back() -> None:
    world = World()
    world.ships("1", -3 * HOUR, 30 * MINUTE)
    world.ships("2", 20 * MINUTE, 40 * MINUTE)
    world.ships("1", 40 * MINUTE, 2 * HOUR)
    looker = Looker(world)
    looker.until(50 * MINUTE)
    assert world.only().state is State.WATCHING
    looker.until(HOUR)
    over = world.only().over
    assert over is not None
    assert (over.why, over.by, over.at) == (Why.ROLLED_BACK, "1", START + 40 * MINUTE)
    looker.until(90 * MINUTE)
    assert world.only().previous == "1"  # and that it came back is no deploy
    looker.ends()


def test_a_service_that_is_gone_as_a_whole_was_not_rolled_back() -> None:
    world = World()
    world.ships("1", -3 * HOUR, 20 * MINUTE)
    world.ships("2", 20 * MINUTE, 40 * MINUTE)
    looker = Looker(world)
    looker.until(2 * HOUR)
    assert world.only().over is None
    looker.ends()


def test_a_deploy_has_the_rollout_that_brought_it() -> None:
    world = World()
    world.ships("1", -3 * HOUR, HOUR, namespace="shop")
    world.ships("2", 20 * MINUTE, HOUR, namespace="shop")
    rollouts = [
        Rollout("a", 3, "shop", "Deployment", "web", "shop", "1", START - 5 * DAY),
        Rollout("b", 4, "shop", "Deployment", "web", "shop", "2", START - 3 * DAY, START - 3 * DAY),
        Rollout("c", 5, "shop", "Deployment", "web", "shop", "2", START + 1130, START + 1260),
        Rollout("d", 5, "other", "Deployment", "web", "shop", "2", START + 1190),
    ]
    looker = Looker(world, rollouts=rollouts)
    looker.until(30 * MINUTE)
    deploy = world.only()
    assert deploy.rollout is not None
    assert (deploy.rollout.workload, deploy.rollout.revision) == ("web", 5)
    assert (deploy.started, deploy.first_seen) == (START + 1130, START + 1200)
    looker.ends()


def test_deploys_are_deleted_when_they_are_too_old_and_the_doctor_knows_them(store: ObjectStore) -> None:
    world = World(store)
    world.ships("1", -3 * HOUR, HOUR, step=300)
    world.ships("2", 20 * MINUTE, HOUR, step=300)
    looker = Looker(world)
    looker.until(30 * MINUTE, step=5 * MINUTE)
    looker.ends()
    keys = {entry.key for entry in store.list("v1/deploys/")}
    assert keys == {shelf.SEEN, shelf.key_of(world.only().id)}
    assert all(map(shelf.is_own, keys))
    assert survey(store).unknown == {}
    with closing(world.shelf) as kept:
        assert kept.expire(START + 89 * DAY, 90) == 0
        assert kept.expire(START + 92 * DAY, 90, stopped=lambda: True) == 0
        assert kept.expire(START + 92 * DAY, 90) == 1
    assert world.deploys() == []


def test_deploys_are_listed_by_day_the_newest_first(store: ObjectStore) -> None:
    world = World(store)
    with closing(world.shelf) as kept:
        for at in (0, 3, 1, 40, 2):
            made = World(store).now + at * DAY
            deploy = Deployed(made)
            assert kept.create(deploy.one)
            assert not kept.create(deploy.one)
        found = kept.newest(3, lambda _: True)
        assert [(one.first_seen - START) / DAY for one in found] == [40, 3, 2]
        between = kept.newest(10, lambda _: True, START + DAY, START + 3 * DAY)
        assert [(one.first_seen - START) / DAY for one in between] == [2, 1]
        assert len(kept.newest(10, lambda one: one.version == "v3")) == 1
        assert kept.days() == sorted(kept.days(), reverse=True)
        assert len(kept.days()) == 5


class Deployed:
    """A deploy that appeared at a moment."""

    def __init__(self, at: float) -> None:
        days = round((at - START) / DAY)
        self.one = new(("", "shop", f"v{days}"), at, "v", Span(at - HOUR, at), None, Rules())


def test_what_cannot_be_read_is_left_out() -> None:
    world = World()
    with closing(world.shelf) as kept:
        one = Deployed(START).one
        assert kept.create(one)
        world.store.put(shelf.key_of(deploy_id("", "x", "1", START)), b"{}")
        assert [each.id for each in kept.newest(10, lambda _: True)] == [one.id]
    world.store.put(shelf.SEEN, b"nothing of the kind")
    looker = Looker(world)
    looker.until(5 * MINUTE)
    looker.ends()
    content = world.store.get(shelf.SEEN)
    assert known.decode(content) is not None


def test_looks_double_until_the_last() -> None:
    minutes = [offset / 60 for offset in offsets(Rules())]
    assert minutes == [10, 20, 40, 80, 160, 320, 640, 1440]
    assert offsets(Rules(first_seconds=600, last_seconds=600)) == (600,)
    assert offsets(Rules(first_seconds=100, last_seconds=400)) == (100, 200, 400)


def test_of_other_services_nothing_is_read(store: ObjectStore) -> None:
    with closing(shelf.Shelf(store)) as kept:
        labels = [("a", "shop", "2"), ("b", "shop", "2"), ("a", "cart", "2"), ("a", "sho", "p2")]
        for each in labels:
            assert kept.create(new(each, START, "1", Span(START - HOUR, START), None, Rules()))
        read: list[str] = []

        def wanted(one: Deploy) -> bool:
            read.append(one.service)
            return True

        assert len(kept.newest(10, wanted, service="shop")) == 2
        assert read == ["shop", "shop"]
        assert kept.newest(10, wanted, service="other") == []


def test_a_deploy_that_is_damaged_keeps_no_other_from_being_looked_after() -> None:
    world = World()
    for service in ("cart", "shop"):
        world.ships("1", -3 * HOUR, 2 * HOUR, service=service)
        world.ships("2", 10 * MINUTE, 2 * HOUR, service=service)
    looker = Looker(world)
    looker.until(15 * MINUTE)
    one, other = world.deploys()
    world.store.put(shelf.key_of(one.id), b"damaged")
    looker.until(20 * MINUTE)
    assert looker.value("sidelight_deploys_watched") == 1
    world.ships("3", 20 * MINUTE, 2 * HOUR, service=other.service)
    looker.until(25 * MINUTE)
    assert {each.state for each in world.readable() if each.id == other.id} == {State.OVER}
    looker.ends()


def test_what_a_query_has_no_time_for_is_looked_through_in_smaller_pieces() -> None:
    world = World()
    world.ships("1", -20 * HOUR, HOUR, step=600)
    world.ships("2", -2 * HOUR, HOUR, step=600)
    looker = Looker(world)
    slow = iter([True] * 5)

    def fails() -> None:
        if next(slow, False):
            raise QueryTimeout(30)

    looker.ask.fails = fails
    looker.until(5 * MINUTE)
    assert world.deploys() == []
    looker.until(10 * MINUTE)
    assert world.only().version == "2"
    looker.ends()


def test_a_version_that_the_store_did_not_take_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.ships("1", -3 * HOUR, HOUR)
    world.ships("2", 10 * MINUTE, HOUR)
    looker = Looker(world)
    looker.until(8 * MINUTE)
    create = looker.shelf.create

    def fails(_: Deploy) -> bool:
        raise StoreUnavailable("away")

    monkeypatch.setattr(looker.shelf, "create", fails)
    looker.until(15 * MINUTE)
    assert world.deploys() == []
    monkeypatch.setattr(looker.shelf, "create", create)
    looker.until(17 * MINUTE)
    assert world.only().version == "2"
    looker.ends()


def test_no_place_for_a_query_is_no_error() -> None:
    world = World()

    def fails() -> None:
        raise Busy("all taken")

    looker = Looker(world)
    looker.ask.fails = fails
    looker.until(5 * MINUTE)
    assert looker.value("sidelight_deploy_errors_total") == 0
    assert looker.value("sidelight_deploy_looks_postponed_total") == 5
    looker.ends()


def test_an_id_is_that_of_the_day_and_of_what_was_deployed() -> None:
    one = deploy_id("ns", "shop", "2", START)
    assert one.startswith("20261121-")
    assert one == deploy_id("ns", "shop", "2", START + HOUR)
    others = [("", "shop", "2"), ("ns", "shop2", ""), ("ns", "shop", "3")]
    assert len({one, *(deploy_id(*labels, START) for labels in others)}) == 4
    assert datetime.fromtimestamp(START, UTC).day == 21


def test_the_pace_allows_so_many_looks_a_minute_and_so_much_of_a_core() -> None:
    pace = Pace(3, 0.5, 0.0)
    for _ in range(3):
        assert pace.ready(0.0)
        pace.looked()
    assert not pace.ready(0.0)
    assert not pace.ready(19.0)
    assert pace.ready(20.0)
    pace.spent(40.0)  # 30 s of them were put by
    assert not pace.ready(39.0)
    assert pace.ready(41.0)


def test_a_deploy_reads_as_it_was_written() -> None:
    from sidelight.collector.deploys.keeping import decode, encode

    one = Deployed(START).one
    assert decode("key", encode(one)) == one
    assert {field.name for field in dataclasses.fields(one)} >= {"id", "state", "looks"}
