"""On a real kubelet: a capture attaches a sidecar to a running pod that has none, and it samples and ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import images
from tests.cluster.node import Node
from tests.cluster.programs import eventually
from tests.cluster.test_attach import ATTACH, GET
from tests.cluster.test_discovery import APPS, CORE, granted

FINAL = ("ready", "failed", "stopped")


@pytest.fixture
def namespace(node: Node) -> Iterator[str]:
    with node.namespace() as name:
        yield name


class Collector:
    """A collector in a pod, asked through the API server."""

    def __init__(self, node: Node, namespace: str) -> None:
        granted(node, namespace, "collector", CORE, APPS, GET, ATTACH, everywhere=True)
        args = [
            *("collector", "--listen", "0.0.0.0:8080", "--store", "/var/lib/sidelight"),
            *(
                "--kubernetes",
                "in-cluster",
                "--attach-image",
                images.SIDECAR,
                "--allow-anonymous-writes",
                "--allow-anonymous-reads",
            ),
            *(
                "--attach-namespaces",
                namespace,
                "--attach-collector-url",
                f"http://collector.{namespace}:8080",
            ),
            *("--capture-tokens-file", "/tokens/captures", "--discovery-publish-interval-seconds", "0.2"),
        ]
        labels = {"app": "collector"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "collector", "namespace": namespace, "labels": labels},
            "spec": {
                "serviceAccountName": "collector",
                "containers": [
                    {
                        "name": "collector",
                        "image": images.COLLECTOR,
                        "imagePullPolicy": "Never",
                        "args": args,
                        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 1},
                        "volumeMounts": [{"name": "tokens", "mountPath": "/tokens"}],
                    }
                ],
                "volumes": [{"name": "tokens", "configMap": {"name": "tokens"}}],
            },
        }
        tokens = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tokens"}, "data": {}}
        tokens["data"] = {"captures": "secret\n"}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "collector"}, "spec": {}}
        service["spec"] = {"selector": labels, "ports": [{"port": 8080}]}
        for one in (tokens, service, pod):
            node.apply(one, namespace)
        node.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/collector", "--timeout=120s")
        self._node = node
        self._namespace = namespace

    def ask(self, path: str, body: object = None) -> Any:
        """Through `kubectl exec`: the API server's proxy takes the token away."""
        script = (
            "import json,sys,urllib.request as u;"
            "r=u.Request('http://127.0.0.1:8080/api/v1/'+sys.argv[1],"
            "data=sys.argv[2].encode() or None,headers={'Content-Type':'application/json',"
            "'Authorization':'Bearer secret'});"
            "print(u.urlopen(r).read().decode())"
        )
        given = json.dumps(body) if body is not None else ""
        argv = ("-n", self._namespace, "exec", "collector", "--", "python", "-c", script, path, given)
        return json.loads(self._node.kubectl(*argv))


def demo(node: Node, namespace: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "spin-1", "namespace": namespace, "labels": {"app": "spin", "version": "7"}},
        "spec": {
            "containers": [
                {
                    "name": "app",
                    "image": images.DEMO,
                    "imagePullPolicy": "Never",
                    "command": ["python", "-c", "def busy():\n  while True: sum(range(10**5))\nbusy()"],
                    "securityContext": {
                        "runAsUser": 10001,
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ]
        },
    }
    node.apply(pod, namespace)
    node.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/spin-1", "--timeout=120s")


def test_an_ephemeral_sidecar_samples_a_running_pod_and_ends(node: Node, namespace: str) -> None:
    collector = Collector(node, namespace)
    demo(node, namespace)

    def seen() -> bool:
        found = collector.ask("workloads")["workloads"]
        return any(one["service"] == "spin" and one["pod_counts"]["no_sidecar"] == 1 for one in found)

    eventually("the pod is seen", seen, 90, pause=1)
    made = collector.ask("captures", {"service": "spin", "seconds": 3, "attach": True})

    def over() -> Any:
        told = collector.ask(f"captures/{made['id']}")
        return told if told["state"] in FINAL else None

    told = eventually("the capture has ended", over, 180, pause=1)
    (part,) = told["parts"]
    argv = ("-n", namespace, "logs", "spin-1", "-c", part["ephemeral_container"])
    said = node.try_kubectl(*argv).stdout
    assert told["state"] == "ready", f"{json.dumps(told)}\n{said}"
    assert part["samples"] > 0
    assert part["top_functions"][0]["function"].startswith("busy")

    def ended() -> Any:
        status = node.get(f"/api/v1/namespaces/{namespace}/pods/spin-1")["status"]
        (one,) = status.get("ephemeralContainerStatuses", [{}])
        return one.get("state", {}).get("terminated")

    assert eventually("its process has ended", ended, 60)["exitCode"] == 0
    # Nothing was restarted for it.
    status = node.get(f"/api/v1/namespaces/{namespace}/pods/spin-1")["status"]
    assert status["containerStatuses"][0]["restartCount"] == 0
