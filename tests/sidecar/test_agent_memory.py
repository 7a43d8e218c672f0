"""The trigger `rss` of a node agent: the memory cgroups of its node's pods, as their containers show them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from sidelight_sidecar.captures.trigger_monitor import TriggerMonitor
from sidelight_sidecar.discovery.cgroup import Cgroups
from sidelight_sidecar.discovery.pod_cgroup import parse_pod_container
from sidelight_sidecar.discovery.processes import Proc, ProcessKey
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.triggers import TriggerEvent, TriggerRules
from tests.sidecar.test_agent_pods import Node, pod, process

MIB = 1 << 20
AGENT, GROWS, CACHES, SILENT = (f"0b6f2a9e-6c1d-4d0a-9c3e-{at:012x}" for at in range(4))
GROWTH = {"sidelight.dev/trigger-rss-growth": "100M"}
CGROUPFS = "/kubepods/burstable/pod{uid}"
SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{joined}.slice"
NAMES = {
    "cgroupfs-containerd": f"{CGROUPFS}/{{id}}",
    "cgroupfs-crio": f"{CGROUPFS}/crio-{{id}}",
    "systemd-containerd": f"{SLICE}/cri-containerd-{{id}}.scope",
    "systemd-crio": f"{SLICE}/crio-{{id}}.scope",
}
V1_CGROUP = "5:memory:{0}\n4:cpu,cpuacct:{0}\n3:pids:{0}\n1:name=systemd:{0}\n0::/\n"
V1_MOUNTS = """\
31 23 0:28 {0} /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct
32 23 0:29 {0} /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
"""
V2_MOUNTS = "31 23 0:28 {0} /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n"


class SimulatedNode:
    """Files of /proc as an agent on the node's processes sees them, and the root of each container."""

    def __init__(self, root: Path, version: int, names: str) -> None:
        self._root = root
        self._version = version
        self._names = names
        self._files = "sys/fs/cgroup" if version == 2 else "sys/fs/cgroup/memory"
        self.events: dict[int, list[TriggerEvent]] = {}
        self.add(AGENT, "self")

    def add(self, uid: str, *pids: int | str) -> None:
        """Add a pod with processes in one container, which shows its own cgroup alone."""
        path = self._path(uid)
        if self._version == 2:
            # A reader in a cgroup namespace sees all paths from its own cgroup on.
            path = str(PurePosixPath("/") / os.path.relpath(path, self._path(AGENT)))
        cgroup, mounts = (f"0::{path}\n", V2_MOUNTS) if self._version == 2 else (V1_CGROUP, V1_MOUNTS)
        (self._root / uid / self._files).mkdir(parents=True)
        for pid in pids:
            folder = self._root / "proc" / str(pid)
            folder.mkdir(parents=True)
            (folder / "cgroup").write_text(cgroup.format(path))
            (folder / "mountinfo").write_text(mounts.format(path))
            (folder / "root").symlink_to(self._root / uid)

    def _path(self, uid: str) -> str:
        return self._names.format(uid=uid, joined=uid.replace("-", "_"), id=uid[-4:] * 16)

    def fill(self, uid: str, working_set: int, cache: int) -> None:
        """Set the memory of a pod in MiB; the kernel counts page cache twice."""
        usage, inactive = ("memory.usage_in_bytes", "total_inactive_file")
        if self._version == 2:
            usage, inactive = "memory.current", "inactive_file"
        folder = self._root / uid / self._files
        (folder / usage).write_text(f"{(working_set + cache) * MIB}\n")
        (folder / "memory.stat").write_text(f"active_file 7\n{inactive} {cache * MIB}\n")

    def proc(self, pid: int) -> Proc:
        """A process with the pod that its cgroup names."""
        found = parse_pod_container((self._root / "proc" / str(pid) / "cgroup").read_text())
        return replace(process(pid, ""), pod=found)

    def watch(self, pid: int, rules: TriggerRules) -> Any:
        def apply(event: TriggerEvent, *, immediate: bool) -> None:
            self.events.setdefault(pid, []).append(event)

        context = SimpleNamespace(trigger_rules=rules)
        return SimpleNamespace(key=ProcessKey(pid, 1), context=context, apply_trigger=apply)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
async def test_the_pod_whose_working_set_grows_is_looked_at_closer_and_no_other(
    names: str, version: int, tmp_path: Path
) -> None:
    node = SimulatedNode(tmp_path, version, names)
    pods = {GROWS: (10, 11), CACHES: (12,), SILENT: (13,)}
    items = [pod(f"p{uid[-1]}", annotations={} if uid == SILENT else GROWTH) for uid in pods]
    for item, (uid, pids) in zip(items, pods.items(), strict=True):
        item["metadata"]["uid"] = uid
        node.add(uid, *pids)
    targets = Node(*items).targets
    procs = [node.proc(pid) for pids in pods.values() for pid in pids]
    selected = targets.select(procs, {})
    watches = [
        node.watch(key.pid, targets.settings_for(one.proc).trigger_rules) for key, one in selected.items()
    ]
    assert len(watches) == 4
    now = 1000.0
    usage = {watch.key: SimpleNamespace(cpu_ns=0, rss_bytes=50 * MIB) for watch in watches}
    watcher: Any = SimpleNamespace(process_samplers=watches, usage=usage)
    none: Any = SimpleNamespace(is_paused=False)
    monitor = TriggerMonitor(
        *(TriggerRules(), watcher, none, none, Cgroups(tmp_path), SidecarMetrics()),
        *(lambda: now, lambda: now),
    )
    for used in (100, 100, 250, 250):
        node.fill(AGENT, 9 * used, 0)
        node.fill(GROWS, used, 30)
        node.fill(CACHES, 100, 9 * used)
        node.fill(SILENT, used, 30)
        for one in usage.values():
            one.rss_bytes += 200 * MIB
        await monitor.tick()
        now += 3.0
    event = TriggerEvent("rss", "working set grew by 150 MiB (150 %) to 250 MiB within 300 s")
    assert node.events == {10: [event], 11: [event]}
