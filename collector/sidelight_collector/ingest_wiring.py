"""Ingest, its routes, and forwarding, built from the settings of a collector."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiohttp import web

from sidelight_collector.auth.authorizer import read_tokens
from sidelight_collector.auth.write_identity import WriterIdentity
from sidelight_collector.forwarding.forward_client import ForwardClient
from sidelight_collector.forwarding.forwarder import Forwarder
from sidelight_collector.ingest.handler import IngestHandler, IngestHooks
from sidelight_collector.ingest.memory_budget import MemoryBudget
from sidelight_collector.ingest.otlp.otlp_handler import OtlpHandler
from sidelight_collector.ingest.pyroscope.pyroscope_handler import PyroscopeHandler
from sidelight_collector.ingest.segment_writer import SegmentWriter
from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.collector import Settings
from sidelight_collector.settings_wiring import build_ingest_limits


def build_ingest_handler(
    settings: Settings,
    segment_writer: SegmentWriter,
    metrics: Metrics,
    check_captures: Callable[[WriterIdentity, Iterable[str]], None],
    forwarder: Forwarder | None,
) -> IngestHandler:
    """Build the handler that receives windows and profiles."""
    return IngestHandler(
        segment_writer,
        build_ingest_limits(settings),
        MemoryBudget(settings.max_pending_bytes, metrics.pending_bytes.set),
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


def build_ingest_routes(settings: Settings, ingest: IngestHandler, metrics: Metrics) -> list[web.RouteDef]:
    """Return the routes for windows and for profiles of other tools."""
    pyroscope = PyroscopeHandler(ingest, metrics, settings.pyroscope_tenant_label or "")
    otlp = OtlpHandler(ingest, metrics)
    return [
        *ingest.routes(),
        *(pyroscope.routes() if settings.pyroscope_ingest else ()),
        *(otlp.routes() if settings.otlp_ingest else ()),
    ]
