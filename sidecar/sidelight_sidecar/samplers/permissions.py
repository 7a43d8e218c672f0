"""Explain why a process may not be read, and which permission to grant.

The kernel's rule (ptrace(2), "Ptrace access mode checking"): a reader with SYS_PTRACE in the target's user
namespace may read it. Any other reader needs the same user and group ids, a dumpable target, and all of the
target's capabilities. Then Yama, seccomp and security modules decide as well. `find_missing_permission`
follows that order. docs/sidecar.md says what works on a real kubelet, and has a line for each word of
`MissingPermission`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sidelight_model.errors import Reason
from sidelight_sidecar.samplers.sampler import SamplingError

_CAP_KILL = 5
_PROC = Path("/proc")
_CAP_SYS_PTRACE = 19
_PTRACE_SEIZE = 0x4206
_NONEXISTENT_PID = 2**22 + 1
"""Above the largest possible pid_max."""


class MissingPermission(StrEnum):
    """The permission that is missing: the field `lacks` in /readyz."""

    SYS_PTRACE = "sys_ptrace"
    USER_0 = "user_0"
    FILE_CAPABILITY = "file_capability"
    OTHER_USER = "other_user"
    OTHER_GROUP = "other_group"
    TARGET_CAPABILITIES = "target_capabilities"
    NOT_DUMPABLE = "not_dumpable"
    YAMA = "yama"
    YAMA_OFF = "yama_off"
    SECCOMP = "seccomp"
    USER_NAMESPACE = "user_namespace"
    SECURITY_MODULE = "security_module"
    TRACED = "traced"
    SHARED_PROCESSES = "shared_processes"


@dataclass(frozen=True, slots=True)
class PtraceRights:
    """The rights of this process to read others.

    `yama` is kernel.yama.ptrace_scope, None without Yama. `has_bounding_sys_ptrace`: SYS_PTRACE is in the
    bounding set, so that user 0 would have it. `has_file_capability`: the interpreter's file carries
    capabilities; `no_new_privs` means that they are ignored. `blocked_call` is the system call that seccomp
    refuses. `security_profile` is the profile of a security module that confines this process.
    """

    uid: int
    has_sys_ptrace: bool
    has_kill: bool
    yama: int | None
    gid: int = 0
    permitted: int = 0
    has_bounding_sys_ptrace: bool = False
    no_new_privs: bool = False
    has_file_capability: bool = False
    blocked_call: str = ""
    uid_map: str = ""
    security_profile: str = ""


@dataclass(frozen=True, slots=True)
class TargetIdentity:
    """The visible identity of a process that may not be read.

    It has no ids if the process is gone; `tracer` is 0 for none.
    """

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()
    permitted: int = 0
    is_dumpable: bool = True
    uid_map: str = ""
    tracer: int = 0


def read_own_rights() -> PtraceRights:
    """Read the current rights of this process."""
    status = _read_status(_PROC / "self")
    effective, bounding = int(status.get("CapEff", "0"), 16), int(status.get("CapBnd", "0"), 16)
    yama = _read_text(_PROC / "sys/kernel/yama/ptrace_scope")
    return PtraceRights(
        os.geteuid(),
        bool(effective >> _CAP_SYS_PTRACE & 1),
        bool(effective >> _CAP_KILL & 1),
        int(yama) if yama.isdigit() else None,
        gid=os.getegid(),
        permitted=int(status.get("CapPrm", "0"), 16),
        has_bounding_sys_ptrace=bool(bounding >> _CAP_SYS_PTRACE & 1),
        no_new_privs=status.get("NoNewPrivs") == "1",
        has_file_capability=_has_capabilities(Path(sys.executable)),
        blocked_call=_find_blocked_call() if status.get("Seccomp", "0") != "0" else "",
        uid_map=_read_text(_PROC / "self/uid_map"),
        security_profile=_read_text(_PROC / "self/attr/current"),
    )


def read_target_identity(pid: int, *, tracer: int = 0) -> TargetIdentity:
    """Read what any process may see of another."""
    folder = _PROC / str(pid)
    status = _read_status(folder)
    uids = frozenset(map(int, status.get("Uid", "").split()))
    try:
        # The files of a process that is not dumpable belong to root (proc(5)), whatever its user.
        is_dumpable = (folder / "status").stat().st_uid in uids or not uids
    except OSError:
        is_dumpable = True
    return TargetIdentity(
        uids,
        frozenset(map(int, status.get("Gid", "").split())),
        int(status.get("CapPrm", "0"), 16),
        is_dumpable,
        _read_text(folder / "uid_map"),
        tracer,
    )


def make_denied_error(pid: int, rights: PtraceRights, target: TargetIdentity) -> SamplingError:
    """Build the error that process `pid` may not be read, with what to grant."""
    missing = find_missing_permission(rights, target)
    error = SamplingError(
        f"not allowed to read the memory of process {pid}{_describe_owner(target)}",
        reason=Reason.PTRACE_DENIED,
        hint=format_hint(missing, rights, target),
    )
    error.lacks = missing.value
    return error


def find_missing_permission(rights: PtraceRights, target: TargetIdentity) -> MissingPermission:
    """Return the permission that is missing, given that the kernel refused."""
    if target.tracer:
        return MissingPermission.TRACED
    if rights.blocked_call:
        return MissingPermission.SECCOMP
    if rights.yama == 3:
        return MissingPermission.YAMA_OFF
    if rights.has_sys_ptrace:
        other = target.uid_map and rights.uid_map and target.uid_map != rights.uid_map
        return MissingPermission.USER_NAMESPACE if other else MissingPermission.SECURITY_MODULE
    if target.uids - {rights.uid}:
        return _find_missing_for_other_user(rights)
    if target.gids - {rights.gid}:
        return MissingPermission.OTHER_GROUP
    if rights.yama:
        return MissingPermission.YAMA
    if target.permitted & ~rights.permitted:
        return MissingPermission.TARGET_CAPABILITIES
    return (
        MissingPermission.SECURITY_MODULE
        if target.is_dumpable and rights.uid
        else MissingPermission.NOT_DUMPABLE
    )


def _find_missing_for_other_user(rights: PtraceRights) -> MissingPermission:
    if rights.uid == 0:
        return MissingPermission.SYS_PTRACE
    if rights.has_file_capability:
        return MissingPermission.FILE_CAPABILITY
    return MissingPermission.USER_0 if rights.has_bounding_sys_ptrace else MissingPermission.OTHER_USER


def format_hint(missing: MissingPermission, rights: PtraceRights, target: TargetIdentity) -> str:
    """Describe what to do about it, in Kubernetes' terms."""
    return _HINTS[missing].format(
        mine=f"user {rights.uid}",
        theirs=_format_user(target),
        group=rights.gid,
        groups=", ".join(map(str, sorted(target.gids))),
        yama=rights.yama,
        call=rights.blocked_call,
        tracer=target.tracer,
        because=" because no_new_privs is set (allowPrivilegeEscalation: false)"
        if rights.no_new_privs
        else "",
        profile=f" (the sidecar's profile is {rights.security_profile})" if rights.security_profile else "",
    )


_AS_ROOT = "run the sidecar as user 0 (runAsUser: 0) with SYS_PTRACE added to its capabilities"
_HINTS: Mapping[MissingPermission, str] = {
    MissingPermission.SYS_PTRACE: (
        "Add SYS_PTRACE to the sidecar's capabilities (securityContext.capabilities.add)."
    ),
    MissingPermission.USER_0: (
        "The sidecar runs as {mine}, and only user 0 gets the capabilities that its container has: "
        f"{_AS_ROOT}, or run it as {{theirs}}, without any."
    ),
    MissingPermission.FILE_CAPABILITY: (
        "The sidecar runs as {mine} and has not got the capability of its interpreter's file{because}: "
        f"{_AS_ROOT}, or run it as {{theirs}}, without any."
    ),
    MissingPermission.OTHER_USER: (
        "The sidecar runs as {mine} and the process as {theirs}: "
        f"{_AS_ROOT}, or run it as {{theirs}}, without any."
    ),
    MissingPermission.OTHER_GROUP: (
        "The sidecar runs in group {group} and the process in {groups}: give the sidecar the same "
        f"runAsGroup, or {_AS_ROOT}."
    ),
    MissingPermission.TARGET_CAPABILITIES: (
        "The process has capabilities that the sidecar has not: drop them there (capabilities.drop: [ALL]), "
        f"or {_AS_ROOT}."
    ),
    MissingPermission.NOT_DUMPABLE: (
        "The process is not dumpable: it has changed its user, or runs a file that it may not read. "
        f"To read it all the same, {_AS_ROOT}."
    ),
    MissingPermission.YAMA: f"kernel.yama.ptrace_scope is {{yama}} on the node: {_AS_ROOT}, or set it to 0.",
    MissingPermission.YAMA_OFF: (
        "kernel.yama.ptrace_scope is 3 on the node, which forbids it to everybody until that is restarted."
    ),
    MissingPermission.SECCOMP: (
        "A seccomp profile refuses the call {call}: give the sidecar RuntimeDefault, or allow ptrace and "
        "process_vm_readv in yours."
    ),
    MissingPermission.USER_NAMESPACE: (
        "The process is in a user namespace that the sidecar's SYS_PTRACE does not reach: run both in the "
        "same one, as the containers of one pod do."
    ),
    MissingPermission.SECURITY_MODULE: (
        "The kernel's own conditions are met, so a security module forbids it{profile}: allow "
        "ptrace in the AppArmor or SELinux profiles of both containers."
    ),
    MissingPermission.TRACED: (
        "Process {tracer} traces it (a debugger, strace, another profiler): end that one first."
    ),
    MissingPermission.SHARED_PROCESSES: (
        "Set shareProcessNamespace: true on the pod, or no other container can be seen."
    ),
}


def _describe_owner(target: TargetIdentity) -> str:
    return f", which runs as {_format_user(target)}" if target.uids else ""


def _format_user(target: TargetIdentity) -> str:
    return f"user {max(target.uids)}" if target.uids else "its user"


def _find_blocked_call() -> str:
    """Return the system call that seccomp refuses, or "" if it refuses none.

    It tries the two calls that reading needs; neither attempt has an effect.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    calls: Mapping[str, tuple[int | None, ...]] = {
        "ptrace": (_PTRACE_SEIZE, _NONEXISTENT_PID, None, None),
        "process_vm_readv": (os.getpid(), None, 0, None, 0, 0),
    }
    for name, arguments in calls.items():
        ctypes.set_errno(0)
        if libc[name](*arguments) == -1 and ctypes.get_errno() in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            return name
    return ""


def _has_capabilities(executable: Path) -> bool:
    try:
        return bool(os.getxattr(executable, "security.capability"))
    except OSError:
        return False


def _read_status(folder: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in _read_text(folder / "status").split("\n"))
    return {name: value.strip() for name, _, value in lines}


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace").strip("\0\n ")
    except OSError:
        return ""
