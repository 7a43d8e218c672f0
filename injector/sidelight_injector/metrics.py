"""Every metric of the injector, declared once. Labels come from closed sets."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sidelight.connection_phases import CloseReason

_PREFIX = "sidelight_injector"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """The injector's metrics and the registry that owns them."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.admission_reviews = self._counter(
            "admission_reviews",
            "AdmissionReviews of pods: injected, skipped, ignored, unreadable, too_large",
            ["outcome"],
        )
        self.skipped_pods = self._counter(
            "skipped_pods", "Pods that requested a sidecar but got none", ["reason"]
        )
        self.admission_review_seconds = Histogram(
            f"{_PREFIX}_admission_review_seconds",
            "Time to answer an AdmissionReview",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.events = self._counter(
            "events", "Events about pods without a sidecar: written, repeated, dropped, failed", ["outcome"]
        )
        self.problems = self._gauge("problems", "Problems that /readyz reports now", ["error"])
        self.certificate_expiration = self._gauge(
            "certificate_expiration_timestamp_seconds", "Unix time at which the certificate in use expires"
        )
        self.certificates_issued = self._counter(
            "certificates_issued", "Certificates issued by the injector: leaf, ca", ["kind"]
        )
        self.certificate_reloads = self._counter(
            "certificate_reloads", "Times that another certificate was loaded"
        )
        self.ca_bundle_updates = self._counter(
            "ca_bundle_updates", "Updates of caBundle in the webhook's configuration"
        )
        self.connections_closed = self._counter(
            "connections_closed", "Connections that the injector closed or refused", ["reason"]
        )
        for close_reason in CloseReason:
            self.connections_closed.labels(close_reason)
        self.loop_errors = self._counter(
            "loop_errors", "Unexpected errors after which a loop continued: review, certificates", ["loop"]
        )

    def record_certificate(self, expires_at: datetime) -> None:
        """Count another certificate, and record when it expires."""
        self.certificate_expiration.set(expires_at.timestamp())
        self.certificate_reloads.inc()

    def render(self) -> bytes:
        """Render the metrics in the Prometheus text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, labels: list[str] | None = None) -> Counter:
        return Counter(f"{_PREFIX}_{name}_total", text, labels or [], registry=self.registry)

    def _gauge(self, name: str, text: str, labels: list[str] | None = None) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", text, labels or [], registry=self.registry)
