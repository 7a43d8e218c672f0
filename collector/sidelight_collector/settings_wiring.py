"""Policies, limits and clients, built from the settings of a collector."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import structlog
from aiohttp import web

from sidelight.settings import BadSetting
from sidelight_collector.auth.authorizer import Authorizer, read_tokens
from sidelight_collector.auth.write_identity import WriterIdentity
from sidelight_collector.forwarding.forward_client import ForwardClient
from sidelight_collector.forwarding.forwarder import Forwarder
from sidelight_collector.ingest.handler import IngestHandler, IngestHooks
from sidelight_collector.ingest.memory_budget import MemoryBudget
from sidelight_collector.ingest.otlp.otlp_grpc import OtlpGrpcServer
from sidelight_collector.ingest.otlp.otlp_handler import OtlpHandler
from sidelight_collector.ingest.pyroscope.pyroscope_handler import PyroscopeHandler
from sidelight_collector.ingest.segment_writer import SegmentWriter
from sidelight_collector.ingest.validation import IngestLimits
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engines.external_stage1 import ExternalStage1
from sidelight_collector.query.engines.prometheus import PrometheusClient
from sidelight_collector.query.engines.sum_statements import EngineClient, StatementBuilder
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.runtime.certificate_reload import CertificateReloader
from sidelight_collector.settings.collector import Settings
from sidelight_collector.settings.engine import EngineUrl, TrinoUrl
from sidelight_collector.settings.types import DAY_SECONDS, RetentionDays
from sidelight_collector.storage.backends.disk_cache import DiskCachedStore
from sidelight_collector.storage.lifecycle.compaction import CompactionPolicy
from sidelight_collector.storage.lifecycle.retention import RetentionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.trino_ddl import parse_location
from sidelight_model.labels import LabelLimits, Labels
from sidelight_model.window import WindowLimits

_log = structlog.get_logger()


def build_ingest_limits(settings: Settings) -> IngestLimits:
    """The rules at the door, from the settings."""
    return IngestLimits(
        WindowLimits(
            max_windows=settings.max_windows,
            max_header_bytes=settings.max_window_header_bytes,
            max_stacks=settings.max_stacks,
            max_depth=settings.max_depth,
            labels=LabelLimits(settings.max_labels, max_value_bytes=settings.max_label_bytes),
        ),
        settings.max_body_bytes,
        int(settings.max_future_seconds * 1e9),
        int(settings.max_age_days * DAY_SECONDS * 1e9),
    )


def build_compaction_policy(settings: Settings) -> CompactionPolicy:
    """When blocks are made, from the settings."""
    return CompactionPolicy(
        min_segments=settings.compact_min_segments,
        max_wait_seconds=settings.compact_max_wait_seconds,
        max_block_rows=settings.compact_max_block_rows,
        deletion_delay_seconds=settings.deletion_delay_seconds or 4 * settings.query_timeout_seconds,
        orphan_age_seconds=settings.orphan_age_seconds,
    )


def build_retention_policy(settings: Settings) -> RetentionPolicy:
    """What is kept for how long, from the settings."""
    if settings.compact_interval_seconds:
        return RetentionPolicy(
            settings.retention_days, dict(settings.retention_services), settings.retention_bytes
        )
    # Nothing is added up: windows go for good.
    services = {
        name: RetentionDays(days.window, days.window, days.window)
        for name, days in settings.retention_services
    }
    raw = settings.retention_raw_days
    return RetentionPolicy(RetentionDays(raw, raw, raw), services, settings.retention_bytes)


def build_stage1(settings: Settings, metrics: Metrics) -> ExternalStage1 | None:
    """Build stage 1 in an external engine. Raises BadSetting."""
    server, file = settings.engine, settings.engine_password_file
    if server is None:
        return None
    if file is not None:
        try:
            server = replace(server, password=file.read_text("utf-8").rstrip("\r\n"))
        except (OSError, UnicodeDecodeError) as error:
            raise BadSetting(
                f"cannot read the password in {file}: {error}", hint="Check the path and mode."
            ) from error
    client, build_statements = connect_engine(server, settings.store, settings.s3_endpoint)
    return ExternalStage1(
        client, build_statements, metrics, settings.engine_timeout_seconds, settings.engine_fallback
    )


def connect_engine(
    server: EngineUrl, store: str, s3_endpoint: str | None
) -> tuple[EngineClient, StatementBuilder]:
    """Build the client of an engine, and the builder of its statements.

    Raises BadSetting for a store that the engine would read otherwise.
    """
    if isinstance(server, TrinoUrl):
        # Imported here because the package is an extra.
        from sidelight_collector.query.engines.trino.trino_client import TrinoClient
        from sidelight_collector.query.engines.trino.trino_sql import (
            build_statements as build_trino_statements,
        )

        try:
            where = parse_location(store)
        except ValueError as error:
            raise BadSetting(
                f"Trino would read the store otherwise: {error}",
                hint="With --engine trino://, a bucket and a prefix have letters, digits and . _ - only.",
            ) from error
        client: EngineClient = TrinoClient(server)
        build_statements: StatementBuilder = partial(build_trino_statements, where)
    else:
        # Imported here because few collectors have an engine, and none needs urllib3 without one.
        from sidelight_collector.query.engines.clickhouse.clickhouse_client import ClickHouseClient
        from sidelight_collector.query.engines.clickhouse.sql import build_object_prefix
        from sidelight_collector.query.engines.clickhouse.sql import (
            build_statements as build_clickhouse_statements,
        )

        where = build_object_prefix(server, store, s3_endpoint)
        client = ClickHouseClient(server)
        build_statements = partial(build_clickhouse_statements, server, where)
    _log.info("an external engine sums for queries", engine=str(server), objects=where)
    return client, build_statements


def build_prometheus(settings: Settings, metrics: Metrics) -> PrometheusClient | None:
    """What tells the requests of services, from the settings. Raises BadSetting."""
    if settings.prometheus_url is None:
        return None
    file = settings.prometheus_token_file
    token = None if file is None else (read_tokens(file) or ("",))[0]
    return PrometheusClient(
        settings.prometheus_url,
        settings.prometheus_requests_query,
        settings.prometheus_timeout_seconds,
        token,
        lambda cause: metrics.prometheus_errors.labels(cause).inc(),
    )


def build_disk_cache(settings: Settings, store: ObjectStore, metrics: Metrics) -> DiskCachedStore | None:
    """The store as queries read it, if they are to keep copies on a local disk."""
    if settings.cache_dir is None:
        return None
    return DiskCachedStore(store, settings.cache_dir, settings.cache_disk_bytes, metrics)


def build_query_limits(settings: Settings) -> QueryLimits:
    """The bounds of queries, from the settings."""
    return QueryLimits(
        timeout_seconds=settings.query_timeout_seconds,
        running=settings.max_queries,
        waiting=settings.max_waiting_queries,
        reads=settings.query_read_concurrency,
        cache_bytes=settings.query_cache_bytes,
        answer_bytes=settings.answer_cache_bytes,
        max_range_days=settings.max_range_days,
        comparison_lookback_days=settings.comparison_lookback_days,
        default_nodes=settings.default_nodes,
        max_nodes=settings.max_nodes,
        max_points=settings.max_points,
        max_rows=settings.max_rows,
        max_cells=settings.max_cells,
        max_verdict_rows=settings.max_verdict_rows,
        max_verdict_tests=settings.max_verdict_tests,
        max_export_frames=settings.max_export_frames,
    )


def build_ingest_handler(
    settings: Settings,
    segment_writer: SegmentWriter,
    metrics: Metrics,
    check_captures: Callable[[WriterIdentity, Iterable[Labels]], None],
    forwarder: Forwarder | None,
) -> IngestHandler:
    """Build the handler that receives windows and profiles."""
    return IngestHandler(
        segment_writer,
        build_ingest_limits(settings),
        MemoryBudget(settings.max_pending_bytes, metrics.pending_bytes.set, settings.max_queue_seconds),
        metrics,
        decode_threads=settings.decode_threads,
        max_receive_seconds=settings.max_receive_seconds,
        hooks=IngestHooks(check_captures, forwarder.offer if forwarder else None),
    )


def build_forwarder(settings: Settings, metrics: Metrics) -> Forwarder | None:
    """Build the forwarder, if there is a server to forward to. Raises BadSetting."""
    if settings.forward_url is None:
        return None
    tokens = read_tokens(settings.forward_token_file) or ("",)
    client = ForwardClient(settings.forward_url, tokens[0])
    return Forwarder(client.send, metrics, settings.forward_queue_bytes)


def build_otlp_grpc(
    settings: Settings,
    handler: OtlpHandler,
    authorizer: Authorizer,
    certificate: CertificateReloader | None,
    metrics: Metrics,
) -> OtlpGrpcServer | None:
    """Build the server of OTLP over gRPC, if there is an address for it."""
    if settings.otlp_grpc_listen is None or settings.role == "compactor":
        return None
    return OtlpGrpcServer(
        handler,
        authorizer,
        MemoryBudget(settings.max_pending_bytes, lambda _: None),
        metrics,
        max_message_bytes=min(settings.otlp_grpc_max_message_bytes, settings.max_body_bytes),
        max_receive_seconds=settings.max_receive_seconds,
        read_certificate=(lambda: certificate.current_pair) if certificate else None,
    )


def build_ingest_routes(
    settings: Settings, ingest: IngestHandler, otlp: OtlpHandler, metrics: Metrics
) -> list[web.RouteDef]:
    """Return the routes for windows and for profiles of other tools."""
    pyroscope = PyroscopeHandler(ingest, metrics, settings.pyroscope_tenant_label or "")
    return [
        *ingest.routes(),
        *(pyroscope.routes() if settings.pyroscope_ingest else ()),
        *(otlp.routes() if settings.otlp_ingest else ()),
    ]
