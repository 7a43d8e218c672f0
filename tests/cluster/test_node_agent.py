"""The node agent on a real kubelet: it profiles pods that may have no sidecar, and changes none of them."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
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
            restricted(deployment(AIOHTTP, 2)),
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
    return state_of([pod for name in (AIOHTTP, DJANGO) for pod in running_pods(node, shop, name)])


@pytest.fixture(scope="module")
def agent(node: Node, release: Release, agents: Release, before: Json) -> str:
    """The agent in a release of its own; returns the name of its pod."""
    settings = {"window_seconds": 1, "rate": 50, "budget_pod_cpu_percent": 100, **WITHOUT_LIMITS}
    small = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
    agents.upgrade(
        {
            "collector": {"enabled": False, "image": image(images.COLLECTOR)},
            "agent": {"enabled": True, "collector": release.url, "settings": settings, "resources": small},
        }
    )
    return str(find_agent(node, agents)["metadata"]["name"])


def find_agent(node: Node, agents: Release) -> Json:
    path = f"/api/v1/namespaces/{agents.namespace}/pods?labelSelector=app.kubernetes.io/component=agent"
    [pod] = node.get(path)["items"]
    return dict(pod)


def count_decisions(node: Node, agents: Release) -> dict[str, int]:
    """Count the node's pods by what the agent makes of them."""
    url = f"http://{find_agent(node, agents)['status']['podIP']}:8081/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r'^sidelight_sidecar_agent_pods\{decision="(\w+)"\} (\S+)', text, re.MULTILINE)
    return {decision: int(float(number)) for decision, number in found}


def find_workload(release: Release, service: str) -> Json | None:
    selector = quote(f'{{service="{service}"}}')
    found = release.get(f"/api/v1/workloads?query={selector}&pods=100")["workloads"]
    return next(iter(found), None)


def test_services_that_may_have_no_sidecar_are_profiled_under_their_own_names(
    node: Node, release: Release, shop: str, agent: str, before: Json
) -> None:
    for name, function in ((AIOHTTP, "serve (aiohttp_asyncio.py"), (DJANGO, "price_basket (shop.py")):
        eventually(f"{name} is profiled", lambda name=name: release.service(name), 120, 0.3)
        pods = sorted(pod["metadata"]["name"] for pod in running_pods(node, shop, name))
        eventually("every pod is", lambda name=name, pods=pods: release.label("pod", name) == pods, 60)
        labels = {key: release.label(key, name) for key in ("namespace", "version", "node", "container")}
        expected = {"namespace": [shop], "version": ["2026.11.2"], "node": ["node"], "container": ["app"]}
        assert labels == expected
        found = lambda name=name, function=function: function in release.stacks(name)  # noqa: E731
        eventually(f"{function} is seen", found, 60, 0.3)
    now = [pod for name in (AIOHTTP, DJANGO) for pod in running_pods(node, shop, name)]
    assert state_of(now) == before


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
    eventually("three are profiled", lambda: count_decisions(node, agents).get("profiled") == 3, 60)
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


def test_an_agent_that_is_killed_goes_on_and_leaves_no_process_stopped(
    node: Node, release: Release, agents: Release, shop: str, agent: str, before: Json
) -> None:
    kill(node, find_agent(node, agents), "agent")

    def is_back() -> bool:
        [status] = find_agent(node, agents)["status"]["containerStatuses"]
        return status["restartCount"] == 1 and status["ready"]

    eventually("the kubelet starts it again", is_back, 120)
    windows = release.service(AIOHTTP)["windows"]
    eventually("profiles go on", lambda: release.service(AIOHTTP)["windows"] > windows, 90, 0.3)
    pods = [pod for name in (AIOHTTP, DJANGO) for pod in running_pods(node, shop, name)]
    assert state_of(pods) == before
    containers = [
        one["containerID"].rpartition("/")[2] for p in pods for one in p["status"]["containerStatuses"]
    ]
    processes = [pid for container in containers for pid in places.processes(node.place, container)]
    assert processes

    def is_stopped(pid: int) -> bool:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state in "Tt"

    eventually("none is stopped", lambda: not any(map(is_stopped, processes)), 10)


def test_uninstalling_the_agents_changes_no_pod(
    node: Node, agents: Release, shop: str, agent: str, before: Json
) -> None:
    """The last test of this file: there is no agent after it."""
    agents.helm("uninstall", "sidelight", "--wait")
    assert state_of([pod for name in (AIOHTTP, DJANGO) for pod in running_pods(node, shop, name)]) == before
    kinds = ("clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/component=agent", "-o", "name")
    assert node.kubectl("get", *kinds) == ""
