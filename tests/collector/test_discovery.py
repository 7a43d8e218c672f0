"""What is known of a cluster follows from its objects, by whatever way they became known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterCache, ClusterInventory
from sidelight_collector.kubernetes_discovery.coverage_status import (
    CoverageState,
    count_by_namespace,
    group_by_workload,
)
from sidelight_collector.kubernetes_discovery.informers import build_grant_commands
from sidelight_collector.kubernetes_discovery.k8s_objects import (
    ApiObject,
    ResourceKind,
    SidecarContainer,
    WatchScope,
    get_object_key,
    parse_object,
)
from sidelight_collector.kubernetes_discovery.rollouts import (
    Rollout,
    decode_rollouts,
    derive_rollouts,
    encode_rollouts,
    merge_rollouts,
    select_rollouts,
)
from sidelight_collector.kubernetes_discovery.shared_state import (
    SNAPSHOT_KEY,
    ClusterSnapshot,
    SharedClusterState,
    WatchProblem,
)
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_kubernetes.kubernetes_client import (
    AccessDenied,
    ClusterError,
    ClusterUnavailable,
    ResourceVersionExpired,
    WatchEvent,
)
from sidelight_kubernetes.reflector import DENIED_RETRY_SECONDS, MAX_BACKOFF_SECONDS, run_reflector
from tests.collector.clusters import NOW, STARTED_UNIX, Server, deployment, pod, replicaset

GOLDEN = Path(__file__).parents[1] / "golden" / "formats"
FEED = WatchScope(ResourceKind.PODS, "")


class Sink:
    """Writes into a book, and down what failed."""

    def __init__(self, most: int = 1000) -> None:
        self.book = ClusterCache(most)
        self.failures: list[ClusterError] = []
        self.followed = 0

    def replace(self, feed: WatchScope, items: Iterable[ApiObject]) -> None:
        self.book.replace(
            feed.kind, feed.namespace, [(get_object_key(one), parse_object(feed.kind, one)) for one in items]
        )

    def apply(self, feed: WatchScope, event: WatchEvent) -> None:
        self.book.apply(
            feed.kind, event.type, get_object_key(event.object), parse_object(feed.kind, event.object)
        )

    def on_error(self, _: WatchScope, error: ClusterError) -> None:
        self.failures.append(error)

    def on_watching(self, _: WatchScope) -> None:
        self.followed += 1


class Turns:
    """Waits for nothing; after so many pauses it is over. `between` is called at each, with its number."""

    def __init__(self, most: int, between: Callable[[int], None] = lambda _: None) -> None:
        self.pauses: list[float] = []
        self._most = most
        self._between = between

    def __call__(self, seconds: float) -> bool:
        if seconds:
            self.pauses.append(seconds)
            self._between(len(self.pauses))
        return len(self.pauses) >= self._most


def listed(server: Server, most: int = 1000) -> ClusterInventory:
    """What a fresh list gives."""
    sink = Sink(most)
    sink.replace(FEED, server.pages("x"))
    return sink.book.get_inventory()


def book_of(*items: tuple[ResourceKind, dict[str, Any]]) -> ClusterInventory:
    book = ClusterCache(1000)
    for kind, item in items:
        book.apply(kind, "ADDED", get_object_key(item), parse_object(kind, item))
    return book.get_inventory()


changes = st.lists(
    st.one_of(
        st.builds(
            lambda name, namespace, sidecar: ("put", namespace, name, sidecar),
            st.sampled_from("abc"),
            st.sampled_from(["shop", "cart"]),
            st.sampled_from(["", "running", "waiting", "terminated"]),
        ),
        st.builds(
            lambda name, namespace: ("drop", namespace, name, ""),
            st.sampled_from("abc"),
            st.sampled_from(["shop", "cart"]),
        ),
        st.just(("forget", "", "", "")),
        st.just(("pause", "", "", "")),
        st.just(("away", "", "", "")),
    ),
    max_size=30,
)


def happen(server: Server, change: tuple[str, str, str, str]) -> None:
    what, namespace, name, sidecar = change
    if what == "put":
        server.put(pod(name, namespace=namespace, sidecar=sidecar))
    elif what == "drop":
        server.drop(namespace, name)
    elif what == "forget":
        server.forget()
    elif what == "away":
        server.failures.append(ClusterUnavailable("away"))


@given(changes)
def test_whatever_a_watch_meets_it_knows_what_a_fresh_list_gives(
    script: list[tuple[str, str, str, str]],
) -> None:
    server, sink = Server(), Sink()
    rest = list(script)

    def on(_: int) -> None:
        while rest:
            change = rest.pop(0)
            if change[0] == "pause":
                return
            happen(server, change)

    # Each change may lead to a pause, and three without anything new bring it up to date.
    run_reflector(server, FEED, sink, Turns(3 * len(script) + 6, on), lambda: 1.0)
    assert sink.book.get_inventory() == listed(server)


@given(changes)
def test_events_told_one_by_one_give_what_a_fresh_list_gives(script: list[tuple[str, str, str, str]]) -> None:
    server, sink = Server(), Sink()
    told = 0
    for change in script:
        if change[0] not in ("forget", "away"):
            happen(server, change)
        for _, kind, item in server.log[told:]:
            sink.apply(FEED, WatchEvent(kind, item))
        told = len(server.log)
    assert sink.book.get_inventory() == listed(server)


def test_a_watch_goes_on_where_it_ended_and_lists_again_when_that_is_no_longer_known() -> None:
    server, sink = Server(), Sink()
    server.put(pod("a"))

    def between(pauses: int) -> None:
        if pauses == 2:
            server.put(pod("b"))
            server.forget()

    run_reflector(server, FEED, sink, Turns(4, between), lambda: 1.0)
    assert server.asked == [
        "list /api/v1/pods",
        "watch /api/v1/pods 1",
        "watch /api/v1/pods 1",
        "watch /api/v1/pods 1",
        "list /api/v1/pods",
        "watch /api/v1/pods 2",
    ]
    assert isinstance(sink.failures[0], ResourceVersionExpired)
    assert sink.book.get_inventory() == listed(server)


def test_a_server_that_is_away_is_asked_again_after_pauses_that_grow_and_then_no_longer() -> None:
    server, sink = Server(), Sink()
    server.failures = [ClusterUnavailable("refused")] * 9
    turns = Turns(9)
    run_reflector(server, FEED, sink, turns, lambda: 1.0)
    assert turns.pauses == [2, 4, 8, 16, *[MAX_BACKOFF_SECONDS] * 5]
    assert not sink.followed


def test_what_is_not_allowed_is_tried_again_every_minute() -> None:
    server, sink = Server(), Sink()
    server.put(pod("a"))
    server.failures = [AccessDenied("no", "list", "pods"), None, AccessDenied("no", "watch", "pods")]
    turns = Turns(3)
    run_reflector(server, FEED, sink, turns, lambda: 1.0)
    assert turns.pauses[:2] == [DENIED_RETRY_SECONDS, DENIED_RETRY_SECONDS]
    # Who may list and not watch is told what a list gives.
    assert [one.name for one in sink.book.get_inventory().pods] == ["a"]


def test_a_right_that_is_missing_is_named_with_the_command_that_gives_it() -> None:
    message = 'deployments.apps is forbidden: User "system:serviceaccount:obs:sidelight" cannot list resource'
    hint = build_grant_commands(
        AccessDenied(message, "list", "deployments"), WatchScope(ResourceKind.DEPLOYMENTS, "shop")
    )
    assert "kubectl create role sidelight-deployments -n shop --verb=list,watch" in hint
    assert "--resource=deployments.apps" in hint
    assert "--serviceaccount=obs:sidelight" in hint
    assert "clusterrole " in build_grant_commands(AccessDenied("no", "watch", "pods"), FEED)


def test_pods_beyond_the_limit_are_counted_and_come_in_with_the_next_list() -> None:
    server, sink = Server(), Sink(2)
    for name in "abc":
        server.put(pod(name))
    sink.replace(FEED, server.pages("x"))
    assert (len(sink.book.get_inventory().pods), sink.book.get_inventory().skipped_pods) == (2, 1)
    server.drop("shop", "a")
    sink.apply(FEED, WatchEvent("DELETED", pod("a")))
    sink.replace(FEED, server.pages("x"))
    assert (len(sink.book.get_inventory().pods), sink.book.get_inventory().skipped_pods) == (2, 0)


def test_a_list_of_one_namespace_leaves_others_alone() -> None:
    sink = Sink()
    for namespace in ("shop", "cart"):
        sink.apply(FEED, WatchEvent("ADDED", pod("a", namespace=namespace)))
    sink.replace(WatchScope(ResourceKind.PODS, "cart"), [])
    assert [one.namespace for one in sink.book.get_inventory().pods] == ["shop"]


def test_a_pod_is_named_as_its_windows_are() -> None:
    (found,) = book_of((ResourceKind.PODS, pod("shop-7d9f-x", sidecar="running"))).pods
    assert (found.service, found.version, found.kind, found.workload) == ("shop", "2", "Deployment", "shop")
    assert found.sidecar is not None
    assert (found.sidecar.origin, found.sidecar.state, found.sidecar.since) == (
        "template",
        "running",
        STARTED_UNIX,
    )
    injected = book_of(
        (ResourceKind.PODS, pod("a", sidecar="running", notes={"sidelight.dev/status": "injected"}))
    ).pods[0]
    assert injected.sidecar is not None
    assert injected.sidecar.origin == "injected"


def test_a_native_sidecar_and_an_ephemeral_one_are_found_where_they_stand() -> None:
    native = pod("a")
    native["spec"]["initContainers"] = [{"name": "sidelight", "restartPolicy": "Always"}]
    native["status"]["initContainerStatuses"] = [{"name": "sidelight", "state": {"running": {}}}]
    ephemeral = pod("b")
    ephemeral["spec"]["ephemeralContainers"] = [{"name": "debug"}, {"name": "sidelight-x1"}]
    ephemeral["status"]["ephemeralContainerStatuses"] = [
        {"name": "sidelight-x1", "state": {"terminated": {"exitCode": 0}}}
    ]
    found = [one.sidecar for one in book_of((ResourceKind.PODS, native), (ResourceKind.PODS, ephemeral)).pods]
    assert [one and (one.origin, one.state) for one in found] == [
        ("template", "running"),
        ("ephemeral", "terminated"),
    ]


STANDS = [
    (pod("a", sidecar="running"), {("shop", "a"): NOW - 5}, "profiled", ""),
    (pod("a", sidecar="running"), {("", "a"): NOW - 5}, "profiled", ""),
    (pod("a", sidecar="running"), {}, "stale", "has not reported since it started"),
    (pod("a", sidecar="running"), {("shop", "a"): NOW - 500}, "stale", "for 500 s"),
    (pod("a"), {}, "no_sidecar", "a has no sidecar"),
    (
        pod("a", notes={"sidelight.dev/status": "skipped: hostPID is set; unset it"}),
        {},
        "no_sidecar",
        "hostPID",
    ),
    (pod("a", phase="Pending"), {}, "starting", ""),
    (pod("a", phase="Succeeded"), {}, "finished", ""),
    (pod("a", sidecar="waiting", reason="ContainerCreating"), {}, "starting", ""),
    (pod("a", sidecar="waiting", reason="CrashLoopBackOff", restarts=4), {}, "dead", "restarted 4 times"),
    (pod("a", sidecar="waiting", reason="ImagePullBackOff"), {}, "dead", "ImagePullBackOff"),
    (pod("a", sidecar="terminated", reason="OOMKilled"), {}, "dead", "OOMKilled, exit code 1"),
]


@pytest.mark.parametrize(("item", "heard", "standing", "says"), STANDS)
def test_a_pod_stands_as_its_containers_and_its_sidecar_say(
    item: dict[str, Any], heard: dict[tuple[str, str], float], standing: str, says: str
) -> None:
    (group,) = group_by_workload(book_of((ResourceKind.PODS, item)), heard, NOW, 180)
    (one,) = group.pods
    assert one.state == standing
    assert says in one.problem
    assert bool(one.hint) == bool(one.problem)


def test_coverage_says_what_profiles_each_pod() -> None:
    asked, refused = {"sidelight.dev/inject": "true"}, {"sidelight.dev/inject": "false"}
    agent = pod("agent-n1", namespace="agents", labels={"app.kubernetes.io/name": "sidelight"})
    agent["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet"
    agent["spec"]["containers"][0]["name"] = "agent"
    pods = {
        "by-sidecar": pod("by-sidecar", sidecar="running"),
        "by-agent": pod("by-agent"),
        "by-itself": pod("by-itself", labels=refused),
        "unheard": pod("unheard"),
        "unasked": pod("unasked", labels=refused),
        "elsewhere": pod("elsewhere"),
    }
    pods["elsewhere"]["spec"]["nodeName"] = "n2"
    space = {"metadata": {"name": "shop", "labels": asked}}
    known = book_of(
        (ResourceKind.NAMESPACES, space), *((ResourceKind.PODS, one) for one in (agent, *pods.values()))
    )
    heard = {("shop", name): NOW for name in ("by-sidecar", "by-agent", "by-itself")}
    groups = group_by_workload(known, heard, NOW, 180)
    [shop] = [group for group in groups if group.namespace == "shop"]
    assert {one.pod.name: (one.state, one.covered_by) for one in shop.pods} == {
        "by-sidecar": ("profiled", "sidecar"),
        "by-agent": ("profiled", "agent"),
        "by-itself": ("profiled", "other"),
        "unheard": ("stale", "agent"),
        "unasked": ("no_sidecar", None),
        "elsewhere": ("no_sidecar", None),
    }
    assert shop.count_coverers() == {"sidecar": 1, "agent": 1, "other": 1}
    attached = group_by_workload(known, heard, NOW, 180, by_agent={("shop", "by-itself")})
    coverers = {one.pod.name: one.covered_by for group in attached for one in group.pods}
    assert coverers["by-itself"] == "agent"
    [stale] = [one for one in shop.pods if one.pod.name == "unheard"]
    assert "agent-n1" in stale.problem
    assert stale.hint.startswith("kubectl -n agents logs agent-n1 ")


def test_a_workload_is_expected_to_be_profiled_by_label_by_sidecar_and_by_service() -> None:
    def expected(*pods: dict[str, Any], services: frozenset[str] = frozenset(), **labels: str) -> bool:
        items = [(ResourceKind.PODS, one) for one in pods]
        space = {"metadata": {"name": "shop", "labels": {"sidelight.dev/inject": labels.get("inject", "")}}}
        found = group_by_workload(book_of(*items, (ResourceKind.NAMESPACES, space)), {}, NOW, 180, services)
        return found[0].is_expected

    assert not expected(pod("a"), pod("b"))
    assert expected(pod("a"), pod("b", sidecar="running"))
    assert expected(pod("a"), inject="true")
    assert not expected(pod("a", labels={"sidelight.dev/inject": "false"}), inject="true")
    assert expected(pod("a", labels={"sidelight.dev/inject": "true"}))
    assert expected(pod("a"), services=frozenset({"shop"}))


def test_pods_that_nobody_wants_profiled_are_not_counted_as_lacking() -> None:
    known = book_of(
        (ResourceKind.PODS, pod("a", sidecar="running")),
        (ResourceKind.PODS, pod("b")),
        (ResourceKind.PODS, pod("c", owner="redis", namespace="db")),
    )
    found = group_by_workload(known, {("shop", "a"): NOW}, NOW, 180)
    assert {space: dict(counts) for space, counts in count_by_namespace(found).items()} == {
        "shop": {CoverageState.PROFILED: 1, CoverageState.NO_SIDECAR: 1}
    }
    assert [one.workload for one in found] == ["shop", "redis"]


def test_a_rollout_begins_with_its_replicaset_and_ends_when_its_deployment_says() -> None:
    known = book_of(
        (ResourceKind.DEPLOYMENTS, deployment("shop", 2, ended="2026-11-21T09:10:00Z")),
        (
            ResourceKind.REPLICASETS,
            replicaset("shop", 1, hash_="1111", image="shop:1", created="2026-11-20T09:00:00Z"),
        ),
        (ResourceKind.REPLICASETS, replicaset("shop", 2)),
    )
    first, second = sorted(derive_rollouts(known).values(), key=lambda one: one.revision)
    assert (first.version, first.started, first.ended) == ("1", STARTED_UNIX - 86_400, None)
    assert (second.version, second.started, second.ended) == ("2", STARTED_UNIX, STARTED_UNIX + 600)


def test_a_rollout_that_goes_on_has_no_end() -> None:
    known = book_of(
        (ResourceKind.DEPLOYMENTS, deployment("shop", 2, done=False)),
        (ResourceKind.REPLICASETS, replicaset("shop", 2)),
    )
    (one,) = derive_rollouts(known).values()
    assert one.ended is None


def test_a_rollback_begins_with_its_first_pod_and_not_when_its_replicaset_was_made() -> None:
    old = replicaset("shop", 3, hash_="1111", image="shop:1", created="2026-11-01T09:00:00Z", old="1")
    there = [(ResourceKind.DEPLOYMENTS, deployment("shop", 3)), (ResourceKind.REPLICASETS, old)]
    assert not derive_rollouts(book_of(*there))
    (one,) = derive_rollouts(book_of(*there, (ResourceKind.PODS, pod("a", hash_="1111")))).values()
    assert (one.revision, one.started) == (3, STARTED_UNIX)


def test_a_statefulset_and_a_daemonset_tell_their_rollouts_by_controller_revisions() -> None:
    def revision(name: str, kind: str, number: int, created: str) -> dict[str, Any]:
        return {
            "metadata": {
                "namespace": "shop",
                "name": f"{name}-{number}",
                "uid": f"{name}-{number}",
                "creationTimestamp": created,
                "labels": {"controller-revision-hash": str(number)},
                "ownerReferences": [{"controller": True, "kind": kind, "name": name}],
            },
            "revision": number,
            "data": {"spec": {"template": {"metadata": {"labels": {"version": f"v{number}"}}}}},
        }

    db = {
        "metadata": {"namespace": "shop", "name": "db", "generation": 1},
        "spec": {"replicas": 1},
        "status": {
            "observedGeneration": 1,
            "updatedReplicas": 1,
            "readyReplicas": 1,
            "updateRevision": "db-2",
        },
    }
    agent = {
        "metadata": {"namespace": "shop", "name": "agent", "generation": 1},
        "status": {
            "observedGeneration": 1,
            "desiredNumberScheduled": 1,
            "updatedNumberScheduled": 1,
            "numberAvailable": 1,
        },
    }

    def owned(name: str, kind: str, hash_: str) -> dict[str, Any]:
        one = pod(f"{name}-0", labels={"controller-revision-hash": hash_})
        del one["metadata"]["labels"]["pod-template-hash"]
        one["metadata"]["ownerReferences"] = [{"controller": True, "kind": kind, "name": name}]
        return one

    known = book_of(
        (ResourceKind.STATEFULSETS, db),
        (ResourceKind.DAEMONSETS, agent),
        (ResourceKind.CONTROLLERREVISIONS, revision("db", "StatefulSet", 1, "2026-11-20T09:00:00Z")),
        (ResourceKind.CONTROLLERREVISIONS, revision("db", "StatefulSet", 2, "2026-11-21T08:00:00Z")),
        (ResourceKind.CONTROLLERREVISIONS, revision("agent", "DaemonSet", 1, "2026-11-21T08:30:00Z")),
        (ResourceKind.PODS, owned("db", "StatefulSet", "db-2")),
        (ResourceKind.PODS, owned("agent", "DaemonSet", "1")),
    )
    found = {
        (one.workload, one.revision): (one.started, one.ended) for one in derive_rollouts(known).values()
    }
    assert found == {
        ("db", 1): (STARTED_UNIX - 86_400, None),
        ("db", 2): (STARTED_UNIX - 3600, STARTED_UNIX),
        ("agent", 1): (STARTED_UNIX - 1800, STARTED_UNIX),
    }


rollouts = st.builds(
    Rollout,
    uid=st.sampled_from("ab"),
    revision=st.integers(1, 3),
    namespace=st.just("shop"),
    kind=st.just("Deployment"),
    workload=st.just("shop"),
    service=st.just("shop"),
    version=st.sampled_from(["", "1", "2"]),
    started=st.floats(0, 10),
    ended=st.none() | st.floats(10, 20),
)
sets = st.lists(rollouts, max_size=6).map(lambda found: {one.key: one for one in found})


@given(sets, sets, sets)
def test_what_processes_saw_adds_up_to_the_same_in_any_order(
    one: dict[Any, Rollout], two: dict[Any, Rollout], three: dict[Any, Rollout]
) -> None:
    assert merge_rollouts(one, two, 100) == merge_rollouts(two, one, 100)
    assert merge_rollouts(merge_rollouts(one, two, 100), three, 100) == merge_rollouts(
        one, merge_rollouts(two, three, 100), 100
    )
    assert merge_rollouts(one, one, 100) == one == merge_rollouts(one, {}, 100)
    assert decode_rollouts("key", encode_rollouts(one)) == one
    assert len(merge_rollouts(one, two, 2)) == min(2, len(merge_rollouts(one, two, 100)))


def test_rollouts_of_a_question_are_those_of_its_time_and_of_what_it_selects() -> None:
    known = book_of(
        (ResourceKind.DEPLOYMENTS, deployment("shop", 2)),
        (
            ResourceKind.REPLICASETS,
            replicaset("shop", 1, hash_="1111", image="shop:1", created="2026-11-20T09:00:00Z"),
        ),
        (ResourceKind.REPLICASETS, replicaset("shop", 2)),
    )
    found = derive_rollouts(known).values()

    def names(selector: str, begin: float, end: float) -> list[str]:
        return [one.version for one in select_rollouts(found, parse_re2_selector(selector), begin, end)]

    assert names('service="shop", pod="x"', 0, STARTED_UNIX + 1) == ["1", "2"]
    assert names('service="shop"', STARTED_UNIX, STARTED_UNIX + 1) == ["2"]
    assert names('service="shop"', 0, STARTED_UNIX) == ["1"]
    assert names('service="cart"', 0, STARTED_UNIX + 1) == []
    assert names('version=~"1|3"', 0, STARTED_UNIX + 1) == ["1"]


class Timer:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_one_process_watches_and_another_takes_over_when_it_is_no_more() -> None:
    store, timer = MemoryStore(), Timer()
    one, two = (SharedClusterState(store, 30, 100, timer).lease for _ in range(2))
    assert one.try_acquire()
    assert not two.try_acquire()
    timer.now += 29
    assert one.try_acquire()
    assert not two.try_acquire()
    timer.now += 29
    assert not two.try_acquire()
    timer.now += 2
    assert two.try_acquire()
    assert not one.try_acquire()
    two.release()
    assert one.try_acquire()


def test_what_one_sees_is_what_the_others_read() -> None:
    store = MemoryStore()
    one, two = SharedClusterState(store, 30, 100), SharedClusterState(store, 30, 100)
    assert two.get_snapshot() is None
    space = {"metadata": {"name": "shop", "labels": {"sidelight.dev/inject": "true"}}}
    known = book_of(
        (ResourceKind.PODS, pod("a", sidecar="running")),
        (ResourceKind.PODS, pod("b")),
        (ResourceKind.NAMESPACES, space),
    )
    missing = WatchProblem("deployments", "apps", "list", "", "may not", "allow it")
    sight = ClusterSnapshot("watching", NOW, known, (missing,))
    one.put_snapshot(sight)
    assert two.get_snapshot() == sight
    assert two.get_snapshot() is two.get_snapshot()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_golden_snapshots_of_a_cluster_are_read_by_every_later_version(version: int) -> None:
    store = MemoryStore()
    store.put(SNAPSHOT_KEY, zstandard.compress((GOLDEN / f"discovery-{version}.json").read_bytes()))
    share = SharedClusterState(store, 30, 100)
    sight = share.get_snapshot()
    assert sight is not None
    assert (sight.state, sight.inventory.skipped_pods) == ("unreachable", 3)
    assert sight.watch_problems[0].resource == "deployments"
    first, second = sight.inventory.pods
    assert (first.inject_label, first.sampled_container, first.sidecar) == (
        "true",
        "app",
        SidecarContainer("injected", "running", "", 1, 1_795_253_403.0),
    )
    assert (second.skip_reason, second.sidecar) == ("hostNetwork is set", None)
    share.put_snapshot(sight)
    written = zstandard.decompress(store.get(SNAPSHOT_KEY))
    assert written == (GOLDEN / "discovery-3.json").read_bytes().strip()


def test_rollouts_stay_when_the_cluster_forgets_them() -> None:
    store = MemoryStore()
    one, two = SharedClusterState(store, 30, 100), SharedClusterState(store, 30, 100)
    known = book_of(
        (ResourceKind.DEPLOYMENTS, deployment("shop", 2)), (ResourceKind.REPLICASETS, replicaset("shop", 2))
    )
    one.add_rollouts(derive_rollouts(known))
    assert two.add_rollouts({}) == derive_rollouts(known)
