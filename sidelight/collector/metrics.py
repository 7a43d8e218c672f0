"""The collector's metrics, declared once; `Metrics` owns its registry and is passed to whoever counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sidelight import __version__
from sidelight.stacks.errors import Reason

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Every number the collector publishes. Labels come from closed sets: reasons, operations, routes."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
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
            "sidelight_ingest_pending_bytes", "Text received and not durable yet."
        )
        self.last_ingest = self._gauge(
            "sidelight_last_ingest_timestamp_seconds", "When a window was last acknowledged."
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
        self.segments_unreadable = self._counter(
            "sidelight_query_unreadable_segments",
            "Segments, blocks and manifests that a query had to leave out, counted anew in every query.",
        )
        self.request_seconds = self._histogram(
            "sidelight_request_seconds", "Time to answer a request.", ("route", "method", "status")
        )
        for reason in Reason:
            self.refusals.labels(reason)
        self._gauge("sidelight_build", "Constant 1, with the version.", ("version",)).labels(__version__).set(
            1
        )

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, documentation: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, documentation, labels, registry=self.registry)

    def _gauge(self, name: str, documentation: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, documentation, labels, registry=self.registry)

    def _histogram(self, name: str, documentation: str, labels: tuple[str, ...] = ()) -> Histogram:
        return Histogram(name, documentation, labels, buckets=_FAST, registry=self.registry)
