"""Follows the processes to sample: starts a loop for each new one, stops old ones."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from sidelight.waiting import wait_for_event
from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.process_description import describe_process
from sidelight_sidecar.discovery.processes import Proc, ProcessKey, SelectedProcess
from sidelight_sidecar.discovery.procfs import ProcessUsage, ProcFs
from sidelight_sidecar.health import HealthBoard, HealthIssue
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.sampling.process_capture import CapturePlan, ProcessCapture
from sidelight_sidecar.sampling.process_sampler import ProcessSampler
from sidelight_sidecar.sampling.sampler_context import SamplerContext
from sidelight_sidecar.sampling.target_source import TargetSource
from sidelight_sidecar.sampling_settings import SamplingSettings
from sidelight_sidecar.windows.window_builder import TargetLabels

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


class SampledProcesses(Protocol):
    """The processes that a capture may sample."""

    @property
    def process_samplers(self) -> list[ProcessSampler]: ...

    def start_capture(
        self, job: CapturePlan, process_captures: Sequence[tuple[ProcessSampler, ProcessCapture]]
    ) -> None: ...


class ProcessWatcher:
    """The ProcessSamplers of all selected processes, at most `max_processes` of them."""

    def __init__(
        self,
        procfs: ProcFs,
        targets: TargetSource,
        make_process_sampler: Callable[[Proc, TargetLabels, SamplerContext], ProcessSampler],
        make_context: Callable[[SamplingSettings], SamplerContext],
        metrics: SidecarMetrics,
        health: HealthBoard,
        policy: ScanPolicy,
    ) -> None:
        self._procfs = procfs
        self._targets = targets
        self._targets_version = targets.version
        self._max_processes = policy.max_processes
        self._scan_seconds = policy.interval_seconds
        self._make_process_sampler = make_process_sampler
        self._make_context = make_context
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
                or self._targets.version != self._targets_version
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
        self._targets_version = self._targets.version
        selected = self._targets.select(procs, self._roles)
        for key in self._process_samplers.keys() - selected.keys():
            self._process_samplers.pop(key).stop()
        for key, watch in self._process_samplers.items():
            watch.target_labels = self._build_labels(selected[key])
            watch.context = self._get_context(selected[key].proc)
        free_slots = self._max_processes - len(self._process_samplers)
        for key in [key for key in selected if key not in self._process_samplers][: max(0, free_slots)]:
            proc = selected[key].proc
            watch = self._make_process_sampler(
                proc, self._build_labels(selected[key]), self._get_context(proc)
            )
            self._process_samplers[key] = watch
            group.create_task(watch.run(), name=f"watch process {key.pid}")
            _log.info("a process is watched", pid=key.pid, command=describe_process(proc))
        roles = {key: selected[key].role for key in self._process_samplers}
        # A role may depend on the previous role: only stable roles make a scan without changes skippable.
        self._last_processes, self._are_roles_stable, self._roles = procs, roles == self._roles, roles
        self._metrics.processes.set(len(self._process_samplers))
        self._report_health(selected, procs)

    def _build_labels(self, selected: SelectedProcess) -> TargetLabels:
        return TargetLabels(self._targets.labels_for(selected.proc), selected.role, selected.proc.pid)

    def _get_context(self, proc: Proc) -> SamplerContext:
        return self._make_context(self._targets.settings_for(proc))

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
        problem = None if selected else self._targets.explain_empty(procs)
        if problem is None:
            self._health.clear("watching")
        else:
            self._health.report("watching", problem)
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
