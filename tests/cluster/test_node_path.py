"""The whole path on a real kubelet: the chart by helm, a service that asks for a sidecar, its profiles."""

import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import quote

import pytest

from tests.cluster import images
from tests.cluster.injector_world import await_injection
from tests.cluster.node import Node
from tests.cluster.programs import eventually
from tests.cluster.releases import (
    CAPTURE_TOKEN,
    Release,
    Store,
    deployment,
    kill,
    merged,
    released,
    running_pods,
    store,
    values,
)

NAME = "checkout"
CONTAINER = "collector"


@pytest.fixture(scope="module")
def bucket(node: Node) -> Iterator[Store]:
    with store(node) as one:
        yield one


@pytest.fixture(scope="module")
def given(bucket: Store) -> dict:
    port = int(bucket.endpoint.rpartition(":")[2])
    s3 = {"url": "s3://sidelight/profiles", "endpoint": bucket.endpoint, "credentialsSecret": "s3"}
    collector = {
        "store": {"kind": "s3", "s3": s3},
        "settings": {"capture_check_interval_seconds": 0.3},
        "auth": {"captureTokensSecret": "captures"},
    }
    return values(
        collector=collector,
        kubernetes={"identity": True},
        injector={"enabled": True},
        networkPolicy={"egress": {"enabled": True, "storePorts": [port]}},
    )


@pytest.fixture(scope="module")
def release(node: Node, bucket: Store, given: dict) -> Iterator[Release]:
    with released(node, given, bucket) as one:
        yield one


@pytest.fixture(scope="module")
def shop(node: Node, release: Release) -> Iterator[str]:
    """A namespace whose label asks for sidecars, and a service in it that knows nothing of them."""
    with node.namespace({"sidelight.dev/inject": "true"}) as namespace:
        await_injection(node, namespace)
        node.apply(deployment(NAME, 2), namespace)
        node.kubectl("-n", namespace, "rollout", "status", f"deployment/{NAME}", "--timeout=120s")
        yield namespace


def test_a_labelled_namespace_is_enough_to_see_a_service_under_its_own_names(node, release, shop):
    eventually("profiles arrive", lambda: release.service(NAME), 90)
    pods = sorted(pod["metadata"]["name"] for pod in running_pods(node, shop, NAME))
    eventually("both pods are there", lambda: release.label("pod", NAME) == pods)
    assert release.label("namespace", NAME) == [shop]
    assert release.label("version", NAME) == ["2026.11.2"]
    assert release.label("container", NAME) == ["app"]
    assert release.label("node", NAME) == ["node"]
    eventually("it serves", lambda: "serve (aiohttp_asyncio.py" in release.stacks(NAME))
    for pod in running_pods(node, shop, NAME):
        assert pod["metadata"]["annotations"]["sidelight.dev/status"] == "injected"
        [sidecar] = [one for one in pod["spec"]["initContainers"] if one["name"] == "sidelight"]
        assert sidecar["restartPolicy"] == "Always"


def test_a_capture_over_http_returns_what_all_pods_did(release, shop):
    eventually("sidecars ask for orders", lambda: release.get("/api/v1/agents")["total"] == 2)
    wanted = {"service": NAME, "pods": "all", "seconds": 2}
    assert release.ask("/api/v1/captures", wanted)[0] == 401
    status, made = release.ask("/api/v1/captures", wanted, token=CAPTURE_TOKEN)
    assert status == 201, made
    done = eventually("the capture ends", lambda: _ended(release, made["id"]), 90)
    assert done["state"] == "ready", done
    assert len(done["parts"]) == 2
    recordings = release.get(f"/api/v1/captures/{made['id']}/recordings")["recordings"]
    assert len({one["labels"]["pod"] for one in recordings}) == 2
    assert all(one["samples"] > 0 for one in recordings)


def _ended(release: Release, capture: str) -> dict | None:
    found = release.get(f"/api/v1/captures/{capture}")
    return found if found["state"] in ("ready", "failed", "stopped") else None


def test_a_collector_that_is_killed_and_upgraded_loses_nothing_and_counts_nothing_twice(
    node, release, shop, bucket, given
):
    """Windows of one process tile: one that is missing leaves a gap, one that is foreign an overlap.

    Those of now: where a capture began and ended there are gaps, as it samples at another rate.
    """
    begun = time.time_ns()
    _more(release, bucket)
    [pod] = _collectors(node, release)
    kill(node, pod, CONTAINER)
    eventually("the kubelet starts it again", lambda: _restarted(node, release), 90)
    _more(release, bucket)
    release.upgrade(merged(given, {"collector": {"podAnnotations": {"tests/revision": "2"}}}))
    [upgraded] = eventually("the old one has gone", lambda: _alone(node, release), 90)
    assert upgraded["metadata"]["name"] != pod["metadata"]["name"]
    _more(release, bucket)

    selector = quote(f'{{service="{NAME}"}}')

    def settled() -> list[dict] | None:
        before = {row["wid"]: row for row in bucket.rows() if row["service"] == NAME}
        path = f"/api/v1/timeline?query={selector}&from=-1h&until=now&type=wall"
        shown = release.get(path)["basis"]["windows"]
        after = {row["wid"] for row in bucket.rows() if row["service"] == NAME}
        return list(before.values()) if len(before) == shown == len(after) else None

    rows = eventually("what is shown is what is stored", settled)
    processes = defaultdict(list)
    for row in rows:
        if row["ts"] >= begun:
            processes[row["pod"], row["pid"], row["thread"]].append((row["ts"], row["duration_ns"]))
    assert len({pod for pod, _, _ in processes}) == 2
    for windows in processes.values():
        assert len(windows) > 10
        for (earlier, length), (later, _) in pairwise(sorted(windows)):
            assert later == earlier + length


def _collectors(node: Node, release: Release) -> list[dict]:
    path = f"/api/v1/namespaces/{release.namespace}/pods?labelSelector=app.kubernetes.io/component=collector"
    return list(node.get(path)["items"])


def _restarted(node: Node, release: Release) -> bool:
    [status] = [pod["status"]["containerStatuses"][0] for pod in _collectors(node, release)]
    return status["restartCount"] == 1 and status["ready"]


def _alone(node: Node, release: Release) -> list[dict] | None:
    found = _collectors(node, release)
    return found if len(found) == 1 else None


def _more(release: Release, bucket: Store, count: int = 6) -> None:
    """Wait until more windows of the service are stored."""
    before = len(bucket.rows())
    eventually("windows are stored", lambda: len(bucket.rows()) >= before + count, 90, 0.5)


def test_a_rollback_keeps_the_data_and_the_sidecars(node, release, shop, bucket):
    pods = {pod["metadata"]["uid"] for pod in running_pods(node, shop, NAME)}
    release.helm("rollback", "sidelight", "1", "--wait", "--timeout", "150s")
    eventually("the old one has gone", lambda: _alone(node, release), 90)
    assert release.service(NAME)
    _more(release, bucket)
    assert pods == {pod["metadata"]["uid"] for pod in running_pods(node, shop, NAME)}


def test_a_drained_pod_sends_its_last_window(node, release, shop, bucket):
    """Its windows take ten minutes: what is stored of it is what was kept when it was told to end."""
    node.apply(deployment("till", 1, {"sidelight.dev/window-seconds": "600"}), shop)
    node.kubectl("-n", shop, "rollout", "status", "deployment/till", "--timeout=120s")

    def samples() -> bool:
        agents = release.get("/api/v1/agents?service=till")["agents"]
        return bool(agents) and agents[0]["ready"]

    eventually("its sidecar samples", samples, 60)
    assert release.service("till") is None
    drained = time.time_ns()
    options = ("--pod-selector=app.kubernetes.io/name=till", "--delete-emptydir-data", "--timeout=90s")
    try:
        node.kubectl("drain", "node", *options)
        found = eventually("its last window arrives", lambda: release.service("till"), 60)
    finally:
        node.kubectl("uncordon", "node")
        node.kubectl("-n", shop, "delete", "deployment", "till")
    assert found["samples"] > 0
    rows = [row for row in bucket.rows() if row["service"] == "till"]
    assert max(row["ts"] + row["duration_ns"] for row in rows) >= drained


FOLDED = "main (app.py);handle (app.py) 5\n"


def _send(release: Release, token: str, **labels: str) -> tuple[int, object]:
    named = {"service": NAME, "version": "2026.11.2", "rate": "100", "duration": "1", **labels}
    query = "&".join(f"{key}={quote(value)}" for key, value in named.items())
    return release.ask(f"/api/v1/windows?{query}", FOLDED, token=token)


def test_only_a_pod_itself_writes_in_its_name(node, release, shop):
    pod = running_pods(node, shop, NAME)[0]["metadata"]["name"]
    own = {"namespace": shop, "pod": pod}
    token = node.token(shop, "default", audience="sidelight", pod=pod)
    refused = {
        "no token": _send(release, "", **own),
        "a wrong token": _send(release, "wrong", **own),
        "for another audience": _send(release, node.token(shop, "default", pod=pod), **own),
        "of no pod": _send(release, node.token(shop, "default", audience="sidelight"), **own),
        "another namespace": _send(release, token, namespace="kube-system", pod=pod),
        "another pod": _send(release, token, namespace=shop, pod="another"),
        "another service": _send(release, token, **own, service="ledger"),
    }
    assert {what: (status, answer.get("error")) for what, (status, answer) in refused.items()} == {
        "no token": (401, "unauthorized"),
        "a wrong token": (401, "unauthorized"),
        "for another audience": (401, "unauthorized"),
        "of no pod": (403, "no_pod"),
        "another namespace": (403, "wrong_namespace"),
        "another pod": (403, "wrong_pod"),
        "another service": (403, "wrong_service"),
    }
    status, answer = _send(release, token, **own)
    assert status == 200, answer


def test_an_ephemeral_container_reads_a_pod_that_has_no_sidecar(node):
    """With SYS_PTRACE and the PID namespace of its target; without the capability it says what is missing."""
    with node.namespace() as namespace:
        node.apply(deployment("bare"), namespace)
        node.kubectl("-n", namespace, "rollout", "status", "deployment/bare", "--timeout=90s")
        [pod] = running_pods(node, namespace, "bare")
        name = pod["metadata"]["name"]
        traced = _attach(node, namespace, name, "sidelight-1", {"drop": ["ALL"], "add": ["SYS_PTRACE"]})
        assert "serve (aiohttp_asyncio.py" in traced
        assert "SYS_PTRACE" in _attach(node, namespace, name, "sidelight-2", {"drop": ["ALL"]})


def _attach(node: Node, namespace: str, pod: str, name: str, capabilities: dict) -> str:
    """What `sidelight record` prints of process 1 of `app`, run in a container that is added to its pod."""
    security = {"runAsUser": 0, "allowPrivilegeEscalation": False, "capabilities": capabilities}
    container = {
        "name": name,
        "targetContainerName": "app",
        "image": images.SIDECAR,
        "imagePullPolicy": "Never",
        "args": ["record", "--pid", "1", "--seconds", "1", "--output", "-"],
        "securityContext": security,
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
    body = {"spec": {"ephemeralContainers": [container]}}
    kind = "application/strategic-merge-patch+json"
    status, answer = node.call("PATCH", f"{path}/ephemeralcontainers", body, kind=kind)
    assert status == 200, answer

    def ended() -> bool:
        states = node.get(path)["status"].get("ephemeralContainerStatuses", [])
        return any(one["name"] == name and "terminated" in one["state"] for one in states)

    eventually(f"{name} ends", ended, 90)
    return node.kubectl("-n", namespace, "logs", pod, "-c", name)


def test_the_network_policy_is_taken_and_is_about_the_collector(node, release):
    """That it is there; that it is kept is what test_node_policy.py shows."""
    path = f"/apis/networking.k8s.io/v1/namespaces/{release.namespace}/networkpolicies/sidelight-collector"
    policy = node.get(path)["spec"]
    [pod] = _collectors(node, release)
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_uninstalling_leaves_nothing_of_it_and_services_run_on(node, release, shop):
    """The last test of this file: the release is gone after it."""
    release.helm("uninstall", "sidelight", "--wait")
    kinds = "all,configmap,secret,serviceaccount,role,rolebinding,networkpolicy,pdb,pvc"
    label = "app.kubernetes.io/instance=sidelight"
    left = ("-n", release.namespace, "get", kinds, "-l", label, "-o", "name")
    eventually("all has gone", lambda: node.kubectl(*left) == "", 60, 0.3)
    webhooks = "clusterrole,clusterrolebinding,mutatingwebhookconfiguration"
    assert node.kubectl("get", webhooks, "-l", label, "-o", "name") == ""
    assert len(running_pods(node, shop, NAME)) == 2
    node.kubectl("-n", shop, "rollout", "restart", f"deployment/{NAME}")
    node.kubectl("-n", shop, "rollout", "status", f"deployment/{NAME}", "--timeout=120s")
