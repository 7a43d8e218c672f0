"""The collector process: here every part is made, once, and every task started that lives as long as it."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

import structlog
import uvloop
from aiohttp import web

from sidelight import __version__, logs
from sidelight.settings import BadSetting, shown
from sidelight_collector import native_kernel
from sidelight_collector.auth.authorizer import Tokens, read_tokens
from sidelight_collector.auth_wiring import Door, known_readers, known_tokens
from sidelight_collector.captures.capture import Rules as CaptureRules
from sidelight_collector.captures.capture_repository import Shelf
from sidelight_collector.captures.coordinator import Desk
from sidelight_collector.captures.queryable_windows import windows_of
from sidelight_collector.captures.routes import Captures, Sizes
from sidelight_collector.captures.routes import off as captures_off
from sidelight_collector.deploys.deploy_wiring import made as made_deploys
from sidelight_collector.http import short_links, ui
from sidelight_collector.http.api.routes import routes as api_routes
from sidelight_collector.http.app import Readiness, build_app
from sidelight_collector.ingest.batch import FlushRule
from sidelight_collector.ingest.dedup import RecentIds, stored_ids
from sidelight_collector.ingest.handler import Ingest
from sidelight_collector.ingest.memory_budget import Budget
from sidelight_collector.ingest.segment_writer import Flusher
from sidelight_collector.ingest.shared_stats import SharedActivity
from sidelight_collector.ingest.stats import Activity
from sidelight_collector.ingest.validation import Admission
from sidelight_collector.kubernetes_wiring import clustered, guarded, opened_cluster
from sidelight_collector.metrics import Metrics, keep_numbers_in
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.engines.clickhouse.clickhouse_client import ClickHouse
from sidelight_collector.query.engines.clickhouse.stage1 import Elsewhere, place
from sidelight_collector.query.engines.prometheus import Prometheus
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.runtime import worker
from sidelight_collector.runtime.http_server import announce, bind, listen, port_of, server_logger
from sidelight_collector.runtime.loop_lag import pulse
from sidelight_collector.runtime.supervisor import SIGNALS, Job, usable_cores
from sidelight_collector.runtime.worker import Seat
from sidelight_collector.settings.collector import DAY_SECONDS, Settings
from sidelight_collector.settings.types import Days
from sidelight_collector.storage.backends.disk_cache import DiskCachedStore
from sidelight_collector.storage.backends.instrumented import CountedStore
from sidelight_collector.storage.backends.no_conditional_writes import UnconditionalStore
from sidelight_collector.storage.backends.open_store import open_store, verify
from sidelight_collector.storage.lease import Leases
from sidelight_collector.storage.lifecycle.compaction import Compaction, Rules
from sidelight_collector.storage.lifecycle.retention import Policy, Retention
from sidelight_collector.storage.objects import ObjectStore, StoreError
from sidelight_model.errors import SidelightError
from sidelight_model.labels import LabelLimits
from sidelight_model.window import Limits

LINGER_SECONDS: Final = 3.0
"""How long a client that was refused may go on sending before the connection is closed."""
MAX_LINE_BYTES: Final = 160 << 10
"""The longest URL: a comparison may have three selectors of 4,096 characters, percent-encoded."""
RECALLED_AT_ONCE: Final = 1000
"""Ids that are learnt, and given up, before the event loop turns to others."""

_log = structlog.get_logger()


class RootTaskEnded(SidelightError):
    """A task that lives as long as the process came to its end before it."""


def main(settings: Settings) -> int:
    """Run a collector until SIGTERM or SIGINT; 0 then, 1 when a part of it died.

    Raises SidelightError for whatever keeps it from starting.
    """
    _log.info("starting", version=__version__, **shown(settings))
    _tell(native_kernel.status())
    tokens, _ = known_tokens(settings), known_readers(settings)
    store = opened(settings)
    verified = verify(store)
    _log.info("store verified", kind=store.kind, where=store.where, format=verified.format)
    if not verified.conditional_writes:
        _log.warning("store has no conditional writes: run one collector only", where=store.where)
        store = UnconditionalStore(store)
    workers = settings.workers or usable_cores()
    if workers > 1:

        def job(given: Settings, seat: Seat) -> Job:
            return partial(work, given, tokens, seat, conditional=verified.conditional_writes)

        worker.run(replace(settings, workers=workers), job)
    else:
        run(until_told(settings, store, tokens, lambda port: announce(settings, port)))
    _log.info("stopped")
    return 0


def opened(settings: Settings) -> ObjectStore:
    """The store that the settings name."""
    return open_store(
        settings.store, s3_endpoint=settings.s3_endpoint, timeout_seconds=settings.store_timeout_seconds
    )


def work(settings: Settings, tokens: Tokens, seat: Seat, pipe: Connection, *, conditional: bool) -> None:
    """Be one process of several; a Job of workers.supervise."""
    logs.configure(json=settings.log_json, level=settings.log_level, worker=seat.name)
    keep_numbers_in(seat.shared, seat.name)
    try:
        store = opened(settings)
        if not conditional:
            store = UnconditionalStore(store)
        run(until_told(settings, store, tokens, lambda _: pipe.send("working"), seat))
    except SidelightError as error:
        _log.error("worker ends", error=error.message, hint=error.hint)
        sys.exit(1)
    finally:
        parent = multiprocessing.parent_process()
        if parent is None or not parent.is_alive():
            seat.leave()


def run(serving: Coroutine[None, None, None]) -> None:
    """Run it in an event loop of its own. Raises the first cause when a root task died."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(serving)
        except ExceptionGroup as failures:
            raise _first(failures) from failures


async def until_told(
    settings: Settings,
    store: ObjectStore,
    tokens: Tokens,
    listening: Callable[[int], None],
    seat: Seat | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; one of several processes, also until the one that started it is gone."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    if parent := multiprocessing.parent_process():

        def orphaned() -> None:
            loop.remove_reader(parent.sentinel)
            _log.error("the process that started this worker is gone")
            stop.set()

        loop.add_reader(parent.sentinel, orphaned)
    await serve(settings, store, tokens, stop, listening, seat)


async def serve(
    settings: Settings,
    bare: ObjectStore,
    tokens: Tokens,
    stop: asyncio.Event,
    listening: Callable[[int], None],
    seat: Seat | None = None,
) -> None:
    """Serve until `stop` is set, then finish what is in progress; `listening` is told the port.

    Raises PortInUse, and an ExceptionGroup when a root task died.
    """
    serves, tends = settings.role != "compactor", settings.role != "serve"
    metrics = Metrics(seat.shared if seat else None)
    door = Door(settings, tokens, metrics)
    readiness = Readiness(problems=door.problems)
    activity = SharedActivity(seat.shared, seat.name) if seat else Activity()
    store = CountedStore(bare, metrics)
    recent = RecentIds(settings.dedup_cache_entries)
    rule = FlushRule(settings.flush_seconds, settings.flush_bytes)
    flusher = Flusher(store, rule, metrics, activity, recent)
    ingest = Ingest(
        flusher,
        admission(settings),
        Budget(settings.max_pending_bytes, metrics.pending_bytes.set),
        metrics,
        decode_threads=settings.decode_threads,
        max_receive_seconds=settings.max_receive_seconds,
    )
    disk = disk_cache(settings, store, metrics) if serves else None
    engine = QueryEngine(
        disk or store,
        query_limits(settings),
        metrics.segments_unreadable.inc,
        stage1(settings, metrics),
        disk.forget if disk else lambda _: None,
        prometheus(settings, metrics),
    )
    lease_seconds = settings.compact_lease_seconds
    shelf = Shelf(store)
    deploys = made_deploys(settings, store, engine, metrics, stop)
    compaction = Compaction(
        store,
        metrics,
        compaction_rules(settings),
        interval_seconds=settings.compact_interval_seconds,
        leases=Leases(store, lease_seconds, metrics.compaction_skipped.inc) if lease_seconds else None,
    )
    retention = Retention(
        store,
        metrics,
        policy=retention_policy(settings),
        interval_seconds=settings.retention_interval_seconds,
        revisit=compaction.revisit,
        expire=lambda now, stopped: (
            shelf.expire(now, settings.capture_retention_days, stopped) + deploys.expire(now, stopped)
        ),
    )
    captures = capture_routes(settings, engine, shelf, metrics)
    around = clustered(settings, store, engine, captures, metrics, opened_cluster(settings))
    link_rules = short_links.LinkRules(settings.links, settings.link_retention_days, settings.max_link_bytes)
    kept_links, pages = short_links.Links(store, link_rules), ui.find() if serves else None
    app = build_app(
        [
            *ingest.routes(),
            *api_routes(
                engine,
                activity,
                store.kind,
                told=lambda origin: metrics.query_cache_results.labels(origin).inc(),
                kept=settings.retention_days,
                page=pages.offline if pages else None,
                rolled=around.rolled,
            ),
            *around.routes,
            *deploys.routes,
            *(captures.routes() if settings.captures else captures_off()),
            *short_links.routes(kept_links, link_rules, settings.path_prefix),
            *ui.routes(settings.path_prefix, pages, [] if settings.deploys else ["deploys"]),
        ]
        if serves
        else [],
        metrics,
        guarded(door.guard, around.attacher, shelf),
        readiness,
        path_prefix=settings.path_prefix,
        build=ui.build_name(pages),
    )
    # What arrives compressed is unpacked by ingest, within limits: aiohttp must leave it alone.
    server = web.AppRunner(
        app,
        auto_decompress=False,
        access_log=None,
        shutdown_timeout=settings.shutdown_timeout_seconds,
        lingering_time=LINGER_SECONDS,
        max_line_size=MAX_LINE_BYTES,
        logger=server_logger(metrics),
    )
    await server.setup()
    try:
        sockets = seat.sockets if seat else bind(settings.address)[0]
        await listen(server, sockets)
        metrics.workers.set(0 if seat else int(serves))
        listening(port_of(sockets))
        async with asyncio.TaskGroup() as roots:
            flushing = roots.create_task(
                outlive(stop, "flush", flusher.run()), name="flush windows to the store"
            )
            roots.create_task(
                outlive(stop, "pulse", pulse(stop, metrics.event_loop_lag_seconds.observe)),
                name="measure how late the event loop is",
            )
            if tends:
                roots.create_task(
                    outlive(stop, "retention", retention.run(stop)), name="delete what is too old"
                )
            if tends and settings.compact_interval_seconds:
                roots.create_task(
                    outlive(stop, "compaction", compaction.run(stop)), name="make blocks of segments"
                )
            if tends and settings.link_retention_days:
                sweeping = short_links.sweep(kept_links, stop, settings.retention_interval_seconds)
                roots.create_task(outlive(stop, "links", sweeping), name="delete links whose time is over")
            if tends and deploys.watch:
                roots.create_task(
                    outlive(stop, "deploys", deploys.watch.run(stop)), name="compare new versions of services"
                )
            if serves:
                roots.create_task(recall(recent, store, stop), name="recall the ids of windows stored lately")
                roots.create_task(door.look(), name="look at what the cluster allows")
            if serves and settings.captures:
                roots.create_task(
                    outlive(stop, "captures", captures.desk.run(stop)), name="look after captures"
                )
            if serves and around.discovery.on:
                roots.create_task(
                    outlive(stop, "discovery", around.discovery.run(stop)), name="watch the cluster"
                )
            if serves and around.attacher.on:
                roots.create_task(
                    outlive(stop, "attach", around.attacher.run(stop)), name="attach sidecars to pods"
                )
            await stop.wait()
            _log.info("stopping")
            readiness.ready = False
            captures.desk.close()
            flusher.close()
            await flushing
            await server.cleanup()
    finally:
        await server.cleanup()
        await captures.desk.leave()
        ingest.close()
        door.close()
        engine.close()
        shelf.close()
        deploys.shelf.close()
        if disk:
            disk.close()


async def outlive(stop: asyncio.Event, name: str, task: Awaitable[None]) -> None:
    """Run a root task; raises RootTaskEnded when it ends before `stop` was set."""
    await task
    if not stop.is_set():
        raise RootTaskEnded(f"the {name} task ended", hint="This is a defect; the log above says more.")


async def recall(recent: RecentIds, store: ObjectStore, stop: asyncio.Event) -> None:
    """Learn which windows were stored before this process began; it is no reason to end if that fails."""
    loop = asyncio.get_running_loop()
    try:
        ids = await loop.run_in_executor(
            None, stored_ids, store, recent.capacity, time.time_ns(), stop.is_set
        )
    except StoreError as error:
        _log.warning("ids of earlier windows not recalled", error=error.message, hint=error.hint)
        return
    ids.reverse()
    while ids:
        recent.recall(reversed(ids[-RECALLED_AT_ONCE:]))
        del ids[-RECALLED_AT_ONCE:]
        await asyncio.sleep(0)
    _log.info("ids of earlier windows recalled", windows=len(recent))


def _tell(used: native_kernel.Status) -> None:
    if used.native:
        _log.info("native kernel in use", version=used.version)
    else:
        _log.warning("native kernel not in use", cause=used.reason, hint=used.hint)


def _first(failures: ExceptionGroup[Exception]) -> Exception:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def capture_routes(settings: Settings, engine: QueryEngine, shelf: Shelf, metrics: Metrics) -> Captures:
    """The doors of captures and all behind them, from the settings."""
    rules = CaptureRules(
        max_pods=settings.capture_max_pods,
        max_seconds=settings.capture_max_seconds,
        max_rate=settings.capture_max_rate,
        max_running=settings.capture_max_running,
        wait_seconds=settings.capture_wait_seconds,
        lost_seconds=settings.capture_agent_timeout_seconds,
        retention_days=settings.capture_retention_days,
        max_recording_bytes=settings.timeline_recording_max_bytes,
        attach_wait_seconds=settings.attach_wait_seconds,
    )
    sizes = Sizes(
        recording_bytes=settings.timeline_recording_max_bytes,
        recording_text_bytes=settings.timeline_recording_max_decompressed_bytes,
        speedscope_frames=settings.timeline_recording_max_speedscope_frames,
        receive_seconds=settings.max_receive_seconds,
    )
    desk = Desk(
        shelf,
        rules,
        metrics,
        partial(windows_of, engine),
        max_polls=settings.capture_max_polls,
        hold_seconds=settings.capture_poll_timeout_seconds,
        look_seconds=settings.capture_check_interval_seconds,
    )
    return Captures(desk, shelf, rules, sizes, metrics, settings.path_prefix, engine.limits)


def admission(settings: Settings) -> Admission:
    """The rules at the door, from the settings."""
    return Admission(
        Limits(
            max_windows=settings.max_windows,
            max_stacks=settings.max_stacks,
            max_depth=settings.max_depth,
            labels=LabelLimits(settings.max_labels, max_value_bytes=settings.max_label_bytes),
        ),
        settings.max_body_bytes,
        int(settings.max_future_seconds * 1e9),
        int(settings.max_age_days * DAY_SECONDS * 1e9),
    )


def compaction_rules(settings: Settings) -> Rules:
    """When blocks are made, from the settings."""
    return Rules(
        segments=settings.compact_min_segments,
        wait_seconds=settings.compact_max_wait_seconds,
        block_rows=settings.compact_max_block_rows,
        gone_seconds=settings.deletion_delay_seconds,
        stray_seconds=settings.orphan_age_seconds,
    )


def retention_policy(settings: Settings) -> Policy:
    """What is kept for how long, from the settings."""
    if settings.compact_interval_seconds:
        return Policy(settings.retention_days, dict(settings.retention_services), settings.retention_bytes)
    # Nothing is added up: windows go for good.
    services = {
        name: Days(days.window, days.window, days.window) for name, days in settings.retention_services
    }
    raw = settings.retention_raw_days
    return Policy(Days(raw, raw, raw), services, settings.retention_bytes)


def stage1(settings: Settings, metrics: Metrics) -> Elsewhere | None:
    """What adds up in the place of this process, from the settings. Raises BadSetting."""
    at, file = settings.clickhouse_url, settings.clickhouse_password_file
    if at is None:
        return None
    if file is not None:
        try:
            at = replace(at, password=file.read_text("utf-8").rstrip("\r\n"))
        except (OSError, UnicodeDecodeError) as error:
            raise BadSetting(
                f"cannot read the password in {file}: {error}", hint="Check the path and mode."
            ) from error
    where = place(at, settings.store, settings.s3_endpoint)
    _log.info("clickhouse adds up for queries", where=str(at), cluster=at.cluster, objects=where)
    return Elsewhere(
        ClickHouse(at), where, metrics, settings.clickhouse_timeout_seconds, settings.clickhouse_fallback
    )


def prometheus(settings: Settings, metrics: Metrics) -> Prometheus | None:
    """What tells the requests of services, from the settings. Raises BadSetting."""
    if settings.prometheus_url is None:
        return None
    file = settings.prometheus_token_file
    token = None if file is None else (read_tokens(file) or ("",))[0]
    return Prometheus(
        settings.prometheus_url,
        settings.prometheus_requests_query,
        settings.prometheus_timeout_seconds,
        token,
        lambda cause: metrics.prometheus_errors.labels(cause).inc(),
    )


def disk_cache(settings: Settings, store: ObjectStore, metrics: Metrics) -> DiskCachedStore | None:
    """The store as queries read it, if they are to keep copies on a local disk."""
    if settings.cache_dir is None:
        return None
    return DiskCachedStore(store, settings.cache_dir, settings.cache_disk_bytes, metrics)


def query_limits(settings: Settings) -> QueryLimits:
    """The bounds of queries, from the settings."""
    return QueryLimits(
        timeout_seconds=settings.query_timeout_seconds,
        running=settings.max_queries,
        waiting=settings.max_waiting_queries,
        reads=settings.query_read_concurrency,
        cache_bytes=settings.query_cache_bytes,
        answer_bytes=settings.answer_cache_bytes,
        max_range_days=settings.max_range_days,
        default_nodes=settings.default_nodes,
        max_nodes=settings.max_nodes,
        max_points=settings.max_points,
        max_rows=settings.max_rows,
        max_cells=settings.max_cells,
        max_verdict_rows=settings.max_verdict_rows,
        max_verdict_tests=settings.max_verdict_tests,
        max_export_frames=settings.max_export_frames,
    )
