"""The composition root of the sidecar: builds the parts, runs the root tasks, ends them in order."""

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
from functools import partial

import aiohttp
import structlog
from aiohttp import web
from ulid import ULID

from sidelight import __version__
from sidelight.settings import shown
from sidelight_model.errors import Reason, SidelightError
from sidelight_sidecar.captures.agent_status import AgentStatusReader
from sidelight_sidecar.captures.capture_poller import Orders
from sidelight_sidecar.captures.captures import Bounds, Captures
from sidelight_sidecar.captures.remote_capture import Means as OrderMeans
from sidelight_sidecar.captures.trigger_monitor import Lookout
from sidelight_sidecar.discovery.cgroup import Cgroups
from sidelight_sidecar.discovery.processes import Choice, Watched
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.health import Board
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.one_shot import Errand
from sidelight_sidecar.overhead.budget import Budget
from sidelight_sidecar.overhead.governor import CAPTURE, ORDINARY, Governor
from sidelight_sidecar.overhead.pause_control import Switches
from sidelight_sidecar.samplers import native_sampler
from sidelight_sidecar.samplers.attach_limiter import Turns
from sidelight_sidecar.samplers.guard import Guard
from sidelight_sidecar.samplers.sampler_registry import Samplers
from sidelight_sidecar.samplers.schedule import Plan
from sidelight_sidecar.sampling.process_sampler import Means, Watch
from sidelight_sidecar.sampling.process_watcher import Fleet
from sidelight_sidecar.sampling.session_handle import Hold
from sidelight_sidecar.server import Server
from sidelight_sidecar.settings import Settings
from sidelight_sidecar.shipping.collector_client import Reach, Route
from sidelight_sidecar.shipping.ship import Shipper
from sidelight_sidecar.shipping.spool import Spool
from sidelight_sidecar.startup_checks import check_pids, check_token
from sidelight_sidecar.windows.preroll import Preroll
from sidelight_sidecar.windows.timeline_recording import Room
from sidelight_sidecar.windows.window_writer import Intake
from sidelight_sidecar.windows.windows import Source

_THREADS = 32
_CLOSE_SECONDS = 5.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar")


async def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; 0 when all of it ended in order.

    Raises SidelightError for what is wrong at start, before anything is sampled.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "sidelight"))
    _log.info("the sidecar starts", sidelight=__version__, settings=shown(settings))
    procfs, metrics, board = ProcFs(containers=bool(settings.target_container)), Metrics(), Board()
    switches = _switches(settings, metrics)
    choice = Choice(
        frozenset(settings.pid),
        settings.pattern,
        settings.all,
        settings.include_children,
        settings.target_container,
    )
    check_token(settings.token_file, "--token-file")
    check_token(settings.capture_token_file, "--capture-token-file")
    check_pids(procfs.processes(), choice, own_pid=os.getpid())
    extension = native_sampler.load()
    samplers = Samplers(
        extension,
        procfs,
        max_depth=settings.max_depth,
        max_stacks=settings.max_stacks,
        max_stop_us=round(settings.max_stop_ms * 1000),
    )
    sampler = samplers.get(settings.mode)
    metrics.sampler.labels("command" if sampler.mode == "command" else "extension").set(1)
    metrics.rate_target_hz.set(settings.rate)
    spool = Spool(settings.spool, settings.spool_max_bytes, metrics, _next_to)
    # Sent windows go straight to the collector, never through a proxy somebody set for the service.
    async with aiohttp.ClientSession(trust_env=False) as http:
        route = Route(
            settings.collector,
            settings.token_file,
            settings.batch_max_bytes,
            settings.send_timeout_seconds,
            settings.send_backoff_max_seconds,
            settings.one_shot_token.token,
        )
        shipper = Shipper(spool, route, http, metrics, board, random.random)
        preroll = Preroll(settings.preroll_seconds, settings.preroll_max_bytes)
        intake = Intake(spool, preroll, metrics, board, _new_id, shipper.wake)
        governor = Governor(
            _budgets(settings), Cgroups(), lambda: samplers.cpu_seconds, metrics, board, time.monotonic
        )
        plan = Plan(settings.window_seconds, settings.interval_seconds, settings.jitter, settings.on_demand)
        means = Means(
            sampler,
            intake,
            governor,
            switches,
            metrics,
            board,
            plan,
            preroll.on and not plan.continuous,
            settings.rate,
            settings.triggers,
            settings.trigger_hz,
            settings.max_stacks,
            settings.attach_retry_max_seconds,
            time.monotonic,
            random.random,
        )
        guard, labels = Guard(procfs), settings.labels
        turns = Turns(time.monotonic, random.random)

        def make_watch(found: Watched) -> Watch:
            proc = found.proc
            source = Source(labels, found.role, proc.pid)
            return Watch(proc.key, Hold(proc, guard, turns, metrics, board), source, means)

        fleet = Fleet(
            procfs,
            choice,
            own_pid=os.getpid(),
            most=settings.max_processes,
            scan_seconds=settings.scan_interval_seconds,
            make_watch=make_watch,
            metrics=metrics,
            board=board,
            done_seconds=settings.exit_when_done_seconds,
        )
        lookout = Lookout(settings.triggers, fleet, intake, switches, Cgroups(), metrics, time.monotonic)
        switches.told = lambda: _wake(fleet)
        bounds = Bounds(
            settings.capture_max_seconds,
            settings.capture_max_rate,
            settings.window_seconds,
            min(10.0, settings.capture_max_seconds),
            min(settings.rate, settings.capture_max_rate),
            settings.mode,
        )
        room = Room(settings.timeline_recording_memory_bytes, metrics.timeline_recording_bytes.set)
        captures = Captures(fleet, switches, bounds, samplers.get, room, metrics, _new_id, time.monotonic)
        agent = settings.one_shot_token.agent or _new_id()
        order_means = OrderMeans(
            captures,
            spool,
            Reach(route, http),
            metrics,
            agent,
            labels,
            settings.timeline_recording_max_bytes,
            settings.timeline_recording_retry_seconds,
            settings.send_backoff_max_seconds,
            time.monotonic,
            random.random,
            attached=bool(settings.one_shot_token),
        )
        status = AgentStatusReader(
            agent, labels, sampler.mode, samplers.modes, bounds, fleet, switches, board
        )
        orders = Orders(order_means, status.read, hold_seconds=settings.capture_poll_timeout_seconds)
        fell_back = settings.mode == "auto" and extension is None
        server = Server(
            captures,
            fleet,
            board,
            metrics,
            switches,
            lookout,
            sampler,
            fell_back,
            settings.capture_token_file,
        )
        runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=1.0)
        try:
            await _listen(runner, settings.address)
            asking = orders if settings.captures_from_collector else None
            looks = [governor.run, switches.run, lookout.run]
            over = asyncio.Event()
            if settings.one_shot_token:
                errand = Errand(
                    settings.one_shot_token, settings.capture_max_seconds, over.set, time.monotonic
                )
                looks.append(partial(errand.run, orders))
                orders.ready = partial(errand.ready, lambda: bool(fleet.watches))
            return await _run(fleet, lookout, shipper, asking, looks, over, settings.shutdown_flush_seconds)
        finally:
            await runner.cleanup()
            samplers.close()
            _log.info("the sidecar has stopped", windows_left=len(spool), spool=str(settings.spool))
            spool.close()
            if settings.one_shot_token:
                shutil.rmtree(settings.spool, ignore_errors=True)


def _switches(settings: Settings, metrics: Metrics) -> Switches:
    """The kill switch, with its signals: in place before anything else, for they would end the process."""
    switches = Switches(metrics, pid=os.getpid(), pause_file=settings.pause_file)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, switches.turn, "signal", True)
    loop.add_signal_handler(signal.SIGUSR2, switches.turn, "signal", False)
    switches.look()
    return switches


def _wake(fleet: Fleet) -> None:
    for watch in fleet.watches:
        watch.wake()


def _budgets(settings: Settings) -> dict[str, Budget]:
    capture = settings.capture_budget_percent / 100
    return {
        ORDINARY: Budget(settings.budget_cpu_percent / 100, settings.budget_stop_percent / 100),
        CAPTURE: Budget(capture, capture, rows=False),
    }


async def _listen(runner: web.AppRunner, address: tuple[str, int]) -> None:
    await runner.setup()
    host, port = address
    try:
        await web.TCPSite(runner, host, port).start()
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


async def _run(
    fleet: Fleet,
    lookout: Lookout,
    shipper: Shipper,
    orders: Orders | None,
    looks: Sequence[Callable[[], Coroutine[None, None, None]]],
    over: asyncio.Event,
    flush_seconds: float,
) -> int:
    """Run the root tasks until a signal, or until there is no more to do.

    A root task that dies ends the others, and the answer is 1.
    """
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    ended = asyncio.Event()
    fleet.when_done = ended.set
    died: list[BaseException] = []
    try:
        async with asyncio.TaskGroup() as group:
            following = group.create_task(fleet.run(), name="follow processes")
            shipping = group.create_task(shipper.run(), name="ship windows")
            asking = group.create_task(orders.run(), name="ask for captures") if orders else None
            looking = [group.create_task(look(), name="look every second") for look in looks]
            await _first(signalled, ended, over)
            if ended.is_set():
                _log.info("every process that was watched has ended: so does the sidecar")
            elif not over.is_set():
                lookout.sigterm()
            _log.info("stopping: windows are closed and sent", flush_seconds=flush_seconds)
            deadline = loop.time() + flush_seconds
            fleet.stop()
            await _finish(following, loop.time() + max(flush_seconds, _CLOSE_SECONDS))
            if signalled.is_set():
                await lookout.ship_rest()
            shipper.drain()
            if orders is not None and asking is not None:
                orders.drain()
                await _finish(asking, deadline)
            await _finish(shipping, deadline)
            for task in looking:
                task.cancel()
    except* Exception as failures:  # noqa: BLE001 - the root of the process
        died += failures.exceptions
    for failure in died:
        _log.error("a root task died", exc_info=failure)
    return 1 if died else 0


async def _first(*events: asyncio.Event) -> None:
    """Wait for any of them."""
    async with asyncio.TaskGroup() as group:
        waits = {group.create_task(event.wait(), name="wait for the end") for event in events}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


async def _finish(task: asyncio.Task[None], deadline: float) -> None:
    done, _ = await asyncio.wait({task}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
    if not done:
        task.cancel()


def _new_id() -> str:
    return str(ULID())


def _next_to(window_id: str) -> str:
    return str(ULID.from_timestamp(ULID.from_str(window_id).timestamp))
