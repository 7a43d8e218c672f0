"""Which versions are deploys: each arrival is found once, whoever looks and however often, and ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Set
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_collector.deploys import deploy_codec, deploy_repository, version_registry
from sidelight_collector.deploys.deploy import (
    Deploy,
    DeployEnd,
    DeployPolicy,
    DeployState,
    FinishReason,
    build_deploy_id,
    create_deploy,
    list_analysis_offsets,
)
from sidelight_collector.deploys.query_client import QueryEngineBusy
from sidelight_collector.deploys.rate_limiter import AnalysisRateLimiter
from sidelight_collector.deploys.version_registry import VersionRegistry
from sidelight_collector.doctor.layout import survey_store
from sidelight_collector.kubernetes_discovery.rollouts import Rollout
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.select.observed_time import VersionSpan, list_version_spans
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage import lease
from sidelight_collector.storage.objects import ObjectDamaged, ObjectStore, StoreUnavailable
from sidelight_collector.times import ObservedSpan
from sidelight_model.selectors import Selector
from tests.collector.deploy_world import DAY, HOUR, MINUTE, START, Asked, Looker, World, states
from tests.collector.test_api_caching import compact

GOLDEN = Path(__file__).parents[1] / "golden" / "formats"


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
    assert deploy.state is DeployState.WATCHING
    assert deploy.due == START + HOUR + 12 * MINUTE
    assert looker.value("sidelight_deploys_detected_total") == 1
    assert looker.value("sidelight_deploys_active") == 1
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
    assert second.value("sidelight_deploys_detected_total") == 1
    second.ends()


def test_of_two_collectors_one_looks_and_the_other_takes_over() -> None:
    world = World()
    world.ships("1", -3 * HOUR, 3 * HOUR, step=300)
    world.ships("2", 10 * MINUTE, 30 * MINUTE, step=300)
    one, other = Looker(world), Looker(world)
    for _ in range(20):
        world.at += MINUTE
        one.watch.run_once()
        other.watch.run_once()
    assert (one.value("sidelight_deploys_active"), other.value("sidelight_deploys_active")) == (1, 0)
    assert [entry.key for entry in world.store.list(lease.ROOT)] == [f"{lease.ROOT}deploys.json"]
    one.dies()
    world.ships("3", 30 * MINUTE, 3 * HOUR, step=300)
    other.until(50 * MINUTE)
    assert other.value("sidelight_deploys_active") == 1
    assert states(world.deploys()) == {"2": "finished", "3": "watching"}
    other.ends()
    assert list(world.store.list(lease.ROOT)) == []


def test_two_that_look_in_the_same_moment_find_a_deploy_once(store: ObjectStore) -> None:
    world = World(store)
    world.ships("1", -3 * HOUR, 2 * HOUR, step=300)
    world.ships("2", 10 * MINUTE, 20 * MINUTE, step=300)
    lookers = [Looker(world, leased=False) for _ in range(2)]
    for _ in range(6):
        world.at += 5 * MINUTE
        for looker in lookers:
            looker.watch.run_once()
    assert world.only().version == "2"
    assert sum(one.value("sidelight_deploys_detected_total") for one in lookers) == 1
    world.ships("3", 20 * MINUTE, 2 * HOUR, step=300)
    for _ in range(6):
        world.at += 5 * MINUTE
        for looker in lookers:
            looker.watch.run_once()
    assert states(world.deploys()) == {"2": "finished", "3": "watching"}
    for looker in lookers:
        looker.ends()


def test_the_next_version_ends_the_deploy_of_the_one_before() -> None:
    world = World()
    world.ships("1", -3 * HOUR, HOUR)
    world.ships("2", 20 * MINUTE, 42 * MINUTE)
    world.ships("3", 40 * MINUTE, HOUR)
    looker = Looker(world)
    looker.until(50 * MINUTE)
    assert states(world.deploys()) == {"2": "watching", "3": "watching"}
    looker.until(HOUR)
    newest, older = world.deploys()
    assert (newest.version, newest.previous, newest.state) == ("3", "2", DeployState.WATCHING)
    assert older.finished is not None
    assert (older.state, older.finished.reason, older.finished.successor) == (
        DeployState.FINISHED,
        FinishReason.REPLACED,
        "3",
    )
    assert older.due is None
    looker.ends()


def test_a_version_that_is_gone_while_its_service_is_not_was_rolled_back() -> None:
    world = World()
    world.ships("1", -3 * HOUR, 30 * MINUTE)
    world.ships("2", 20 * MINUTE, 40 * MINUTE)
    world.ships("1", 40 * MINUTE, 2 * HOUR)
    looker = Looker(world)
    looker.until(50 * MINUTE)
    assert world.only().state is DeployState.WATCHING
    looker.until(HOUR)
    over = world.only().finished
    assert over is not None
    assert (over.reason, over.successor, over.at) == (FinishReason.ROLLED_BACK, "1", START + 40 * MINUTE)
    looker.until(90 * MINUTE)
    assert world.only().previous == "1"  # and that it came back is no deploy
    looker.ends()


def test_a_service_that_is_gone_as_a_whole_was_not_rolled_back() -> None:
    world = World()
    world.ships("1", -3 * HOUR, 20 * MINUTE)
    world.ships("2", 20 * MINUTE, 40 * MINUTE)
    looker = Looker(world)
    looker.until(2 * HOUR)
    assert world.only().finished is None
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
    assert keys == {deploy_repository.VERSIONS_KEY, deploy_repository.build_deploy_key(world.only().id)}
    assert all(map(deploy_repository.is_deploy_key, keys))
    assert survey_store(store).unknown == {}
    with closing(world.shelf) as kept:
        assert kept.delete_expired(START + 89 * DAY, 90) == 0
        assert kept.delete_expired(START + 92 * DAY, 90, should_stop=lambda: True) == 0
        assert kept.delete_expired(START + 92 * DAY, 90) == 1
    assert world.deploys() == []


def test_deploys_are_listed_by_day_the_newest_first(store: ObjectStore) -> None:
    world = World(store)
    with closing(world.shelf) as kept:
        for at in (0, 3, 1, 40, 2):
            made = World(store).now + at * DAY
            deploy = Deployed(made)
            assert kept.create(deploy.one)
            assert not kept.create(deploy.one)
        found = kept.list_newest(3, lambda _: True)
        assert [(one.first_seen - START) / DAY for one in found] == [40, 3, 2]
        between = kept.list_newest(10, lambda _: True, START + DAY, START + 3 * DAY)
        assert [(one.first_seen - START) / DAY for one in between] == [2, 1]
        assert len(kept.list_newest(10, lambda one: one.version == "v3")) == 1
        assert kept.list_days() == sorted(kept.list_days(), reverse=True)
        assert len(kept.list_days()) == 5


class Deployed:
    """A deploy that appeared at a moment."""

    def __init__(self, at: float) -> None:
        days = round((at - START) / DAY)
        self.one = create_deploy(
            ("", "shop", f"v{days}"), at, "v", ObservedSpan(at - HOUR, at), None, DeployPolicy()
        )


def test_what_cannot_be_read_is_left_out() -> None:
    world = World()
    with closing(world.shelf) as kept:
        one = Deployed(START).one
        assert kept.create(one)
        world.store.put(deploy_repository.build_deploy_key(build_deploy_id("", "x", "1", START)), b"{}")
        assert [each.id for each in kept.list_newest(10, lambda _: True)] == [one.id]
    world.store.put(deploy_repository.VERSIONS_KEY, b"nothing of the kind")
    looker = Looker(world)
    looker.until(5 * MINUTE)
    looker.ends()
    content = world.store.get(deploy_repository.VERSIONS_KEY)
    assert version_registry.decode_registry("k", content).scanned_until > START


def test_looks_double_until_the_last() -> None:
    minutes = [offset / 60 for offset in list_analysis_offsets(DeployPolicy())]
    assert minutes == [10, 20, 40, 80, 160, 320, 640, 1440]
    assert list_analysis_offsets(DeployPolicy(first_analysis_seconds=600, last_analysis_seconds=600)) == (
        600,
    )
    assert list_analysis_offsets(DeployPolicy(first_analysis_seconds=100, last_analysis_seconds=400)) == (
        100,
        200,
        400,
    )


def test_of_other_services_nothing_is_read(store: ObjectStore) -> None:
    with closing(deploy_repository.DeployRepository(store)) as kept:
        labels = [("a", "shop", "2"), ("b", "shop", "2"), ("a", "cart", "2"), ("a", "sho", "p2")]
        for each in labels:
            assert kept.create(
                create_deploy(each, START, "1", ObservedSpan(START - HOUR, START), None, DeployPolicy())
            )
        read: list[str] = []

        def wanted(one: Deploy) -> bool:
            read.append(one.service)
            return True

        assert len(kept.list_newest(10, wanted, service="shop")) == 2
        assert read == ["shop", "shop"]
        assert kept.list_newest(10, wanted, service="other") == []


def test_a_deploy_that_is_damaged_keeps_no_other_from_being_looked_after() -> None:
    world = World()
    for service in ("cart", "shop"):
        world.ships("1", -3 * HOUR, 2 * HOUR, service=service)
        world.ships("2", 10 * MINUTE, 22 * MINUTE, service=service)
    looker = Looker(world)
    looker.until(15 * MINUTE)
    one, other = world.deploys()
    world.store.put(deploy_repository.build_deploy_key(one.id), b"damaged")
    looker.until(20 * MINUTE)
    assert looker.value("sidelight_deploys_active") == 1
    world.ships("3", 20 * MINUTE, 2 * HOUR, service=other.service)
    looker.until(40 * MINUTE)
    assert {each.state for each in world.readable() if each.id == other.id} == {DeployState.FINISHED}
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
        raise QueryEngineBusy("all taken")

    looker = Looker(world)
    looker.ask.fails = fails
    looker.until(5 * MINUTE)
    assert looker.value("sidelight_deploy_errors_total") == 0
    assert looker.value("sidelight_deploy_analyses_postponed_total") == 5
    looker.ends()


def test_an_id_is_that_of_the_day_and_of_what_was_deployed() -> None:
    one = build_deploy_id("ns", "shop", "2", START)
    assert one.startswith("20261121-")
    assert one == build_deploy_id("ns", "shop", "2", START + HOUR)
    others = [("", "shop", "2"), ("ns", "shop2", ""), ("ns", "shop", "3")]
    assert len({one, *(build_deploy_id(*labels, START) for labels in others)}) == 4
    assert datetime.fromtimestamp(START, UTC).day == 21


def test_the_pace_allows_so_many_looks_a_minute_and_so_much_of_a_core() -> None:
    pace = AnalysisRateLimiter(3, 0.5, 0.0)
    for _ in range(3):
        assert pace.can_start(0.0)
        pace.record_start()
    assert not pace.can_start(0.0)
    assert not pace.can_start(19.0)
    assert pace.can_start(20.0)
    pace.record_cpu(40.0)  # 30 s of them were put by
    assert not pace.can_start(39.0)
    assert pace.can_start(41.0)


def test_a_deploy_reads_as_it_was_written() -> None:
    one = Deployed(START).one
    assert deploy_codec.decode_deploy("key", deploy_codec.encode_deploy(one)) == one
    assert {field.name for field in dataclasses.fields(one)} >= {"id", "state", "analyses"}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_golden_deploys_are_read_by_every_later_version(version: int) -> None:
    one = deploy_codec.decode_deploy("golden", (GOLDEN / f"deploy-{version}.json").read_bytes())
    assert (one.state, one.conclusion) == (DeployState.FINISHED, "pass")
    modes = [(each.index, each.state, each.comparison_mode) for each in one.analyses]
    assert modes == [
        (1, DeployState.INCONCLUSIVE, "none"),
        (2, DeployState.REGRESSED, "previous_period"),
        (3, DeployState.PASS, "same_hours"),
        (4, DeployState.NOT_COMPARABLE, "canary"),
    ]
    assert one.finished == DeployEnd(1_795_260_600.0, FinishReason.ROLLED_BACK, "1")
    assert one.resolved is not None
    assert (one.resolved.user, one.deliveries[0].attempts) == ("olga", 1)
    assert deploy_codec.encode_deploy(one) == (GOLDEN / "deploy-3.json").read_bytes().strip()


RULES = DeployPolicy()
GONE = RULES.absent_seconds


def shipped(version: str, spans: list[tuple[float, float]], world: World, **labels: str) -> None:
    for start, until in spans:
        world.ships(version, start, until, pods="a", **labels)


def arrivals(world: World) -> list[tuple[str, str, float]]:
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
    assert arrivals(world) == BACK_AND_FORTH[1:]
    back, before = world.deploys()
    assert (before.id, before.finished) == (
        first.id,
        DeployEnd(START + 60 * MINUTE, FinishReason.ROLLED_BACK, "1"),
    )
    assert (back.state, back.due) == (DeployState.WATCHING, START + 72 * MINUTE)
    assert back.previous_seen.first == START + 20 * MINUTE
    looker.until(2 * HOUR)
    assert arrivals(world) == BACK_AND_FORTH
    again, back, _ = world.deploys()
    assert back.finished == DeployEnd(START + 100 * MINUTE, FinishReason.ROLLED_BACK, "2")
    assert (again.state, again.finished) == (DeployState.WATCHING, None)
    assert again.id != first.id
    assert looker.value("sidelight_deploys_detected_total") == 3
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
    assert arrivals(missed) == BACK_AND_FORTH
    assert [one.id for one in missed.deploys()] == [one.id for one in watched.deploys()]
    assert [one.finished for one in missed.deploys()] == [one.finished for one in watched.deploys()]
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
    assert arrivals(world) == [("1", "2", 70), ("2", "1", 40)]
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
    assert [version for version, *_ in arrivals(world)] == ["2"] * deploys
    assert [one.finished is not None for one in world.deploys()] == [False, True][:deploys]
    looker.ends()


def test_how_long_that_is_can_be_set() -> None:
    world = World()
    shipped("1", [(-3 * HOUR, 2 * HOUR)], world)
    shipped("2", [(20 * MINUTE, 40 * MINUTE), (45 * MINUTE, 2 * HOUR)], world)
    looker = Looker(world, rules=replace(RULES, absent_seconds=300.0))
    looker.until(90 * MINUTE)
    assert [version for version, *_ in arrivals(world)] == ["2", "2"]
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
    assert arrivals(world) == [("2", "1", 20)]
    assert world.only().finished is None
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
        assert arrivals(own) == [("1", "2", 180), ("2", "1", 20)]
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
    assert stands["1"].finished == DeployEnd(START + 45 * MINUTE, FinishReason.ROLLED_BACK, "3")
    assert (stands["3"].state, stands["3"].finished) == (DeployState.WATCHING, None)
    looker.ends()


@pytest.mark.parametrize(("most", "deploys", "passed"), [(3, 3, 0), (2, 2, 1), (1, 1, 2)])
def test_what_comes_and_goes_all_day_is_compared_so_often_and_no_more(
    most: int, deploys: int, passed: int
) -> None:
    world = World()
    shipped("1", [(-3 * HOUR, 4 * HOUR)], world)
    shipped("2", [(at * HOUR, at * HOUR + 10 * MINUTE) for at in (1, 2, 3)], world)
    looker = Looker(world, rules=replace(RULES, max_arrivals_per_day=most))
    looker.until(4 * HOUR, step=3 * MINUTE)
    assert [version for version, *_ in arrivals(world)] == ["2"] * deploys
    assert looker.value("sidelight_deploys_skipped_total") == passed
    looker.ends()


def test_two_that_look_in_the_same_moment_find_an_arrival_once() -> None:
    world = back_and_forth()
    lookers = [Looker(world, leased=False) for _ in range(2)]
    while world.at < 3 * HOUR:
        world.at += 5 * MINUTE
        for one in lookers:
            one.watch.run_once()
    assert arrivals(world) == BACK_AND_FORTH
    assert sum(one.value("sidelight_deploys_detected_total") for one in lookers) == 3
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
    assert arrivals(world) == BACK_AND_FORTH[1:]
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
    read = version_registry.decode_registry("k", zstandard.compress(orjson.dumps(old)))
    assert read.services["n", "shop"]["1"] == version_registry.VersionRun(10.0, 20.0, 10.0)
    assert (
        read.find_end(create_deploy(("n", "shop", "2"), 15.0, "1", ObservedSpan(10, 15), None, RULES)) is None
    )
    assert version_registry.decode_registry("k", version_registry.encode_registry(read)) == read
    with pytest.raises(ObjectDamaged, match="format 3"):
        version_registry.decode_registry("k", zstandard.compress(orjson.dumps({**old, "format": 3})))


def test_a_run_is_cut_where_a_version_pauses_for_so_long() -> None:
    world = World()
    shipped("1", [(0, 300), (360, 600), (480, 900), (1500, 1560)], world)
    shipped("2", [(100, 160)], world)
    question = WindowQuery(Selector(), round((START - 10) * 1e9), round((START + DAY) * 1e9))

    def spans(pause: float) -> list[tuple[str, float, float]]:
        seen = Asked(world.store)(lambda reading: list_version_spans(reading, question, pause))
        return [(one.version, one.span.first - START, one.span.last - START) for one in seen]

    assert spans(601) == [("1", 0, 1560), ("2", 100, 160)]
    assert spans(600) == [("1", 0, 900), ("2", 100, 160), ("1", 1500, 1560)]
    assert spans(60) == [("1", 0, 300), ("2", 100, 160), ("1", 360, 900), ("1", 1500, 1560)]


def test_looking_through_the_same_windows_again_changes_nothing() -> None:
    def seen(version: str, first: float, last: float) -> VersionSpan:
        return VersionSpan("", "shop", version, ObservedSpan(START + first, START + last))

    runs = [seen("1", 0, 1200), seen("2", 1200, 3600), seen("1", 3600, 6000)]
    learnt = VersionRegistry()
    assert [one.version for one in learnt.record_spans(runs, GONE)] == ["2", "1"]
    before = {name: dict(versions) for name, versions in learnt.services.items()}
    assert learnt.record_spans(runs, GONE) == []
    assert (
        learnt.record_spans([seen("1", 900, 1200), seen("2", 3000, 3600), seen("1", 4000, 4100)], GONE) == []
    )
    assert learnt.services == before


def test_an_id_has_the_arrival_of_the_day_from_the_second_on() -> None:
    ids = [build_deploy_id("n", "shop", "2", START, number) for number in (1, 2, 3)]
    assert ids[0] == build_deploy_id("n", "shop", "2", START)
    assert len(set(ids)) == 3
    assert all(one[:17] == other[:17] for one, other in pairwise(ids))


def test_how_often_a_day_has_an_edge() -> None:
    assert Settings(store="given", deploy_max_detections_per_day=1).deploy_max_detections_per_day == 1
    with pytest.raises(ValueError, match="deploy_max_detections_per_day must be at least 1"):
        Settings(store="given", deploy_max_detections_per_day=0)


PAUSE = 15
"""Minutes; so many are also looked through once more each time, as windows may come late."""
BEGIN, LAST = 60, 300

Minutes = Set[int]
"""In which a version was seen."""


def stretches(minutes: Minutes) -> Iterator[tuple[int, int]]:
    """From when until when, without a pause of PAUSE."""
    first = last = None
    for at in sorted(minutes):
        if first is None or last is None or at - last >= PAUSE:
            if first is not None and last is not None:
                yield first, last
            first = at
        last = at + 1
    if first is not None and last is not None:
        yield first, last


def seen_between(active: Mapping[str, Minutes], begin: int, until: int) -> list[VersionSpan]:
    """What a collector sees that looks at this range."""
    found = [
        VersionSpan("", "shop", version, ObservedSpan(first * 60.0, last * 60.0))
        for version, minutes in active.items()
        for first, last in stretches({at for at in minutes if begin <= at < until})
    ]
    return sorted(found, key=lambda one: (one.span.first, one.version))


def added(parts: list[tuple[int, int]]) -> Minutes:
    return {at for start, length in parts for at in range(BEGIN + start, BEGIN + start + length)}


active_minutes = st.fixed_dictionaries(
    {
        version: st.lists(st.tuples(st.integers(0, 120), st.integers(1, 60)), max_size=4).map(added)
        for version in "123"
    }
)


@settings(max_examples=150, deadline=None)
@given(active_minutes, st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_arrivals_are_the_same_however_often_one_looks(
    drawn: Mapping[str, Minutes], steps: list[int]
) -> None:
    """Of versions seen all the time while they run: who looks into a pause cannot tell how long it is."""
    active = {
        version: {at for first, last in stretches(minutes) for at in range(first, last)}
        for version, minutes in drawn.items()
    }
    whole = VersionRegistry().record_spans(seen_between(active, 0, LAST), PAUSE * 60.0)
    version_registry, parts, until = VersionRegistry(), [], 0
    while until < LAST:
        at = until + steps[len(parts) % len(steps)]
        parts.append(
            version_registry.record_spans(seen_between(active, max(0, until - PAUSE), at), PAUSE * 60.0)
        )
        until = at
    named = [(one.version, one.previous, one.first_seen) for one in whole]
    assert [(one.version, one.previous, one.first_seen) for part in parts for one in part] == named


@settings(max_examples=150, deadline=None)
@given(active_minutes)
def test_who_comes_back_was_gone_and_who_was_gone_comes_back(active: Mapping[str, Minutes]) -> None:
    arrived = VersionRegistry().record_spans(seen_between(active, 0, LAST), PAUSE * 60.0)
    back = {(one.version, round(one.first_seen / 60)) for one in arrived if one.previous_last_seen}
    for version, minutes in active.items():
        ordered = sorted(minutes)
        for last, first in pairwise(ordered):
            others = [
                (max(begin, last + 1), min(end, first))
                for other, own in active.items()
                if other != version
                for begin, end in stretches(own)
            ]
            longest = max((end - begin for begin, end in others), default=0)
            together = len({at for begin, end in others for at in range(begin, end)})
            if (version, first) in back:
                assert together >= PAUSE
            if longest >= PAUSE:
                assert (version, first) in back
