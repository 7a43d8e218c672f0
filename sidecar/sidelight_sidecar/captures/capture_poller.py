"""Asks the collector for captures that people start there, and tells it how they go.

Always outbound: the collector keeps the question open until it has something to say, so that a capture
begins at once though nobody can connect to a sidecar. While one runs the question is asked every second
without being kept open, because it carries the reports. A collector that is away changes nothing for a
capture that runs; one too old to know captures is asked again every few minutes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

import structlog

from sidelight_model.capture_protocol import AgentPoll, AgentPollResponse, AgentStatus, BadMessage
from sidelight_sidecar.captures.remote_capture import CaptureContext, RemoteCapture, format_error_body
from sidelight_sidecar.shipping.collector_client import RequestFailed
from sidelight_sidecar.shipping.ingest_response import compute_backoff, parse_retry_after

_PATH = "/api/v1/agents/poll"
_REPORT_SECONDS = 1.0
_STATUS_CHANGE_SECONDS = 5.0
_UNSUPPORTED_RETRY_SECONDS = 300.0
_MAX_RECONNECT_SECONDS = 5.0
_DRAIN_PAUSE_SECONDS = 0.5
_MAX_REMEMBERED = 200
_MAX_BODY_BYTES = 1 << 20
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.captures.capture_poller"
)


class PollOutcome(StrEnum):
    """How a question ended; also a metric label."""

    ANSWERED = "answered"
    STATUS_CHANGED = "changed"
    UNSUPPORTED = "unsupported"
    UNAUTHORIZED = "unauthorized"
    BUSY = "overloaded"
    UNEXPECTED = "unexpected"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class PollResponse:
    """What came of a question, `wait` seconds before the next if the collector said so."""

    outcome: PollOutcome
    answer: AgentPollResponse | None = None
    wait: float | None = None
    problem: str = ""


class CapturePoller:
    """The loop that asks; `get_status` returns the status of this sidecar."""

    def __init__(
        self,
        context: CaptureContext,
        get_status: Callable[[], AgentStatus],
        *,
        poll_timeout_seconds: float,
        unsupported_retry_seconds: float = _UNSUPPORTED_RETRY_SECONDS,
    ) -> None:
        self._context = context
        self._get_status = get_status
        self._poll_timeout_seconds = poll_timeout_seconds
        self._unsupported_retry_seconds = unsupported_retry_seconds
        self._captures: dict[str, RemoteCapture] = {}
        self._wake = asyncio.Event()
        self._draining = False
        self._open_poll: asyncio.Timeout | None = None
        self._sent_status: AgentStatus | None = None
        self._polled_at = 0.0
        self._last_outcome = PollOutcome.ANSWERED
        self.wait_until_ready: Callable[[], Awaitable[None]] = _return_at_once

    def drain(self) -> None:
        """Let `run` return once the captures that were ordered are over and that is reported."""
        self._draining = True
        for ordered in self._captures.values():
            ordered.flush_now()
        self._interrupt_poll()
        self._wake.set()

    def has_started(self, capture: str) -> bool:
        """Whether this capture was ordered."""
        return capture in self._captures

    def is_reported(self, capture: str) -> bool:
        """Whether it is over, and the collector knows."""
        one = self._captures.get(capture)
        return one is not None and one.is_done and one.is_reported

    async def run(self) -> None:
        """Ask for ever, or after `drain` until all is reported."""
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._watch_status(), name="look for news")
            await self.wait_until_ready()
            attempt = 0
            while not (self._draining and all(one.is_reported for one in self._captures.values())):
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
            looking.cancel()

    @property
    def _has_unreported(self) -> bool:
        return any(not one.is_reported for one in self._captures.values())

    async def _poll(self) -> PollResponse:
        """Ask once. What is over and was told of is reported, if there is an answer."""
        timeout = 0.0 if self._has_unreported or self._draining else self._poll_timeout_seconds
        self._sent_status, self._polled_at = (status := self._get_status()), self._context.clock()
        unreported = [one for one in self._captures.values() if not one.is_reported]
        done = [one for one in unreported if one.is_done]
        body = encode_poll_request(
            AgentPoll(status, timeout, tuple(one.build_report() for one in unreported))
        )
        try:
            async with asyncio.timeout(None) as held:
                self._open_poll = held if timeout else None
                try:
                    reply = await self._context.client.request(
                        "POST", _PATH, body, {"Content-Type": "application/json"}, extra_seconds=timeout
                    )
                finally:
                    self._open_poll = None
        except RequestFailed as none:
            outcome = PollOutcome.UNAUTHORIZED if none.outcome == "unauthorized" else PollOutcome.UNREACHABLE
            return PollResponse(outcome, problem=none.message)
        except TimeoutError:
            return PollResponse(PollOutcome.STATUS_CHANGED)
        if reply.status == 200 and (answer := decode_poll_response(reply.body)) is not None:
            for one in done:
                one.is_reported = True
            return PollResponse(PollOutcome.ANSWERED, answer)
        wait = parse_retry_after(reply.retry_after, datetime.now(UTC))
        return PollResponse(
            _classify_status(reply.status),
            None,
            wait,
            f"status {reply.status}{format_error_body(reply.body)}",
        )

    def _apply_response(self, answer: AgentPollResponse, group: asyncio.TaskGroup) -> None:
        for problem in answer.problems:
            self._context.metrics.capture_jobs.labels("unreadable").inc()
            _log.warning("a capture job of the collector cannot be read", problem=problem)
        for job in answer.capture_jobs:
            capture = job.capture
            if (known := self._captures.get(capture)) is not None:
                # It is ordered until it was heard of: what came of it is told again.
                known.is_reported = False
            elif not self._draining:
                one = self._captures[capture] = RemoteCapture(job, self._context, self._wake.set)
                group.create_task(one.run(), name=f"capture {capture}")
        for capture in answer.stop_captures:
            if capture in self._captures:
                self._captures[capture].stop()
        done = [key for key, one in self._captures.items() if one.is_done and one.is_reported]
        for key in done[: max(0, len(self._captures) - _MAX_REMEMBERED)]:
            del self._captures[key]

    async def _wait_before_poll(self, response: PollResponse, attempt: int) -> None:
        """Wait before the next question, or until there is something to say."""
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
            seconds = max(compute_backoff(attempt, max_seconds, context.rng()), response.wait or 0.0)
            if not self._has_unreported:
                # When a collector restarts all sidecars lose their question in the same moment.
                seconds += min(_MAX_RECONNECT_SECONDS, max_seconds) * context.rng()
        if self._draining:
            seconds = min(seconds, _DRAIN_PAUSE_SECONDS)
            await asyncio.sleep(max(0.0, seconds))
            return
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _watch_status(self) -> None:
        """Ask anew when this sidecar is not any more what it said."""
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            old = self._context.clock() - self._polled_at >= _STATUS_CHANGE_SECONDS
            if self._open_poll is not None and old and self._get_status() != self._sent_status:
                self._interrupt_poll()

    def _interrupt_poll(self) -> None:
        if self._open_poll is not None:
            self._open_poll.reschedule(asyncio.get_running_loop().time())

    def _log_outcome(self, response: PollResponse) -> None:
        """Log what has changed."""
        if response.outcome in (self._last_outcome, PollOutcome.STATUS_CHANGED):
            return
        before, self._last_outcome = self._last_outcome, response.outcome
        if response.outcome is PollOutcome.UNSUPPORTED:
            _log.info(
                "the collector knows no captures: it is asked again now and then", problem=response.problem
            )
        elif response.outcome is PollOutcome.ANSWERED:
            _log.info("the collector is asked for captures again", before=before)
        else:
            # One that is away is no news worth a warning: windows that cannot be sent are.
            log = _log.info if response.outcome is PollOutcome.UNREACHABLE else _log.warning
            log("the collector cannot be asked for captures", problem=response.problem)


def encode_poll_request(poll: AgentPoll) -> bytes:
    """A poll as it is sent: without what every process does where that would be too long."""
    body = json.dumps(poll.to_json()).encode()
    if len(body) > _MAX_BODY_BYTES:
        short = tuple(replace(report, processes=()) for report in poll.reports)
        body = json.dumps(replace(poll, reports=short).to_json()).encode()
    return body


def decode_poll_response(body: bytes) -> AgentPollResponse | None:
    """An answer, or None for what no collector says."""
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
