"""A real collector watches a real API server: workloads, rollouts, and the rights that are missing.

Nothing runs pods here: how far they are is written into their status, as a kubelet would.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.cluster.api import Api
from tests.cluster.programs import eventually
from tests.collector.processes import Process

CORE = {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list", "watch"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
APPS = {
    "apiGroups": ["apps"],
    "resources": ["deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions"],
    "verbs": ["list", "watch"],
}


def granted(api: Api, namespace: str, account: str, *rules: Mapping[str, Any], everywhere: bool) -> Path:
    """The kubeconfig of an account that may do this, in its namespace or in all."""
    api.service_account(namespace, account)
    kind, name = ("ClusterRole", f"{namespace}-{account}") if everywhere else ("Role", account)
    meta = {"name": name} if everywhere else {"name": name, "namespace": namespace}
    version = "rbac.authorization.k8s.io/v1"
    api.apply({"apiVersion": version, "kind": kind, "metadata": meta, "rules": list(rules)})
    api.apply(
        {
            "apiVersion": version,
            "kind": f"{kind}Binding",
            "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }
    )
    return api.kubeconfig_of(namespace, account)


class Collector:
    """A collector process and its read API."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.port = process.port()

    def get(self, path: str, **given: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", f"/api/v1/{path}?{urlencode(given)}")
            answer = connection.getresponse()
            body = json.loads(answer.read())
            assert answer.status == 200, body
            return body
        finally:
            connection.close()

    def workload(self, name: str, namespace: str) -> Any:
        found = self.get("workloads", query=f'namespace="{namespace}", workload="{name}"')["workloads"]
        return found[0] if found else None


@contextmanager
def collector(scratch: Path, config: Path, *options: str) -> Iterator[Collector]:
    options = ("--kubernetes", str(config), "--discovery-publish-interval-seconds", "0.2", *options)
    process = Process(scratch, str(scratch / "store"), *options)
    try:
        yield Collector(process)
    finally:
        process.kill()


def deployment(namespace: str, image: str = "shop:1", *, sidecar: bool = False) -> dict[str, Any]:
    containers = [{"name": "app", "image": image}]
    if sidecar:
        containers.append({"name": "sidelight", "image": "sidelight:1"})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "shop"}},
            "template": {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": containers}},
        },
    }


def pods_of(api: Api, namespace: str) -> list[Any]:
    return list(api.get(f"/api/v1/namespaces/{namespace}/pods")["items"])


def run(api: Api, namespace: str) -> None:
    """Say of all pods that they run and are ready."""
    for pod in pods_of(api, namespace):
        name = pod["metadata"]["name"]
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        running = [
            {
                "name": one["name"],
                "image": one["image"],
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
            for one in pod["spec"]["containers"]
        ]
        status = {"phase": "Running", "conditions": [ready], "containerStatuses": running}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        kind = "application/strategic-merge-patch+json"
        code, answer = api.call("PATCH", path, {"status": status}, kind=kind)
        assert code in (200, 404), answer


def complete(api: Api, namespace: str) -> None:
    """Let a rollout come to its end."""

    def done() -> bool:
        run(api, namespace)
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/shop"
        told = api.get(path)
        status = told["status"]
        seen = status.get("observedGeneration") == told["metadata"]["generation"]
        counts = [status.get(name) for name in ("replicas", "updatedReplicas", "availableReplicas")]
        return seen and counts == [2, 2, 2]

    eventually("the rollout is complete", done, pause=0.2)


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    with api.namespace() as name:
        yield name


def test_pods_without_a_sidecar_and_rollouts_are_seen_as_they_happen(
    api: Api, namespace: str, tmp_path: Path
) -> None:
    config = granted(api, namespace, "all", CORE, APPS, everywhere=True)
    with collector(tmp_path, config) as one:
        api.apply(deployment(namespace))
        eventually("two pods", lambda: len(pods_of(api, namespace)) == 2)
        eventually(
            "they are seen",
            lambda: (one.workload("shop", namespace) or {}).get("pod_counts", {}).get("total") == 2,
        )
        assert one.workload("shop", namespace)["pod_counts"]["starting"] == 2
        complete(api, namespace)
        found = eventually(
            "they have no sidecar",
            lambda: (w := one.workload("shop", namespace))["pod_counts"]["no_sidecar"] == 2 and w,
        )
        assert not found["profiling_expected"]
        assert f"kubectl -n {namespace} rollout restart deployment/shop" in found["pods"][0]["hint"]
        api.kubectl("label", "namespace", namespace, "sidelight.dev/inject=true")
        eventually("they should have", lambda: one.workload("shop", namespace)["profiling_expected"])

        def ended(revision: int) -> Any:
            told = one.workload("shop", namespace)["rollouts"]
            return next((each for each in told if each["revision"] == revision and each["ended"]), None)

        first = eventually("the first rollout is complete", lambda: ended(1))
        assert first["version"] == "1"
        api.apply(deployment(namespace, "shop:2", sidecar=True))
        eventually("a second begins", lambda: len(one.workload("shop", namespace)["rollouts"]) == 2)
        complete(api, namespace)
        second = eventually("the second rollout is complete", lambda: ended(2))
        assert second["version"] == "2"
        assert first["started"] <= first["ended"] <= second["started"] <= second["ended"]
        eventually(
            "their sidecars are silent, as none was heard of",
            lambda: one.workload("shop", namespace)["pod_counts"]["stale"] == 2,
        )
        api.kubectl("rollout", "undo", "deployment/shop", "-n", namespace)
        complete(api, namespace)
        third = eventually("a rollback is a rollout too", lambda: ended(3))
        assert third["version"] == "1"
        assert third["started"] >= second["ended"]


def test_a_collector_without_rights_says_which_and_goes_on(api: Api, namespace: str, tmp_path: Path) -> None:
    config = granted(api, namespace, "none", everywhere=False)
    with collector(tmp_path, config) as one:
        told = eventually(
            "it is denied", lambda: (d := one.get("workloads")["discovery"])["state"] == "denied" and d
        )
        wanted = {"pods", "namespaces", *APPS["resources"]}
        eventually(
            "all of it",
            lambda: {m["resource"] for m in one.get("workloads")["discovery"]["watch_problems"]} == wanted,
        )
        assert "the collector may not list pods in all namespaces" in told["problem"]
        assert f"--serviceaccount={namespace}:none" in told["hint"]
        assert one.get("services")["services"] == []
        assert one.get("status")["version"]


def test_with_pods_alone_the_rest_is_named_as_missing(api: Api, namespace: str, tmp_path: Path) -> None:
    config = granted(api, namespace, "pods", PODS, everywhere=False)
    with collector(tmp_path, config, "--discovery-namespaces", namespace) as one:
        api.apply(deployment(namespace))
        eventually("pods are seen", lambda: one.workload("shop", namespace))
        told = eventually(
            "the rest is missing",
            lambda: (
                len((d := one.get("workloads")["discovery"])["watch_problems"]) == len(APPS["resources"])
                and d
            ),
        )
        assert told["state"] == "watching"
        assert told["namespaces"] == [namespace]
        hint = next(m["hint"] for m in told["watch_problems"] if m["resource"] == "replicasets")
        grant = hint.partition("by hand: ")[2].split(" && ")
        # What it says to do, done: each command as it stands.
        for command in grant:
            api.kubectl(*command.split()[1:])
        may = api.cluster(namespace, "pods").is_allowed("watch", "replicasets", namespace, "apps")
        assert may


def test_one_namespace_is_watched_with_a_role_and_no_clusterrole(
    api: Api, namespace: str, tmp_path: Path
) -> None:
    config = granted(api, namespace, "one", PODS, APPS, everywhere=False)
    with api.namespace() as other, collector(tmp_path, config, "--discovery-namespaces", namespace) as one:
        for each in (namespace, other):
            api.apply(deployment(each))
        eventually("pods are seen", lambda: one.workload("shop", namespace))
        told = eventually(
            "it watches", lambda: (t := one.get("workloads"))["discovery"]["state"] == "watching" and t
        )
        assert not told["discovery"]["watch_problems"]
        assert {each["namespace"] for each in told["workloads"]} == {namespace}


def test_a_pod_that_is_deleted_is_gone_and_a_second_collector_knows_the_same(
    api: Api, namespace: str, tmp_path: Path
) -> None:
    config = granted(api, namespace, "two", CORE, APPS, everywhere=True)
    # Who watches may stand still for a while: the other would take over.
    lasting = ("--discovery-lease-seconds", "600")
    with collector(tmp_path, config, *lasting) as one, collector(tmp_path, config, *lasting) as two:
        api.apply(deployment(namespace))
        for each in (one, two):
            eventually("both know", lambda each=each: each.workload("shop", namespace))  # type: ignore[misc]
        api.kubectl("delete", "deployment", "shop", "-n", namespace, "--wait=true")
        for pod in pods_of(api, namespace):
            api.call(
                "DELETE",
                f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0",
            )
        for each in (one, two):
            eventually("both forget", lambda each=each: not each.workload("shop", namespace))  # type: ignore[misc]
        watching = [
            sum(event["event"] == "this collector watches the cluster" for event in each.process.events())
            for each in (one, two)
        ]
        assert sum(watching) == 1
