"""Errors of `record` and `top` for processes that cannot be sampled, with hints."""

from __future__ import annotations

from collections.abc import Sequence

from sidelight_model.errors import Reason
from sidelight_sidecar.descriptors import (
    OUT_OF_DESCRIPTORS_HINT,
    explain_out_of_descriptors,
    is_out_of_descriptors,
)
from sidelight_sidecar.samplers.permissions import PtraceRights
from sidelight_sidecar.samplers.sampler import SamplingError

_MAX_NAMED_PROCESSES = 8


def make_not_found_error(pid: int) -> SamplingError:
    return SamplingError(
        f"there is no process {pid}",
        reason=Reason.PID_GONE,
        hint="Look for its pid with: pgrep -af python. In a container, pids are those inside the container.",
    )


def make_denied_error(
    pid: int, rights: PtraceRights, *, target_uid: int | None, tracer: int
) -> SamplingError:
    """Return the error for missing permissions on process `pid`.

    `tracer` is the pid of its current tracer, or 0.
    """
    return SamplingError(
        f"not allowed to read the memory of process {pid}",
        reason=Reason.PTRACE_DENIED,
        hint=_explain_denial(rights, target_uid, tracer),
    )


def make_stopped_error(pid: int) -> SamplingError:
    return SamplingError(
        f"process {pid} is stopped", hint=f"It can be sampled once it runs again: kill -CONT {pid}."
    )


class PythonRunsBelow(SamplingError):
    """A process is no Python, but its descendants are, as below a shell."""

    reason = Reason.NOT_PYTHON


def make_unreadable_error(problem: str, python_children: Sequence[int]) -> SamplingError:
    """Return the error for a process that is not a supported Python.

    `problem` is the message. `python_children` are the pids of its Python descendants.
    """
    hint = "CPython 3.3 to 3.15 can be read, PyPy cannot. Of free-threaded builds, only 3.13 can."
    if python_children:
        named = ", ".join(map(str, python_children[:_MAX_NAMED_PROCESSES]))
        more = " and more" if len(python_children) > _MAX_NAMED_PROCESSES else ""
        hint = f"Python runs below it, as {named}{more}: give --pid one of these, or --subprocesses."
        return PythonRunsBelow(problem, hint=hint)
    return SamplingError(problem, reason=Reason.NOT_PYTHON, hint=hint)


def make_no_python_error(pid: int) -> SamplingError:
    return SamplingError(
        f"no Python runs in process {pid} or below it",
        reason=Reason.NOT_PYTHON,
        hint="Look for its pid with: pgrep -af python.",
    )


def make_failed_error(pid: int, problem: str) -> SamplingError:
    return SamplingError(f"process {pid} cannot be sampled: {problem}", hint="Try it once more.")


def make_scan_error(pid: int, error: OSError) -> SamplingError:
    """Return the error for processes that cannot be listed or read."""
    if not is_out_of_descriptors(error):
        return make_failed_error(pid, f"/proc cannot be read: {error.strerror}")
    return SamplingError(
        explain_out_of_descriptors(error), reason=Reason.OUT_OF_DESCRIPTORS, hint=OUT_OF_DESCRIPTORS_HINT
    )


def _explain_denial(rights: PtraceRights, target_uid: int | None, tracer: int) -> str:
    if tracer:
        return f"Process {tracer} traces it (a debugger, strace or another profiler): end that one first."
    if rights.yama == 3:
        return "kernel.yama.ptrace_scope is 3, which forbids it to everybody until the machine is restarted."
    if rights.has_sys_ptrace:
        return (
            "There is SYS_PTRACE, so something else forbids it: a seccomp or AppArmor profile (allow ptrace "
            "and process_vm_readv), or a target in another user namespace."
        )
    if rights.uid == 0:
        return (
            "root is without the capability SYS_PTRACE here: add it to the container (--cap-add SYS_PTRACE)."
        )
    if target_uid == rights.uid and rights.yama:
        return (
            f"kernel.yama.ptrace_scope is {rights.yama}: run this with sudo, or set it to 0. A program that "
            "is started by `sidelight record -- COMMAND` may be read as it is."
        )
    return "It belongs to another user: run this with sudo, or as that user."
