"""Which processes are sampled, and the labels of their windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sidelight_model.errors import Reason
from sidelight_model.labels import Labels
from sidelight_sidecar.discovery.processes import (
    Proc,
    ProcessFilter,
    ProcessKey,
    SelectedProcess,
    sees_only_itself,
    select_processes,
)
from sidelight_sidecar.health import HealthIssue
from sidelight_sidecar.samplers.permissions import MissingPermission
from sidelight_sidecar.sampling_settings import SamplingSettings


class TargetSource(Protocol):
    """Chooses the processes to sample.

    `version` changes whenever it may choose otherwise among the same processes.
    """

    @property
    def version(self) -> int: ...

    def select(
        self, procs: Sequence[Proc], previous_roles: Mapping[ProcessKey, str]
    ) -> dict[ProcessKey, SelectedProcess]:
        """Return the processes to sample, given the roles of those sampled now."""

    def labels_for(self, proc: Proc) -> Labels:
        """Return the labels of the windows of a selected process."""

    def settings_for(self, proc: Proc) -> SamplingSettings:
        """Return the settings with which a selected process is sampled."""

    def explain_empty(self, procs: Sequence[Proc]) -> HealthIssue | None:
        """Explain why no process is selected; None if that is no problem."""


class FilteredProcesses:
    """The processes that a sidecar's filter selects, with the same labels."""

    version = 0

    def __init__(
        self, process_filter: ProcessFilter, labels: Labels, settings: SamplingSettings, own_pid: int
    ) -> None:
        self._process_filter = process_filter
        self._labels = labels
        self._settings = settings
        self._own_pid = own_pid

    def select(
        self, procs: Sequence[Proc], previous_roles: Mapping[ProcessKey, str]
    ) -> dict[ProcessKey, SelectedProcess]:
        return select_processes(
            procs, self._process_filter, own_pid=self._own_pid, previous_roles=previous_roles
        )

    def labels_for(self, proc: Proc) -> Labels:
        return self._labels

    def settings_for(self, proc: Proc) -> SamplingSettings:
        return self._settings

    def explain_empty(self, procs: Sequence[Proc]) -> HealthIssue | None:
        return explain_no_targets(self._process_filter, procs, self._own_pid)


def explain_no_targets(process_filter: ProcessFilter, procs: Sequence[Proc], own_pid: int) -> HealthIssue:
    """Explain why no process is selected, as far as that is known."""
    if not process_filter.pids and sees_only_itself(procs, own_pid):
        return HealthIssue(
            Reason.NOTHING_TO_WATCH,
            "this sidecar sees no process but its own",
            "Set shareProcessNamespace: true on the pod, or no other container can be seen.",
            MissingPermission.SHARED_PROCESSES,
        )
    others = [proc for proc in procs if proc.python_version is not None and proc.pid != own_pid]
    nested = [proc.pid for proc in others if proc.is_nested]
    if process_filter.pids:
        message = f"none of the processes {', '.join(map(str, sorted(process_filter.pids)))} runs Python now"
    elif process_filter.pattern is not None:
        message = f"no Python process has a command line that {process_filter.pattern.pattern!r} finds"
    else:
        message = "there is no Python process but this one"
    if others and not process_filter.match_all:
        hint = f"There are {len(others)} other Python processes: check --match or --pid."
    elif nested:
        hint = f"Process {nested[0]} runs Python in a PID namespace below: name it with --match or --pid."
    else:
        hint = (
            "The service has not started, or is not Python. If it runs in a container of this pod, set "
            "shareProcessNamespace: true on the pod, or no other container can be seen."
        )
    return HealthIssue(Reason.NOTHING_TO_WATCH, message, hint)
