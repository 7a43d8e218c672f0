"""The chart's NetworkPolicies, kept on a real node by the tests' own enforcer: who gets in and what out."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cluster import images
from tests.cluster.enforcer import enforced
from tests.cluster.injector_world import await_injection
from tests.cluster.node import Node
from tests.cluster.programs import eventually
from tests.cluster.releases import (
    Release,
    Store,
    deployment,
    merged,
    released,
    running_pods,
    store,
    values,
)

Json = dict[str, Any]
ASKED = {"sidelight.dev/inject": "true"}
NAME = "checkout"
ON_A_NODE = "a pod on another node's network"
"""This machine stands for it, which pods see by its own address too."""
OPEN, SHUT = "open", "timed out"
ASK = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def ask(place):
    try:
        socket.create_connection(place, 5).close()
        return "open"
    except OSError as error:
        return str(error)
print(json.dumps(list(ThreadPoolExecutor(20).map(ask, json.loads(sys.argv[1])))))
"""


@pytest.fixture(scope="module", autouse=True)
def enforcer(node: Node) -> Iterator[None]:
    with enforced(node):
        yield


@pytest.fixture(scope="module")
def bucket(node: Node) -> Iterator[Store]:
    with store(node) as one:
        yield one


@pytest.fixture(scope="module")
def given(bucket: Store) -> Json:
    s3 = {"url": "s3://sidelight/profiles", "endpoint": bucket.endpoint, "credentialsSecret": "s3"}
    return values(
        collector={"store": {"kind": "s3", "s3": s3}},
        kubernetes={"identity": True},
        injector={"enabled": True},
        networkPolicy={"enabled": False},
    )


@pytest.fixture(scope="module")
def release(node: Node, bucket: Store, given: Json) -> Iterator[Release]:
    with released(node, given, bucket) as one:
        yield one


@pytest.fixture(scope="module")
def shop(node: Node, release: Release) -> Iterator[str]:
    with node.namespace(ASKED) as namespace:
        await_injection(node, namespace)
        node.apply(deployment(NAME), namespace)
        node.kubectl("-n", namespace, "rollout", "status", f"deployment/{NAME}", "--timeout=120s")
        yield namespace


@pytest.fixture(scope="module")
def elsewhere(node: Node, bucket: Store) -> Iterator[str]:
    """A namespace that asks for no sidecars: a pod that scrapes, and another. Both listen on S3's port."""
    with node.namespace() as namespace:
        for name in ("prometheus", "stranger"):
            command = ["python3", "-m", "http.server", str(_port(bucket))]
            container = {
                "name": "app",
                "image": images.DEMO,
                "imagePullPolicy": "Never",
                "command": command,
                "readinessProbe": {"tcpSocket": {"port": _port(bucket)}, "periodSeconds": 1},
            }
            node.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "labels": {"app": name}},
                    "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
                },
                namespace,
            )
        node.kubectl("-n", namespace, "wait", "pod", "--all", "--for=condition=Ready", "--timeout=120s")
        yield namespace


@pytest.fixture(scope="module")
def limits(node: Node, bucket: Store, elsewhere: str) -> Json:
    """Values that let in what is needed, and nothing else."""
    monitoring = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": elsewhere}},
        "podSelector": {"matchLabels": {"app": "prometheus"}},
    }
    here, there = [_block(node.place.node)], [_block(node.place.host)]
    return {
        "enabled": True,
        "ingress": {
            "sidecars": [{"namespaceSelector": {"matchLabels": ASKED}}, *there],
            "readers": [],
            "monitoring": [monitoring],
        },
        "egress": {
            "enabled": True,
            "store": there,
            "storePorts": [_port(bucket)],
            "apiServer": here,
            "apiServerPorts": [6443],
        },
    }


@pytest.fixture(scope="module")
def limited(node: Node, release: Release, given: Json, limits: Json) -> Json:
    """The release with its policies, and pods that were started under them."""
    revision = {"podAnnotations": {"tests/revision": "limited"}}
    under = merged(given, {"networkPolicy": limits, "collector": revision})
    release.upgrade(under)
    restart = ("-n", release.namespace, "rollout")
    node.kubectl(*restart, "restart", "deployment/sidelight-injector")
    node.kubectl(*restart, "status", "deployment/sidelight-injector", "--timeout=120s")
    for part in ("collector", "injector"):
        eventually(f"one {part} is left", lambda part=part: len(_pods(node, release, part)) == 1, 90)
    return under


@pytest.fixture
def other_port(node: Node) -> Iterator[int]:
    """A port of this machine that is not S3's."""
    with socket.create_server((node.place.host, 0)) as server:
        yield server.getsockname()[1]


def _block(address: str) -> Json:
    return {"ipBlock": {"cidr": f"{address}/32"}}


def _port(bucket: Store) -> int:
    return int(bucket.endpoint.rpartition(":")[2])


def _pods(node: Node, release: Release, part: str) -> list[Json]:
    path = f"/api/v1/namespaces/{release.namespace}/pods?labelSelector=app.kubernetes.io/component={part}"
    return list(node.get(path)["items"])


def _exec(node: Node, pod: Json, container: str, script: str, *arguments: str) -> str:
    at = ("-n", pod["metadata"]["namespace"], "exec", pod["metadata"]["name"], "-c", container)
    return node.kubectl(*at, "--", "python3", "-c", script, *arguments)


def reach(node: Node, release: Release, shop: str, elsewhere: str, bucket: Store, other_port: int) -> Json:
    """Who reaches what: from every kind of pod to every place, all of them at the same time."""
    [collector], [injector] = (_pods(node, release, part) for part in ("collector", "injector"))
    [checkout] = running_pods(node, shop, NAME)
    pods = {one["metadata"]["name"]: one for one in node.get(f"/api/v1/namespaces/{elsewhere}/pods")["items"]}
    service = release.url.removeprefix("http://").partition(":")[0]
    host, api = node.place.host, node.get("/api/v1/namespaces/default/services/kubernetes")
    inside = {
        "the collector's Service": (service, 8080),
        "the collector": (collector["status"]["podIP"], 8080),
        "the injector's metrics": (injector["status"]["podIP"], 8080),
        "the injector's webhook": (injector["status"]["podIP"], 8443),
    }
    outside = {
        "S3": (host, _port(bucket)),
        "another port of S3's address": (host, other_port),
        "S3's port of another address": (pods["stranger"]["status"]["podIP"], _port(bucket)),
        "the API server": (api["spec"]["clusterIP"], 443),
        "the kubelet": (node.place.node, 10250),
    }
    sources = {
        "a service with a sidecar": (checkout, "app", inside),
        "Prometheus": (pods["prometheus"], "app", inside),
        "a stranger": (pods["stranger"], "app", inside),
        ON_A_NODE: (None, "", inside),
        "the collector": (collector, "collector", outside),
        "the injector": (injector, "injector", outside),
    }

    def ask(source: str) -> Json:
        pod, container, places = sources[source]
        wanted = json.dumps(list(places.values()))
        if pod is None:
            here = [sys.executable, "-c", ASK, wanted]
            said = subprocess.run(here, capture_output=True, text=True, check=True).stdout
        else:
            said = _exec(node, pod, container, ASK, wanted)
        answers = json.loads(said)
        return dict(zip(places, answers, strict=True))

    with ThreadPoolExecutor(len(sources)) as pool:
        return dict(zip(sources, pool.map(ask, sources), strict=True))


def _inside(collector: str, metrics: str) -> Json:
    return {
        "the collector's Service": collector,
        "the collector": collector,
        "the injector's metrics": metrics,
        "the injector's webhook": OPEN,
    }


def _outside(store: str, api_server: str, others: str) -> Json:
    return {
        "S3": store,
        "another port of S3's address": others,
        "S3's port of another address": others,
        "the API server": api_server,
        "the kubelet": others,
    }


def _look_up(node: Node, release: Release) -> str:
    """What a name leads to, asked by the collector's pod."""
    script = "import socket, sys\ntry: print(socket.gethostbyname(sys.argv[1]))\nexcept OSError: print('?')"
    [collector] = _pods(node, release, "collector")
    return _exec(node, collector, "collector", script, "kubernetes.default.svc.cluster.local").strip()


def _settled(what: str, expected: Json, node: Node, *rest: Any) -> None:
    """Wait until it is as expected; says what it was instead."""
    seen: Json = {}

    def check() -> bool:
        seen.update(reach(node, *rest))
        return seen == expected

    try:
        eventually(what, check, 60)
    except AssertionError:
        assert seen == expected


def test_without_policies_everybody_reaches_everything(node, release, shop, elsewhere, bucket, other_port):
    sources = ("a service with a sidecar", "Prometheus", "a stranger", ON_A_NODE)
    expected = {source: _inside(OPEN, OPEN) for source in sources} | {
        part: _outside(OPEN, OPEN, OPEN) for part in ("the collector", "the injector")
    }
    _settled("all is open", expected, node, release, shop, elsewhere, bucket, other_port)


def test_policies_let_in_and_out_what_the_values_say(
    node, release, limited, shop, elsewhere, bucket, other_port
):
    expected = {
        "a service with a sidecar": _inside(OPEN, SHUT),
        "Prometheus": _inside(OPEN, OPEN),
        "a stranger": _inside(SHUT, SHUT),
        ON_A_NODE: _inside(OPEN, SHUT),
        "the collector": _outside(OPEN, OPEN, SHUT),
        "the injector": _outside(SHUT, OPEN, SHUT),
    }
    _settled("the policies are kept", expected, node, release, shop, elsewhere, bucket, other_port)
    api = node.get("/api/v1/namespaces/default/services/kubernetes")["spec"]["clusterIP"]
    assert _look_up(node, release) == api


def test_under_policies_pods_are_injected_and_their_windows_are_stored_and_shown(
    node, release, limited, shop, bucket
):
    """The injector and the API server reach each other; the collector reviews tokens and writes to S3."""
    await_injection(node, shop)
    node.apply(deployment("ledger"), shop)
    node.kubectl("-n", shop, "rollout", "status", "deployment/ledger", "--timeout=120s")
    [pod] = running_pods(node, shop, "ledger")
    assert pod["metadata"]["annotations"]["sidelight.dev/status"] == "injected"
    eventually("its windows are shown", lambda: release.service("ledger"), 90)
    assert release.label("pod", "ledger") == [pod["metadata"]["name"]]
    assert any(row["service"] == "ledger" for row in bucket.rows())
    before = release.service(NAME)["windows"]
    eventually("those of before go on", lambda: release.service(NAME)["windows"] > before, 60)


def test_empty_lists_of_peers_lead_nowhere(
    node, release, limited, shop, elsewhere, bucket, other_port, limits
):
    """The last test of this file: without an API server the collector lets no new sidecar write."""
    none = {"egress": {"dns": [], "apiServer": []}, "ingress": {"sidecars": []}}
    release.upgrade(merged(limited, {"networkPolicy": merged(limits, none)}))
    expected = {
        "a service with a sidecar": _inside(SHUT, SHUT),
        "Prometheus": _inside(OPEN, OPEN),
        "a stranger": _inside(SHUT, SHUT),
        ON_A_NODE: _inside(SHUT, SHUT),
        "the collector": _outside(OPEN, SHUT, SHUT),
        "the injector": _outside(SHUT, SHUT, SHUT),
    }
    _settled("the policies are kept", expected, node, release, shop, elsewhere, bucket, other_port)
    assert _look_up(node, release) == "?"
