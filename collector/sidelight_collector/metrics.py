"""The metrics of the collector, declared once.

`Metrics` owns its registry, and is passed to every component that counts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector

from sidelight import __version__
from sidelight.connection_phases import CloseReason
from sidelight_model.errors import Reason

_PER_NAMESPACE = "Watched namespaces of the cluster: the 200 with the most such pods, the rest as (other)."
_DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def enable_multiprocess_metrics(directory: Path, process: str) -> None:
    """Store the values of every later `Metrics` in files that all processes share.

    `process` is the name of this process, without `_`. A process that replaces a dead one must have the
    same name, and continues its counters.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue(lambda: process)  # type: ignore[no-untyped-call]


class Metrics:
    """All metrics of the collector.

    Labels have closed sets of values, such as reasons, operations and routes. The exception is `namespace`:
    it has up to 200 namespaces of the watched cluster, and (other) for the rest.

    `shared_dir` is the directory that was passed to `enable_multiprocess_metrics`. `render` then includes
    the values of all processes that share it.
    """

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, shared_dir: Path | None = None) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._exported_registry = self.registry
        if shared_dir is not None:
            self._exported_registry = CollectorRegistry()
            MultiProcessCollector(self._exported_registry, str(shared_dir))  # type: ignore[no-untyped-call]
        self.windows_accepted = self._counter(
            "sidelight_windows_accepted", "Windows stored durably and acknowledged."
        )
        self.windows_duplicate = self._counter(
            "sidelight_windows_duplicate", "Windows received again that were stored already."
        )
        self.samples_truncated = self._counter(
            "sidelight_samples_truncated",
            "Samples whose stack was truncated, by the sampler or by the collector.",
        )
        self.unreadable_lines = self._counter(
            "sidelight_unreadable_lines",
            "Lines of folded text without a header that were left out, because they are damaged.",
        )
        self.labels_dropped = self._counter(
            "sidelight_pyroscope_labels_dropped",
            "Profiles of Pyroscope's clients that lost a label, by its name; (other) has too many values.",
            ("label",),
        )
        self.profiles_not_stored = self._counter(
            "sidelight_pyroscope_profiles_not_stored",
            "Profiles of Pyroscope's clients with values other than time, which are not stored, by kind.",
            ("type",),
        )
        self.otlp_labels_dropped = self._counter(
            "sidelight_otlp_labels_dropped",
            "OpenTelemetry profiles that lost an attribute, by its name; (other) is one of a process.",
            ("label",),
        )
        self.otlp_profiles_not_stored = self._counter(
            "sidelight_otlp_profiles_not_stored",
            "OpenTelemetry profiles with values other than time, which are not stored, by kind.",
            ("type",),
        )
        self.otlp_timestamps_ignored = self._counter(
            "sidelight_otlp_timestamps_ignored",
            "Timestamps of samples of OpenTelemetry profiles, which are not stored.",
        )
        self.forwarded_windows = self._counter(
            "sidelight_forwarded_windows",
            "Windows for the server of --forward-url, by outcome: sent, failed, dropped.",
            ("outcome",),
        )
        self.refusals = self._counter(
            "sidelight_refusals", "Rejected or failed requests, by reason.", ("reason",)
        )
        self.connections_closed = self._counter(
            "sidelight_connections_closed",
            "Connections that the collector closed or refused: header_timeout, body_timeout, "
            "response_timeout, idle, limit.",
            ("reason",),
        )
        for close_reason in CloseReason:
            self.connections_closed.labels(close_reason)
        self.received_bytes = self._counter(
            "sidelight_ingest_received_bytes", "Bytes of windows received, before decompression."
        )
        self.decompressed_bytes = self._counter(
            "sidelight_ingest_decompressed_bytes", "Bytes of windows after decompression."
        )
        self.pending_bytes = self._gauge(
            "sidelight_ingest_pending_bytes",
            "Bytes of text received but not yet durable.",
            multiprocess_mode="sum",
        )
        self.pending_bytes.set(0)
        self.capture_pending_bytes = self._gauge(
            "sidelight_capture_pending_bytes",
            "Bytes of recordings, polls, links and capture requests that are being received.",
            multiprocess_mode="sum",
        )
        self.capture_pending_bytes.set(0)
        self.last_ingest = self._gauge(
            "sidelight_last_ingest_timestamp_seconds", "Unix time of the last acknowledged window."
        )
        self.token_reviews = self._counter(
            "sidelight_token_reviews",
            "Checked pod tokens, by outcome: cached, accepted, stale, rejected, unavailable, throttled.",
            ("outcome",),
        )
        self.identity_degraded = self._gauge(
            "sidelight_identity_degraded",
            "1 while the API server denies or does not answer requests for tokenreviews or pods.",
            ("resource",),
        )
        self.segments_written = self._counter("sidelight_segments_written", "Segments stored durably.")
        self.segment_write_seconds = self._histogram(
            "sidelight_segment_write_seconds", "Time to store one segment durably."
        )
        self.store_seconds = self._histogram(
            "sidelight_store_operation_seconds",
            "Duration of one operation on the object store.",
            ("operation",),
        )
        self.store_errors = self._counter(
            "sidelight_store_errors", "Failed operations on the object store.", ("operation",)
        )
        self.retention_deleted = self._counter(
            "sidelight_retention_deleted_objects", "Objects deleted by retention."
        )
        self.retention_errors = self._counter("sidelight_retention_errors", "Failed retention runs.")
        self.retention_downsampled = self._counter(
            "sidelight_retention_downsampled_blocks", "Blocks replaced by a lower resolution, or deleted."
        )
        self.compacted_windows = self._counter(
            "sidelight_compacted_windows",
            "Windows written into blocks, counted again in each later compaction.",
        )
        self.compaction_seconds = self._histogram(
            "sidelight_compaction_seconds", "Time to build and commit one block."
        )
        self.compaction_deleted = self._counter(
            "sidelight_compaction_deleted_objects", "Objects deleted after compaction."
        )
        self.compaction_errors = self._counter("sidelight_compaction_errors", "Failed compaction runs.")
        self.compaction_skipped = self._counter(
            "sidelight_compaction_skipped_leased_days",
            "Days skipped because another collector holds their lease.",
        )
        self.segments_unreadable = self._counter(
            "sidelight_query_unreadable_segments",
            "Segments, blocks and manifests that a query could not read, counted in every query.",
        )
        self.engine_seconds = self._histogram(
            "sidelight_engine_query_seconds", "Duration of successful queries to the external engine."
        )
        self.engine_errors = self._counter(
            "sidelight_engine_errors",
            "Failed queries to the external engine: unreachable, timeout, refused, invalid.",
            ("cause",),
        )
        self.prometheus_errors = self._counter(
            "sidelight_prometheus_errors",
            "Failed queries to Prometheus: unreachable, timeout, refused, invalid, empty (no requests), or "
            "ambiguous (several values of a label).",
            ("cause",),
        )
        for cause in ("unreachable", "timeout", "refused", "invalid", "empty", "ambiguous"):
            self.prometheus_errors.labels(cause)
        self.query_cache_results = self._counter(
            "sidelight_query_cache_results",
            "Query results by cache outcome: hit, miss, or coalesced with an equal running query.",
            ("result",),
        )
        self.disk_cache_reads = self._counter(
            "sidelight_disk_cache_reads",
            "Objects looked up in the disk cache, by result; a damaged copy is also a miss.",
            ("result",),
        )
        self.disk_cache_written_bytes = self._counter(
            "sidelight_disk_cache_written_bytes", "Bytes of objects copied to the disk cache."
        )
        self.disk_cache_bytes = self._gauge(
            "sidelight_disk_cache_bytes",
            "Upper bound of the disk cache's size, including copies of other processes.",
        )
        self.disk_cache_skipped = self._counter(
            "sidelight_disk_cache_skipped", "Objects not copied to the disk cache because its queue was full."
        )
        self.disk_cache_errors = self._counter(
            "sidelight_disk_cache_errors", "Failed operations on the disk cache.", ("operation",)
        )
        self.captures_started = self._counter("sidelight_captures_started", "Captures started.")
        self.captures_ended = self._counter(
            "sidelight_captures_ended", "Captures ended: ready, stopped, failed.", ("outcome",)
        )
        for outcome in ("ready", "stopped", "failed"):
            self.captures_ended.labels(outcome)
        self.capture_errors = self._counter(
            "sidelight_capture_errors", "Failed checks of running captures, mostly because of the store."
        )
        self.connected_sidecars = self._gauge(
            "sidelight_connected_sidecars",
            "Sidecars that poll this collector for capture jobs.",
            multiprocess_mode="sum",
        )
        self.pending_polls = self._gauge(
            "sidelight_pending_polls",
            "Open polls of sidecars.",
            multiprocess_mode="sum",
        )
        self.timeline_recording_bytes = self._counter(
            "sidelight_timeline_recording_bytes", "Bytes of timeline recordings stored, compressed."
        )
        self.pods_without_sidecar = self._gauge(
            "sidelight_pods_without_sidecar",
            f"Running pods that should be profiled and have no sidecar. {_PER_NAMESPACE}",
            ("namespace",),
        )
        self.pods_with_dead_sidecar = self._gauge(
            "sidelight_pods_with_dead_sidecar",
            f"Pods whose sidecar does not run. {_PER_NAMESPACE}",
            ("namespace",),
        )
        self.pods_with_stale_sidecar = self._gauge(
            "sidelight_pods_with_stale_sidecar",
            f"Pods whose sidecar runs and has not reported for --discovery-stale-seconds. {_PER_NAMESPACE}",
            ("namespace",),
        )
        self.discovery_watching = self._gauge(
            "sidelight_discovery_watching",
            "1 in the process that watches the cluster.",
            multiprocess_mode="sum",
        )
        self.discovery_objects = self._gauge(
            "sidelight_discovery_objects", "Cluster objects in memory, by kind.", ("kind",)
        )
        self.discovery_events = self._counter(
            "sidelight_discovery_events", "Watch events of the cluster, by kind of object.", ("kind",)
        )
        self.discovery_errors = self._counter(
            "sidelight_discovery_errors",
            "Failures to watch the cluster: denied, unavailable, store, or expired (a new list follows).",
            ("cause",),
        )
        for cause in ("denied", "unavailable", "expired", "store"):
            self.discovery_errors.labels(cause)
        self.ephemeral_attaches = self._counter(
            "sidelight_ephemeral_attaches",
            "Ephemeral sidecars attached to pods for captures, by outcome.",
            ("outcome",),
        )
        for outcome in ("attached", "denied", "refused", "failed", "away"):
            self.ephemeral_attaches.labels(outcome)
        self.deploys_detected = self._counter("sidelight_deploys_detected", "Deploys detected, each once.")
        self.deploys_skipped = self._counter(
            "sidelight_deploys_skipped",
            "Returns of a version above --deploy-max-detections-per-day, which do not count as deploys.",
        )
        self.deploy_versions_ignored = self._counter(
            "sidelight_deploy_versions_ignored",
            "Versions that do not count: no_rollout, or limit (--deploy-max-versions-per-day).",
            ("reason",),
        )
        for reason in ("no_rollout", "limit"):
            self.deploy_versions_ignored.labels(reason)
        self.deploys_active = self._gauge(
            "sidelight_deploys_active", "Deploys under evaluation; only in the process that evaluates them."
        )
        self.deploy_analyses = self._counter(
            "sidelight_deploy_analyses", "Analyses of deploys, by result.", ("state",)
        )
        for state in ("pass", "regressed", "inconclusive", "not_comparable"):
            self.deploy_analyses.labels(state)
        self.deploy_analyses_postponed = self._counter(
            "sidelight_deploy_analyses_postponed", "Analyses of deploys that were due but postponed."
        )
        self.deploy_errors = self._counter(
            "sidelight_deploy_errors", "Failed checks of deploys, because of the store or a query."
        )
        self.deploy_alerts = self._counter(
            "sidelight_deploy_alerts",
            "Deliveries to webhook and alertmanager: sent, failed (retried), refused, given_up.",
            ("receiver", "outcome"),
        )
        for receiver in ("webhook", "alertmanager"):
            for outcome in ("sent", "failed", "refused", "given_up"):
                self.deploy_alerts.labels(receiver, outcome)
        self.http_request_seconds = self._histogram(
            "sidelight_http_request_duration_seconds",
            "Duration of requests.",
            ("route", "method", "status"),
        )
        self.event_loop_lag_seconds = self._histogram(
            "sidelight_event_loop_lag_seconds", "Delay of timers on the event loop."
        )
        self.certificate_expiration = self._gauge(
            "sidelight_certificate_expiration_timestamp_seconds",
            "Unix time at which the certificate in use expires; 0 without TLS.",
        )
        self.certificate_reloads = self._counter(
            "sidelight_certificate_reloads",
            "Checks of the TLS files that found another certificate or a faulty one: loaded, failed.",
            ("outcome",),
        )
        for outcome in ("loaded", "failed"):
            self.certificate_reloads.labels(outcome)
        self.auth_reloads = self._counter(
            "sidelight_auth_reloads",
            "Checks of the files of tokens and rules that found a change or a fault: loaded, failed.",
            ("outcome",),
        )
        for outcome in ("loaded", "failed"):
            self.auth_reloads.labels(outcome)
        self.profile_rule_evaluations = self._counter(
            "sidelight_profile_rule_evaluations",
            "Evaluations of groups of rules for metrics from profiles: computed, failed.",
            ("outcome",),
        )
        self.profile_rule_reloads = self._counter(
            "sidelight_profile_rule_reloads",
            "Checks of --profile-metrics-file that found a change or a fault: loaded, failed.",
            ("outcome",),
        )
        for computed, outcome in (("computed", "loaded"), ("failed", "failed")):
            self.profile_rule_evaluations.labels(computed)
            self.profile_rule_reloads.labels(outcome)
        self.profile_rule_series_dropped = self._gauge(
            "sidelight_profile_rule_series_dropped",
            "Series of metrics from profiles that a limit dropped in the last answer.",
        )
        self.otlp_grpc_requests = self._counter(
            "sidelight_otlp_grpc_requests",
            "Requests of OTLP over gRPC, by the name of the status code.",
            ("code",),
        )
        self.workers = self._gauge("sidelight_workers", "Serving processes.", multiprocess_mode="sum")
        self.worker_restarts = self._counter(
            "sidelight_worker_restarts", "Workers restarted after they died."
        )
        self.worker_hangs = self._counter(
            "sidelight_worker_hangs", "Workers killed and restarted because they sent no heartbeat."
        )
        for reason in Reason:
            self.refusals.labels(reason)
        self._gauge("sidelight_build_info", "Constant 1 with the version as a label.", ("version",)).labels(
            __version__
        ).set(1)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._exported_registry)

    def _counter(self, name: str, documentation: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, documentation, labels, registry=self.registry)

    def _gauge(
        self,
        name: str,
        documentation: str,
        labels: tuple[str, ...] = (),
        multiprocess_mode: Literal["max", "sum"] = "max",
    ) -> Gauge:
        return Gauge(name, documentation, labels, registry=self.registry, multiprocess_mode=multiprocess_mode)

    def _histogram(self, name: str, documentation: str, labels: tuple[str, ...] = ()) -> Histogram:
        return Histogram(name, documentation, labels, buckets=_DURATION_BUCKETS, registry=self.registry)
