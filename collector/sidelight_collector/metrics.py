"""The collector's metrics, declared once; `Metrics` owns its registry and is passed to whoever counts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector

from sidelight import __version__
from sidelight_model.errors import Reason

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def keep_numbers_in(directory: Path, process: str) -> None:
    """Keep the numbers of each Metrics made from here on in files there, beside those of other processes.

    A process that comes in the place of one that died has the same name, and goes on counting where that
    ended. A name has no `_`.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
    values.ValueClass = values.MultiProcessValue(lambda: process)  # type: ignore[no-untyped-call]


class Metrics:
    """Every number the collector publishes. Labels come from closed sets: reasons, operations, routes.

    `shared` is the directory that `keep_numbers_in` was told; what is published is then the numbers of all
    processes that were told the same.
    """

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, shared: Path | None = None) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._published = self.registry
        if shared is not None:
            self._published = CollectorRegistry()
            MultiProcessCollector(self._published, str(shared))  # type: ignore[no-untyped-call]
        self.windows_accepted = self._counter(
            "sidelight_windows_accepted", "Windows acknowledged: they are durable in the store."
        )
        self.windows_duplicate = self._counter(
            "sidelight_windows_duplicate", "Windows that were sent again and are stored already."
        )
        self.samples_truncated = self._counter(
            "sidelight_samples_truncated", "Samples with clipped stacks, clipped by the sampler or here."
        )
        self.refusals = self._counter(
            "sidelight_refusals", "Requests that were refused or failed, by reason.", ("reason",)
        )
        self.received_bytes = self._counter(
            "sidelight_ingest_received_bytes", "Bytes of windows as they came, compressed or not."
        )
        self.text_bytes = self._counter(
            "sidelight_ingest_text_bytes", "Bytes of windows after decompression."
        )
        self.pending_bytes = self._gauge(
            "sidelight_ingest_pending_bytes", "Text received and not durable yet.", of_all="sum"
        )
        self.pending_bytes.set(0)
        self.last_ingest = self._gauge(
            "sidelight_last_ingest_timestamp_seconds", "When a window was last acknowledged."
        )
        self.identity_tokens = self._counter(
            "sidelight_identity_tokens",
            "Tokens of pods by what was known of them: known, reviewed, grace, refused, away, busy.",
            ("outcome",),
        )
        self.identity_degraded = self._gauge(
            "sidelight_identity_degraded",
            "1 while tokens cannot be reviewed, or pods that are to be asked for may not be read.",
            ("what",),
        )
        self.segments_written = self._counter("sidelight_segments_written", "Segments made durable.")
        self.flush_seconds = self._histogram("sidelight_flush_seconds", "Time to make one segment durable.")
        self.store_seconds = self._histogram(
            "sidelight_store_operation_seconds", "Time of one operation on the object store.", ("operation",)
        )
        self.store_errors = self._counter(
            "sidelight_store_errors", "Operations on the object store that failed.", ("operation",)
        )
        self.retention_deleted = self._counter(
            "sidelight_retention_deleted_objects", "Objects deleted because they were too old."
        )
        self.retention_errors = self._counter(
            "sidelight_retention_errors", "Looks for what is too old that failed."
        )
        self.retention_rotated = self._counter(
            "sidelight_retention_rotated_blocks", "Blocks of which less is kept, or nothing."
        )
        self.compacted_windows = self._counter(
            "sidelight_compacted_windows", "Windows written into blocks, anew each time they are."
        )
        self.compaction_seconds = self._histogram(
            "sidelight_compaction_seconds", "Time to make and commit one block."
        )
        self.compaction_deleted = self._counter(
            "sidelight_compaction_deleted_objects", "Objects deleted because a block has what they had."
        )
        self.compaction_errors = self._counter(
            "sidelight_compaction_errors", "Times that compaction was broken off."
        )
        self.compaction_left = self._counter(
            "sidelight_compaction_left_days", "Looks at a day that were left to the collector at work on it."
        )
        self.segments_unreadable = self._counter(
            "sidelight_query_unreadable_segments",
            "Segments, blocks and manifests that a query had to leave out, counted anew in every query.",
        )
        self.engine_seconds = self._histogram(
            "sidelight_engine_seconds", "Time in which ClickHouse added up for a query, where it did."
        )
        self.engine_errors = self._counter(
            "sidelight_engine_errors",
            "Times that ClickHouse did not add up for a query, by cause.",
            ("cause",),
        )
        self.prometheus_errors = self._counter(
            "sidelight_prometheus_errors",
            "Times that Prometheus did not tell the requests of a side, by cause.",
            ("cause",),
        )
        for cause in ("unreachable", "timeout", "refused", "wrong", "empty", "ambiguous"):
            self.prometheus_errors.labels(cause)
        self.query_answers = self._counter(
            "sidelight_query_answers",
            "Answers by where they came from: made, kept in memory, or shared with an equal question.",
            ("origin",),
        )
        self.disk_cache_reads = self._counter(
            "sidelight_disk_cache_reads",
            "Objects that queries looked for on the local disk, by result; a damaged one is a miss too.",
            ("result",),
        )
        self.disk_cache_written_bytes = self._counter(
            "sidelight_disk_cache_written_bytes", "Bytes of objects copied to the local disk."
        )
        self.disk_cache_bytes = self._gauge(
            "sidelight_disk_cache_bytes",
            "What the copies on the local disk take at most, those of other processes included.",
        )
        self.disk_cache_skipped = self._counter(
            "sidelight_disk_cache_skipped", "Objects not copied because too many waited to be."
        )
        self.disk_cache_errors = self._counter(
            "sidelight_disk_cache_errors", "Operations on the local disk that failed.", ("operation",)
        )
        self.captures_started = self._counter("sidelight_captures_started", "Captures asked for.")
        self.captures_ended = self._counter(
            "sidelight_captures_ended", "Captures that ended, by how they did.", ("outcome",)
        )
        for outcome in ("ready", "stopped", "failed"):
            self.captures_ended.labels(outcome)
        self.capture_errors = self._counter(
            "sidelight_capture_errors", "Looks after captures that failed, mostly because of the store."
        )
        self.capture_agents = self._gauge(
            "sidelight_capture_agents", "Sidecars that ask for orders.", of_all="sum"
        )
        self.capture_polls = self._gauge(
            "sidelight_capture_polls", "Sidecars kept waiting for orders at the moment.", of_all="sum"
        )
        self.recording_bytes = self._counter(
            "sidelight_capture_recording_bytes", "Bytes of recordings kept, compressed."
        )
        self.pods_without_sidecar = self._gauge(
            "sidelight_pods_without_sidecar",
            "Running pods that should be profiled and have no sidecar; told by the process that watches.",
            ("namespace",),
        )
        self.pods_with_dead_sidecar = self._gauge(
            "sidelight_pods_with_dead_sidecar", "Pods whose sidecar does not run.", ("namespace",)
        )
        self.pods_with_silent_sidecar = self._gauge(
            "sidelight_pods_with_silent_sidecar",
            "Pods whose sidecar runs and was not heard of for --discovery-stale-seconds.",
            ("namespace",),
        )
        self.discovery_watching = self._gauge(
            "sidelight_discovery_watching", "1 in the process that watches the cluster.", of_all="sum"
        )
        self.discovery_objects = self._gauge(
            "sidelight_discovery_objects", "Objects of the cluster that are kept, by kind.", ("kind",)
        )
        self.discovery_events = self._counter(
            "sidelight_discovery_events", "What watches of the cluster told, by kind of object.", ("kind",)
        )
        self.discovery_errors = self._counter(
            "sidelight_discovery_errors",
            "Times that the cluster could not be watched, by cause; expired is mended by a new list.",
            ("cause",),
        )
        for cause in ("denied", "away", "expired", "store"):
            self.discovery_errors.labels(cause)
        self.attached = self._counter(
            "sidelight_attached", "Sidecars attached to pods for a capture, by what came of it.", ("outcome",)
        )
        for outcome in ("attached", "denied", "refused", "failed", "away"):
            self.attached.labels(outcome)
        self.deploys_found = self._counter(
            "sidelight_deploys_found", "Versions of services that arrived, each time once."
        )
        self.deploys_passed_over = self._counter(
            "sidelight_deploys_passed_over",
            "Times that a version came back and was not compared, as it does so too often.",
        )
        self.deploys_watched = self._gauge(
            "sidelight_deploys_watched", "Deploys that are looked after, by the one process that does."
        )
        self.deploy_looks = self._counter(
            "sidelight_deploy_looks", "Comparisons of deploys, by what they found.", ("state",)
        )
        for state in ("pass", "regressed", "inconclusive", "not_comparable"):
            self.deploy_looks.labels(state)
        self.deploy_looks_postponed = self._counter(
            "sidelight_deploy_looks_postponed", "Times that comparisons were due and had to wait for others."
        )
        self.deploy_errors = self._counter(
            "sidelight_deploy_errors", "Looks after deploys that failed, because of the store or a query."
        )
        self.deploy_alerts = self._counter(
            "sidelight_deploy_alerts",
            "Alerts of deploys by receiver and by what came of it; failed ones are tried again.",
            ("receiver", "outcome"),
        )
        for receiver in ("webhook", "alertmanager"):
            for outcome in ("sent", "failed", "refused", "given_up"):
                self.deploy_alerts.labels(receiver, outcome)
        self.request_seconds = self._histogram(
            "sidelight_request_seconds", "Time to answer a request.", ("route", "method", "status")
        )
        self.loop_late_seconds = self._histogram(
            "sidelight_loop_late_seconds", "How much later than asked for the event loop came to a timer."
        )
        self.workers = self._gauge("sidelight_workers", "Processes that serve.", of_all="sum")
        self.worker_deaths = self._counter(
            "sidelight_worker_deaths", "Workers that died and were started anew."
        )
        for reason in Reason:
            self.refusals.labels(reason)
        self._gauge("sidelight_build", "Constant 1, with the version.", ("version",)).labels(__version__).set(
            1
        )

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._published)

    def _counter(self, name: str, documentation: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, documentation, labels, registry=self.registry)

    def _gauge(
        self,
        name: str,
        documentation: str,
        labels: tuple[str, ...] = (),
        of_all: Literal["max", "sum"] = "max",
    ) -> Gauge:
        return Gauge(name, documentation, labels, registry=self.registry, multiprocess_mode=of_all)

    def _histogram(self, name: str, documentation: str, labels: tuple[str, ...] = ()) -> Histogram:
        return Histogram(name, documentation, labels, buckets=_FAST, registry=self.registry)
