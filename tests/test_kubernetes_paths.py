"""Names enter paths of the Kubernetes API only when they are names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.captures.attach.ephemeral_container import AttachTarget
from sidelight_collector.kubernetes_discovery.k8s_objects import ResourceKind
from sidelight_kubernetes.api_paths import build_path
from sidelight_kubernetes.cluster_errors import ClusterError, InvalidName
from sidelight_kubernetes.kubernetes_client import KubernetesClient
from tests.loopback_server import LoopbackHandler, serving

INVALID = (
    *("", "..", ".", "a/b", "a/../b", "%2e%2e", "a%2Fb", "a?watch=true", "a#b", "a b", "a\nb"),
    *("UPPER", "-a", "a-", "a..b", "a.-b", "é", "a;b", "a" * 254),
)


@pytest.mark.parametrize("name", INVALID)
def test_a_text_that_is_no_name_enters_no_path(name: str) -> None:
    builders = [
        lambda: build_path("pods", namespace=name),
        lambda: build_path("pods", namespace="shop", name=name),
        lambda: build_path("nodes", name=name),
        lambda: build_path("namespaces", name=name),
        lambda: AttachTarget(name, "pod", "", "", "", "", "").api_path,
        lambda: AttachTarget("shop", name, "", "", "", "", "").api_path,
    ]
    if name:  # no name means all namespaces there
        builders.append(lambda: ResourceKind.PODS.list_path(name))
    for build in builders:
        with pytest.raises(InvalidName, match="is not the name of a Kubernetes") as refused:
            build()
        assert refused.value.hint


def test_names_of_objects_may_be_subdomains_and_those_of_namespaces_may_not() -> None:
    assert build_path("pods", namespace="shop", name="web-0.b.c") == "/api/v1/namespaces/shop/pods/web-0.b.c"
    assert build_path("replicasets", group="apps", namespace="x") == "/apis/apps/v1/namespaces/x/replicasets"
    for name in ("a.b", "a" * 64):
        with pytest.raises(InvalidName):
            build_path("pods", namespace=name)


@given(st.text(), st.text())
def test_a_path_has_the_parts_that_were_meant(namespace: str, name: str) -> None:
    try:
        path = build_path("pods", namespace=namespace, name=name)
    except InvalidName:
        return
    assert urlsplit(path).path.split("/") == ["", "api", "v1", "namespaces", namespace, "pods", name]


class _ApiServer(LoopbackHandler):
    """Answers every request with an empty object, and records its target."""

    targets: list[str]

    def do_GET(self) -> None:
        self.targets.append(self.path)
        self.answer(200, b"{}")


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[tuple[KubernetesClient, list[str]]]:
    """A client of a real HTTP server, and the targets of the requests that the server received."""
    handler = type("Handler", (_ApiServer,), {"targets": []})
    with serving(handler) as port:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "x", "user": {}}],
        }
        (tmp_path / "config").write_text(json.dumps(config))
        client = KubernetesClient.open(str(tmp_path / "config"))
        yield client, handler.targets
        client.close()


@pytest.mark.parametrize("name", ["../secrets/x", "a//b", "a?b", "a%2Fb", "", ".."])
def test_the_client_sends_no_request_to_a_path_with_another_part(
    name: str, targets: tuple[KubernetesClient, list[str]]
) -> None:
    client, received = targets
    path = f"/api/v1/namespaces/shop/pods/{name}"
    for call in (
        lambda: client.get(path),
        lambda: client.create(path, {}),
        lambda: client.replace(path, {}),
        lambda: client.patch(path, {}),
        lambda: client.delete(path),
        lambda: next(client.pages(path)),
        lambda: next(client.watch(path, "1", timeout_seconds=1)),
    ):
        with pytest.raises(ClusterError):
            call()
    assert received == []


def test_selectors_are_encoded(targets: tuple[KubernetesClient, list[str]]) -> None:
    client, received = targets
    selectors = {"labelSelector": "app=a&limit=1#,x in (b c)", "fieldSelector": "spec.nodeName=a/../b?c%2F"}
    client.get("/api/v1/pods", **selectors)
    (target,) = received
    assert {name: value for name, (value,) in parse_qs(urlsplit(target).query).items()} == selectors
    assert urlsplit(target).path == "/api/v1/pods"
