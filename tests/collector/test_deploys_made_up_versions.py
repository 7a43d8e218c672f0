"""Versions that a writer makes up: they end no genuine watch, and a service has only so many a day."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
import zstandard

from sidelight_collector.deploys.deploy import DeployState, FinishReason
from sidelight_collector.deploys.rollout_matching import RolloutMatcher
from sidelight_collector.deploys.version_registry import MAX_VERSIONS
from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterInventory
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod
from sidelight_collector.kubernetes_discovery.rollouts import Rollout, RunningVersion
from sidelight_collector.kubernetes_discovery.shared_state import (
    MAX_SNAPSHOT_AGE_SECONDS,
    SNAPSHOT_KEY,
    ClusterSnapshot,
    SharedClusterState,
    WatchProblem,
    load_running_versions,
)
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.backends.memory import MemoryStore
from tests.collector.deploy_world import DAY, HOUR, MINUTE, RULES, START, Looker, World, states

IGNORED = "sidelight_deploy_versions_ignored_total"
SERVICE = ("shop", "shop")


def rollout(version: str, started: float, number: int = 1, **changes: str) -> Rollout:
    found = Rollout(f"uid-{version}", number, "shop", "Deployment", "web", "shop", version, START + started)
    return replace(found, **changes)


def pod(version: str, **changes: str) -> RunningVersion:
    return replace(RunningVersion("shop", "shop", version, "Deployment", "web"), **changes)


def shop() -> World:
    """Version 1 runs, and version 2 begins after 20 minutes; both send for hours."""
    world = World()
    world.ships("1", -3 * HOUR, 6 * HOUR, step=300, namespace="shop")
    world.ships("2", 20 * MINUTE, 6 * HOUR, step=300, namespace="shop")
    return world


def test_a_made_up_version_does_not_end_the_watch_of_one_that_still_sends() -> None:
    world = shop()
    looker = Looker(world)
    looker.until(30 * MINUTE, step=5 * MINUTE)
    world.ships("evil", 30 * MINUTE, 6 * HOUR, step=300, namespace="shop")
    looker.until(3 * HOUR, step=5 * MINUTE)
    assert states(world.deploys()) == {"2": "watching", "evil": "watching"}
    assert looker.value(IGNORED, reason="limit") == 0
    looker.ends()


def test_where_kubernetes_tells_rollouts_a_made_up_version_is_no_deploy() -> None:
    world = shop()
    looker = Looker(
        world, rollouts=[rollout("1", -5 * DAY), rollout("2", 1190)], running=[pod("1"), pod("2")]
    )
    looker.until(30 * MINUTE, step=5 * MINUTE)
    for number in range(30):
        world.ships(
            f"evil-{number}", (30 + number) * MINUTE, 4 * HOUR, step=300, namespace="shop", pods=("x",)
        )
    looker.until(2 * HOUR, step=5 * MINUTE)
    deploy = world.only()
    assert (deploy.version, deploy.previous, deploy.state) == ("2", "1", DeployState.WATCHING)
    assert deploy.rollout is not None
    assert looker.value(IGNORED, reason="no_rollout") == 30, "each is counted once"
    looker.ends()


def test_where_kubernetes_tells_rollouts_the_next_one_ends_the_watch_at_once() -> None:
    world = shop()
    rollouts, running = [rollout("1", -5 * DAY), rollout("2", 1190)], [pod("1"), pod("2")]
    looker = Looker(world, rollouts=rollouts, running=running)
    looker.until(30 * MINUTE, step=5 * MINUTE)
    world.ships("evil", 30 * MINUTE, 6 * HOUR, step=300, namespace="shop")
    world.ships("3", HOUR, 6 * HOUR, step=300, namespace="shop")
    rollouts.append(rollout("3", HOUR))
    looker.until(HOUR + 10 * MINUTE, step=5 * MINUTE)
    newest, older = world.deploys()
    assert (newest.version, newest.previous, newest.state) == ("3", "2", DeployState.WATCHING)
    assert older.finished is not None
    assert (older.finished.reason, older.finished.successor) == (FinishReason.REPLACED, "3")
    looker.ends()


def test_a_rollout_that_the_collector_learns_of_late_is_found_late_and_not_lost() -> None:
    world = shop()
    rollouts, running = [rollout("1", -5 * DAY)], [pod("1")]
    looker = Looker(world, rollouts=rollouts, running=running)
    looker.until(50 * MINUTE, step=5 * MINUTE)
    assert world.deploys() == []
    rollouts.append(rollout("2", 1190))
    looker.until(HOUR, step=5 * MINUTE)
    assert (world.only().version, world.only().previous) == ("2", "1")
    looker.ends()


def test_a_pod_that_runs_a_version_is_as_good_as_its_rollout() -> None:
    """Its version may be the image's digest, which the template of the rollout lacks."""
    world = shop()
    looker = Looker(
        world, rollouts=[rollout("1", -5 * DAY), rollout("tag", 1190)], running=[pod("1"), pod("2")]
    )
    looker.until(30 * MINUTE, step=5 * MINUTE)
    assert (world.only().version, world.only().rollout) == ("2", None)
    looker.ends()


@pytest.mark.parametrize(
    "running",
    [[], [pod("1", workload="other")], [pod("1", namespace="other")], [pod("v1"), pod("v2")]],
    ids=["no pod", "no watched workload", "elsewhere", "other names than the windows have"],
)
def test_services_that_kubernetes_does_not_tell_of_are_watched_as_without_it(
    running: list[RunningVersion],
) -> None:
    world = shop()
    named = "v1" if running and running[0].version == "v1" else "1"
    looker = Looker(world, rollouts=[rollout(named, -5 * DAY)], running=running)
    looker.until(30 * MINUTE, step=5 * MINUTE)
    assert world.only().version == "2"
    looker.ends()


def test_a_service_has_so_many_new_versions_a_day_and_the_rest_is_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World()
    world.ships("1", -30 * HOUR, 2 * HOUR, step=1800)
    looker = Looker(world, rules=replace(RULES, max_versions_per_day=3))
    looker.until(10 * MINUTE, step=5 * MINUTE)
    for number in range(8):
        world.ships(f"evil-{number}", (10 + number) * MINUTE, 2 * HOUR, step=300, pods=("x",))
    world.ships("2", 20 * MINUTE, 2 * HOUR, step=300, service="cart")
    looker.until(HOUR, step=5 * MINUTE)
    assert {one.version for one in world.deploys()} == {"evil-0", "evil-1", "evil-2"}
    assert looker.value(IGNORED, reason="limit") == 5
    assert capsys.readouterr().out.count("a version does not count as a deploy") == 1
    world.at = DAY
    world.ships("1", DAY - HOUR, DAY + HOUR, step=300)
    world.ships("5", DAY + 10 * MINUTE, DAY + HOUR, step=300)
    looker.until(DAY + 20 * MINUTE, step=5 * MINUTE)
    assert world.deploys()[0].version == "5", "the next day begins anew"
    looker.ends()


def test_made_up_versions_never_push_a_genuine_one_out_of_the_registry() -> None:
    """They all send with clocks a little ahead, and so are seen later than the genuine version."""
    world = World()
    world.ships("1", -3 * HOUR, 2 * DAY, step=3600)
    looker = Looker(world, rules=replace(RULES, max_versions_per_day=MAX_VERSIONS))
    looker.until(10 * MINUTE, step=5 * MINUTE)
    for number in range(2 * MAX_VERSIONS):
        world.ships(f"evil-{number:02}", 10 * MINUTE, 2 * HOUR, step=600, pods=("x",))
    looker.until(HOUR, step=5 * MINUTE)
    registry = looker.watch._detector.registry
    assert registry is not None
    versions = registry.services["", "shop"]
    assert len(versions) == MAX_VERSIONS
    assert "1" in versions
    assert len(world.deploys()) == MAX_VERSIONS - 1
    assert looker.value(IGNORED, reason="limit") == MAX_VERSIONS + 1
    looker.ends()


@pytest.mark.parametrize(
    ("version", "first_seen", "previous_last_seen", "genuine"),
    [
        ("2", 0, 0, True),
        ("2", 30 * DAY, 20 * DAY, True),  # it runs since; other workloads were seen without it
        ("2", -61, 0, False),  # before it was rolled out
        ("1", -HOUR, 0, True),
        ("1", HOUR, 0, True),  # replaced an hour ago, found by windows of the day
        ("1", DAY + 1, 0, False),  # replaced a day ago
        ("1", HOUR, -MINUTE, False),  # it is named again after it was replaced
        ("9", 0, 0, False),
    ],
)
def test_a_version_is_genuine_around_its_rollout(
    version: str, first_seen: float, previous_last_seen: float, genuine: bool
) -> None:
    matcher = RolloutMatcher([rollout("1", -5 * DAY), rollout("2", 0)], [pod("x")])
    seen = START + previous_last_seen if previous_last_seen else 0.0
    assert matcher.is_rollout(SERVICE, version, START + first_seen, seen) is genuine


def test_a_rollback_is_a_rollout_again() -> None:
    back = rollout("1", 2 * HOUR, number=3)
    matcher = RolloutMatcher([rollout("1", -5 * DAY), rollout("2", 0), back], [])
    assert matcher.is_rollout(SERVICE, "1", START + 2 * HOUR, START + MINUTE)
    assert matcher.is_rollout(SERVICE, "2", START + 3 * HOUR, 0.0)
    assert not matcher.is_rollout(SERVICE, "2", START + 3 * HOUR, START + 2.5 * HOUR)


def test_what_runs_is_read_from_the_last_snapshot_unless_it_is_old_or_lacks_revisions() -> None:
    store, now = MemoryStore(), START
    assert load_running_versions(store, now) == set()
    owner, rest = ("Deployment", "web", "hash", "node"), ("", "", (), "", None)
    pods = tuple(
        Pod("shop", name, name, "shop", version, *owner, phase, 0.0, None, False, *rest)
        for name, version, phase in (("a", "1", "Running"), ("b", "2", "Pending"), ("c", "3", "Succeeded"))
    )
    snapshot = ClusterSnapshot("watching", now, ClusterInventory(pods))
    shared = SharedClusterState(store, 30.0, 100)
    shared.put_snapshot(snapshot)
    assert load_running_versions(store, now + MAX_SNAPSHOT_AGE_SECONDS) == {pod("1"), pod("2")}
    assert load_running_versions(store, now + MAX_SNAPSHOT_AGE_SECONDS + 1) == set()
    shared.put_snapshot(
        replace(snapshot, watch_problems=(WatchProblem("namespaces", "", "list", "", "no", ""),))
    )
    assert load_running_versions(store, now) == {pod("1"), pod("2")}
    problem = WatchProblem("replicasets", "apps", "list", "", "no", "")
    shared.put_snapshot(replace(snapshot, watch_problems=(problem,)))
    assert load_running_versions(store, now) == set()
    store.put(SNAPSHOT_KEY, zstandard.compress(orjson.dumps({"format": 99})))
    assert load_running_versions(store, now) == set()


@pytest.mark.parametrize("most", [1, MAX_VERSIONS])
def test_how_many_versions_a_day_has_edges(most: int) -> None:
    assert Settings(store="given", deploy_max_versions_per_day=most).deploy_max_versions_per_day == most
    beyond = most - 1 if most == 1 else most + 1
    with pytest.raises(ValueError, match="deploy_max_versions_per_day must be from 1 to 20"):
        Settings(store="given", deploy_max_versions_per_day=beyond)
