"""Builds the routes of captures from the settings."""

from __future__ import annotations

from functools import partial

from sidelight_collector.captures.agents import AgentRegistry
from sidelight_collector.captures.capture import CapturePolicy
from sidelight_collector.captures.capture_repository import CaptureRepository
from sidelight_collector.captures.coordinator import CaptureCoordinator
from sidelight_collector.captures.queryable_windows import count_queryable_windows
from sidelight_collector.captures.recordings.recording_routes import CaptureSizeLimits
from sidelight_collector.captures.routes import CaptureRoutes
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.settings.collector import Settings


def build_capture_routes(
    settings: Settings,
    engine: QueryEngine,
    repository: CaptureRepository,
    body_reader: BodyReader,
    metrics: Metrics,
    max_polls: int,
) -> CaptureRoutes:
    """Build the routes of captures and all behind them from the settings."""
    rules = CapturePolicy(
        max_pods=settings.capture_max_pods,
        max_seconds=settings.capture_max_seconds,
        max_rate=settings.capture_max_rate,
        max_running=settings.capture_max_running,
        max_running_per_namespace=settings.capture_max_running_per_namespace,
        claim_timeout_seconds=settings.capture_wait_seconds,
        agent_timeout_seconds=settings.capture_agent_timeout_seconds,
        retention_days=settings.capture_retention_days,
        max_recording_bytes=settings.timeline_recording_max_bytes,
        attach_timeout_seconds=settings.attach_wait_seconds,
    )
    sizes = CaptureSizeLimits(
        max_recording_bytes=settings.timeline_recording_max_bytes,
        max_recording_text_bytes=settings.timeline_recording_max_decompressed_bytes,
        max_recording_memory_bytes=settings.timeline_recording_max_memory_bytes,
        max_recordings_per_sidecar=settings.timeline_recording_max_per_sidecar,
        max_poll_bytes=settings.capture_max_poll_bytes,
        max_speedscope_frames=settings.timeline_recording_max_speedscope_frames,
    )
    coordinator = CaptureCoordinator(
        repository,
        rules,
        metrics,
        partial(count_queryable_windows, engine),
        agents=AgentRegistry(
            max_polls, settings.capture_max_agents_bytes, settings.capture_max_agents_per_pod
        ),
        poll_timeout_seconds=settings.capture_poll_timeout_seconds,
        check_interval_seconds=settings.capture_check_interval_seconds,
    )
    return CaptureRoutes(
        coordinator, repository, rules, sizes, body_reader, metrics, settings.path_prefix, engine.limits
    )
