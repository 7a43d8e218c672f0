"""The node agent on a real kubelet: it profiles pods that may have no sidecar, and changes none of them."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cluster import images
from tests.cluster import place as places
from tests.cluster.node import Node
from tests.cluster.programs import eventually
from tests.cluster.releases import (
    CAPTURE_TOKEN,
    WITHOUT_LIMITS,
    Release,
    Store,
    deployment,
    image,
    kill,
    released,
    running_pods,
    store,
    values,
)

Json = dict[str, Any]
ASKED = {"sidelight.dev/inject": "true"}
LEVEL = "pod-security.kubernetes.io/enforce"
SYS_PTRACE, DAC_READ_SEARCH = 1 << 19, 1 << 2
AIOHTTP, DJANGO = "orders", "shop"
PROCESSES = {AIOHTTP: 1, DJANGO: 3}
"""Of each pod; gunicorn forks its workers."""
GROWTH = {"sidelight.dev/trigger-rss-growth": "64M", "sidelight.dev/trigger-duration-seconds": "3"}
SHOP = """
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

def price_basket(request):
    return HttpResponse(str(sum(range(200_000))))

urlpatterns = [path("50", price_basket)]
settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="not-one")
application = get_wsgi_application()
"""
GUNICORN = "/app/venv/bin/gunicorn --workers 2 --bind 127.0.0.1:8000 --chdir /srv shop:application"


@pytest.fixture(scope="module")
def bucket(node: Node) -> Iterator[Store]:
    with store(node) as one:
        yield one


@pytest.fixture(scope="module")
def agents(node: Node) -> Iterator[Release]:
    """The namespace of the agents, which may use the node's processes; no agent is installed yet."""
    with node.namespace({LEVEL: "privileged"}) as namespace:
        yield Release(node, namespace)


@pytest.fixture(scope="module")
def release(node: Node, bucket: Store, agents: Release) -> Iterator[Release]:
    """Collectors and injectors."""
    s3 = {"url": "s3://sidelight/profiles", "endpoint": bucket.endpoint, "credentialsSecret": "s3"}
    given = values(
        collector={
            "store": {"kind": "s3", "s3": s3},
            "settings": {"capture_check_interval_seconds": 0.3},
            "auth": {"captureTokensSecret": "captures"},
        },
        kubernetes={"nodeAgents": [f"{agents.namespace}/sidelight-agent"]},
        injector={"enabled": True},
    )
    with released(node, given, bucket) as one:
        yield one


def restricted(body: Json, command: str = "") -> Json:
    """A Deployment as Pod Security `restricted` wants it, with another command of its service."""
    pod = body["spec"]["template"]["spec"]
    pod["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if command:
        pod["containers"][0] |= {
            "command": command.split(),
            "volumeMounts": [{"name": "code", "mountPath": "/srv"}],
        }
        pod["volumes"] = [{"name": "code", "configMap": {"name": "code"}}]
    return body


def state_of(pods: list[Json]) -> Json:
    """What a pod loses when it is changed or restarted."""
    return {
        pod["metadata"]["uid"]: [
            pod["spec"],
            [(one["containerID"], one["restartCount"]) for one in pod["status"]["containerStatuses"]],
        ]
        for pod in pods
    }


@pytest.fixture(scope="module")
def shop(node: Node, release: Release) -> Iterator[str]:
    """A namespace that refuses sidecars, with services that run before there is any agent."""
    with node.namespace({**ASKED, LEVEL: "restricted"}) as namespace:
        code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
        node.apply({**code, "data": {"shop.py": SHOP}}, namespace)
        refuses = restricted(deployment("refuses"))
        refuses["spec"]["template"]["metadata"]["labels"]["sidelight.dev/inject"] = "false"
        for body in (
            restricted(deployment(AIOHTTP, 2, GROWTH)),
            restricted(deployment(DJANGO), GUNICORN),
            refuses,
        ):
            node.apply(body, namespace)
        for name in (AIOHTTP, DJANGO, "refuses"):
            node.kubectl("-n", namespace, "rollout", "status", f"deployment/{name}", "--timeout=120s")
        yield namespace


@pytest.fixture(scope="module")
def others(node: Node, release: Release) -> Iterator[tuple[str, str]]:
    """A namespace whose pods get sidecars, and one that asks for nothing."""
    with node.namespace(ASKED) as injected, node.namespace() as silent:
        for name, namespace in (("ledger", injected), ("hidden", silent)):
            node.apply(deployment(name), namespace)
            node.kubectl("-n", namespace, "rollout", "status", f"deployment/{name}", "--timeout=120s")
        yield injected, silent


@pytest.fixture(scope="module")
def before(node: Node, shop: str, others: tuple[str, str]) -> Json:
    """The pods as they were without an agent."""
    return state_of(list_pods(node, shop))


@pytest.fixture(scope="module")
def agent(node: Node, release: Release, agents: Release, before: Json) -> str:
    """The agent in a release of its own; returns the name of its pod."""
    install(release, agents, window_seconds=1)
    return str(find_agent(node, agents)["metadata"]["name"])


def install(release: Release, agents: Release, window_seconds: int) -> None:
    """Install the agent, or upgrade it to windows of another length."""
    settings = {
        "window_seconds": window_seconds,
        "trigger_rss_window_seconds": 5,
        "rate": 50,
        "budget_pod_cpu_percent": 100,
        **WITHOUT_LIMITS,
    }
    small = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
    agents.upgrade(
        {
            "collector": {"enabled": False, "image": image(images.COLLECTOR)},
            "agent": {"enabled": True, "collector": release.url, "settings": settings, "resources": small},
        }
    )


def find_agent(node: Node, agents: Release) -> Json:
    path = f"/api/v1/namespaces/{agents.namespace}/pods?labelSelector=app.kubernetes.io/component=agent"

    def only() -> list[Json]:
        found = list(node.get(path)["items"])
        return found if len(found) == 1 else []

    [pod] = eventually("there is one agent, and none that is being deleted", only, 60, 0.3)
    return dict(pod)


def ask_agent(node: Node, agents: Release, path: str) -> str:
    url = f"http://{find_agent(node, agents)['status']['podIP']}:8081{path}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def count_decisions(node: Node, agents: Release) -> dict[str, int]:
    """Count the node's pods by what the agent makes of them."""
    text = ask_agent(node, agents, "/metrics")
    found = re.findall(r'^sidelight_sidecar_agent_pods\{decision="(\w+)"\} (\S+)', text, re.MULTILINE)
    return {decision: int(float(number)) for decision, number in found}


def count_spooled(node: Node, agents: Release) -> int:
    """Count the windows that wait in the agent's spool."""
    [found] = re.findall(
        r"^sidelight_sidecar_spool_windows (\S+)", ask_agent(node, agents, "/metrics"), re.MULTILINE
    )
    return int(float(found))


def list_spooled(node: Node, agents: Release) -> set[str]:
    """The ids of the windows in the agent's spool."""
    [status] = find_agent(node, agents)["status"]["containerStatuses"]
    [pid, *_] = places.processes(node.place, status["containerID"].rpartition("/")[2])
    folder = Path(f"/proc/{pid}/root/var/spool/sidelight")
    return {path.name.partition(".")[0] for path in folder.glob("*.zst")}


def list_sampled(node: Node, agents: Release) -> list[int]:
    """The pids that the agent samples by now; none while it is not ready or has no address."""
    try:
        processes = json.loads(ask_agent(node, agents, "/readyz"))["processes"]
        return [one["pid"] for one in processes if one["rate"]]
    except (OSError, KeyError):
        return []


def list_pods(node: Node, shop: str) -> list[Json]:
    return [pod for name in (AIOHTTP, DJANGO) for pod in running_pods(node, shop, name)]


def list_processes(node: Node, pods: list[Json]) -> list[int]:
    """The processes of the containers of pods; fails if one of them stays stopped."""
    containers = [
        one["containerID"].rpartition("/")[2] for p in pods for one in p["status"]["containerStatuses"]
    ]
    pids = [pid for container in containers for pid in places.processes(node.place, container)]

    def is_stopped(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
        except (FileNotFoundError, ProcessLookupError):
            return False

    eventually("no process is stopped", lambda: not any(map(is_stopped, pids)))
    return pids


def list_spans(bucket: Store, begun: int) -> dict[tuple[str, int, int], list[tuple[int, int]]]:
    """When the stored windows of each thread of the aiohttp service begin and end, since a time."""
    spans = defaultdict(set)
    for row in bucket.rows():
        if row["service"] == AIOHTTP and row["ts"] >= begun:
            spans[row["pod"], row["pid"], row["thread"]].add((row["ts"], row["ts"] + row["duration_ns"]))
    return {thread: sorted(found) for thread, found in spans.items()}


def find_gaps(bucket: Store, begun: int) -> list[list[tuple[int, int]]]:
    """For each thread, the gaps between its windows."""
    return [
        [(end, start) for (_, end), (start, _) in pairwise(found) if start != end]
        for found in list_spans(bucket, begun).values()
    ]


def are_delivered(bucket: Store, pods: list[Json], until: int) -> bool:
    """Whether a window of each process of these pods is stored that ends after a time."""
    rows = bucket.rows()
    ended = {(row["pod"], row["pid"]) for row in rows if row["ts"] + row["duration_ns"] >= until}
    labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in pods}
    wanted = Counter({name: PROCESSES[own["app.kubernetes.io/name"]] for name, own in labels.items()})
    return wanted <= Counter(pod for pod, _ in ended)


def find_workload(release: Release, service: str) -> Json | None:
    selector = quote(f'{{service="{service}"}}')
    found = release.get(f"/api/v1/workloads?query={selector}&pods=100")["workloads"]
    return next(iter(found), None)


def test_services_that_may_have_no_sidecar_are_profiled_under_their_own_names(
    node: Node, release: Release, shop: str, agent: str, before: Json
) -> None:
    functions = {AIOHTTP: "serve (aiohttp_asyncio.py", DJANGO: "price_basket (shop.py"}

    def missing() -> list[str]:
        """The pods without their function in the flame graph of their service, version and pod."""
        labels = 'service="{}",version="2026.11.2",pod="{}"'
        return [
            pod["metadata"]["name"]
            for name, function in functions.items()
            for pod in running_pods(node, shop, name)
            if function not in release.graph(labels.format(name, pod["metadata"]["name"]))
        ]

    eventually("each pod has its flame graph", lambda: not missing(), 60, 0.5)
    for name in functions:
        labels = {key: release.label(key, name) for key in ("namespace", "version", "node", "container")}
        expected = {"namespace": [shop], "version": ["2026.11.2"], "node": ["node"], "container": ["app"]}
        assert labels == expected
        pods = sorted(pod["metadata"]["name"] for pod in running_pods(node, shop, name))
        assert release.label("pod", name) == pods
    assert state_of(list_pods(node, shop)) == before


def test_the_forked_workers_of_a_service_are_profiled_each(
    release: Release, bucket: Store, agent: str
) -> None:
    def count_processes() -> int:
        return len({row["pid"] for row in bucket.rows() if row["service"] == DJANGO})

    eventually("the master and both workers are profiled", lambda: count_processes() == 3, 60, 0.5)


def test_one_sampler_for_each_pod_and_none_for_those_that_did_not_ask(
    node: Node, release: Release, agents: Release, bucket: Store, others: tuple[str, str], agent: str
) -> None:
    eventually("the sidecar reports", lambda: release.service("ledger"), 90, 0.3)
    [ledger] = running_pods(node, others[0], "ledger")
    assert ledger["metadata"]["annotations"]["sidelight.dev/status"] == "injected"
    sampled = eventually("five are sampled", lambda: len(p := list_sampled(node, agents)) == 5 and p, 60, 0.3)
    assert count_decisions(node, agents)["profiled"] == 3
    assert count_decisions(node, agents)["sidecar"] == 1
    for service, coverer in ((AIOHTTP, "agent"), (DJANGO, "agent"), ("ledger", "sidecar")):
        workload = eventually(
            f"{service} is covered",
            lambda service=service: (
                (one := find_workload(release, service))
                and one["pod_counts"]["profiled"] == one["pod_counts"]["total"]
                and one
            ),
            60,
            0.5,
        )
        assert {pod["covered_by"] for pod in workload["pods"]} == {coverer}
    rows = bucket.rows()
    assert {row["service"] for row in rows} == {AIOHTTP, DJANGO, "ledger"}
    assert len({row["pid"] for row in rows if row["service"] == "ledger"}) == 1
    assert not set(sampled) & set(list_processes(node, [ledger]))


def test_a_capture_of_pods_without_a_sidecar_is_taken_by_the_agent(release: Release, agent: str) -> None:
    wanted = {"service": AIOHTTP, "pods": "all", "seconds": 2}
    eventually(
        "the agent asks for orders",
        lambda: release.get(f"/api/v1/agents?service={AIOHTTP}")["total"] == 2,
        60,
        0.3,
    )
    status, made = release.ask("/api/v1/captures", wanted, token=CAPTURE_TOKEN)
    assert status == 201, made

    def is_over() -> Json | None:
        found = release.get(f"/api/v1/captures/{made['id']}")
        return dict(found) if found["state"] in ("ready", "failed", "stopped") else None

    done = eventually("the capture ends", is_over, 90, 0.3)
    assert done["state"] == "ready", done
    assert len(done["parts"]) == 2
    assert all(part["samples"] > 0 for part in done["parts"])


def test_a_pod_whose_working_set_grows_is_looked_at_closer_and_no_other(
    node: Node, release: Release, shop: str, agent: str
) -> None:
    """Memory of another process of its container, which the agent finds without a file of the node."""
    [grows, _] = [pod["metadata"]["name"] for pod in running_pods(node, shop, AIOHTTP)]
    take = "import time; taken = b'x' * (128 << 20); time.sleep(8)"
    node.kubectl("-n", shop, "exec", grows, "-c", "app", "--", "python3", "-c", take)

    def list_values(label: str) -> list[str]:
        query = quote('{trigger="rss"}')
        return list(release.get(f"/api/v1/labels/{label}/values?query={query}&from=-1h&until=now")["values"])

    [reason] = eventually("windows say so", lambda: list_values("trigger_reason"), 60, 0.3)
    assert re.fullmatch(r"working set grew by \d+ MiB \(\d+ %\) to \d+ MiB within 5 s", reason), reason
    assert list_values("pod") == [grows]


# Debian 12 has containerd 1.6, which cannot run such a pod.
@pytest.mark.long
def test_a_pod_in_a_user_namespace_is_profiled(node: Node, release: Release, shop: str, agent: str) -> None:
    handlers = node.get("/api/v1/nodes/node")["status"].get("runtimeHandlers") or []
    if not any(one.get("features", {}).get("userNamespaces") for one in handlers):
        pytest.skip("NO POD IN A USER NAMESPACE HERE: it needs containerd 2 and runc 1.2")
    body = restricted(deployment("mapped"))
    body["spec"]["template"]["spec"]["hostUsers"] = False
    node.apply(body, shop)
    node.kubectl("-n", shop, "rollout", "status", "deployment/mapped", "--timeout=120s")
    pods = running_pods(node, shop, "mapped")
    users = {Path(f"/proc/{pid}").stat().st_uid for pid in list_processes(node, pods)}
    assert users.isdisjoint({0, 10001}), "its users are not mapped"
    eventually(
        "it has a flame graph", lambda: "serve (aiohttp_asyncio.py" in release.stacks("mapped"), 60, 0.5
    )
    node.kubectl("-n", shop, "delete", "deployment/mapped", "--cascade=foreground", "--timeout=120s")


def test_the_agent_runs_with_the_rights_to_read_processes_and_no_others(
    node: Node, agents: Release, agent: str
) -> None:
    [status] = find_agent(node, agents)["status"]["containerStatuses"]
    pids = places.processes(node.place, status["containerID"].rpartition("/")[2])
    assert pids
    for pid in pids:
        fields = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == SYS_PTRACE | DAC_READ_SEARCH
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    # The root file system cannot be written, and no file of the node is mounted.
    told = node.try_kubectl("-n", agents.namespace, "exec", agent, "--", "touch", "/file")
    assert "Read-only file system" in told.stderr
    volumes = node.get(f"/api/v1/namespaces/{agents.namespace}/pods/{agent}")["spec"]["volumes"]
    assert {kind for volume in volumes for kind in volume} == {"name", "emptyDir", "projected"}


def test_a_stolen_token_of_the_agent_writes_for_no_pod_of_another_node(
    node: Node, release: Release, agents: Release, bucket: Store, shop: str, agent: str
) -> None:
    [status] = find_agent(node, agents)["status"]["containerStatuses"]
    [pid, *_] = places.processes(node.place, status["containerID"].rpartition("/")[2])
    token = Path(f"/proc/{pid}/root/etc/sidelight/token").read_text()
    far = restricted(deployment("far"))["spec"]["template"]
    far["metadata"]["name"] = far["spec"]["nodeName"] = "far"
    assert node.call("POST", "/api/v1/nodes", {"metadata": {"name": "far"}})[0] == 201
    path = f"/api/v1/namespaces/{shop}/pods"
    try:
        assert node.call("POST", path, far)[0] == 201

        def send(service: str, pod: str) -> tuple[int, Any]:
            said = f"service={service}&version=2026.11.2&namespace={shop}&pod={pod}&rate=100&duration=1"
            return release.ask(f"/api/v1/windows?{said}", "main (app.py) 5\n", token=token)

        refused, answer = send("far", "far")
        assert (refused, answer["error"]) == (403, "wrong_node")
        near = running_pods(node, shop, AIOHTTP)[0]["metadata"]["name"]
        assert send(AIOHTTP, near)[0] == 200
    finally:
        node.call("DELETE", f"{path}/far?gracePeriodSeconds=0")
        node.call("DELETE", "/api/v1/nodes/far")
    assert "far" not in {row["pod"] for row in bucket.rows()}


def test_an_agent_that_is_killed_delivers_what_waits_and_leaves_no_process_stopped(
    node: Node, release: Release, agents: Release, bucket: Store, shop: str, agent: str, before: Json
) -> None:
    """Windows wait in the spool while the collector is away; the killed agent loses the open ones alone."""
    begun = time.time_ns()
    scale = ("-n", release.namespace, "scale", "deployment/sidelight-collector", "--timeout=90s")
    node.kubectl(*scale, "--replicas=0")
    collectors = (
        f"/api/v1/namespaces/{release.namespace}/pods?labelSelector=app.kubernetes.io/component=collector"
    )
    eventually("the collector is gone", lambda: not node.get(collectors)["items"], 90)
    first = count_spooled(node, agents)
    eventually("windows wait", lambda: count_spooled(node, agents) >= first + 20, 60, 0.3)
    spooled = list_spooled(node, agents)
    kill(node, find_agent(node, agents), "agent")
    killed = time.time_ns()

    def status() -> Json:
        return dict(find_agent(node, agents)["status"]["containerStatuses"][0])

    eventually("the kubelet starts it again", lambda: status()["restartCount"] == 1, 120)
    node.kubectl(*scale, "--replicas=1")
    eventually("it is ready", lambda: status()["ready"], 120)
    eventually("all waiting windows are stored", lambda: count_spooled(node, agents) < 20, 60, 0.3)
    eventually(
        "profiles go on", lambda: are_delivered(bucket, list_pods(node, shop), time.time_ns() - 10**10)
    )
    assert len(spooled) >= 20
    assert spooled <= {row["wid"] for row in bucket.rows()}
    gaps = find_gaps(bucket, begun)
    assert gaps
    for [(end, start)] in gaps:
        assert end <= killed <= start
    assert state_of(list_pods(node, shop)) == before
    assert list_processes(node, list_pods(node, shop))


def test_an_upgrade_of_the_agents_delivers_the_open_window_too(
    node: Node, release: Release, agents: Release, bucket: Store, shop: str, agent: str, before: Json
) -> None:
    """Windows take ten minutes at first: what is stored was open at the second upgrade."""
    pods, begun = list_pods(node, shop), time.time_ns()
    eventually("profiles are stored", lambda: are_delivered(bucket, pods, begun + 10**9), 60, 0.3)
    install(release, agents, window_seconds=600)
    eventually("the agent samples", lambda: len(list_sampled(node, agents)) == 5, 60, 0.3)
    old, upgraded = find_agent(node, agents), time.time_ns()
    install(release, agents, window_seconds=2)
    assert find_agent(node, agents)["metadata"]["uid"] != old["metadata"]["uid"]
    since = time.time_ns()
    eventually("profiles go on", lambda: are_delivered(bucket, pods, since + 2 * 10**9), 60, 0.3)
    gaps = find_gaps(bucket, begun)
    assert gaps
    for [(_, reopened), (end, start)] in gaps:
        assert reopened < upgraded < end < start
    assert state_of(list_pods(node, shop)) == before
    assert list_processes(node, pods)


def test_a_drained_node_loses_nothing(
    node: Node, release: Release, agents: Release, bucket: Store, shop: str, agent: str, before: Json
) -> None:
    """Windows take ten minutes here: what is stored was open when its pod or the agent was evicted."""
    install(release, agents, window_seconds=600)
    pods = list_pods(node, shop)

    def samples() -> bool:
        return len(list_sampled(node, agents)) == 5

    eventually("the agent samples", samples, 60, 0.3)
    old, evicted = find_agent(node, agents)["metadata"], time.time_ns()
    path = f"/api/v1/namespaces/{agents.namespace}/pods/{old['name']}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": old["name"]}}
    assert node.call("POST", path, body)[0] == 201
    eventually(
        "the open windows of all pods are stored", lambda: are_delivered(bucket, pods, evicted), 60, 0.3
    )
    assert list_processes(node, pods)
    assert state_of(list_pods(node, shop)) == before

    def is_another() -> bool:
        found = node.get(f"/api/v1/namespaces/{agents.namespace}/pods")["items"]
        return len(found) == 1 and found[0]["metadata"]["uid"] != old["uid"]

    # Until the evicted pod is gone there are two.
    eventually("another agent samples", lambda: is_another() and samples(), 90, 0.3)
    drained = time.time_ns()
    chosen = f"--pod-selector=app.kubernetes.io/name in ({AIOHTTP},{DJANGO})"
    try:
        node.kubectl("drain", "node", "--ignore-daemonsets", chosen, "--timeout=120s")
        eventually("their last windows are stored", lambda: are_delivered(bucket, pods, drained), 60, 0.3)
    finally:
        node.kubectl("uncordon", "node")
    eventually("the new pods are sampled", lambda: len(list_pods(node, shop)) == 3 and samples(), 120, 0.3)
    assert list_processes(node, list_pods(node, shop))


def test_uninstalling_the_agents_changes_no_pod(node: Node, agents: Release, shop: str, agent: str) -> None:
    """The last test of this file: there is no agent after it."""
    before = state_of(list_pods(node, shop))
    agents.helm("uninstall", "sidelight", "--wait")
    assert state_of(list_pods(node, shop)) == before
    kinds = ("clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/component=agent", "-o", "name")
    assert node.kubectl("get", *kinds) == ""
