"""What is known of a cluster follows from its objects, by whatever way they became known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.kubernetes_discovery.cluster_cache import Book, Known
from sidelight_collector.kubernetes_discovery.coverage_status import Standing, counted, groups
from sidelight_collector.kubernetes_discovery.informers import granting
from sidelight_collector.kubernetes_discovery.k8s_objects import Kind, Object, Sidecar, key_of, read
from sidelight_collector.kubernetes_discovery.reflector import (
    DENIED_SECONDS,
    MOST_PAUSE_SECONDS,
    Feed,
    follow,
)
from sidelight_collector.kubernetes_discovery.rollouts import Rollout, added, decode, derived, encode, within
from sidelight_collector.kubernetes_discovery.shared_state import SEEN, Missing, Share, Sight
from sidelight_collector.query.select.matchers import read_selector
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_kubernetes.kubernetes_client import ClusterAway, ClusterError, Denied, Event, Expired
from tests.collector.clusters import NOW, STARTED_UNIX, Server, deployment, pod, replicaset

GOLDEN = Path(__file__).parents[1] / "golden" / "formats"
FEED = Feed(Kind.PODS, "")


class Sink:
    """Writes into a book, and down what failed."""

    def __init__(self, most: int = 1000) -> None:
        self.book = Book(most)
        self.failures: list[ClusterError] = []
        self.followed = 0

    def replace(self, feed: Feed, items: Iterable[Object]) -> None:
        self.book.replace(feed.kind, feed.namespace, [(key_of(one), read(feed.kind, one)) for one in items])

    def apply(self, feed: Feed, event: Event) -> None:
        self.book.apply(feed.kind, event.kind, key_of(event.object), read(feed.kind, event.object))

    def failed(self, _: Feed, error: ClusterError) -> None:
        self.failures.append(error)

    def following(self, _: Feed) -> None:
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


def listed(server: Server, most: int = 1000) -> Known:
    """What a fresh list gives."""
    sink = Sink(most)
    sink.replace(FEED, server.pages("x"))
    return sink.book.known()


def book_of(*items: tuple[Kind, dict[str, Any]]) -> Known:
    book = Book(1000)
    for kind, item in items:
        book.apply(kind, "ADDED", key_of(item), read(kind, item))
    return book.known()


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
        server.failures.append(ClusterAway("away"))


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
    follow(server, FEED, sink, Turns(3 * len(script) + 6, on), lambda: 1.0)
    assert sink.book.known() == listed(server)


@given(changes)
def test_events_told_one_by_one_give_what_a_fresh_list_gives(script: list[tuple[str, str, str, str]]) -> None:
    server, sink = Server(), Sink()
    told = 0
    for change in script:
        if change[0] not in ("forget", "away"):
            happen(server, change)
        for _, kind, item in server.log[told:]:
            sink.apply(FEED, Event(kind, item))
        told = len(server.log)
    assert sink.book.known() == listed(server)


def test_a_watch_goes_on_where_it_ended_and_lists_again_when_that_is_no_longer_known() -> None:
    server, sink = Server(), Sink()
    server.put(pod("a"))

    def between(pauses: int) -> None:
        if pauses == 2:
            server.put(pod("b"))
            server.forget()

    follow(server, FEED, sink, Turns(4, between), lambda: 1.0)
    assert server.asked == [
        "list /api/v1/pods",
        "watch /api/v1/pods 1",
        "watch /api/v1/pods 1",
        "watch /api/v1/pods 1",
        "list /api/v1/pods",
        "watch /api/v1/pods 2",
    ]
    assert isinstance(sink.failures[0], Expired)
    assert sink.book.known() == listed(server)


def test_a_server_that_is_away_is_asked_again_after_pauses_that_grow_and_then_no_longer() -> None:
    server, sink = Server(), Sink()
    server.failures = [ClusterAway("refused")] * 9
    turns = Turns(9)
    follow(server, FEED, sink, turns, lambda: 1.0)
    assert turns.pauses == [2, 4, 8, 16, *[MOST_PAUSE_SECONDS] * 5]
    assert not sink.followed


def test_what_is_not_allowed_is_tried_again_every_minute() -> None:
    server, sink = Server(), Sink()
    server.put(pod("a"))
    server.failures = [Denied("no", "list", "pods"), None, Denied("no", "watch", "pods")]
    turns = Turns(3)
    follow(server, FEED, sink, turns, lambda: 1.0)
    assert turns.pauses[:2] == [DENIED_SECONDS, DENIED_SECONDS]
    # Who may list and not watch is told what a list gives.
    assert [one.name for one in sink.book.known().pods] == ["a"]


def test_a_right_that_is_missing_is_named_with_the_command_that_gives_it() -> None:
    message = 'deployments.apps is forbidden: User "system:serviceaccount:obs:sidelight" cannot list resource'
    hint = granting(Denied(message, "list", "deployments"), Feed(Kind.DEPLOYMENTS, "shop"))
    assert "kubectl create role sidelight-deployments -n shop --verb=list,watch" in hint
    assert "--resource=deployments.apps" in hint
    assert "--serviceaccount=obs:sidelight" in hint
    assert "clusterrole " in granting(Denied("no", "watch", "pods"), FEED)


def test_pods_beyond_the_limit_are_counted_and_come_in_with_the_next_list() -> None:
    server, sink = Server(), Sink(2)
    for name in "abc":
        server.put(pod(name))
    sink.replace(FEED, server.pages("x"))
    assert (len(sink.book.known().pods), sink.book.known().left_out) == (2, 1)
    server.drop("shop", "a")
    sink.apply(FEED, Event("DELETED", pod("a")))
    sink.replace(FEED, server.pages("x"))
    assert (len(sink.book.known().pods), sink.book.known().left_out) == (2, 0)


def test_a_list_of_one_namespace_leaves_others_alone() -> None:
    sink = Sink()
    for namespace in ("shop", "cart"):
        sink.apply(FEED, Event("ADDED", pod("a", namespace=namespace)))
    sink.replace(Feed(Kind.PODS, "cart"), [])
    assert [one.namespace for one in sink.book.known().pods] == ["shop"]


def test_a_pod_is_named_as_its_windows_are() -> None:
    (found,) = book_of((Kind.PODS, pod("shop-7d9f-x", sidecar="running"))).pods
    assert (found.service, found.version, found.kind, found.workload) == ("shop", "2", "Deployment", "shop")
    assert found.sidecar is not None
    assert (found.sidecar.origin, found.sidecar.state, found.sidecar.since) == (
        "template",
        "running",
        STARTED_UNIX,
    )
    injected = book_of(
        (Kind.PODS, pod("a", sidecar="running", notes={"sidelight.dev/status": "injected"}))
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
    found = [one.sidecar for one in book_of((Kind.PODS, native), (Kind.PODS, ephemeral)).pods]
    assert [one and (one.origin, one.state) for one in found] == [
        ("template", "running"),
        ("ephemeral", "terminated"),
    ]


STANDS = [
    (pod("a", sidecar="running"), {("shop", "a"): NOW - 5}, "profiled", ""),
    (pod("a", sidecar="running"), {("", "a"): NOW - 5}, "profiled", ""),
    (pod("a", sidecar="running"), {}, "stale", "nothing has been heard of it since it started"),
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
    (group,) = groups(book_of((Kind.PODS, item)), heard, NOW, 180)
    (one,) = group.pods
    assert one.standing == standing
    assert says in one.problem
    assert bool(one.hint) == bool(one.problem)


def test_a_workload_is_expected_to_be_profiled_by_label_by_sidecar_and_by_service() -> None:
    def expected(*pods: dict[str, Any], services: frozenset[str] = frozenset(), **labels: str) -> bool:
        items = [(Kind.PODS, one) for one in pods]
        space = {"metadata": {"name": "shop", "labels": {"sidelight.dev/inject": labels.get("inject", "")}}}
        found = groups(book_of(*items, (Kind.NAMESPACES, space)), {}, NOW, 180, services)
        return found[0].expected

    assert not expected(pod("a"), pod("b"))
    assert expected(pod("a"), pod("b", sidecar="running"))
    assert expected(pod("a"), inject="true")
    assert not expected(pod("a", labels={"sidelight.dev/inject": "false"}), inject="true")
    assert expected(pod("a", labels={"sidelight.dev/inject": "true"}))
    assert expected(pod("a"), services=frozenset({"shop"}))


def test_pods_that_nobody_wants_profiled_are_not_counted_as_lacking() -> None:
    known = book_of(
        (Kind.PODS, pod("a", sidecar="running")),
        (Kind.PODS, pod("b")),
        (Kind.PODS, pod("c", owner="redis", namespace="db")),
    )
    found = groups(known, {("shop", "a"): NOW}, NOW, 180)
    assert {space: dict(counts) for space, counts in counted(found).items()} == {
        "shop": {Standing.PROFILED: 1, Standing.NO_SIDECAR: 1}
    }
    assert [one.workload for one in found] == ["shop", "redis"]


def test_a_rollout_begins_with_its_replicaset_and_ends_when_its_deployment_says() -> None:
    known = book_of(
        (Kind.DEPLOYMENTS, deployment("shop", 2, ended="2026-11-21T09:10:00Z")),
        (
            Kind.REPLICASETS,
            replicaset("shop", 1, hash_="1111", image="shop:1", created="2026-11-20T09:00:00Z"),
        ),
        (Kind.REPLICASETS, replicaset("shop", 2)),
    )
    first, second = sorted(derived(known).values(), key=lambda one: one.revision)
    assert (first.version, first.started, first.ended) == ("1", STARTED_UNIX - 86_400, None)
    assert (second.version, second.started, second.ended) == ("2", STARTED_UNIX, STARTED_UNIX + 600)


def test_a_rollout_that_goes_on_has_no_end() -> None:
    known = book_of(
        (Kind.DEPLOYMENTS, deployment("shop", 2, done=False)), (Kind.REPLICASETS, replicaset("shop", 2))
    )
    (one,) = derived(known).values()
    assert one.ended is None


def test_a_rollback_begins_with_its_first_pod_and_not_when_its_replicaset_was_made() -> None:
    old = replicaset("shop", 3, hash_="1111", image="shop:1", created="2026-11-01T09:00:00Z", old="1")
    there = [(Kind.DEPLOYMENTS, deployment("shop", 3)), (Kind.REPLICASETS, old)]
    assert not derived(book_of(*there))
    (one,) = derived(book_of(*there, (Kind.PODS, pod("a", hash_="1111")))).values()
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
        (Kind.STATEFULSETS, db),
        (Kind.DAEMONSETS, agent),
        (Kind.CONTROLLERREVISIONS, revision("db", "StatefulSet", 1, "2026-11-20T09:00:00Z")),
        (Kind.CONTROLLERREVISIONS, revision("db", "StatefulSet", 2, "2026-11-21T08:00:00Z")),
        (Kind.CONTROLLERREVISIONS, revision("agent", "DaemonSet", 1, "2026-11-21T08:30:00Z")),
        (Kind.PODS, owned("db", "StatefulSet", "db-2")),
        (Kind.PODS, owned("agent", "DaemonSet", "1")),
    )
    found = {(one.workload, one.revision): (one.started, one.ended) for one in derived(known).values()}
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
    assert added(one, two, 100) == added(two, one, 100)
    assert added(added(one, two, 100), three, 100) == added(one, added(two, three, 100), 100)
    assert added(one, one, 100) == one == added(one, {}, 100)
    assert decode(encode(one)) == one
    assert len(added(one, two, 2)) == min(2, len(added(one, two, 100)))


def test_rollouts_of_a_question_are_those_of_its_time_and_of_what_it_selects() -> None:
    known = book_of(
        (Kind.DEPLOYMENTS, deployment("shop", 2)),
        (
            Kind.REPLICASETS,
            replicaset("shop", 1, hash_="1111", image="shop:1", created="2026-11-20T09:00:00Z"),
        ),
        (Kind.REPLICASETS, replicaset("shop", 2)),
    )
    found = derived(known).values()

    def names(selector: str, begin: float, end: float) -> list[str]:
        return [one.version for one in within(found, read_selector(selector), begin, end)]

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
    one, two = (Share(store, 30, 100, timer) for _ in range(2))
    assert one.take()
    assert not two.take()
    timer.now += 29
    assert one.take()
    assert not two.take()
    timer.now += 29
    assert not two.take()
    timer.now += 2
    assert two.take()
    assert not one.take()
    two.leave()
    assert one.take()


def test_what_one_sees_is_what_the_others_read() -> None:
    store = MemoryStore()
    one, two = Share(store, 30, 100), Share(store, 30, 100)
    assert two.sight() is None
    space = {"metadata": {"name": "shop", "labels": {"sidelight.dev/inject": "true"}}}
    known = book_of((Kind.PODS, pod("a", sidecar="running")), (Kind.PODS, pod("b")), (Kind.NAMESPACES, space))
    missing = Missing("deployments", "apps", "list", "", "may not", "allow it")
    sight = Sight("watching", NOW, known, (missing,))
    one.put(sight)
    assert two.sight() == sight
    assert two.sight() is two.sight()


@pytest.mark.parametrize("version", [1, 2])
def test_golden_snapshots_of_a_cluster_are_read_by_every_later_version(version: int) -> None:
    store = MemoryStore()
    store.put(SEEN, zstandard.compress((GOLDEN / f"discovery-{version}.json").read_bytes()))
    share = Share(store, 30, 100)
    sight = share.sight()
    assert sight is not None
    assert (sight.state, sight.known.left_out, sight.missing[0].resource) == ("unreachable", 3, "deployments")
    first, second = sight.known.pods
    assert (first.inject_label, first.sampled_container, first.sidecar) == (
        "true",
        "app",
        Sidecar("injected", "running", "", 1, 1_795_253_403.0),
    )
    assert (second.skip_reason, second.sidecar) == ("hostNetwork is set", None)
    share.put(sight)
    written = zstandard.decompress(store.get(SEEN))
    assert written == (GOLDEN / "discovery-2.json").read_bytes().strip()


def test_rollouts_stay_when_the_cluster_forgets_them() -> None:
    store = MemoryStore()
    one, two = Share(store, 30, 100), Share(store, 30, 100)
    known = book_of((Kind.DEPLOYMENTS, deployment("shop", 2)), (Kind.REPLICASETS, replicaset("shop", 2)))
    one.rollouts(derived(known))
    assert two.rollouts({}) == derived(known)
