"""Which processes of a node its agent samples, and under which labels; without a cluster."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sidelight.settings import BadSetting
from sidelight_injector.admission.recipe import Recipe
from sidelight_kubernetes import setting_annotations
from sidelight_kubernetes.kubernetes_client import ClusterUnavailable, WatchEvent
from sidelight_model.capture_protocol import AgentPollResponse, Attachment
from sidelight_model.errors import Reason
from sidelight_sidecar.agent.attached_pods import AttachedPods
from sidelight_sidecar.agent.node_pod import PodDecision, decide, parse_pod
from sidelight_sidecar.agent.pod_targets import PodTargets
from sidelight_sidecar.agent.pod_watcher import NAMESPACES, PODS, PodWatcher, WatchedList
from sidelight_sidecar.agent.settings import parse_agent_settings
from sidelight_sidecar.discovery.pod_cgroup import PodContainer
from sidelight_sidecar.discovery.processes import Proc, ProcessKey, SelectedProcess
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.health import HealthBoard, HealthIssue
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.sampling.process_watcher import ProcessWatcher, ScanPolicy
from sidelight_sidecar.sampling.sampler_context import SamplerContext
from sidelight_sidecar.settings import SidecarSettings, parse_sidecar_settings
from sidelight_sidecar.windows.window_builder import TargetLabels
from tests.collector.clusters import Server

ON_NODE, ALL_NAMESPACES = WatchedList(PODS, "n1"), WatchedList(NAMESPACES)
INJECT = "sidelight.dev/inject"
SETTINGS = parse_agent_settings(["--collector", "http://c", "--node", "n1", "--rate", "50"], {})
WEB, CRON = "a" * 64, "b" * 64


def pod(name: str, inject: str | None = "true", **fields: Any) -> dict[str, Any]:
    """A pod of service NAME with the containers web and cron."""
    labels = {"app": name, "version": "7", **({} if inject is None else {INJECT: inject})}
    metadata = {"uid": f"u-{name}", "namespace": "shop", "name": f"{name}-1", "labels": labels}
    statuses = [
        {"name": "web", "containerID": f"containerd://{WEB}"},
        {"name": "cron", "containerID": f"cri-o://{CRON}"},
    ]
    return {
        "metadata": {**metadata, "annotations": fields.get("annotations", {})},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "web"}, {"name": "cron"}],
            **fields.get("spec", {}),
        },
        "status": {"containerStatuses": statuses, **fields.get("status", {})},
    }


def ephemeral(state: str) -> dict[str, Any]:
    """An ephemeral sidecar in a state."""
    status = [{"name": "sidelight-x1", "state": {state: {}}}]
    return {
        "spec": {"ephemeralContainers": [{"name": "sidelight-x1"}]},
        "status": {"ephemeralContainerStatuses": status},
    }


@pytest.mark.parametrize(
    ("item", "namespace_label", "decision"),
    [
        (pod("a"), None, PodDecision.PROFILED),
        (pod("a", None), "true", PodDecision.PROFILED),
        (pod("a", None), None, PodDecision.NOT_REQUESTED),
        (pod("a", None), "yes", PodDecision.NOT_REQUESTED),
        (pod("a", "false"), "true", PodDecision.NOT_REQUESTED),
        (pod("a", "yes"), None, PodDecision.BAD_LABEL),
        (pod("a", annotations={"kubernetes.io/config.mirror": "x"}), None, PodDecision.NOT_REQUESTED),
        (pod("a", spec={"initContainers": [{"name": "sidelight"}]}), None, PodDecision.SIDECAR),
        (pod("a", **ephemeral("running")), None, PodDecision.SIDECAR),
        (pod("a", **ephemeral("terminated")), None, PodDecision.PROFILED),
    ],
)
def test_a_pod_is_profiled_if_it_asks_and_has_no_sidecar(
    item: dict[str, Any], namespace_label: str | None, decision: PodDecision
) -> None:
    assert decide(parse_pod(item), namespace_label) is decision


def process(pid: int, name: str, container: str = WEB, **fields: Any) -> Proc:
    command = fields.pop("command", ("python", "app.py"))
    return Proc(
        ProcessKey(pid, 1),
        fields.pop("ppid", 1),
        command_line=command,
        executable="/usr/bin/python3",
        python_version="3.12",
        is_nested=True,
        pod=PodContainer(f"u-{name}", container),
        **fields,
    )


class Node:
    """A node's pods as the API server shows them, and the targets among its processes."""

    now = 0.0

    def __init__(self, *pods: dict[str, Any], namespaces: Mapping[str, str] = {}) -> None:
        self.pods = PodWatcher(Server(), "n1")
        self.attached = AttachedPods(lambda: self.now)
        self.targets = PodTargets(self.pods, self.attached, SETTINGS, own_pid=99)
        self.pods.replace(ON_NODE, pods)
        self.pods.replace(
            ALL_NAMESPACES,
            [{"metadata": {"name": name, "labels": {INJECT: value}}} for name, value in namespaces.items()],
        )

    def see(self, kind: str, item: dict[str, Any], watched: WatchedList = ON_NODE) -> None:
        self.pods.apply(watched, WatchEvent(kind, item))

    def roles(self, *procs: Proc) -> dict[int, str]:
        return {key.pid: one.role for key, one in self.targets.select(procs, {}).items()}


def test_processes_of_pods_that_ask_are_sampled_with_the_labels_of_their_pod() -> None:
    node = Node(pod("cart"), pod("plain", None))
    master = process(10, "cart", stack_start=5)
    worker = process(11, "cart", ppid=10, stack_start=5)
    assert node.roles(
        master, worker, process(12, "plain"), process(13, "gone"), Proc(ProcessKey(14, 1), 1)
    ) == {
        10: "master",
        11: "worker",
    }
    labels = {"service": "cart", "version": "7", "namespace": "shop", "pod": "cart-1", "node": "n1"}
    assert dict(node.targets.labels_for(master)) == {**labels, "container": "web"}
    assert dict(node.targets.labels_for(process(15, "cart", "c" * 64))) == labels


def test_annotations_choose_the_container_and_the_processes() -> None:
    node = Node(
        pod("cart", annotations={"sidelight.dev/container": "cron", "sidelight.dev/service": "till"}),
        pod("shop", annotations={"sidelight.dev/match": "gunicorn"}),
    )
    gunicorn = process(12, "shop", command=("gunicorn: master",))
    child = process(14, "shop", ppid=12)
    procs = (process(10, "cart"), process(11, "cart", CRON), gunicorn, process(13, "shop"), child)
    assert sorted(node.roles(*procs)) == [11, 12, 14]
    assert node.targets.labels_for(procs[1])["service"] == "till"


ANNOTATED = {
    "sidelight.dev/rate": "20",
    "sidelight.dev/mode": "blocking",
    "sidelight.dev/interval-seconds": "60",
    "sidelight.dev/budget-cpu-percent": "2",
    "sidelight.dev/trigger-cpu-percent": "80",
    "sidelight.dev/trigger-ready": "true",
    "sidelight.dev/trigger-rate": "40",
}


def test_annotations_change_the_settings_of_a_pod_as_those_of_a_sidecar() -> None:
    node = Node(pod("cart", annotations=ANNOTATED), pod("shop"))
    node.roles(process(10, "cart"), process(11, "shop"))
    assert node.targets.settings_for(process(11, "shop")) == SETTINGS
    own = node.targets.settings_for(process(10, "cart"))
    assert own == replace(
        SETTINGS,
        rate=20,
        mode="blocking",
        interval_seconds=60.0,
        budget_pod_cpu_percent=2.0,
        trigger_cpu_percent=80.0,
        trigger_ready=True,
        trigger_rate=40,
    )
    assert own.pod_cpu_share == 0.02
    env = [{"name": "SIDELIGHT_COLLECTOR", "value": "http://c"}, {"name": "SIDELIGHT_RATE", "value": "50"}]
    recipe = Recipe({"args": ["sidecar", "--all"], "env": env}, ())
    sidecar = recipe.build_container(service="cart", version="7", annotations=ANNOTATED)
    environ = {one["name"]: one["value"] for one in sidecar["env"]}
    injected = parse_sidecar_settings(sidecar["args"][1:], environ)
    for name in ("rate", "mode", "interval_seconds", "trigger_rules", "trigger_rate_hz"):
        assert getattr(own, name) == getattr(injected, name), name


def test_every_annotation_that_changes_a_setting_names_one() -> None:
    assert set(setting_annotations.SETTINGS.values()) <= {one.name for one in fields(SidecarSettings)}
    others = {"sidelight.dev/source-url": "https://git/{file}", "sidelight.dev/service": "till"}
    node = Node(pod("cart", annotations=others))
    assert node.roles(process(10, "cart")) == {10: "main"}
    assert node.targets.settings_for(process(10, "cart")) == SETTINGS


@pytest.mark.parametrize(
    "wrong", [{"match": "("}, {"rate": "fast"}, {"trigger-ready": "perhaps"}, {"trigger-rate": "10"}]
)
def test_a_pod_with_a_wrong_annotation_is_not_profiled(wrong: dict[str, str]) -> None:
    annotations = {f"sidelight.dev/{name}": value for name, value in wrong.items()}
    node = Node(pod("cart", annotations=annotations), pod("shop"))
    assert node.roles(process(10, "cart"), process(11, "shop")) == {11: "main"}
    assert node.targets.decisions == {"u-cart": PodDecision.BAD_ANNOTATION, "u-shop": PodDecision.PROFILED}


def attach(node: Node, name: str, agent: str = "01", **fields: Any) -> None:
    attachment = Attachment("c_1", agent, "shop", f"{name}-1", 60.0, **fields)
    node.attached.receive(AgentPollResponse(attachments=(attachment,)))


def test_a_capture_may_attach_to_a_pod_that_did_not_ask_until_its_time_is_over() -> None:
    triggers = {"sidelight.dev/rate": "20", "sidelight.dev/trigger-ready": "true"}
    node = Node(pod("cart", None, annotations=triggers), pod("shop", "false"), pod("till", None))
    procs = [process(10, "cart"), process(11, "cart", CRON), process(12, "shop"), process(13, "till")]
    assert node.roles(*procs) == {}
    attach(node, "cart", container="web")
    attach(node, "shop", "02")
    assert node.roles(*procs) == {10: "main"}, "whoever opts out is left alone"
    assert node.targets.decisions["u-cart"] is PodDecision.ATTACHED
    own = node.targets.settings_for(procs[0])
    assert (own.rate, own.on_demand, own.trigger_ready, own.preroll_seconds) == (20, True, False, 0.0)
    node.now = 59.0
    attach(node, "cart")
    node.attached.drop_expired()
    assert node.roles(*procs) == {10: "main"}
    node.now = 60.0
    node.attached.drop_expired()
    assert node.roles(*procs) == {}


def test_an_attachment_ends_with_its_capture_and_does_not_come_again() -> None:
    node = Node(pod("cart", None))
    attach(node, "cart")
    attachment = node.attached.find("shop", "cart-1")
    assert attachment is not None
    node.attached.end(attachment)
    attach(node, "cart")
    assert node.roles(process(10, "cart")) == {}
    attach(node, "cart", "03")
    assert node.roles(process(10, "cart")) == {10: "main"}


def test_the_targets_follow_the_pods_and_the_namespaces() -> None:
    node = Node(pod("cart", None))
    versions = [node.targets.version]

    def roles() -> dict[int, str]:
        versions.append(node.targets.version)
        return node.roles(process(10, "cart"))

    assert roles() == {}
    node.see("MODIFIED", {"metadata": {"name": "shop", "labels": {INJECT: "true"}}}, ALL_NAMESPACES)
    assert roles() == {10: "main"}
    node.see("MODIFIED", pod("cart", "false"))
    assert roles() == {}
    node.see("MODIFIED", pod("cart"))
    assert roles() == {10: "main"}
    node.see("MODIFIED", pod("cart", spec={"containers": [{"name": "sidelight"}]}))
    assert roles() == {}
    node.see("MODIFIED", pod("cart"))
    node.see("DELETED", pod("cart"))
    assert roles() == {}
    node.see("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    assert versions == sorted(versions)
    assert len(set(versions)) == len(versions) - 1, "the first two saw the same pods"


def test_without_the_api_server_the_last_known_pods_stay() -> None:
    node = Node(pod("cart"))
    node.pods.on_error(ON_NODE, ClusterUnavailable("away"))
    assert node.roles(process(10, "cart")) == {10: "main"}
    assert isinstance(node.pods.error, ClusterUnavailable)
    node.pods.on_watching(ON_NODE)
    assert node.pods.error is None


def test_no_pod_is_profiled_before_the_namespaces_are_listed() -> None:
    pods = PodWatcher(Server(), "n1")
    targets = PodTargets(pods, AttachedPods(lambda: 0.0), SETTINGS, own_pid=1)
    pods.replace(ON_NODE, [pod("cart")])
    assert targets.select([process(10, "cart")], {}) == {}
    problem = targets.explain_empty([])
    assert problem is not None
    assert problem.reason is Reason.NOTHING_TO_WATCH
    pods.replace(ALL_NAMESPACES, [])
    assert targets.explain_empty([]) is None, "a node without pods that ask is in order"


def test_a_process_that_cannot_be_read_leaves_the_agent_ready() -> None:
    agent, sidecar = HealthBoard(needs_processes=False), HealthBoard()
    for board in (agent, sidecar):
        assert board.is_ready
        board.report("guard of process 12", HealthIssue(Reason.PTRACE_DENIED, "no"))
    assert agent.is_ready
    assert not sidecar.is_ready
    agent.report("cluster", HealthIssue(Reason.CLUSTER_UNAVAILABLE, "away"))
    assert not agent.is_ready


POD_UID = "0123abcd-0000-4000-8000-0123456789ab"


def make_process(root: Path, pid: int, cgroup: str, program: str = "python3.12") -> None:
    """Write a process as /proc shows it."""
    stat = "S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 0 0 1400 0 0 0"
    folder = root / str(pid)
    folder.mkdir()
    texts = {"stat": f"{pid} ({program}) {stat}", "cgroup": f"0::{cgroup}\n", "cmdline": f"{program}\0"}
    for name, text in {**texts, "status": "", "maps": ""}.items():
        (folder / name).write_text(text)
    (folder / "exe").symlink_to(f"/usr/bin/{program}")


def test_of_processes_outside_pods_little_is_read(tmp_path: Path) -> None:
    make_process(tmp_path, 7, f"/kubepods/pod{POD_UID}/{WEB}")
    make_process(tmp_path, 8, "/system.slice/x.service")
    procfs = ProcFs(tmp_path, lambda: 10**12, read_pods=True)
    inside, outside = sorted(procfs.list_processes(), key=lambda proc: proc.pid)
    assert (inside.pod, inside.python_version) == (PodContainer(POD_UID, WEB), "3.12")
    assert (outside.pod, outside.python_version) == (None, None)
    # It is looked at again now and then: a container's first process joins its cgroup late.
    (tmp_path / "8" / "cgroup").write_text(f"0::/kubepods/pod{POD_UID}/{CRON}\n")
    seen = [{proc.pid: proc.pod for proc in procfs.list_processes()}[8] for _ in range(9)]
    assert seen[-1] == PodContainer(POD_UID, CRON)


def test_of_hundreds_of_processes_a_scan_reads_only_whether_they_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is read at first, then once in eight scans, of an eighth of the processes in each."""
    in_pod = f"/kubepods/pod{POD_UID}/{WEB}"
    kinds = {"python": (in_pod, "python3.12"), "shell": (in_pod, "sh"), "host": ("/init.scope", "python3")}
    of_kind = dict(enumerate([*kinds] * 104, 1))
    for pid, kind in of_kind.items():
        make_process(tmp_path, pid, *kinds[kind])
    reads: Counter[tuple[str, str]] = Counter()

    def count(call: Callable[..., Any], path: str | Path, *rest: Any) -> Any:
        pid, _, name = str(path).removeprefix(f"{tmp_path}/").partition("/")
        reads[of_kind[int(pid)], name] += 1
        return call(path, *rest)

    monkeypatch.setattr(os, "open", partial(count, os.open))
    monkeypatch.setattr(os, "readlink", partial(count, os.readlink))
    procfs = ProcFs(tmp_path, lambda: 10**12, read_pods=True)

    def scan(times: int = 1) -> dict[str, dict[str, float]]:
        """Scan; how often each file of a process of each kind was read."""
        reads.clear()
        for _ in range(times):
            assert len(procfs.list_processes()) == 312
        return {
            kind: {name: number / 104 for (of, name), number in reads.items() if of == kind} for kind in kinds
        }

    first = dict.fromkeys(("stat", "cgroup", "exe", "maps"), 1)
    assert scan() == {
        "python": {**first, "cmdline": 1, "status": 1},
        "shell": first,
        "host": {"stat": 1, "cgroup": 1},
    }
    scan(63)
    # A shell may load libpython later. It is checked every 32 scans in the end, an eighth when due anyway.
    assert scan(32) == {
        "python": {"stat": 32, "exe": 4, "cmdline": 4, "status": 4},
        "shell": {"stat": 4 + 7 / 8, "exe": 32, "maps": 1},
        "host": {"stat": 4, "cgroup": 4},
    }
    assert scan()["host"] == {"stat": 1 / 8, "cgroup": 1 / 8}


def test_settings_name_the_node_and_none_of_the_processes() -> None:
    base = ["--collector", "http://c", "--node", "n1"]
    settings = parse_agent_settings([*base, "--label", "zone=a"], {})
    assert {**settings.labels, "service": ""} == {"service": "", "node": "n1", "zone": "a"}
    for wrong in (["--all"], ["--service", "x"], ["--budget-pod-cpu-percent", "101"], ["--node", ""]):
        with pytest.raises(BadSetting):
            parse_agent_settings([*base, *wrong], {})


async def test_while_nothing_changes_processes_are_scanned_and_not_chosen_anew() -> None:
    node = Node(pod("cart"), pod("plain", None))
    procs = [process(10, "cart"), *(process(pid, "plain") for pid in range(11, 311))]
    scans, selections = Counter[str](), list[list[int]]()

    def list_processes() -> list[Proc]:
        scans["all"] += 1
        return list(procs)

    def select(found: Sequence[Proc], roles: Mapping[ProcessKey, str]) -> dict[ProcessKey, SelectedProcess]:
        selected = PodTargets.select(node.targets, found, roles)
        selections.append([key.pid for key in selected])
        return selected

    def make_process_sampler(proc: Proc, labels: TargetLabels, _: SamplerContext) -> Any:
        stopped = asyncio.Event()
        return SimpleNamespace(key=proc.key, target_labels=labels, run=stopped.wait, stop=stopped.set)

    node.targets.select = select  # type: ignore[method-assign]
    procfs, context = SimpleNamespace(list_processes=list_processes), cast("SamplerContext", None)
    watcher = ProcessWatcher(
        cast("ProcFs", procfs), node.targets, make_process_sampler, lambda _: context, SidecarMetrics(),
        HealthBoard(needs_processes=False), ScanPolicy(500, 0.001),
    )  # fmt: skip

    async def scan() -> None:
        """Wait until there were a few more scans."""
        until = scans["all"] + 5
        while scans["all"] < until:
            await asyncio.sleep(0.001)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(watcher.run())
        await scan()
        # The second time, the roles of the first count.
        assert selections == [[10]] * 2
        node.see("MODIFIED", pod("cart", "false"))
        await scan()
        assert selections == [[10], [10], [], []]
        await scan()
        assert len(selections) == 4
        watcher.stop()
