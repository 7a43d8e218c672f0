"""On a real kubelet: sidecars that do not run, pods that have none, and rollouts, as collectors see them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.cluster import images
from tests.cluster.node import Node
from tests.cluster.programs import eventually
from tests.cluster.releases import kill, running_pods
from tests.cluster.test_discovery import APPS, CORE, Collector, collector, granted

BUSY = "import time\ndef serve():\n  while True: sum(range(10**5)); time.sleep(.02)\nserve()"
SECURED: dict[str, Any] = {"runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]}}


@pytest.fixture(scope="module")
def namespace(node: Node) -> Iterator[str]:
    with node.namespace() as name:
        yield name


@pytest.fixture(scope="module")
def watching(node: Node, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector on this machine's end of the link, which pods reach as those of a cluster do theirs."""
    config = granted(node, namespace, "collector", CORE, APPS, everywhere=True)
    anybody = ("--allow-anonymous-writes", "--allow-anonymous-reads")
    options = ("--listen", "0.0.0.0:0", *anybody, "--flush-seconds", "0.2")
    with collector(tmp_path_factory.mktemp("watching"), config, *options) as one:
        yield one


def deployed(node: Node, namespace: str, name: str, version: str, sidecar: dict[str, Any] | None) -> None:
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/version": version}
    app = {"name": "app", "image": images.DEMO, "imagePullPolicy": "Never", "command": ["python", "-c", BUSY]}
    containers = [app] if sidecar is None else [app, {"name": "sidelight", **sidecar}]
    pod = {"shareProcessNamespace": True, "terminationGracePeriodSeconds": 1, "containers": containers}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    node.apply(deployment, namespace)


def sidecar(node: Node, watching: Collector, *options: str) -> dict[str, Any]:
    """The container of a sidecar that ships to this collector."""
    names = {
        "SERVICE": "metadata.labels['app.kubernetes.io/name']",
        "VERSION": "metadata.labels['app.kubernetes.io/version']",
        "POD": "metadata.name",
        "NAMESPACE": "metadata.namespace",
    }
    return {
        "image": images.SIDECAR,
        "imagePullPolicy": "Never",
        "args": [
            *("sidecar", "--all", "--collector", f"http://{node.place.host}:{watching.port}"),
            *("--spool-dir", "/tmp/spool", "--window-seconds", "1", *options),
        ],
        "env": [
            {"name": f"SIDELIGHT_{name}", "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in names.items()
        ],
        "securityContext": SECURED,
    }


def standing(watching: Collector, namespace: str, name: str, how: str) -> Any:
    """The workload's pod, once it is told to stand so."""

    def check() -> Any:
        found = watching.workload(name, namespace)
        return found if found and found["pod_counts"][how] == 1 else None

    return eventually(f"{name} is {how}", check, 60, 0.1)


def test_a_pod_without_a_sidecar_and_one_whose_sidecar_exits(
    node: Node, namespace: str, watching: Collector
) -> None:
    deployed(node, namespace, "plain", "1", None)
    deployed(node, namespace, "broken", "1", sidecar(node, watching, "--rate", "0"))
    plain = standing(watching, namespace, "plain", "no_sidecar")
    assert not plain["profiling_expected"]
    assert f"kubectl -n {namespace} rollout restart deployment/plain" in plain["pods"][0]["hint"]
    broken = standing(watching, namespace, "broken", "dead")
    assert broken["profiling_expected"]

    def said() -> bool:
        """What the hint names has the reason; the kubelet throws older logs away while it starts it anew."""
        hint = standing(watching, namespace, "broken", "dead")["pods"][0]["hint"]
        command = hint.partition(" says why")[0].split()
        return "--previous" in command and "--rate must be from 1" in node.try_kubectl(*command[1:]).stdout

    eventually("the reason is where the hint says", said, 60, 0.5)


def test_a_sidecar_that_is_killed_is_dead_until_it_runs_again_and_rollouts_are_on_the_timeline(
    node: Node, namespace: str, watching: Collector
) -> None:
    def marks() -> dict[str, Any]:
        told = watching.get("timeline", query='service="checkout"', type="cpu", **{"from": "-15m"})
        return {one["version"]: one["rollouts"] for one in told["versions"]}

    def complete(version: str) -> Any:
        (rollout,) = marks().get(version) or (None,)
        return rollout if rollout and rollout["ended"] else None

    deployed(node, namespace, "checkout", "1", sidecar(node, watching))
    standing(watching, namespace, "checkout", "profiled")
    first = eventually("the first rollout is marked", lambda: complete("1"), 90, 0.2)
    (pod,) = running_pods(node, namespace, "checkout")
    kill(node, pod, "sidelight")
    eventually("it runs again", lambda: restarts(node, namespace) == 1, 90, 0.1)
    (pod,) = running_pods(node, namespace, "checkout")
    kill(node, pod, "sidelight")
    # The kubelet waits before it starts it a second time.
    dead = standing(watching, namespace, "checkout", "dead")
    assert "does not run" in dead["pods"][0]["problem"]
    standing(watching, namespace, "checkout", "profiled")

    deployed(node, namespace, "checkout", "2", sidecar(node, watching))
    second = eventually("the second rollout is marked", lambda: complete("2"), 60, 0.2)
    assert first["started"] <= first["ended"] <= second["started"] <= second["ended"]
    assert [first["revision"], second["revision"]] == [1, 2]
    sets = node.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"]
    made = {
        one["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: datetime.fromisoformat(
            one["metadata"]["creationTimestamp"]
        ).timestamp()
        for one in sets
        if one["metadata"]["name"].startswith("checkout-")
    }
    assert [first["started"], second["started"]] == [made["1"], made["2"]]


def restarts(node: Node, namespace: str) -> int:
    """How often the sidecar of the one pod was started again, and runs."""
    for pod in running_pods(node, namespace, "checkout"):
        for one in pod["status"]["containerStatuses"]:
            if one["name"] == "sidelight" and "running" in one["state"]:
                return int(one["restartCount"])
    return 0
