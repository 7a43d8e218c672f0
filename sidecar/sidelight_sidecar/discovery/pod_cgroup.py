"""The pod and the container of a process, from its /proc/PID/cgroup. Pure.

The kubelet gives each pod a cgroup with the pod's UID in its name, and the container runtime gives each
container a cgroup in it. Cgroup drivers and runtimes write these names differently:

cgroupfs            /kubepods/burstable/podUID/CONTAINER, CRI-O with the prefix `crio-`
systemd             /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/
                    cri-containerd-CONTAINER.scope, with `_` for each `-` of the UID
systemd's name in a cgroupfs
                    /system.slice/containerd.service/kubepods-burstable-podUID.slice:cri-containerd:CONTAINER

Guaranteed pods have no QoS class in the name. A static pod has a hash instead of a UID. A reader in a cgroup
namespace of its own sees paths relative to its own cgroup, which begin with `/..`.

A container that may write its cgroup could name a child after another pod. So the outermost pod in a path
counts, which only the node can make.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_UID: Final = r"(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_CONTAINER: Final = r"(?P<container>[0-9a-f]{64})"
_QOS: Final = r"(?:(?:burstable|besteffort)-)?"
_CGROUPFS_POD: Final = re.compile(rf"pod{_UID}")
_SYSTEMD_POD: Final = re.compile(rf"(?:[\w.]+-)*kubepods-{_QOS}pod{_UID}\.slice")
_JOINED: Final = re.compile(rf"(?:[\w.]+-)*kubepods-{_QOS}pod{_UID}\.slice:[a-z-]+:{_CONTAINER}")
# CRI-O's monitor of a container, crio-conmon-ID, is no process of it: no prefix has two parts but this one.
_CGROUPFS_CONTAINER: Final = re.compile(rf"(?:crio-)?{_CONTAINER}")
_SYSTEMD_CONTAINER: Final = re.compile(rf"(?:cri-containerd|crio|docker)-{_CONTAINER}\.scope")


class PodContainer(NamedTuple):
    """The UID of a pod's object, and the runtime's id of a container."""

    pod_uid: str
    container_id: str


def parse_pod_container(cgroup: str) -> PodContainer | None:
    """Return the pod and container of a process from its /proc/PID/cgroup.

    None for a process of no pod's container: of the host, of a pod's sandbox monitor, or if controllers
    of version 1 name different ones.
    """
    names = {found for line in cgroup.splitlines() if (found := _parse_path(line.split(":", 2)[-1]))}
    return names.pop() if len(names) == 1 else None


def _parse_path(path: str) -> PodContainer | None:
    parts = path.split("/")
    for at, part in enumerate(parts):
        if match := _JOINED.fullmatch(part):
            return PodContainer(_format_uid(match["uid"]), match["container"])
        is_systemd = (match := _SYSTEMD_POD.fullmatch(part)) is not None
        match = match or _CGROUPFS_POD.fullmatch(part)
        if match is None:
            continue
        pattern = _SYSTEMD_CONTAINER if is_systemd else _CGROUPFS_CONTAINER
        container = pattern.fullmatch(parts[at + 1]) if at + 1 < len(parts) else None
        return PodContainer(_format_uid(match["uid"]), container["container"]) if container else None
    return None


def _format_uid(text: str) -> str:
    return text.replace("_", "-")
