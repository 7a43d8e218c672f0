"""The composition root of the sidecar: builds the parts and runs the root tasks."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import aiohttp
import structlog
from aiohttp import web
from ulid import ULID

from sidelight import __version__
from sidelight.connection_guard import ConnectionGuard, build_guard
from sidelight.connection_listener import accept_connections, open_listeners
from sidelight.open_files import raise_open_file_limit
from sidelight.request_origin import OriginPolicy, is_loopback
from sidelight.settings import mask_secrets
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.labels import Labels
from sidelight_sidecar.captures.agent_status import AgentStatusReader, NodeAgentNotice, build_static_fields
from sidelight_sidecar.captures.capture_poller import CapturePoller
from sidelight_sidecar.captures.capture_tasks import CaptureTask, CaptureTasks, MakePoller
from sidelight_sidecar.captures.captures import CaptureLimits, CaptureRegistry
from sidelight_sidecar.captures.remote_capture import CaptureContext
from sidelight_sidecar.captures.trigger_monitor import TriggerMonitor
from sidelight_sidecar.discovery.cgroup import Cgroups
from sidelight_sidecar.discovery.processes import Proc, ProcessFilter
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.one_shot import OneShotCapture
from sidelight_sidecar.one_time_token import NO_ONE_TIME_TOKEN, OneTimeToken
from sidelight_sidecar.overhead.budget import Budget
from sidelight_sidecar.overhead.governor import CAPTURE, ORDINARY, Governor
from sidelight_sidecar.overhead.pause_control import PauseControl
from sidelight_sidecar.samplers import native_sampler
from sidelight_sidecar.samplers.attach_limiter import AttachLimiter
from sidelight_sidecar.samplers.guard import Guard
from sidelight_sidecar.samplers.sampler import SamplingError
from sidelight_sidecar.samplers.sampler_registry import SamplerRegistry
from sidelight_sidecar.samplers.schedule import SamplingPlan
from sidelight_sidecar.sampling.process_sampler import ProcessSampler
from sidelight_sidecar.sampling.process_watcher import ProcessWatcher, SampledProcesses, ScanPolicy
from sidelight_sidecar.sampling.sampler_context import SamplerContext
from sidelight_sidecar.sampling.session_handle import SessionHandle
from sidelight_sidecar.sampling.target_source import FilteredProcesses, TargetSource
from sidelight_sidecar.sampling_settings import SamplingSettings
from sidelight_sidecar.server import DefaultSampler, SidecarServer
from sidelight_sidecar.settings import SidecarSettings
from sidelight_sidecar.shipping.collector_client import ClientConfig, CollectorClient
from sidelight_sidecar.shipping.ship import Shipper
from sidelight_sidecar.shipping.spool import Spool
from sidelight_sidecar.startup_checks import check_pids, check_token, list_processes
from sidelight_sidecar.windows.preroll import Preroll
from sidelight_sidecar.windows.timeline_recording import RecordingBudget
from sidelight_sidecar.windows.window_builder import TargetLabels
from sidelight_sidecar.windows.window_writer import WindowWriter

_MAX_THREADS = 32
_MAX_CONTEXTS = 1024
_MIN_CLOSE_SECONDS = 5.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar")


@dataclass(frozen=True, slots=True)
class SamplingParts:
    """The parts that are built first, and what a program samples.

    `exit_after_seconds` ends the program when no process has been left for this long.
    """

    settings: SamplingSettings
    procfs: ProcFs
    targets: TargetSource
    budget: Budget
    metrics: SidecarMetrics
    health: HealthBoard
    pause_control: PauseControl
    one_shot_token: OneTimeToken = NO_ONE_TIME_TOKEN
    exit_after_seconds: float | None = None
    is_node_agent: bool = False


async def serve(settings: SidecarSettings) -> int:
    """Run the sidecar until SIGTERM or SIGINT; return 0, or 1 if a root task died.

    Raises SidelightError if the sidecar cannot start, before it samples anything.
    """
    prepare_process(settings)
    process_filter = ProcessFilter(
        frozenset(settings.pid),
        settings.match_pattern,
        settings.all,
        settings.include_children,
        settings.target_container,
    )
    metrics = SidecarMetrics()
    parts = SamplingParts(
        settings,
        ProcFs(read_containers=bool(settings.target_container)),
        FilteredProcesses(process_filter, settings.labels, settings, os.getpid()),
        Budget(settings.budget_cpu_percent / 100, settings.budget_stop_percent / 100),
        metrics,
        HealthBoard(),
        build_pause_control(settings, metrics),
        settings.one_shot_token,
        settings.exit_when_done_seconds,
    )
    check_pids(list_processes(parts.procfs), process_filter, own_pid=os.getpid())
    try:
        return await run_sampling(parts, partial(_wire_captures, settings, NodeAgentNotice(metrics)))
    finally:
        if settings.one_shot_token:
            shutil.rmtree(settings.spool_directory, ignore_errors=True)


def _wire_captures(
    settings: SidecarSettings,
    node_agent_notice: NodeAgentNotice,
    make_poller: MakePoller,
    process_watcher: ProcessWatcher,
) -> CaptureTasks:
    token = settings.one_shot_token
    poller = make_poller(token.agent or _new_id(), settings.labels, process_watcher, is_one_shot=bool(token))
    poller.on_response = node_agent_notice.update
    tasks = CaptureTasks(poller)
    if not token:
        return tasks
    one_shot_capture = OneShotCapture(token, settings.capture_max_seconds, tasks.done.set, time.monotonic)
    poller.wait_until_ready = partial(
        one_shot_capture.wait_for_process, lambda: bool(process_watcher.process_samplers)
    )
    return replace(tasks, periodic_tasks=[partial(one_shot_capture.run, poller)])


def prepare_process(settings: SamplingSettings) -> None:
    """Set the limits of this process, and log its settings."""
    raise_open_file_limit()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_MAX_THREADS, "sidelight"))
    _log.info("the sampler starts", sidelight=__version__, settings=mask_secrets(settings))


async def run_sampling(
    parts: SamplingParts,
    wire_captures: Callable[[MakePoller, ProcessWatcher], CaptureTasks],
) -> int:
    """Sample and send until SIGTERM or SIGINT; return 0, or 1 if a root task died.

    Raises SidelightError if it cannot start, before it samples anything.
    """
    settings, procfs, targets = parts.settings, parts.procfs, parts.targets
    metrics, health, pause_control = parts.metrics, parts.health, parts.pause_control
    check_token(settings.token_file, "--token-file")
    check_token(settings.capture_token_file, "--capture-token-file")
    ca_bundle = settings.open_ca_bundle()
    extension = native_sampler.load_extension()
    samplers = SamplerRegistry(
        extension,
        procfs,
        max_depth=settings.max_depth,
        max_stacks=settings.max_stacks,
        max_stop_us=round(settings.max_stop_ms * 1000),
        tasks_hz=settings.tasks_rate,
    )
    sampler = samplers.get(settings.mode)
    metrics.sampler.labels("command" if sampler.mode == "command" else "extension").set(1)
    metrics.rate_target_hz.set(settings.rate)
    spool = Spool(settings.spool_directory, settings.spool_max_bytes, metrics, _new_window_id)
    # Windows go straight to the collector, never through a proxy that is set for the service.
    # Each poller holds a connection, and a node may have hundreds of pods.
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(trust_env=False, connector=connector) as http:
        client_config = ClientConfig(
            settings.collector,
            settings.token_file,
            settings.batch_max_bytes,
            settings.send_timeout_seconds,
            settings.send_backoff_max_seconds,
            parts.one_shot_token.token,
            ca_bundle,
        )
        shipper = Shipper(spool, client_config, http, metrics, health, random.random)
        preroll = Preroll(settings.preroll_seconds, settings.preroll_max_bytes)
        window_writer = WindowWriter(spool, preroll, metrics, health, _new_window_id, shipper.wake)
        capture_share = settings.capture_budget_percent / 100
        budgets = {
            ORDINARY: parts.budget,
            CAPTURE: Budget(capture_share, capture_share, can_skip_windows=False),
        }
        governor = Governor(budgets, Cgroups(), lambda: samplers.cpu_seconds, metrics, health, time.monotonic)

        @lru_cache(_MAX_CONTEXTS)
        def make_context(own: SamplingSettings) -> SamplerContext:
            plan = SamplingPlan(
                own.window_seconds, own.interval_seconds, own.effective_jitter_seconds, own.on_demand
            )
            try:
                own_sampler = samplers.get(own.mode)
            except SamplingError as error:
                _log.warning(
                    "the mode of a pod's annotation cannot be used here",
                    mode=own.mode,
                    used=sampler.mode,
                    problem=error.message,
                    hint=error.hint,
                )
                own_sampler = sampler
            return SamplerContext(
                own_sampler,
                window_writer,
                governor,
                pause_control,
                metrics,
                health,
                plan,
                own.preroll_seconds > 0 and not plan.is_continuous,
                own.rate,
                own.trigger_rules,
                own.trigger_rate_hz,
                own.max_stacks,
                own.attach_retry_max_seconds,
                own.pod_cpu_share,
                time.monotonic,
                random.random,
            )

        guard = Guard(procfs)
        attach_limiter = AttachLimiter(time.monotonic, random.random)

        def make_process_sampler(
            proc: Proc, target_labels: TargetLabels, sampler_context: SamplerContext
        ) -> ProcessSampler:
            return ProcessSampler(
                proc.key,
                SessionHandle(proc, guard, attach_limiter, metrics, health),
                target_labels,
                sampler_context,
            )

        process_watcher = ProcessWatcher(
            procfs,
            targets,
            make_process_sampler,
            make_context,
            metrics,
            health,
            ScanPolicy(settings.max_processes, settings.scan_interval_seconds, parts.exit_after_seconds),
        )
        trigger_monitor = TriggerMonitor(
            settings.trigger_rules,
            process_watcher,
            window_writer,
            pause_control,
            Cgroups(),
            metrics,
            time.monotonic,
        )
        pause_control.on_change = lambda: _wake_process_samplers(process_watcher)
        capture_limits = CaptureLimits(
            settings.capture_max_seconds,
            settings.capture_max_rate,
            settings.window_seconds,
            min(10.0, settings.capture_max_seconds),
            min(settings.rate, settings.capture_max_rate),
            settings.mode,
        )
        recording_budget = RecordingBudget(
            settings.timeline_recording_memory_bytes, metrics.timeline_recording_bytes.set
        )

        def make_captures(processes: SampledProcesses) -> CaptureRegistry:
            return CaptureRegistry(
                processes,
                pause_control,
                capture_limits,
                samplers.get,
                recording_budget,
                metrics,
                _new_id,
                time.monotonic,
            )

        def make_poller(
            agent: str,
            labels: Labels,
            processes: SampledProcesses,
            *,
            is_one_shot: bool = False,
            is_for_node: bool = False,
            only_capture: str = "",
        ) -> CapturePoller:
            capture_context = CaptureContext(
                captures if processes is process_watcher else make_captures(processes),
                spool,
                CollectorClient(client_config, http),
                metrics,
                agent,
                labels,
                settings.timeline_recording_max_bytes,
                settings.timeline_recording_retry_seconds,
                settings.send_backoff_max_seconds,
                time.monotonic,
                random.random,
                is_one_shot=is_one_shot,
            )
            static_fields = build_static_fields(
                agent, labels, sampler.mode, samplers.capture_modes, capture_limits
            )
            status = AgentStatusReader(
                replace(static_fields, node_agent=parts.is_node_agent, only_capture=only_capture),
                processes,
                pause_control,
                health,
            )
            return CapturePoller(
                capture_context,
                status.read,
                poll_timeout_seconds=settings.capture_poll_timeout_seconds,
                is_for_node=is_for_node,
                only_capture=only_capture,
            )

        captures = make_captures(process_watcher)
        capture_tasks = wire_captures(make_poller, process_watcher)
        is_fallback = settings.mode == "auto" and extension is None
        server = SidecarServer(
            captures,
            process_watcher,
            health,
            metrics,
            pause_control,
            trigger_monitor,
            DefaultSampler(sampler, is_fallback),
            settings.capture_token_file,
        )
        origin_policy = OriginPolicy(is_loopback(settings.listen_address[0]), settings.allowed_hosts)
        connection_guard = build_guard(
            settings,
            settings.max_connections,
            lambda reason: metrics.connections_closed.labels(reason).inc(),
        )
        app = server.build_app(origin_policy)
        connection_guard.protect(app)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=connection_guard.keepalive_seconds
        )
        try:
            await _listen(runner, connection_guard, settings.listen_address)
            periodic_tasks = [governor.run, pause_control.run, trigger_monitor.run]
            return await _run_root_tasks(
                process_watcher,
                trigger_monitor,
                shipper,
                capture_tasks.poller if settings.captures_from_collector else None,
                [*periodic_tasks, *capture_tasks.periodic_tasks],
                capture_tasks.done,
                settings.shutdown_flush_seconds,
            )
        finally:
            await runner.cleanup()
            samplers.close()
            _log.info("the sampler has stopped", windows_left=len(spool), spool=str(settings.spool_directory))
            spool.close()


def build_pause_control(settings: SamplingSettings, metrics: SidecarMetrics) -> PauseControl:
    """Build the pause switch and handle its signals.

    It comes before anything else, because its signals would end the process without a handler.
    """
    pause_control = PauseControl(metrics, pid=os.getpid(), pause_file=settings.pause_file)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, pause_control.set_switch, "signal", True)
    loop.add_signal_handler(signal.SIGUSR2, pause_control.set_switch, "signal", False)
    pause_control.refresh()
    return pause_control


def _wake_process_samplers(process_watcher: ProcessWatcher) -> None:
    for watch in process_watcher.process_samplers:
        watch.wake()


async def _listen(runner: web.AppRunner, guard: ConnectionGuard, address: tuple[str, int]) -> None:
    await runner.setup()
    host, port = address
    try:
        await accept_connections(guard, runner, open_listeners(host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SidelightError(
                f"port {port} of {host} is in use",
                reason=Reason.PORT_IN_USE,
                hint="Another sidecar may run there: give this one another --listen.",
            ) from error
        raise SidelightError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            reason=Reason.BAD_SETTING,
            hint="Check --listen.",
        ) from error
    for bound in runner.addresses:
        _log.info("listening", url=f"http://{bound[0]}:{bound[1]}")


async def _run_root_tasks(
    process_watcher: ProcessWatcher,
    trigger_monitor: TriggerMonitor,
    shipper: Shipper,
    capture_task: CaptureTask | None,
    periodic_tasks: Sequence[Callable[[], Coroutine[None, None, None]]],
    done_event: asyncio.Event,
    flush_seconds: float,
) -> int:
    """Run the root tasks until a signal arrives or the work is done.

    A root task that dies ends the others. Returns 1 then, else 0.
    """
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    all_ended = asyncio.Event()
    process_watcher.on_done = all_ended.set
    errors: list[BaseException] = []
    try:
        async with asyncio.TaskGroup() as group:
            watcher_task = group.create_task(process_watcher.run(), name="follow processes")
            shipper_task = group.create_task(shipper.run(), name="ship windows")
            poller_task = (
                group.create_task(capture_task.run(), name="ask for captures") if capture_task else None
            )
            timers = [group.create_task(periodic(), name="look every second") for periodic in periodic_tasks]
            await _wait_for_any(signalled, all_ended, done_event)
            if all_ended.is_set():
                _log.info("every process that was watched has ended: so does the sidecar")
            elif not done_event.is_set():
                trigger_monitor.fire_sigterm()
            _log.info("stopping: windows are closed and sent", flush_seconds=flush_seconds)
            deadline = loop.time() + flush_seconds
            process_watcher.stop()
            await _wait_or_cancel(watcher_task, loop.time() + max(flush_seconds, _MIN_CLOSE_SECONDS))
            if signalled.is_set():
                await trigger_monitor.flush()
            shipper.drain()
            if capture_task is not None and poller_task is not None:
                capture_task.drain()
                await _wait_or_cancel(poller_task, deadline)
            await _wait_or_cancel(shipper_task, deadline)
            for task in timers:
                task.cancel()
    except* Exception as failures:  # noqa: BLE001 - the root of the process
        errors += failures.exceptions
    for error in errors:
        _log.error("a root task died", exc_info=error)
    return 1 if errors else 0


async def _wait_for_any(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    async with asyncio.TaskGroup() as group:
        waits = {group.create_task(event.wait(), name="wait for the end") for event in events}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


async def _wait_or_cancel(task: asyncio.Task[None], deadline: float) -> None:
    done, _ = await asyncio.wait({task}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
    if not done:
        task.cancel()


def _new_id() -> str:
    return str(ULID())


def _new_window_id(start_ns: int) -> str:
    return str(ULID.from_timestamp(start_ns // 10**6))
