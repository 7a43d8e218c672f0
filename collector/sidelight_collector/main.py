"""The collector process: builds every part and starts every long-running task."""

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
from sidelight.connection_guard import build_guard
from sidelight.loop_watchdog import log_stalls, run_beside
from sidelight.request_origin import OriginPolicy, is_loopback
from sidelight.settings import mask_secrets, parse_address
from sidelight_collector import native_kernel
from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.auth_wiring import AuthContext, load_read_policy, load_tokens
from sidelight_collector.capture_wiring import build_capture_routes
from sidelight_collector.captures.capture_repository import CaptureRepository
from sidelight_collector.captures.capture_writers import CaptureWriters
from sidelight_collector.captures.routes import build_disabled_routes as captures_off
from sidelight_collector.deploys.deploy_wiring import build_deploys as made_deploys
from sidelight_collector.http import short_links, ui
from sidelight_collector.http.api.file_routes import FileApi, FileLimits
from sidelight_collector.http.api.routes import build_context
from sidelight_collector.http.api.routes import routes as api_routes
from sidelight_collector.http.app import Readiness, build_app
from sidelight_collector.http.mcp_endpoint import McpEndpoint
from sidelight_collector.http.pyroscope.querier_routes import QuerierApi
from sidelight_collector.http.pyroscope.render_routes import RenderApi
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.ingest.batch import FlushPolicy
from sidelight_collector.ingest.dedup import DedupCache, read_recent_ids
from sidelight_collector.ingest.memory_budget import MemoryBudget
from sidelight_collector.ingest.otlp.otlp_handler import OtlpHandler
from sidelight_collector.ingest.segment_writer import SegmentWriter
from sidelight_collector.ingest.shared_stats import SharedIngestStats
from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.kubernetes_wiring import allow_one_time_tokens, build_cluster_features, open_cluster
from sidelight_collector.metrics import Metrics, enable_multiprocess_metrics
from sidelight_collector.notes.note_repository import NotePolicy, NoteRepository
from sidelight_collector.notes.note_routes import NoteRoutes
from sidelight_collector.profile_metrics.metrics_endpoint import ProfileMetricsEndpoint
from sidelight_collector.profile_metrics.rule_file import load_rule_file
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.runtime import worker
from sidelight_collector.runtime.certificate_reload import CertificateReloader, get_time
from sidelight_collector.runtime.heartbeat import Heartbeat, compute_interval
from sidelight_collector.runtime.http_server import (
    announce_address,
    bind_sockets,
    listen,
    port_of,
    server_logger,
)
from sidelight_collector.runtime.loop_lag import measure_loop_lag
from sidelight_collector.runtime.supervisor import SIGNALS, Job, usable_cores
from sidelight_collector.runtime.worker import WorkerContext
from sidelight_collector.settings.collector import Settings
from sidelight_collector.settings_wiring import (
    build_compaction_policy,
    build_disk_cache,
    build_forwarder,
    build_ingest_handler,
    build_ingest_routes,
    build_otlp_grpc,
    build_prometheus,
    build_query_limits,
    build_retention_policy,
    build_stage1,
)
from sidelight_collector.storage.backends.directory import PRIVATE_DIRECTORY_HINT, DirectoryStore
from sidelight_collector.storage.backends.instrumented import InstrumentedStore
from sidelight_collector.storage.backends.no_conditional_writes import SingleWriterStore
from sidelight_collector.storage.backends.open_store import open_store, verify_store
from sidelight_collector.storage.lease import Leases
from sidelight_collector.storage.lifecycle.compaction import Compaction
from sidelight_collector.storage.lifecycle.retention import Retention
from sidelight_collector.storage.objects import ObjectStore, StoreError
from sidelight_model.errors import SidelightError

LINGER_SECONDS: Final = 3.0
"""How long a client that was refused may go on sending before the connection is closed."""
MAX_LINE_BYTES: Final = 160 << 10
"""The longest URL: a comparison may have three selectors of 4,096 characters, percent-encoded."""
RECENT_IDS_BATCH: Final = 1000
"""Ids that are learnt, and given up, before the event loop turns to others."""

SWITCH_SECONDS: Final = 0.0005
"""How long a thread may keep the GIL that another waits for."""
_log = structlog.get_logger()


class RootTaskEnded(SidelightError):
    """A task that lives as long as the process came to its end before it."""


def main(settings: Settings) -> int:
    """Run a collector until SIGTERM or SIGINT; 0 then, 1 when a part of it died.

    Raises SidelightError for whatever keeps it from starting.
    """
    _log.info("starting", version=__version__, **mask_secrets(settings))
    _log_kernel_status(native_kernel.get_kernel_status())
    tokens, _ = load_tokens(settings), load_read_policy(settings)
    if files := settings.certificate_files:
        files.read(get_time())
    if settings.profile_metrics_file:
        load_rule_file(settings.profile_metrics_file)
    store = open_configured_store(settings)
    verified = verify_store(store)
    _log.info("store verified", kind=store.kind, where=store.location, format=verified.format)
    if isinstance(store, DirectoryStore) and (problem := store.describe_shared_directory()):
        _log.warning("store is not private", problem=problem, hint=PRIVATE_DIRECTORY_HINT)
    if not verified.conditional_writes:
        _log.warning("store has no conditional writes: run one collector only", where=store.location)
        store = SingleWriterStore(store)
    workers = settings.workers or usable_cores()
    if workers > 1:

        def job(worker_settings: Settings, worker_context: WorkerContext) -> Job:
            return partial(
                run_worker, worker_settings, tokens, worker_context, conditional=verified.conditional_writes
            )

        worker.run_workers(replace(settings, workers=workers), job)
    else:
        serving = serve_until_signal(settings, store, tokens, lambda port: announce_address(settings, port))
        run_event_loop(run_beside(log_stalls(), serving))
    _log.info("stopped")
    return 0


def open_configured_store(settings: Settings) -> ObjectStore:
    """The store that the settings name."""
    return open_store(
        settings.store, s3_endpoint=settings.s3_endpoint, timeout_seconds=settings.store_timeout_seconds
    )


def run_worker(
    settings: Settings, tokens: BearerTokens, context: WorkerContext, pipe: Connection, *, conditional: bool
) -> None:
    """Be one process of several; a Job of workers.supervise."""
    logs.configure(json=settings.log_json, level=settings.log_level, worker=context.name)
    enable_multiprocess_metrics(context.shared_dir, context.name)
    try:
        store = open_configured_store(settings)
        if not conditional:
            store = SingleWriterStore(store)
        heartbeat = Heartbeat(pipe)
        beats = heartbeat.run(compute_interval(settings.worker_heartbeat_timeout_seconds))
        serving = serve_until_signal(settings, store, tokens, lambda _: heartbeat.send_ready(), context)
        run_event_loop(run_beside(beats, serving))
    except SidelightError as error:
        _log.error("worker ends", error=error.message, hint=error.hint)
        sys.exit(1)
    finally:
        parent = multiprocessing.parent_process()
        if parent is None or not parent.is_alive():
            context.remove_shared_dir()


def run_event_loop(serving: Coroutine[None, None, None]) -> None:
    """Run a coroutine in its own event loop.

    Raises the first cause if a root task failed.
    """
    # Sooner than after the interpreter's 5 ms: the event loop needs the GIL again after each system call.
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(serving)
        except ExceptionGroup as failures:
            raise _find_first_cause(failures) from failures


async def serve_until_signal(
    settings: Settings,
    store: ObjectStore,
    tokens: BearerTokens,
    on_listening: Callable[[int], None],
    context: WorkerContext | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until the parent process is gone."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    if parent := multiprocessing.parent_process():

        def stop_orphan() -> None:
            loop.remove_reader(parent.sentinel)
            _log.error("the process that started this worker is gone")
            stop.set()

        loop.add_reader(parent.sentinel, stop_orphan)
    await serve(settings, store, tokens, stop, on_listening, context)


async def serve(
    settings: Settings,
    bare_store: ObjectStore,
    tokens: BearerTokens,
    stop: asyncio.Event,
    on_listening: Callable[[int], None],
    context: WorkerContext | None = None,
) -> None:
    """Serve until `stop` is set, then finish what is in progress.

    `on_listening` is called with the port. Raises PortInUse, and an ExceptionGroup when a root task died.
    """
    serves, maintains_store = settings.role != "compactor", settings.role != "serve"
    metrics = Metrics(context.shared_dir if context else None)
    auth = AuthContext(settings, tokens, metrics)
    files = settings.certificate_files if context is None or context.sockets else None
    certificate = CertificateReloader(files, metrics) if files else None
    ingest_stats = SharedIngestStats(context.shared_dir, context.name) if context else IngestStats()
    store = InstrumentedStore(bare_store, metrics)
    disk = build_disk_cache(settings, store, metrics) if serves else None
    dedup_cache = DedupCache(settings.dedup_cache_entries)
    flush_policy = FlushPolicy(settings.flush_seconds, settings.flush_bytes)
    segment_writer = SegmentWriter(disk or store, flush_policy, metrics, ingest_stats, dedup_cache)
    capture_repository = CaptureRepository(store)
    notes = NoteRepository(store, NotePolicy(settings.max_notes_per_service, settings.note_retention_days))
    forwarder = build_forwarder(settings, metrics)
    ingest_handler = build_ingest_handler(
        settings, segment_writer, metrics, CaptureWriters(capture_repository).check, forwarder
    )
    engine = QueryEngine(
        disk or store,
        build_query_limits(settings),
        metrics.segments_unreadable.inc,
        build_stage1(settings, metrics),
        disk.invalidate if disk else lambda _: None,
        build_prometheus(settings, metrics),
    )
    profile_metrics = ProfileMetricsEndpoint(
        settings.profile_metrics_file if serves else None,
        engine,
        settings.profile_metrics_max_series,
        metrics,
    )
    readiness = Readiness(
        problems=lambda: [
            *auth.describe_problems(),
            *(certificate.describe_problems() if certificate else ()),
            *profile_metrics.describe_problems(),
        ]
    )
    lease_seconds = settings.compact_lease_seconds
    deploys = made_deploys(settings, store, engine, metrics, stop)
    compaction = Compaction(
        disk or store,
        metrics,
        build_compaction_policy(settings),
        interval_seconds=settings.compact_interval_seconds,
        leases=Leases(store, lease_seconds, metrics.compaction_skipped.inc) if lease_seconds else None,
    )
    retention = Retention(
        store,
        metrics,
        policy=build_retention_policy(settings),
        interval_seconds=settings.retention_interval_seconds,
        revisit=compaction.revisit,
        expire=lambda now, stopped: (
            capture_repository.delete_expired(now, settings.capture_retention_days, stopped)
            + deploys.delete_expired(now, stopped)
            + notes.delete_expired(now, stopped)
        ),
    )
    guard = build_guard(
        settings,
        settings.max_connections,
        lambda reason: metrics.connections_closed.labels(reason).inc(),
        whole_body_seconds=settings.max_receive_seconds + settings.body_timeout_seconds,
        path_prefix=settings.path_prefix,
    )
    body_reader = BodyReader(
        MemoryBudget(settings.capture_max_pending_bytes, metrics.capture_pending_bytes.set),
        settings.max_receive_seconds,
    )
    # Polls are open nearly all the time: half of the connections remain for windows and queries.
    max_polls = max(1, min(settings.capture_max_polls, guard.limits.max_connections // 2))
    captures = build_capture_routes(settings, engine, capture_repository, body_reader, metrics, max_polls)
    cluster_features = build_cluster_features(
        settings, store, engine, captures, metrics, open_cluster(settings)
    )
    link_rules = short_links.LinkPolicy(settings.links, settings.link_retention_days, settings.max_link_bytes)
    mcp = McpEndpoint(
        body_reader,
        path_prefix=settings.path_prefix,
        public_url=settings.public_url,
        is_enabled=settings.mcp,
    )
    link_store, pages = short_links.LinkStore(store, link_rules), ui.find_build() if serves else None
    api_context = build_context(
        engine, on_answer=lambda origin: metrics.query_cache_results.labels(origin).inc()
    )
    authorizer = allow_one_time_tokens(auth.authorizer, cluster_features.attacher, capture_repository)
    otlp = OtlpHandler(ingest_handler, metrics)
    grpc_server = build_otlp_grpc(settings, otlp, authorizer, certificate, metrics)
    app = build_app(
        [
            *build_ingest_routes(settings, ingest_handler, otlp, metrics),
            *api_routes(
                engine,
                ingest_stats,
                store.kind,
                retention_days=settings.retention_days,
                offline_page=pages.offline_html if pages else None,
                find_rollouts=cluster_features.find_rollouts,
                core_hour_price=settings.core_hour_price,
                context=api_context,
            ),
            *QuerierApi(api_context, body_reader).routes(),
            *RenderApi(api_context).routes(),
            *FileApi(
                api_context, body_reader, FileLimits(settings.max_file_bytes, settings.max_file_memory_bytes)
            ).routes(),
            *cluster_features.routes,
            *deploys.routes,
            *NoteRoutes(notes, body_reader).build_routes(),
            *(captures.build_routes() if settings.captures else captures_off()),
            *short_links.routes(link_store, link_rules, body_reader, settings.path_prefix),
            *mcp.routes(),
            *ui.routes(settings.path_prefix, pages, settings.disabled_parts, settings.sources),
        ]
        if serves
        else [],
        metrics,
        authorizer,
        readiness,
        path_prefix=settings.path_prefix,
        build=ui.build_name(pages),
        origin_policy=OriginPolicy(is_loopback(settings.address[0]), settings.allowed_hosts),
        metric_routes=profile_metrics.routes() if serves else (),
    )
    app.on_cleanup.append(mcp.close)
    guard.protect(app)
    # What arrives compressed is unpacked by ingest, within limits: aiohttp must leave it alone.
    server = web.AppRunner(
        app,
        auto_decompress=False,
        access_log=None,
        shutdown_timeout=settings.shutdown_timeout_seconds,
        lingering_time=LINGER_SECONDS,
        keepalive_timeout=guard.keepalive_seconds,
        max_line_size=MAX_LINE_BYTES,
        logger=server_logger(metrics),
    )
    await server.setup()
    try:
        sockets = context.sockets if context else bind_sockets(settings.address)[0]
        await listen(server, sockets, guard, certificate.context if certificate else None)
        if grpc_server and settings.otlp_grpc_listen:
            await grpc_server.start(parse_address(settings.otlp_grpc_listen), is_shared=context is not None)
        metrics.workers.set(0 if context else int(serves))
        on_listening(port_of(sockets))
        async with asyncio.TaskGroup() as roots:
            flushing = roots.create_task(
                run_root_task(stop, "flush", segment_writer.run()), name="flush windows to the store"
            )
            if forwarder is not None:
                roots.create_task(run_root_task(stop, "forward", forwarder.run(stop)), name="forward windows")
            roots.create_task(
                run_root_task(stop, "pulse", measure_loop_lag(stop, metrics.event_loop_lag_seconds.observe)),
                name="measure how late the event loop is",
            )
            if certificate:
                reloading = certificate.run(stop, settings.tls_check_interval_seconds)
                roots.create_task(
                    run_root_task(stop, "certificate", reloading), name="load a changed certificate"
                )
            if auth.reloader and serves:
                reloading = auth.reloader.run(stop, settings.auth_check_interval_seconds)
                roots.create_task(
                    run_root_task(stop, "tokens", reloading), name="load changed tokens and rules"
                )
            if profile_metrics.reloader:
                reloading = profile_metrics.reloader.run(stop, settings.auth_check_interval_seconds)
                roots.create_task(
                    run_root_task(stop, "profile metrics", reloading), name="load changed profile metrics"
                )
            if maintains_store:
                roots.create_task(
                    run_root_task(stop, "retention", retention.run(stop)), name="delete what is too old"
                )
            if maintains_store and settings.compact_interval_seconds:
                roots.create_task(
                    run_root_task(stop, "compaction", compaction.run(stop)), name="make blocks of segments"
                )
            if maintains_store and settings.link_retention_days:
                sweeping = short_links.expire_links(link_store, stop, settings.retention_interval_seconds)
                roots.create_task(
                    run_root_task(stop, "links", sweeping), name="delete links whose time is over"
                )
            if maintains_store and deploys.evaluator:
                roots.create_task(
                    run_root_task(stop, "deploys", deploys.evaluator.run(stop)),
                    name="compare new versions of services",
                )
            if serves:
                roots.create_task(
                    load_recent_ids(dedup_cache, store, stop), name="recall the ids of windows stored lately"
                )
                roots.create_task(auth.check_permissions(), name="look at what the cluster allows")
            if serves and settings.captures:
                roots.create_task(
                    run_root_task(stop, "captures", captures.coordinator.run(stop)),
                    name="look after captures",
                )
            if serves and cluster_features.discovery.is_enabled:
                roots.create_task(
                    run_root_task(stop, "discovery", cluster_features.discovery.run(stop)),
                    name="watch the cluster",
                )
            if serves and cluster_features.attacher.is_enabled:
                roots.create_task(
                    run_root_task(stop, "attach", cluster_features.attacher.run(stop)),
                    name="attach sidecars to pods",
                )
            await stop.wait()
            _log.info("stopping")
            readiness.is_ready = False
            captures.coordinator.close()
            segment_writer.close()
            await flushing
            if grpc_server:
                await grpc_server.stop(settings.shutdown_timeout_seconds)
            await server.cleanup()
    finally:
        if grpc_server:
            await grpc_server.stop(0)
        await server.cleanup()
        profile_metrics.close()
        await captures.coordinator.shutdown()
        ingest_handler.close()
        auth.close()
        engine.close()
        capture_repository.close()
        deploys.repository.close()
        notes.close()
        if disk:
            disk.close()


async def run_root_task(stop: asyncio.Event, name: str, task: Awaitable[None]) -> None:
    """Run a root task; raises RootTaskEnded when it ends before `stop` was set."""
    await task
    if not stop.is_set():
        raise RootTaskEnded(f"the {name} task ended", hint="This is a defect; the log above says more.")


async def load_recent_ids(dedup_cache: DedupCache, store: ObjectStore, stop: asyncio.Event) -> None:
    """Load the ids of windows stored before this process began.

    A failure is logged and ends nothing.
    """
    loop = asyncio.get_running_loop()
    try:
        ids = await loop.run_in_executor(
            None, read_recent_ids, store, dedup_cache.capacity, time.time_ns(), stop.is_set
        )
    except StoreError as error:
        _log.warning("ids of earlier windows not recalled", error=error.message, hint=error.hint)
        return
    ids.reverse()
    while ids:
        dedup_cache.load(reversed(ids[-RECENT_IDS_BATCH:]))
        del ids[-RECENT_IDS_BATCH:]
        await asyncio.sleep(0)
    _log.info("ids of earlier windows recalled", windows=len(dedup_cache))


def _log_kernel_status(status: native_kernel.NativeKernelStatus) -> None:
    if status.is_native:
        _log.info("native kernel in use", version=status.version)
    else:
        _log.warning("native kernel not in use", cause=status.reason, hint=status.hint)


def _find_first_cause(failures: ExceptionGroup[Exception]) -> Exception:
    first = failures.exceptions[0]
    return _find_first_cause(first) if isinstance(first, ExceptionGroup) else first
