"""The routes for profiles of other tools, built from the settings of a collector."""

from __future__ import annotations

from aiohttp import web

from sidelight_collector.ingest.handler import IngestHandler
from sidelight_collector.ingest.otlp.otlp_handler import OtlpHandler
from sidelight_collector.ingest.pyroscope.pyroscope_handler import PyroscopeHandler
from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.collector import Settings


def build_ingest_routes(settings: Settings, ingest: IngestHandler, metrics: Metrics) -> list[web.RouteDef]:
    """Return the routes for windows and for profiles of other tools."""
    pyroscope = PyroscopeHandler(ingest, metrics, settings.pyroscope_tenant_label or "")
    otlp = OtlpHandler(ingest, metrics)
    return [
        *ingest.routes(),
        *(pyroscope.routes() if settings.pyroscope_ingest else ()),
        *(otlp.routes() if settings.otlp_ingest else ()),
    ]
