"""Sends windows from the spool to the collector until it has acknowledged them.

Delivery is at least once. A window leaves the spool when the collector has named its id as accepted or as a
duplicate; else it is sent again. The windows of a refused batch are sent again one by one, so that a bad
window does not affect the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import aiohttp
import structlog
import zstandard

from sidelight.waiting import wait_for_event
from sidelight_model.errors import Reason
from sidelight_sidecar.descriptors import OUT_OF_DESCRIPTORS_HINT, is_out_of_descriptors
from sidelight_sidecar.health import HealthBoard, HealthIssue
from sidelight_sidecar.metrics import SidecarMetrics, to_reason_label
from sidelight_sidecar.shipping.collector_client import ClientConfig, CollectorClient, RequestFailed
from sidelight_sidecar.shipping.ingest_response import (
    IDENTITY_MISMATCH_REASONS,
    IngestResponse,
    RequestOutcome,
    compute_retry_delay,
    parse_ingest_response,
)
from sidelight_sidecar.shipping.spool import Spool, SpoolEntry

_MAX_WINDOWS = 200
_IDLE_SECONDS = 5.0
_DRAIN_PAUSE_SECONDS = 1.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.shipping.ship")


class Shipper:
    """The loop between the spool and the collector."""

    def __init__(
        self,
        spool: Spool,
        config: ClientConfig,
        http: aiohttp.ClientSession,
        metrics: SidecarMetrics,
        health: HealthBoard,
        rng: Callable[[], float],
    ) -> None:
        self._spool = spool
        self._config = config
        self._client = CollectorClient(config, http)
        self._metrics = metrics
        self._health = health
        self._rng = rng
        self._suspect_ids: set[str] = set()
        self._wakeup = asyncio.Event()
        self._draining = asyncio.Event()

    def wake(self) -> None:
        """Notify the loop of a new window in the spool."""
        self._wakeup.set()

    def drain(self) -> None:
        """Let `run` return as soon as the spool is empty."""
        self._draining.set()
        self._wakeup.set()

    async def run(self) -> None:
        """Send windows forever, or after `drain` until the spool is empty."""
        attempt, response = 0, None
        while True:
            self._wakeup.clear()
            try:
                batch = await asyncio.to_thread(self._load_batch)
                if not batch:
                    if self._draining.is_set() and not len(self._spool):
                        return
                    await wait_for_event(self._wakeup, _IDLE_SECONDS)
                    continue
                response = await self._send(batch)
                self._metrics.sends.labels(response.outcome.value).inc()
                has_progress = await asyncio.to_thread(self._apply_response, batch, response)
            except OSError as error:
                # Sampling goes on in spite of a bad disk, and shipping resumes when it works again.
                has_progress, response = False, None
                self._report_disk_error(error)
            else:
                self._health.clear("sending from the spool")
            if has_progress:
                attempt = 0
                continue
            attempt += 1
            retry_after = response.retry_after if response else None
            await self._wait_before_retry(
                compute_retry_delay(attempt, self._config.max_backoff_seconds, retry_after, self._rng)
            )

    async def _wait_before_retry(self, seconds: float) -> None:
        """Wait before a retry, but only briefly while draining."""
        if self._draining.is_set():
            await asyncio.sleep(min(seconds, _DRAIN_PAUSE_SECONDS))
        else:
            await wait_for_event(self._draining, seconds)

    def _load_batch(self) -> list[tuple[SpoolEntry, bytes]]:
        entries = self._spool.list_oldest(_MAX_WINDOWS)
        if entries and entries[0].id in self._suspect_ids:
            entries = entries[:1]
        batch: list[tuple[SpoolEntry, bytes]] = []
        size = 0
        for entry in entries:
            if batch and entry.id in self._suspect_ids:
                break
            # It is marked before it is read, so that it cannot be merged into another id from here on.
            self._spool.mark_sent([entry], was_sent=True)
            body = self._spool.read(entry)
            if body is None:
                continue
            if batch and size + len(body) > self._config.batch_max_bytes:
                self._spool.mark_sent([entry], was_sent=entry.was_sent)
                break
            batch.append((entry, body))
            size += len(body)
        return batch

    async def _send(self, batch: list[tuple[SpoolEntry, bytes]]) -> IngestResponse:
        headers = {"Content-Encoding": "zstd", "Content-Type": "application/vnd.sidelight.windows"}
        body = await asyncio.to_thread(_compress, [body for _, body in batch])
        try:
            reply = await self._client.request("POST", "/api/v1/windows", body, headers)
        except RequestFailed as error:
            return IngestResponse(
                error.outcome,
                stored=error.stored,
                reason=error.reason,
                message=error.message,
                hint=error.hint,
            )
        sent_ids = frozenset(entry.id for entry, _ in batch)
        return parse_ingest_response(
            reply.status, reply.retry_after, reply.body, datetime.now(UTC)
        ).restrict_to(sent_ids)

    def _apply_response(self, batch: list[tuple[SpoolEntry, bytes]], response: IngestResponse) -> bool:
        """Apply a response to the spool; return whether to send the next batch at once."""
        entries = [entry for entry, _ in batch]
        ids = {entry.id for entry in entries}
        if response.outcome is RequestOutcome.ACCEPTED:
            acknowledged = ids & (response.accepted | response.duplicates)
            self._metrics.shipped.labels("accepted").inc(len(ids & response.accepted))
            self._metrics.shipped.labels("duplicate").inc(len(acknowledged - response.accepted))
            self._metrics.last_shipped.set_to_current_time()
            self._report_recovery()
            self._health.clear("labels")
            self._suspect_ids -= acknowledged
            self._spool.delete(acknowledged)
            return bool(acknowledged)
        if response.stored is False:
            # Restore the mark, because the outcome of an earlier attempt may be unknown.
            for entry in entries:
                self._spool.mark_sent([entry], was_sent=entry.was_sent)
        if response.outcome is not RequestOutcome.REFUSED:
            self._report_failure(response)
            return False
        self._report_recovery()
        if len(entries) > 1:
            self._suspect_ids |= ids
        else:
            self._quarantine_window(entries[0], response)
        return True

    def _quarantine_window(self, entry: SpoolEntry, response: IngestResponse) -> None:
        self._suspect_ids.discard(entry.id)
        self._metrics.refused.labels(to_reason_label(response.reason)).inc()
        self._spool.quarantine_refused(entry, response.reason, response.message)
        if response.reason in IDENTITY_MISMATCH_REASONS:
            # All later windows will be refused for the same reason, so this is not just one bad window.
            self._health.report(
                "labels", HealthIssue(Reason(response.reason), response.message, response.hint)
            )
        _log.warning(
            "the collector refused a window",
            window=entry.id,
            reason=response.reason,
            message=response.message,
        )

    def _report_disk_error(self, error: OSError) -> None:
        problem = HealthIssue(
            Reason.SPOOL_UNWRITABLE,
            f"windows wait: the spool cannot be changed: {error.strerror}",
            "Make the volume of --spool-dir writable again.",
        )
        if is_out_of_descriptors(error):
            problem = HealthIssue.out_of_descriptors(error)
        if self._health.report("sending from the spool", problem):
            _log.error("windows cannot be taken from the spool", problem=problem.message)

    def _report_recovery(self) -> None:
        if self._health.clear("collector"):
            _log.info("the collector takes windows again", collector=self._config.collector)

    def _report_failure(self, response: IngestResponse) -> None:
        problem = _make_issue(self._config.collector, response)
        if self._health.report("collector", problem):
            _log.warning("windows are kept in the spool", problem=problem.message, hint=problem.hint)


def _make_issue(collector: str, response: IngestResponse) -> HealthIssue:
    if response.outcome is RequestOutcome.UNAUTHORIZED:
        return HealthIssue(
            _choose_reason(response, Reason.UNAUTHORIZED, Reason.NO_POD),
            f"{collector} does not let this sidecar send windows: {response.message}",
            response.hint or "Check --token-file: the collector must know the token in it.",
        )
    if response.outcome is RequestOutcome.BUSY:
        reason = _choose_reason(
            response, Reason.OVERLOADED, Reason.CLUSTER_UNAVAILABLE, Reason.CLUSTER_DENIED
        )
        return HealthIssue(reason, f"{collector} cannot take windows now: {response.message}", response.hint)
    if response.outcome is RequestOutcome.UNEXPECTED:
        return HealthIssue(
            Reason.COLLECTOR_UNREACHABLE,
            f"{collector} did not answer as a collector does: {response.message}",
            "Check --collector: it is the base URL, without /api/v1.",
        )
    if response.reason == Reason.OUT_OF_DESCRIPTORS:
        return HealthIssue(
            Reason.OUT_OF_DESCRIPTORS,
            f"{collector} cannot be reached: {response.message}",
            OUT_OF_DESCRIPTORS_HINT,
        )
    return HealthIssue(
        _choose_reason(response, Reason.COLLECTOR_UNREACHABLE, Reason.UNTRUSTED_CERTIFICATE),
        f"{collector} cannot be reached: {response.message}",
        response.hint
        or "Check --collector, the network, and that the collector runs; windows wait in the spool.",
    )


def _choose_reason(response: IngestResponse, default: Reason, *others: Reason) -> Reason:
    """Return the collector's reason if it is one of `others`, else `default`."""
    return next((word for word in others if word == response.reason), default)


def _compress(bodies: list[bytes]) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(b"".join(bodies))
