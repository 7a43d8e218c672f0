"""Polls the collector for capture jobs and reports their progress.

The connection is always outbound. The collector keeps a poll open until it has a job (long polling), so
that a capture starts at once though nobody can connect to a sidecar. While a capture runs, the sidecar
polls every second without keeping the poll open, because the poll carries the reports. A running capture
goes on while the collector is unreachable. A collector too old for captures is polled again every few
minutes.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

import structlog

from sidelight.waiting import wait_for_event
from sidelight_model.capture_protocol import AgentPoll, AgentPollResponse, AgentStatus, BadMessage
from sidelight_sidecar.captures.remote_capture import CaptureContext, RemoteCapture, format_error_body
from sidelight_sidecar.shipping.collector_client import RequestFailed
from sidelight_sidecar.shipping.ingest_response import (
    RETRY_SPREAD_SECONDS,
    compute_retry_delay,
    parse_retry_after,
)

_PATH = "/api/v1/agents/poll"
_REPORT_SECONDS = 1.0
_STATUS_CHANGE_SECONDS = 5.0
_UNSUPPORTED_RETRY_SECONDS = 300.0
_MAX_RECONNECT_SECONDS = 5.0
_DRAIN_PAUSE_SECONDS = 0.5
_MAX_REMEMBERED = 200
_MAX_STOPPED_EARLY = 20
_MAX_BODY_BYTES = 1 << 20
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.captures.capture_poller"
)


class PollOutcome(StrEnum):
    """Outcome of a poll; also a metric label."""

    ANSWERED = "answered"
    STATUS_CHANGED = "changed"
    UNSUPPORTED = "unsupported"
    UNAUTHORIZED = "unauthorized"
    BUSY = "overloaded"
    UNEXPECTED = "unexpected"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class PollResponse:
    """The result of a poll; `wait` is the collector's Retry-After in seconds."""

    outcome: PollOutcome
    answer: AgentPollResponse | None = None
    wait: float | None = None
    problem: str = ""


class CapturePoller:
    """The polling loop; `get_status` returns the status of this sidecar.

    With `is_for_node` it asks for the attachments of a node agent. With `only_capture` it takes no other
    capture, whatever the collector sends.
    """

    def __init__(
        self,
        context: CaptureContext,
        get_status: Callable[[], AgentStatus],
        *,
        poll_timeout_seconds: float,
        unsupported_retry_seconds: float = _UNSUPPORTED_RETRY_SECONDS,
        is_for_node: bool = False,
        only_capture: str = "",
    ) -> None:
        self._context = context
        self._get_status = get_status
        self._poll_timeout_seconds = poll_timeout_seconds
        self._unsupported_retry_seconds = unsupported_retry_seconds
        self._is_for_node = is_for_node
        self._only_capture = only_capture
        self._captures: dict[str, RemoteCapture] = {}
        self._stopped_early: deque[str] = deque(maxlen=_MAX_STOPPED_EARLY)
        self._wake = asyncio.Event()
        self._draining = False
        self._open_poll: asyncio.Timeout | None = None
        self._sent_status: AgentStatus | None = None
        self._polled_at = 0.0
        self._last_outcome = PollOutcome.ANSWERED
        self.wait_until_ready: Callable[[], Awaitable[None]] = _return_at_once
        self.on_response: Callable[[AgentPollResponse], None] = lambda _: None
        self.list_attached: Callable[[], tuple[str, ...]] = tuple
        """Returns the captures for which a node agent looks for a process."""

    def drain(self) -> None:
        """Let `run` return once all captures have ended and are reported."""
        self._draining = True
        for capture in self._captures.values():
            capture.flush_now()
        self._interrupt_poll()
        self._wake.set()

    def has_started(self, capture: str) -> bool:
        """Return whether the collector has sent a job for this capture."""
        return capture in self._captures

    def is_reported(self, capture: str) -> bool:
        """Return whether the capture has ended and the collector has its last report.

        One that was stopped before its job arrived has nothing to report.
        """
        remote_capture = self._captures.get(capture)
        if remote_capture is None:
            return capture in self._stopped_early
        return remote_capture.is_done and remote_capture.is_reported

    async def run(self) -> None:
        """Poll forever, or after `drain` until every capture is reported."""
        async with asyncio.TaskGroup() as group:
            status_watcher = group.create_task(self._watch_status(), name="look for news")
            await self.wait_until_ready()
            attempt = 0
            while not (self._draining and not self._has_unreported):
                self._wake.clear()
                response = await self._poll()
                self._context.metrics.capture_polls.labels(response.outcome.value).inc()
                self._log_outcome(response)
                attempt = (
                    attempt + 1
                    if response.answer is None and response.outcome is not PollOutcome.STATUS_CHANGED
                    else 0
                )
                if response.answer is not None:
                    self._apply_response(response.answer, group)
                await self._wait_before_poll(response, attempt)
            status_watcher.cancel()

    @property
    def _has_unreported(self) -> bool:
        return any(not capture.is_reported for capture in self._captures.values())

    async def _poll(self) -> PollResponse:
        """Poll once.

        A capture that had ended before the poll counts as reported if the collector responds.
        """
        timeout = 0.0 if self._has_unreported or self._draining else self._poll_timeout_seconds
        self._sent_status, self._polled_at = (status := self._get_status()), self._context.clock()
        unreported = [capture for capture in self._captures.values() if not capture.is_reported]
        done = [capture for capture in unreported if capture.is_done]
        body = encode_poll_request(
            AgentPoll(
                status,
                timeout,
                tuple(capture.build_report() for capture in unreported),
                self._is_for_node,
                self.list_attached(),
            )
        )
        try:
            async with asyncio.timeout(None) as poll_timeout:
                self._open_poll = poll_timeout if timeout else None
                try:
                    reply = await self._context.client.request(
                        "POST", _PATH, body, {"Content-Type": "application/json"}, extra_seconds=timeout
                    )
                finally:
                    self._open_poll = None
        except RequestFailed as error:
            unauthorized = error.outcome == "unauthorized"
            outcome = PollOutcome.UNAUTHORIZED if unauthorized else PollOutcome.UNREACHABLE
            return PollResponse(outcome, problem=error.message)
        except TimeoutError:
            return PollResponse(PollOutcome.STATUS_CHANGED)
        if reply.status == 200 and (answer := decode_poll_response(reply.body)) is not None:
            for capture in done:
                capture.is_reported = True
            return PollResponse(PollOutcome.ANSWERED, answer)
        wait = parse_retry_after(reply.retry_after, datetime.now(UTC))
        return PollResponse(
            _classify_status(reply.status),
            None,
            wait,
            f"status {reply.status}{format_error_body(reply.body)}",
        )

    def _apply_response(self, answer: AgentPollResponse, group: asyncio.TaskGroup) -> None:
        self.on_response(answer)
        for problem in answer.problems:
            self._context.metrics.capture_jobs.labels("unreadable").inc()
            _log.warning("a capture job of the collector cannot be read", problem=problem)
        for job in answer.capture_jobs:
            capture = job.capture
            if (existing := self._captures.get(capture)) is not None:
                # The collector repeats a job until it has a report of it, so its report is missing.
                existing.is_reported = False
            elif not self._draining and self._only_capture in ("", capture):
                remote_capture = self._captures[capture] = RemoteCapture(job, self._context, self._wake.set)
                group.create_task(remote_capture.run(), name=f"capture {capture}")
        for capture in answer.stop_captures:
            if capture in self._captures:
                self._captures[capture].stop()
            elif capture not in self._stopped_early:
                self._stopped_early.append(capture)
        finished = [key for key, value in self._captures.items() if value.is_done and value.is_reported]
        for key in finished[: max(0, len(self._captures) - _MAX_REMEMBERED)]:
            del self._captures[key]

    async def _wait_before_poll(self, response: PollResponse, attempt: int) -> None:
        """Wait until the next poll is due, or until a capture changes its state."""
        context, elapsed = self._context, self._context.clock() - self._polled_at
        if response.outcome is PollOutcome.STATUS_CHANGED:
            return
        if response.outcome is PollOutcome.ANSWERED:
            seconds = _REPORT_SECONDS - elapsed
        elif response.outcome is PollOutcome.UNSUPPORTED:
            seconds = self._unsupported_retry_seconds * (0.5 + context.rng())
        else:
            max_seconds = (
                min(context.max_backoff_seconds, _MAX_RECONNECT_SECONDS)
                if self._has_unreported
                else context.max_backoff_seconds
            )
            # A report is due soon; few sidecars have one, and they need no spread.
            spread_seconds = 0.0 if self._has_unreported else RETRY_SPREAD_SECONDS
            seconds = compute_retry_delay(attempt, max_seconds, response.wait, context.rng, spread_seconds)
        if self._draining:
            seconds = min(seconds, _DRAIN_PAUSE_SECONDS)
            await asyncio.sleep(max(0.0, seconds))
            return
        await wait_for_event(self._wake, max(0.0, seconds))

    async def _watch_status(self) -> None:
        """Interrupt an open poll whose status is out of date."""
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            is_old = self._context.clock() - self._polled_at >= _STATUS_CHANGE_SECONDS
            if self._open_poll is not None and is_old and self._get_status() != self._sent_status:
                self._interrupt_poll()

    def _interrupt_poll(self) -> None:
        if self._open_poll is not None:
            self._open_poll.reschedule(asyncio.get_running_loop().time())

    def _log_outcome(self, response: PollResponse) -> None:
        """Log the outcome of a poll if it differs from the last."""
        if response.outcome in (self._last_outcome, PollOutcome.STATUS_CHANGED):
            return
        before, self._last_outcome = self._last_outcome, response.outcome
        if response.outcome is PollOutcome.UNSUPPORTED:
            _log.info(
                "the collector does not support captures: it is polled again now and then",
                problem=response.problem,
            )
        elif response.outcome is PollOutcome.ANSWERED:
            _log.info("the collector is polled for captures again", before=before)
        else:
            # The shipper already warns of an unreachable collector.
            log = _log.info if response.outcome is PollOutcome.UNREACHABLE else _log.warning
            log("the collector cannot be polled for captures", problem=response.problem)


def encode_poll_request(poll: AgentPoll) -> bytes:
    """Encode a poll as JSON, without the reports' processes if it would be too long."""
    body = json.dumps(poll.to_json()).encode()
    if len(body) > _MAX_BODY_BYTES:
        short = tuple(replace(report, processes=()) for report in poll.reports)
        body = json.dumps(replace(poll, reports=short).to_json()).encode()
    return body


def decode_poll_response(body: bytes) -> AgentPollResponse | None:
    """Decode a collector's response; None if it is invalid."""
    try:
        return AgentPollResponse.parse(json.loads(body))
    except (ValueError, RecursionError, BadMessage):
        return None


async def _return_at_once() -> None:
    return


def _classify_status(status: int) -> PollOutcome:
    if status in (404, 405):
        return PollOutcome.UNSUPPORTED
    if status in (401, 403):
        return PollOutcome.UNAUTHORIZED
    return PollOutcome.BUSY if status == 429 or status >= 500 else PollOutcome.UNEXPECTED
