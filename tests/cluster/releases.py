"""The chart installed on a node, the store behind it, and a team's service beside it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.segments import list_segments, read_segment
from tests.cluster import images
from tests.cluster import place as places
from tests.cluster.node import Node
from tests.cluster.programs import ROOT, eventually

Json = dict[str, Any]
CHART = ROOT / "deploy" / "helm" / "sidelight"
HELM, VERSITYGW = ROOT / ".tools" / "bin" / "helm", ROOT / ".tools" / "bin" / "versitygw"
KEYS = ("sidelight-tests", "sidelight-tests-secret")
CAPTURE_TOKEN = "may-capture"
WITHOUT_LIMITS = {"budget_cpu_percent": 100, "budget_stop_percent": 100}
"""However busy the machine, nothing is left out: windows follow each other without a gap."""


def image(name: str) -> Json:
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag, "pullPolicy": "Never"}


@dataclass(frozen=True, slots=True)
class Store:
    """A bucket of a real S3 server on this machine, where pods reach it, and its folder."""

    endpoint: str
    folder: Path

    def rows(self) -> list[Json]:
        """The rows of `profiles`, read from the store itself."""
        objects = DirectoryStore(self.folder)
        refs = list_segments(objects, 0, 2**62)
        return [row for ref in refs for row in read_segment(objects, ref, "profiles").to_pylist()]


@contextmanager
def store(node: Node) -> Iterator[Store]:
    """versitygw on this machine's end of the link to the node."""
    buckets = node.programs.folder / "buckets"
    (buckets / "sidelight").mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind((node.place.host, 0))
        port = probe.getsockname()[1]
    address = f"{node.place.host}:{port}"
    keys = ("--access", KEYS[0], "--secret", KEYS[1])
    node.programs.start("s3", VERSITYGW, "--port", address, *keys, "--quiet", "posix", buckets)

    def answers() -> bool:
        node.programs.must_run("s3")
        with socket.socket() as client:
            return client.connect_ex((node.place.host, port)) == 0

    eventually("the S3 server listens", answers)
    yield Store(f"http://{address}", buckets / "sidelight" / "profiles")
    node.programs.end("s3")
    shutil.rmtree(buckets)


def values(**more: Json) -> Json:
    """Values for this machine: images that are here already, and little of its two cores."""
    small = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
    given: Json = {
        "collector": {
            "image": image(images.COLLECTOR),
            "resources": small,
            "auth": {"allowAnonymousReads": True},
        },
        "injector": {"replicas": 1},
        "sidecar": {
            "image": image(images.SIDECAR),
            "settings": {"window_seconds": 1, "rate": 50, **WITHOUT_LIMITS},
            "serviceAccountToken": {"enabled": True},
        },
    }
    return merged(given, more)


def merged(one: Json, other: Mapping[str, Any]) -> Json:
    """Values over values, as helm takes them."""
    result = dict(one)
    for key, value in other.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def helm(node: Node, namespace: str, *arguments: str | Path) -> str:
    """What helm prints; fails with what it complained about, and what the pods say."""
    environment = {**os.environ, "KUBECONFIG": str(node.kubeconfig)}
    argv = [str(part) for part in (HELM, "--namespace", namespace, *arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr + node.told()
    return done.stdout


@dataclass(frozen=True, slots=True)
class Release:
    """An installation of the chart by the name `sidelight` in a namespace."""

    node: Node
    namespace: str
    name: str = "sidelight-collector"

    def helm(self, *arguments: str | Path) -> str:
        return helm(self.node, self.namespace, *arguments)

    def upgrade(self, given: Json, *flags: str) -> None:
        """Install or upgrade, and wait until all of it is ready."""
        path = self.node.programs.folder / f"values-{self.namespace}.yaml"
        path.write_text(yaml.safe_dump(given))
        wait = ("--wait", "--timeout", "150s")
        self.helm("upgrade", "--install", "sidelight", CHART, "--values", path, *wait, *flags)

    @property
    def url(self) -> str:
        """The Service's address, which this machine reaches too."""
        service = self.node.get(f"/api/v1/namespaces/{self.namespace}/services/{self.name}")
        return f"http://{service['spec']['clusterIP']}:8080"

    def ask(self, path: str, body: object = None, *, token: str = "", method: str = "") -> tuple[int, Any]:
        """The status and answer of one request; a body that is no text is sent as JSON."""
        data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers["content-type"] = "text/plain" if isinstance(body, str) else "application/json"
        request = urllib.request.Request(self.url + path, data, headers, method=method or None)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read().decode()
                return answer.status, json.loads(text) if "json" in answer.headers["content-type"] else text
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read() or b"null")

    def get(self, path: str) -> Any:
        status, answer = self.ask(path)
        assert status == 200, (path, status, answer)
        return answer

    def service(self, name: str) -> Json | None:
        """What the collector knows of a service of the last hour, once there is something."""
        found = self.get("/api/v1/services?from=-1h&until=now")["services"]
        return next((one for one in found if one["service"] == name and one["samples"]), None)

    def label(self, name: str, service: str) -> list[str]:
        """The values of a label in a service's windows."""
        selector = quote(f'{{service="{service}"}}')
        return sorted(self.get(f"/api/v1/labels/{name}/values?query={selector}&from=-1h&until=now")["values"])

    def stacks(self, service: str) -> str:
        """The folded stacks of a service."""
        return self.graph(f'service="{service}"')

    def graph(self, labels: str) -> str:
        """The folded stacks of the windows with some labels."""
        path = f"/api/v1/export?query={quote(f'{{{labels}}}')}&type=wall&from=-1h&until=now"
        return str(self.get(path))


@contextmanager
def released(node: Node, given: Json, bucket: Store | None) -> Iterator[Release]:
    """The chart in a fresh namespace, uninstalled afterwards."""
    with node.namespace() as namespace:
        if bucket:
            keys = zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), KEYS, strict=True)
            literals = [f"--from-literal={name}={value}" for name, value in keys]
            node.kubectl("--namespace", namespace, "create", "secret", "generic", "s3", *literals)
            captures = ("captures", f"--from-literal=tokens={CAPTURE_TOKEN}")
            node.kubectl("--namespace", namespace, "create", "secret", "generic", *captures)
        release = Release(node, namespace)
        release.upgrade(given)
        yield release
        release.helm("uninstall", "sidelight", "--ignore-not-found", "--wait")


def deployment(name: str, replicas: int = 1, annotations: Mapping[str, str] | None = None) -> Json:
    """A team's Deployment: the demo's service, and beside it what sends it requests."""
    ask = (
        "import time, urllib.request as u\nwhile True: u.urlopen('http://127.0.0.1:8000/50'); time.sleep(.05)"
    )
    secured = {"runAsUser": 10001, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    python = {"image": images.DEMO, "imagePullPolicy": "Never", "securityContext": secured}
    app = {"name": "app", **python, "resources": {"requests": {"cpu": "20m"}}}
    load = {"name": "load", **python, "command": ["sh", "-c", f'until python3 -c "{ask}"; do sleep 1; done']}
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/version": "2026.11.2"}
    template = {
        "metadata": {
            "labels": labels,
            "annotations": {"sidelight.dev/container": "app", **(annotations or {})},
        },
        "spec": {"containers": [app, load], "terminationGracePeriodSeconds": 20},
    }
    selector = {"matchLabels": {"app.kubernetes.io/name": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def running_pods(node: Node, namespace: str, name: str) -> list[Json]:
    """The pods of a Deployment that run, and are not about to end."""
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io/name={name}"
    return [
        pod
        for pod in node.get(path)["items"]
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def kill(node: Node, pod: Json, container: str) -> None:
    """SIGKILL for the processes of a container, as the kernel does it when memory ends."""
    status = next(one for one in pod["status"]["containerStatuses"] if one["name"] == container)
    pids = places.processes(node.place, status["containerID"].rpartition("/")[2])
    assert pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
