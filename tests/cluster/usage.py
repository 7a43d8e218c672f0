"""What the programs take in a cluster, by the cgroups of their containers: for docs/operations.md.

python -m tests.cluster.usage --seconds 60 --pods 4
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from tests.cluster import place as places
from tests.cluster.injector_world import await_injection
from tests.cluster.node import Node, folder_of_tests, start, sweep
from tests.cluster.programs import eventually, guarded
from tests.cluster.releases import deployment, released, running_pods, store, values

Json = dict[str, Any]


def cgroup(node: Node, container: str, file: str) -> str:
    """A file of a container's cgroup, in whichever tree has it."""
    [path] = [
        path for tree in places.trees() for path in (tree / node.place.name).rglob(f"{container}/{file}")
    ]
    return path.read_text()


def cpu_seconds(node: Node, container: str) -> float:
    if (places.CGROUPS / "cgroup.controllers").exists():
        return int(cgroup(node, container, "cpu.stat").split()[1]) / 1e6
    return int(cgroup(node, container, "cpuacct.usage")) / 1e9


def memory_bytes(node: Node, container: str) -> int:
    """The working set, as the kubelet counts it: what is charged less file pages not used of late."""
    two = (places.CGROUPS / "cgroup.controllers").exists()
    charged = int(cgroup(node, container, "memory.current" if two else "memory.usage_in_bytes"))
    fields = dict(line.split() for line in cgroup(node, container, "memory.stat").splitlines())
    return charged - int(fields["inactive_file" if two else "total_inactive_file"])


def containers(pods: list[Json], name: str) -> list[str]:
    """The ids of the containers of that name."""
    kinds = ("containerStatuses", "initContainerStatuses")
    statuses = [one for pod in pods for kind in kinds for one in pod["status"].get(kind, [])]
    return [one["containerID"].rpartition("/")[2] for one in statuses if one["name"] == name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pods", type=int, default=4)
    given = parser.parse_args()
    sweep()
    with guarded(folder_of_tests(), "tests.cluster.node") as folder:
        node = start(folder)
        with store(node) as bucket:
            s3 = {"url": "s3://sidelight/profiles", "endpoint": bucket.endpoint, "credentialsSecret": "s3"}
            installed = values(
                collector={"store": {"kind": "s3", "s3": s3}},
                kubernetes={"identity": True, "discovery": True},
                injector={"enabled": True},
            )
            installed["sidecar"]["settings"] = {}
            with (
                released(node, installed, bucket) as release,
                node.namespace({"sidelight.dev/inject": "true"}) as shop,
            ):
                measure(node, release.namespace, shop, given.pods, given.seconds)


def measure(node: Node, namespace: str, shop: str, pods: int, seconds: float) -> None:
    await_injection(node, shop)
    node.apply(deployment("checkout", pods), shop)
    node.kubectl("-n", shop, "rollout", "status", "deployment/checkout", "--timeout=180s")
    eventually("all run", lambda: len(running_pods(node, shop, "checkout")) == pods)
    time.sleep(15)
    ours = node.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    theirs = running_pods(node, shop, "checkout")
    measured = {
        "collector": containers(ours, "collector"),
        "injector": containers(ours, "injector"),
        "sidecar": containers(theirs, "sidelight"),
        "the service itself": containers(theirs, "app"),
    }
    begun = time.monotonic()
    before = {one: cpu_seconds(node, one) for found in measured.values() for one in found}
    time.sleep(seconds)
    lasted = time.monotonic() - begun
    print(f"{pods} pods, {lasted:.0f} s, load average {Path('/proc/loadavg').read_text().split()[0]}")
    print("| | containers | CPU each (median), millicores | memory each (median), MiB |\n|---|---|---|---|")
    for name, found in measured.items():
        if found:
            cpu = statistics.median((cpu_seconds(node, one) - before[one]) / lasted * 1000 for one in found)
            memory = statistics.median(memory_bytes(node, one) / 2**20 for one in found)
            print(f"| {name} | {len(found)} | {cpu:.1f} | {memory:.0f} |")


if __name__ == "__main__":
    main()
