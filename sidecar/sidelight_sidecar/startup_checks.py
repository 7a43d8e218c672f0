"""Checks at start, before anything is sampled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sidelight.settings import BadSetting
from sidelight_model.errors import Reason, SidelightError
from sidelight_sidecar.discovery.processes import Proc, ProcessFilter, select_processes
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.health import HealthIssue


def list_processes(procfs: ProcFs) -> list[Proc]:
    """Return all processes; raises SidelightError if they cannot be listed."""
    try:
        return procfs.list_processes()
    except OSError as error:
        issue = HealthIssue.from_scan_error(error)
        raise SidelightError(issue.message, reason=issue.reason, hint=issue.hint) from error


def check_pids(procs: Sequence[Proc], process_filter: ProcessFilter, *, own_pid: int) -> None:
    """Check that each pid of the filter can be sampled.

    Raises SidelightError if it is gone, is this sidecar, or is no Python process and has no Python child.
    """
    alive = {proc.pid for proc in procs if proc.is_alive}
    for pid in sorted(process_filter.pids):
        if pid not in alive:
            raise SidelightError(
                f"there is no process {pid}",
                reason=Reason.PID_GONE,
                hint="Check --pid; in Kubernetes, set shareProcessNamespace: true on the pod.",
            )
        pid_filter = ProcessFilter(frozenset({pid}), include_children=process_filter.include_children)
        if not select_processes(procs, pid_filter, own_pid=own_pid):
            raise SidelightError(
                f"process {pid} does not run Python",
                reason=Reason.NOT_PYTHON,
                hint="Neither its executable nor a mapped libpython says so, nor has it a Python child.",
            )


def check_token(file: Path | None, flag: str) -> None:
    """Raise BadSetting if a token file cannot be read or is empty."""
    if file is None:
        return
    try:
        token = file.read_text().strip()
    except (OSError, ValueError) as error:
        raise BadSetting(f"{flag} {file} cannot be read: {error}", hint="Mount or create it.") from error
    if not token or not token.isprintable() or " " in token:
        raise BadSetting(f"{flag} {file} does not hold one token", hint="It is one line, the token.")
