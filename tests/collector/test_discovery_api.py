"""How the pods of workloads stand, over HTTP: as the document describes it, and for who may see them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from sidelight_collector.auth.authorizer import Authorizer, BearerTokens
from sidelight_collector.auth.read_rules import ReadPolicy, ReadRule
from sidelight_collector.http.app import Readiness, build_app
from sidelight_collector.kubernetes_discovery.k8s_objects import ResourceKind
from sidelight_collector.kubernetes_discovery.routes import PARAMETERS, build_workload_routes
from sidelight_collector.kubernetes_discovery.shared_state import SharedClusterState
from sidelight_collector.kubernetes_discovery.watcher import (
    ClusterDiscovery,
    DiscoveryPolicy,
    SidecarActivity,
)
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_kubernetes.kubernetes_client import AccessDenied
from tests.collector.clusters import Server, deployment, pod, replicaset
from tests.collector.test_api_document import DOCUMENT, check, resolved

PATH = "/api/v1/workloads"
SOURCE = "https://git.example/shop/{file}"


class Everything:
    """An API server that keeps each kind of object by itself."""

    def __init__(self) -> None:
        self.of = {kind.list_path(): Server() for kind in ResourceKind}

    def pages(self, path: str, /, **query: str) -> Any:
        return self.of[path].pages(path, **query)

    def watch(self, path: str, version: str, /, *, timeout_seconds: int, **query: str) -> Any:
        return self.of[path].watch(path, version, timeout_seconds=timeout_seconds, **query)

    def put(self, kind: ResourceKind, item: dict[str, Any]) -> None:
        self.of[kind.list_path()].put(item)


class Told:
    """What sidecars told."""

    def __init__(self) -> None:
        self.around = SidecarActivity({("shop", "a"): time.time()}, frozenset())

    async def __call__(self) -> SidecarActivity:
        return self.around


@asynccontextmanager
async def collector(
    api: Everything | None, store: ObjectStore | None = None, guard: Authorizer | None = None
) -> AsyncIterator[tuple[TestClient[Request, Application], ClusterDiscovery]]:
    """A collector that watches this cluster; one turn has been made."""
    told = Told()
    share = SharedClusterState(store or MemoryStore(), 30, 100)
    discovery = ClusterDiscovery((lambda: api) if api else None, share, DiscoveryPolicy(), Metrics(), told)
    app = build_app(build_workload_routes(discovery, told), Metrics(), guard or Authorizer(), Readiness())
    async with TestClient(TestServer(app)) as client:
        discovery._tick()
        try:
            yield client, discovery
        finally:
            discovery._release()


async def asked(client: TestClient[Request, Application], **given: str) -> dict[str, Any]:
    async with client.get(PATH, params=given) as response:
        assert response.status == 200, await response.text()
        told: dict[str, Any] = await response.json()
        schema = resolved(DOCUMENT["paths"][PATH]["get"]["responses"]["200"])["content"]["application/json"]
        check(told, schema["schema"])
        return told


async def seen(client: TestClient[Request, Application], **given: str) -> dict[str, Any]:
    """The answer once the cluster is watched."""
    while (told := await asked(client, **given))["discovery"]["state"] == "starting":
        pass
    return told


def shop() -> Everything:
    api = Everything()
    api.put(ResourceKind.PODS, pod("a", sidecar="running"))
    api.put(ResourceKind.PODS, pod("b", notes={"sidelight.dev/source-url": SOURCE}))
    api.put(ResourceKind.PODS, pod("c", sidecar="waiting", reason="CrashLoopBackOff", restarts=3))
    api.put(ResourceKind.PODS, pod("r", owner="redis", namespace="db"))
    api.put(ResourceKind.DEPLOYMENTS, deployment("shop", 2))
    api.put(ResourceKind.REPLICASETS, replicaset("shop", 2))
    return api


async def test_workloads_say_how_their_pods_stand_and_what_to_do() -> None:
    async with collector(shop()) as (client, discovery):
        told = await seen(client)
        assert told["total"] == 2
        first = told["workloads"][0]
        assert (first["namespace"], first["workload"], first["service"]) == ("shop", "shop", "shop")
        assert first["profiling_expected"]
        assert [each["source_url"] for each in told["workloads"]] == [SOURCE, ""]
        counts = {name: number for name, number in first["pod_counts"].items() if number}
        assert counts == {"total": 3, "profiled": 1, "no_sidecar": 1, "dead": 1}
        without, dead, fine = first["pods"]
        assert "rollout restart deployment/shop" in without["hint"]
        assert [each["attachable"] for each in first["pods"]] == [True, False, False]
        assert "restarted 3 times" in dead["problem"]
        assert "logs c -c sidelight --previous" in dead["hint"]
        assert fine["last_seen"]
        while not discovery._tick() and not any(one.ended for one in discovery.list_rollouts()):
            discovery._written_at = 0.0
        (rollout,) = (await asked(client, query='{service="shop"}'))["workloads"][0]["rollouts"]
        assert (rollout["revision"], rollout["version"]) == (2, "2")
        assert rollout["ended"]


async def test_a_list_is_narrowed_by_what_is_asked_for() -> None:
    async with collector(shop()) as (client, _):
        await seen(client)
        assert [one["workload"] for one in (await asked(client, unprofiled="1"))["workloads"]] == ["shop"]
        assert (await asked(client, query='namespace="db"'))["workloads"][0]["workload"] == "redis"
        assert (await asked(client, query='workload="shop", pod="b"'))["workloads"][0]["pod_counts"][
            "total"
        ] == 1
        few = await asked(client, limit="1", pods="2")
        assert (len(few["workloads"]), len(few["workloads"][0]["pods"]), few["total"]) == (1, 2, 2)


async def test_without_a_cluster_the_answer_says_so_and_what_to_do() -> None:
    async with collector(None) as (client, _):
        told = await asked(client)
        assert told["discovery"]["state"] == "off"
        assert "--kubernetes" in told["discovery"]["hint"]
        assert told["workloads"] == []


async def test_a_right_that_is_missing_is_named_and_the_rest_goes_on() -> None:
    api = shop()
    no = 'forbidden: User "system:serviceaccount:obs:sidelight" cannot list resource "deployments"'
    api.of[ResourceKind.DEPLOYMENTS.list_path()].failures = [AccessDenied(no, "list", "deployments")]
    async with collector(api) as (client, _):
        told = await seen(client)
        while not told["discovery"]["watch_problems"]:
            told = await asked(client)
        (missing,) = told["discovery"]["watch_problems"]
        assert (missing["verb"], missing["resource"], missing["group"]) == ("list", "deployments", "apps")
        assert "--serviceaccount=obs:sidelight" in missing["hint"]
        assert told["discovery"]["state"] == "watching"
        assert told["workloads"]
    api = shop()
    api.of[ResourceKind.PODS.list_path()].failures = [AccessDenied("no", "list", "pods")]
    async with collector(api) as (client, _):
        told = await seen(client)
        assert told["discovery"]["state"] == "denied"
        assert "list pods" in told["discovery"]["problem"]


async def test_a_collector_that_does_not_watch_tells_what_another_sees() -> None:
    store = MemoryStore()
    async with collector(shop(), store) as (one, first), collector(shop(), store) as (two, _):
        await seen(one)
        first._written_at = 0.0
        first._tick()
        own, other = (await asked(one))["workloads"], (await seen(two))["workloads"]
        assert [(each["workload"], each["pod_counts"]) for each in other] == [
            (each["workload"], each["pod_counts"]) for each in own
        ]
        assert [each["pod"] for each in other[0]["pods"]] == ["b", "c", "a"]


async def test_who_may_read_one_namespace_sees_the_workloads_of_no_other() -> None:
    rules = ReadPolicy(rules=(ReadRule("token", "ann", ("db",)),))
    guard = Authorizer(BearerTokens(read=("secret",), token_names={"secret": "ann"}), rules)
    async with collector(shop(), guard=guard) as (client, _):
        client.session.headers["Authorization"] = "Bearer secret"
        assert [one["namespace"] for one in (await seen(client))["workloads"]] == ["db"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"unknown": "1"}, "unknown"),
        ({"unprofiled": "yes"}, "unprofiled"),
        ({"limit": "0"}, "limit"),
        ({"pods": "-1"}, "pods"),
        ({"query": "{"}, ""),
    ],
)
async def test_a_mistake_is_refused(given: Mapping[str, str], says: str) -> None:
    async with collector(None) as (client, _), client.get(PATH, params=given) as response:
        assert response.status == 400
        told = await response.json()
        assert says in told["message"]
        check(told, DOCUMENT["components"]["schemas"]["Error"])


async def test_the_parameters_are_those_documented_with_examples_that_are_taken() -> None:
    known = {one["name"]: one for one in DOCUMENT["paths"][PATH]["get"]["parameters"]}
    assert set(known) == set(PARAMETERS)
    async with collector(shop()) as (client, _):
        await asked(client, **{name: str(one["example"]) for name, one in known.items()})
