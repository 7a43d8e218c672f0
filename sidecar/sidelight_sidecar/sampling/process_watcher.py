"""Follows the processes to sample: starts a loop for each new one, stops old ones."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from sidelight.waiting import wait_for_event
from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.process_description import describe_process
from sidelight_sidecar.discovery.processes import (
    Proc,
    ProcessFilter,
    ProcessKey,
    SelectedProcess,
    sees_only_itself,
    select_processes,
)
from sidelight_sidecar.discovery.procfs import ProcessUsage, ProcFs
from sidelight_sidecar.health import HealthBoard, HealthIssue
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.samplers.permissions import MissingPermission
from sidelight_sidecar.sampling.process_capture import CapturePlan, ProcessCapture
from sidelight_sidecar.sampling.process_sampler import ProcessSampler

_MAX_SCAN_CPU_SHARE = 0.05
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.sampling.process_watcher"
)


@dataclass(frozen=True, slots=True)
class ScanPolicy:
    """The most processes to sample, and how often to look for new ones.

    `on_done` is called once all sampled processes have been gone for `exit_after_seconds`.
    """

    max_processes: int
    interval_seconds: float
    exit_after_seconds: float | None = None


class ProcessWatcher:
    """The ProcessSamplers of all selected processes, at most `max_processes` of them."""

    def __init__(
        self,
        procfs: ProcFs,
        process_filter: ProcessFilter,
        make_process_sampler: Callable[[SelectedProcess], ProcessSampler],
        metrics: SidecarMetrics,
        health: HealthBoard,
        policy: ScanPolicy,
        *,
        own_pid: int,
    ) -> None:
        self._procfs = procfs
        self._process_filter = process_filter
        self._own_pid = own_pid
        self._max_processes = policy.max_processes
        self._scan_seconds = policy.interval_seconds
        self._make_process_sampler = make_process_sampler
        self._metrics = metrics
        self._health = health
        self._process_samplers: dict[ProcessKey, ProcessSampler] = {}
        self._roles: dict[ProcessKey, str] = {}
        self._last_processes: Sequence[Proc] = ()
        self._are_roles_stable = False
        self._scan_pause_seconds = policy.interval_seconds
        self._scan_stop = threading.Event()
        self._exit_after_seconds = policy.exit_after_seconds
        self._last_active: float | None = None
        self.on_done: Callable[[], None] = lambda: None
        self._stopping = asyncio.Event()
        health.report("watching", HealthIssue(Reason.NOTHING_TO_WATCH, "no process has been scanned yet"))

    @property
    def process_samplers(self) -> list[ProcessSampler]:
        """The samplers of the current processes, by pid."""
        return [self._process_samplers[key] for key in sorted(self._process_samplers)]

    @property
    def usage(self) -> Mapping[ProcessKey, ProcessUsage]:
        """Usage of Python processes at the last scan."""
        return self._procfs.usage

    def stop(self) -> None:
        """Let `run` return once every session is closed and its window kept."""
        self._scan_stop.set()
        self._stopping.set()

    def start_capture(
        self, job: CapturePlan, process_captures: Sequence[tuple[ProcessSampler, ProcessCapture]]
    ) -> None:
        """Start a capture on the given processes."""
        for watch, part in process_captures:
            watch.start_capture(job, part)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while not self._stopping.is_set():
                try:
                    procs = await asyncio.to_thread(self._scan_until_change)
                except asyncio.CancelledError:
                    self._scan_stop.set()
                    raise
                self._update_process_samplers(procs, group)
                self._check_done()
                await self._wait(self._scan_pause_seconds)
            for watch in self._process_samplers.values():
                watch.stop()

    def _scan_until_change(self) -> list[Proc]:
        """Scan until something has changed or the sidecar stops; runs in its own thread.

        While nothing changes, it does not wake the event loop.
        """
        while True:
            started_at = time.thread_time()
            procs = self._try_scan()
            if procs is None:
                # Nothing is known: sampling goes on as it is.
                if self._scan_stop.wait(self._scan_seconds):
                    return list(self._last_processes)
                continue
            cpu_seconds = time.thread_time() - started_at
            self._metrics.scan_cpu_seconds.set(cpu_seconds)
            # A machine with thousands of processes is scanned less often, not with a whole core.
            self._scan_pause_seconds = max(self._scan_seconds, cpu_seconds / _MAX_SCAN_CPU_SHARE)
            is_counting_down = self._exit_after_seconds is not None and not self._process_samplers
            if (
                is_counting_down
                or not self._are_roles_stable
                or procs != self._last_processes
                or self._scan_stop.wait(self._scan_pause_seconds)
            ):
                return procs

    def _try_scan(self) -> list[Proc] | None:
        try:
            procs = self._procfs.list_processes()
        except OSError as error:
            problem = HealthIssue.from_scan_error(error)
            if self._health.report("open files", problem):
                _log.warning("processes cannot be listed", problem=problem.message, hint=problem.hint)
            return None
        if self._health.clear("open files"):
            _log.info("processes can be listed again")
        return procs

    def _update_process_samplers(self, procs: Sequence[Proc], group: asyncio.TaskGroup) -> None:
        selected = select_processes(
            procs, self._process_filter, own_pid=self._own_pid, previous_roles=self._roles
        )
        for key in self._process_samplers.keys() - selected.keys():
            self._process_samplers.pop(key).stop()
        for key, watch in self._process_samplers.items():
            watch.role = selected[key].role
        free_slots = self._max_processes - len(self._process_samplers)
        for key in [key for key in selected if key not in self._process_samplers][: max(0, free_slots)]:
            watch = self._make_process_sampler(selected[key])
            self._process_samplers[key] = watch
            group.create_task(watch.run(), name=f"watch process {key.pid}")
            _log.info("a process is watched", pid=key.pid, command=describe_process(selected[key].proc))
        roles = {key: selected[key].role for key in self._process_samplers}
        # A role may depend on the previous role: only stable roles make a scan without changes skippable.
        self._last_processes, self._are_roles_stable, self._roles = procs, roles == self._roles, roles
        self._metrics.processes.set(len(self._process_samplers))
        self._report_health(selected, procs)

    def _check_done(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._process_samplers:
            # Without any process so far, nothing can have ended.
            self._last_active = now
            return
        since, wait = self._last_active, self._exit_after_seconds
        if since is not None and wait is not None and now - since >= wait:
            self.on_done()

    def _report_health(self, selected: dict[ProcessKey, SelectedProcess], procs: Sequence[Proc]) -> None:
        if selected:
            self._health.clear("watching")
        else:
            self._health.report("watching", explain_no_targets(self._process_filter, procs, self._own_pid))
        if len(selected) > self._max_processes:
            problem = HealthIssue(
                Reason.OVERLOADED,
                f"{len(selected)} processes are to be watched, and {self._max_processes} are",
                "Raise --max-processes, or choose fewer.",
            )
            if self._health.report("processes", problem):
                _log.warning("not every process is watched", problem=problem.message, hint=problem.hint)
        else:
            self._health.clear("processes")

    async def _wait(self, seconds: float) -> None:
        await wait_for_event(self._stopping, seconds)


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
