"""Why a process may not be read, and what to grant so that it may.

docs/sidecar.md has the table of what was seen to work on a real kubelet.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sidelight.sidecar.sampler import SamplingError
from sidelight.stacks.errors import Reason

_CAP_KILL = 5
_CAP_SYS_PTRACE = 19


@dataclass(frozen=True, slots=True)
class Rights:
    """What this process may do to others; `yama` is kernel.yama.ptrace_scope, None without Yama."""

    uid: int
    sys_ptrace: bool
    kill: bool
    yama: int | None


def own_rights(root: Path = Path("/proc")) -> Rights:
    """The rights of this process now."""
    effective = 0
    for line in (root / "self" / "status").read_text().split("\n"):
        name, _, value = line.partition(":")
        if name == "CapEff":
            effective = int(value, 16)
    try:
        yama: int | None = int((root / "sys/kernel/yama/ptrace_scope").read_text())
    except OSError:
        yama = None
    return Rights(
        os.geteuid(), bool(effective >> _CAP_SYS_PTRACE & 1), bool(effective >> _CAP_KILL & 1), yama
    )


def denied(pid: int, rights: Rights, *, target_uid: int | None, tracer: int = 0) -> SamplingError:
    """The refusal to read process `pid`, with the one thing to grant."""
    return SamplingError(
        f"not allowed to read the memory of process {pid}",
        reason=Reason.PTRACE_DENIED,
        hint=_grant(rights, target_uid, tracer),
    )


def _grant(rights: Rights, target_uid: int | None, tracer: int) -> str:
    if tracer:
        return f"Process {tracer} traces it (a debugger, strace or another profiler): end that one first."
    if rights.yama == 3:
        return "kernel.yama.ptrace_scope is 3, which forbids it to everybody until the machine is restarted."
    if rights.sys_ptrace:
        return (
            "The sidecar has SYS_PTRACE, so something else forbids it: a seccomp or AppArmor profile "
            "(allow ptrace and process_vm_readv), or a target in another user namespace."
        )
    if target_uid == rights.uid and rights.yama:
        return (
            f"kernel.yama.ptrace_scope is {rights.yama}: set it to 0, or add SYS_PTRACE to the sidecar's "
            "capabilities and run it as user 0."
        )
    return (
        "Run the sidecar as user 0 with SYS_PTRACE added to its capabilities, and set "
        "shareProcessNamespace: true on the pod; outside Kubernetes, run it as root or as the target's user."
    )
