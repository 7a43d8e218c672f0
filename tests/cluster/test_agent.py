"""A node agent beside real processes in cgroups as the kubelet names them; the API server is real."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api import Api
from tests.cluster.identity_world import JSON, PODS, REVIEWS, Collector, Relay, pod
from tests.cluster.programs import eventually
from tests.cluster.test_discovery import CORE
from tests.cluster.test_identity import begin  # noqa: F401 - a fixture
from tests.processes import Running, running, sidelight
from tests.sidecar.conftest import TARGETS, Sidecar

HIERARCHIES = (("pids", "memory"), ("",))
PROGRAM = """
import time
def {name}():
    end = time.monotonic() + 600
    while time.monotonic() < end:
        sum(range(2000))
        time.sleep(0.002)
{name}()
"""
AGENT_RULES = [
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list", "watch"]},
]


@dataclass
class World:
    """A node's pods, their processes, and what is needed to run an agent for them."""

    api: Api
    namespace: str
    node: str
    cgroups: Sequence[Path]
    folder: Path
    undo: contextlib.ExitStack

    def run_pod(self, name: str, function: str, node: str = "", **fields: Any) -> Running:
        """Make a pod, and run a program with this function in its container."""
        return self.run_program(name, ("-c", PROGRAM.format(name=function)), node, **fields)

    def run_program(self, name: str, arguments: Sequence[str], node: str = "", **fields: Any) -> Running:
        """Make a pod, and run Python in its container's cgroups."""
        pod(self.api, self.namespace, name, node=node or self.node, **fields)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        uid, container = self.api.get(path)["metadata"]["uid"], secrets.token_hex(32)
        status = [{"name": "web", "containerID": f"containerd://{container}", "image": "shop:7"}]
        statuses = [{**status[0], "imageID": "", "ready": True, "restartCount": 0}]
        self.set_running(name, containerStatuses=statuses)
        script = 'exec "$@"'
        for top in self.cgroups:
            folder = top / "kubepods" / "burstable" / f"pod{uid}" / container
            _make_cgroup(folder, top)
            self.undo.callback(_remove_cgroups, folder, top.parent)
            script = f"echo $$ > {folder}/cgroup.procs && {script}"
        log = self.folder / f"{name}.log"
        return self.undo.enter_context(running(log, "sh", "-c", script, "sh", sys.executable, *arguments))

    def set_running(self, name: str, **status: Any) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        body = {"status": {"phase": "Running", **status}}
        answer = self.api.call("PATCH", path, body, kind="application/merge-patch+json")
        assert answer[0] == 200, answer

    def label(self, what: str, *labels: str) -> None:
        self.api.kubectl("label", "--overwrite", "-n", self.namespace, *what.split(), *labels)

    def run_agent(self, collector: Collector, relay: Relay) -> Sidecar:
        token = self.folder / "token"
        labels = {"app.kubernetes.io/name": "sidelight"}
        looks: dict[str, Any] = {"container": "agent", "labels": labels}
        token.write_text(pod(self.api, self.namespace, "agent-a", node=self.node, account="agent", **looks))
        self.set_running("agent-a")
        # Its controller adopts the pod.
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "agent", "image": "s:7"}]},
        }
        spec = {
            "selector": {"matchLabels": labels},
            "template": template,
            "updateStrategy": {"type": "OnDelete"},
        }
        metadata = {"name": "agent", "namespace": self.namespace}
        self.api.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec})
        kubeconfig = self.folder / "kubeconfig"
        own = self.api.kubeconfig_of(self.namespace, "agent").read_text()
        kubeconfig.write_text(own.replace(self.api.url, f"https://127.0.0.1:{relay.port}"))
        options = {
            "--collector": f"http://127.0.0.1:{collector.process.port()}",
            "--token-file": str(token),
            "--node": self.node,
            "--kubernetes": str(kubeconfig),
            "--listen": "127.0.0.1:0",
            "--spool-dir": str(self.folder / "spool"),
            "--window-seconds": "1",
            "--scan-interval-seconds": "0.2",
            "--send-backoff-max-seconds": "0.5",
            "--trigger-window-seconds": "1",
            "--trigger-rss-window-seconds": "2",
        }
        options |= dict.fromkeys(("--budget-cpu-percent", "--budget-pod-cpu-percent"), "100")
        words = [word for option in options.items() for word in option]
        program = self.undo.enter_context(running(self.folder / "agent.log", *sidelight("agent", *words)))

        def url() -> str | None:
            assert program.alive(), program.said()
            return next((word[4:] for word in program.said().split() if word.startswith("url=http")), None)

        return Sidecar(program, eventually("the agent listens", url))


def _make_cgroup(folder: Path, top: Path) -> None:
    """Make a cgroup with its parents; in version 2 it gets the memory controller."""
    folder.mkdir(parents=True)
    for parent in reversed([one for one in folder.parents if one.is_relative_to(top)]):
        if (switch := parent / "cgroup.subtree_control").exists():
            switch.write_text("+memory")


def _remove_cgroups(folder: Path, top: Path) -> None:
    while folder != top and not any(part.is_dir() for part in folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


@pytest.fixture
def world(api: Api, tmp_path: Path) -> Iterator[World]:
    """A namespace, two nodes, and the account of an agent."""
    sets = [[Path("/sys/fs/cgroup") / name for name in names] for names in HIERARCHIES]
    writable = lambda path: (path / "cgroup.procs").is_file() and os.access(path, os.W_OK)  # noqa: E731
    tops = next((paths for paths in sets if all(map(writable, paths))), None)
    if tops is None or os.geteuid() != 0:
        pytest.skip("NO CGROUPS HERE, so no process was in a pod: needs root and writable cgroups")
    with api.namespace() as namespace, contextlib.ExitStack() as undo:
        api.service_account(namespace, "shop")
        api.service_account(namespace, "agent")
        for node in (f"{namespace}-a", f"{namespace}-b"):
            # Pods of a node that does not exist are deleted.
            assert api.call("POST", "/api/v1/nodes", {"metadata": {"name": node}})[0] == 201
            undo.callback(api.call, "DELETE", f"/api/v1/nodes/{node}")
        name = f"agent-{namespace}"
        role: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
        binding = {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": namespace}],
        }
        items = [{**role, "kind": "ClusterRole", "rules": AGENT_RULES}, binding]
        api.apply({"apiVersion": "v1", "kind": "List", "items": items})
        undo.callback(api.try_kubectl, "delete", "clusterrole,clusterrolebinding", name)
        own = f"sidelight-test-{secrets.token_hex(4)}"
        cgroups = [top / own for top in tops]
        yield World(api, namespace, f"{namespace}-a", cgroups, tmp_path, undo)


def functions(collector: Collector, query: str) -> str:
    """The flame graph of a selection, as folded text."""
    return collector.ask("GET", f"/api/v1/export?format=folded&from=-1h&until=now&query={query}").text


def test_an_agent_profiles_the_pods_of_its_node_that_ask(world: World, begin: Any) -> None:  # noqa: F811
    inject = {"sidelight.dev/inject": "true"}
    labels = {"labels": {"app": "cart", "version": "3", **inject}}
    collector = begin(REVIEWS, PODS, "--node-agents", f"{world.namespace}/agent")
    relay = Relay(int(world.api.url.rpartition(":")[2]))
    world.undo.callback(relay.cut)
    shop = world.run_pod("shop-1", "shop_work", labels={"app.kubernetes.io/name": "shop", **inject})
    cart = world.run_pod("cart-1", "cart_work", **labels)
    cart_2 = world.run_pod("cart-2", "basket_work", **labels)
    plain = world.run_pod("plain-1", "plain_work", labels={"app": "plain"})
    world.run_pod("far-1", "far_work", node=f"{world.namespace}-b", **labels)
    sidecar_pod = world.run_pod("both-1", "both_work", **labels)
    ephemeral = {"spec": {"ephemeralContainers": [{"name": "sidelight-x1", "image": "s"}]}}
    path = f"/api/v1/namespaces/{world.namespace}/pods/both-1/ephemeralcontainers"
    kind = "application/strategic-merge-patch+json"
    assert world.api.call("PATCH", path, ephemeral, kind=kind)[0] == 200
    agent = world.run_agent(collector, relay)

    def pids() -> set[int]:
        return set(agent.get("/readyz")[1]["pids"])

    eventually("these pods are sampled", lambda: pids() == {shop.pid, cart.pid, cart_2.pid})
    assert sidecar_pod.pid not in pids()
    eventually("shop is stored", lambda: "shop_work" in functions(collector, "service%3D%22shop%22"))
    eventually("cart-1 is stored", lambda: "cart_work" in functions(collector, "pod%3D%22cart-1%22"))
    eventually("cart-2 is stored", lambda: "basket_work" in functions(collector, "pod%3D%22cart-2%22"))
    common = {"namespace": world.namespace}
    assert sorted(collector.windows(), key=lambda one: one["pod"]) == [
        *({"pod": f"cart-{at}", "service": "cart", "version": "3", **common} for at in (1, 2)),
        {"pod": "shop-1", "service": "shop", "version": "7", **common},
    ]
    assert (collector.values("node"), collector.values("container")) == ([world.node], ["web"])
    status, told = eventually("the agent is ready", lambda: (a := agent.get("/readyz"))[0] == 200 and a)
    assert (status, told["problems"]) == (200, [])
    with_decisions = eventually("pods are counted", lambda: agent.metric("agent_pods") >= 5)
    assert with_decisions

    # A capture samples the pods of a service as one with sidecars does, also at which moment each did what.
    body = json.dumps({"service": "cart", "pods": "all", "seconds": 1}).encode()
    eventually("the collector knows who samples cart", lambda: len(agents(collector, "cart")) == 2)
    capture = collector.ask("POST", "/api/v1/captures", body, headers=JSON)
    assert capture.status == 201, capture.text
    path = f"/api/v1/captures/{capture.json['id']}"
    state = lambda: collector.ask("GET", path).json  # noqa: E731
    eventually("the capture is ready", lambda: state()["state"] == "ready")
    assert state()["problem"] == ""
    assert "cart_work" in functions(collector, f"capture%3D%22{capture.json['id']}%22")
    recorded = {
        one["labels"]["pod"]: (
            one["pid"],
            set(re.findall(r"\w+_work", collector.ask("GET", f"{path}/{one['name']}.speedscope.json").text)),
        )
        for one in collector.ask("GET", f"{path}/recordings").json["recordings"]
    }
    assert recorded == {"cart-1": (cart.pid, {"cart_work"}), "cart-2": (cart_2.pid, {"basket_work"})}

    # A pause is that of all pods, and their windows say so.
    assert agent.post("/pause", b"") == (200, {"paused": ["api"]})
    eventually("nothing is attached", lambda: agent.metric("sessions") == 0)
    eventually("the collector knows", lambda: {one["paused"] for one in agents(collector, "cart")} == {True})
    assert agent.post("/resume", b"")[0] == 200
    for one in ("shop-1", "cart-1", "cart-2"):
        quality = eventually(
            f"a window of {one} says so",
            lambda one=one: "paused" in (q := timeline(collector, one)["quality"])["reduced"] and q,
        )
        assert quality["readers"] == ["own"]
        assert 0 < quality["coverage"] <= 1
        assert quality["stops"] > 0

    world.label("pod/cart-1", "sidelight.dev/inject=false")
    eventually("a pod opts out", lambda: pids() == {shop.pid, cart_2.pid})
    relay.cut()
    problems = lambda: {one["error"] for one in agent.get("/readyz")[1]["problems"]}  # noqa: E731
    eventually("the agent says so", lambda: problems() == {"cluster_unavailable"})
    assert pids() == {shop.pid, cart_2.pid}
    shipped = agent.metric("shipped_windows_total")
    eventually("it samples on", lambda: agent.metric("shipped_windows_total") > shipped + 2)
    relay.mend()
    world.api.kubectl("label", "namespace", world.namespace, "sidelight.dev/inject=true")
    eventually("a namespace asks", lambda: pids() == {shop.pid, cart_2.pid, plain.pid})
    plain_graph = "service%3D%22plain%22"
    eventually("its pod is stored", lambda: "plain_work" in functions(collector, plain_graph))

    assert agent.running.end() == 0
    assert not {"far-1", "both-1"} & set(collector.values("pod"))
    assert all(one.alive() for one in (shop, cart, cart_2, plain, sidecar_pod))


def test_attach_now_uses_the_agent_of_the_pods_node_and_changes_no_pod(world: World, begin: Any) -> None:  # noqa: F811
    collector = begin(
        *(REVIEWS, PODS, CORE, "--node-agents", f"{world.namespace}/agent"),
        *("--attach-namespaces", world.namespace, "--capture-check-interval-seconds", "0.2"),
        *("--discovery-publish-interval-seconds", "0.2"),
    )
    relay = Relay(int(world.api.url.rpartition(":")[2]))
    world.undo.callback(relay.cut)
    cpu, seconds = "sidelight.dev/trigger-cpu-percent", "sidelight.dev/trigger-duration-seconds"
    annotations = {"sidelight.dev/rate": "20", cpu: "0.1", seconds: "3"}
    cart = world.run_pod("cart-1", "cart_work", labels={"app": "cart"})
    refused = {"app": "refused", "sidelight.dev/inject": "false"}
    world.run_pod("refused-1", "refused_work", labels=refused)
    asks = {"app": "asks", "sidelight.dev/inject": "true"}
    asking = world.run_pod("asks-1", "asks_work", labels=asks, annotations=annotations)
    agent = world.run_agent(collector, relay)

    def processes() -> dict[int, Any]:
        return {one["pid"]: one for one in agent.get("/readyz")[1]["processes"]}

    # A pod's annotations mean what they mean for its sidecar, also when they change.
    eventually("it is boosted", lambda: processes().get(asking.pid, {}).get("trigger") == "cpu")
    boosts = eventually("the timeline shows it", lambda: timeline(collector, "asks-1")["boosts"])
    assert {(one["trigger"], one["pods"]) for one in boosts} == {("cpu", 1)}
    rate = lambda: processes().get(asking.pid, {}).get("rate")  # noqa: E731
    eventually("it is sampled as it asks", lambda: rate() == 20)
    change = ("annotate", "--overwrite", "pod/asks-1", "sidelight.dev/rate=10")
    world.api.kubectl("-n", world.namespace, *change)
    eventually("it asks for less", lambda: rate() == 10)
    assert set(processes()) == {asking.pid}

    def find(service: str) -> Any:
        found = collector.ask("GET", f"/api/v1/workloads?query=service%3D%22{service}%22").json["workloads"]
        return found[0]["pods"][0] if found else {"status": None}

    def attach(service: str) -> Any:
        body = json.dumps({"service": service, "seconds": 2, "attach": True}).encode()
        return collector.ask("POST", "/api/v1/captures", body, headers=JSON)

    eventually("the pods are seen", lambda: find("cart")["status"] == "no_sidecar", 60)
    before = world.api.get(f"/api/v1/namespaces/{world.namespace}/pods/cart-1")["spec"]
    capture = attach("cart")
    assert capture.status == 201, capture.text
    [part] = capture.json["parts"]
    assert (part["labels"]["pod"], part["ephemeral_container"]) == ("cart-1", "")
    state = lambda: collector.ask("GET", f"/api/v1/captures/{capture.json['id']}").json  # noqa: E731
    done = eventually("it has ended", lambda: (s := state())["state"] in ("ready", "failed") and s, 90)
    assert (done["state"], done["problem"]) == ("ready", "")
    assert done["samples"] > 0
    assert "cart_work" in functions(collector, f"capture%3D%22{capture.json['id']}%22")
    covered = {"covered_by": "agent", "status": "profiled"}
    eventually("coverage says so", lambda: covered.items() <= find("cart").items())
    eventually("the agent lets go of it", lambda: set(processes()) == {asking.pid})
    assert world.api.get(f"/api/v1/namespaces/{world.namespace}/pods/cart-1")["spec"] == before
    assert "cart_work" not in functions(collector, "pod%3D%22cart-1%22%2Ccapture%3D%22%22")
    refusal = attach("refused")
    assert (refusal.status, refusal.json["error"]) == (403, "forbidden"), refusal.text
    assert "sidelight.dev/inject=false" in refusal.json["message"]
    assert cart.alive()

    # A sidecar on this node learns that the agent leaves its pod to it.
    token = pod(world.api, world.namespace, "both-1", node=world.node)
    answer = collector.poll(token, "sidecar")
    assert answer.json["node_agent"] == f"{world.namespace}/agent-a"
    assert agent.running.end() == 0


def test_a_pod_whose_working_set_grows_is_looked_at_closer_and_no_other(world: World, begin: Any) -> None:  # noqa: F811
    collector = begin(REVIEWS, PODS, "--node-agents", f"{world.namespace}/agent")
    relay = Relay(int(world.api.url.rpartition(":")[2]))
    world.undo.callback(relay.cut)
    fields = {
        "labels": {"app": "cart", "sidelight.dev/inject": "true"},
        "annotations": {"sidelight.dev/rate": "20", "sidelight.dev/trigger-rss-growth": "50M"},
    }
    for name in ("grows", "stays"):
        (world.folder / name).mkdir()
        world.run_program(name, (str(TARGETS / "grows.py"), str(world.folder / name)), **fields)
    agent = world.run_agent(collector, relay)

    eventually("the size of both is known", lambda: agent.metric("shipped_windows_total") >= 10)
    (world.folder / "grows" / "grow").touch()
    reasons = eventually("it is looked at closer", lambda: collector.values("trigger_reason", "grows"))
    assert re.fullmatch(r"working set grew by 1?\d\d MiB \(\d+ %\) to \d+ MiB within 2 s", *reasons), reasons
    assert {(one["trigger"], one["pods"]) for one in timeline(collector, "grows")["boosts"]} == {("rss", 1)}
    assert "grows.py" in functions(collector, "pod%3D%22grows%22%2Ctrigger%3D%22rss%22")
    assert (collector.values("trigger", "stays"), agent.metric("triggers_total")) == ([], 1)
    assert agent.running.end() == 0


def timeline(collector: Collector, pod_name: str) -> Any:
    """The timeline of a pod, with its boosts and the quality of its windows."""
    path = f"/api/v1/timeline?from=-1h&until=now&type=wall&query=pod%3D%22{pod_name}%22"
    return collector.ask("GET", path).json


def agents(collector: Collector, service: str) -> list[Any]:
    """Those who sample a service, as the collector shows them."""
    found: list[Any] = collector.ask("GET", f"/api/v1/agents?service={service}").json["agents"]
    return found
