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
from sidelight_sidecar.captures.remote_capture import Means, Ordered, said
from sidelight_sidecar.shipping.collector_client import Unanswered
from sidelight_sidecar.shipping.ingest_response import pause, seconds_of

_PATH = "/api/v1/agents/poll"
_REPORT_SECONDS = 1.0
_NEWS_SECONDS = 5.0
_OLDER_SECONDS = 300.0
_AWAY_SECONDS = 5.0
_DRAIN_PAUSE_SECONDS = 0.5
_REMEMBERED = 200
_MOST_BYTES = 1 << 20
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.captures.capture_poller"
)


class Polled(StrEnum):
    """How a question ended; also a metric label."""

    ANSWERED = "answered"
    NEWS = "changed"
    OLDER = "unsupported"
    UNAUTHORIZED = "unauthorized"
    BUSY = "overloaded"
    UNEXPECTED = "unexpected"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a question, `wait` seconds before the next if the collector said so."""

    outcome: Polled
    answer: AgentPollResponse | None = None
    wait: float | None = None
    problem: str = ""


class Orders:
    """The loop that asks; `standing` says what this sidecar is now."""

    def __init__(
        self,
        means: Means,
        standing: Callable[[], AgentStatus],
        *,
        hold_seconds: float,
        older_seconds: float = _OLDER_SECONDS,
    ) -> None:
        self._means = means
        self._standing = standing
        self._hold_seconds = hold_seconds
        self._older_seconds = older_seconds
        self._ordered: dict[str, Ordered] = {}
        self._wake = asyncio.Event()
        self._draining = False
        self._held: asyncio.Timeout | None = None
        self._asked: AgentStatus | None = None
        self._asked_at = 0.0
        self._last = Polled.ANSWERED
        self.ready: Callable[[], Awaitable[None]] = _at_once

    def drain(self) -> None:
        """Let `run` return once the captures that were ordered are over and that is told."""
        self._draining = True
        for ordered in self._ordered.values():
            ordered.hurry()
        self._cut()
        self._wake.set()

    def begun(self, capture: str) -> bool:
        """Whether this capture was ordered."""
        return capture in self._ordered

    def told(self, capture: str) -> bool:
        """Whether it is over, and the collector knows."""
        one = self._ordered.get(capture)
        return one is not None and one.over and one.reported

    async def run(self) -> None:
        """Ask for ever, or after `drain` until all is told."""
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._look(), name="look for news")
            await self.ready()
            attempt = 0
            while not (self._draining and all(one.reported for one in self._ordered.values())):
                self._wake.clear()
                told = await self._ask()
                self._means.metrics.capture_polls.labels(told.outcome.value).inc()
                self._say(told)
                attempt = attempt + 1 if told.answer is None and told.outcome is not Polled.NEWS else 0
                if told.answer is not None:
                    self._obey(told.answer, group)
                await self._rest(told, attempt)
            looking.cancel()

    @property
    def _busy(self) -> bool:
        return any(not one.reported for one in self._ordered.values())

    async def _ask(self) -> Told:
        """Ask once. What is over and was told of is reported, if there is an answer."""
        hold = 0.0 if self._busy or self._draining else self._hold_seconds
        self._asked, self._asked_at = (status := self._standing()), self._means.clock()
        reported = [one for one in self._ordered.values() if not one.reported]
        over = [one for one in reported if one.over]
        body = written(AgentPoll(status, hold, tuple(one.report() for one in reported)))
        try:
            async with asyncio.timeout(None) as held:
                self._held = held if hold else None
                try:
                    reply = await self._means.reach.ask(
                        "POST", _PATH, body, {"Content-Type": "application/json"}, patience=hold
                    )
                finally:
                    self._held = None
        except Unanswered as none:
            outcome = Polled.UNAUTHORIZED if none.outcome == "unauthorized" else Polled.UNREACHABLE
            return Told(outcome, problem=none.message)
        except TimeoutError:
            return Told(Polled.NEWS)
        if reply.status == 200 and (answer := read(reply.body)) is not None:
            for one in over:
                one.reported = True
            return Told(Polled.ANSWERED, answer)
        wait = seconds_of(reply.retry_after, datetime.now(UTC))
        return Told(_outcome(reply.status), None, wait, f"status {reply.status}{said(reply.body)}")

    def _obey(self, answer: AgentPollResponse, group: asyncio.TaskGroup) -> None:
        for problem in answer.problems:
            self._means.metrics.capture_jobs.labels("unreadable").inc()
            _log.warning("a capture job of the collector cannot be read", problem=problem)
        for job in answer.capture_jobs:
            capture = job.capture
            if (known := self._ordered.get(capture)) is not None:
                # It is ordered until it was heard of: what came of it is told again.
                known.reported = False
            elif not self._draining:
                one = self._ordered[capture] = Ordered(job, self._means, self._wake.set)
                group.create_task(one.run(), name=f"capture {capture}")
        for capture in answer.stop_captures:
            if capture in self._ordered:
                self._ordered[capture].stop()
        done = [key for key, one in self._ordered.items() if one.over and one.reported]
        for key in done[: max(0, len(self._ordered) - _REMEMBERED)]:
            del self._ordered[key]

    async def _rest(self, told: Told, attempt: int) -> None:
        """Wait before the next question, or until there is something to say."""
        means, elapsed = self._means, self._means.clock() - self._asked_at
        if told.outcome is Polled.NEWS:
            return
        if told.outcome is Polled.ANSWERED:
            seconds = _REPORT_SECONDS - elapsed
        elif told.outcome is Polled.OLDER:
            seconds = self._older_seconds * (0.5 + means.luck())
        else:
            longest = min(means.backoff_max, _AWAY_SECONDS) if self._busy else means.backoff_max
            seconds = max(pause(attempt, longest, means.luck()), told.wait or 0.0)
            if not self._busy:
                # When a collector restarts all sidecars lose their question in the same moment.
                seconds += min(_AWAY_SECONDS, longest) * means.luck()
        if self._draining:
            seconds = min(seconds, _DRAIN_PAUSE_SECONDS)
            await asyncio.sleep(max(0.0, seconds))
            return
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _look(self) -> None:
        """Ask anew when this sidecar is not any more what it said."""
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            old = self._means.clock() - self._asked_at >= _NEWS_SECONDS
            if self._held is not None and old and self._standing() != self._asked:
                self._cut()

    def _cut(self) -> None:
        if self._held is not None:
            self._held.reschedule(asyncio.get_running_loop().time())

    def _say(self, told: Told) -> None:
        """Log what has changed."""
        if told.outcome in (self._last, Polled.NEWS):
            return
        before, self._last = self._last, told.outcome
        if told.outcome is Polled.OLDER:
            _log.info("the collector knows no captures: it is asked again now and then", problem=told.problem)
        elif told.outcome is Polled.ANSWERED:
            _log.info("the collector is asked for captures again", before=before)
        else:
            # One that is away is no news worth a warning: windows that cannot be sent are.
            log = _log.info if told.outcome is Polled.UNREACHABLE else _log.warning
            log("the collector cannot be asked for captures", problem=told.problem)


def written(poll: AgentPoll) -> bytes:
    """A poll as it is sent: without what every process does where that would be too long."""
    body = json.dumps(poll.to_json()).encode()
    if len(body) > _MOST_BYTES:
        short = tuple(replace(report, processes=()) for report in poll.reports)
        body = json.dumps(replace(poll, reports=short).to_json()).encode()
    return body


def read(body: bytes) -> AgentPollResponse | None:
    """An answer, or None for what no collector says."""
    try:
        return AgentPollResponse.parse(json.loads(body))
    except (ValueError, RecursionError, BadMessage):
        return None


async def _at_once() -> None:
    return


def _outcome(status: int) -> Polled:
    if status in (404, 405):
        return Polled.OLDER
    if status in (401, 403):
        return Polled.UNAUTHORIZED
    return Polled.BUSY if status == 429 or status >= 500 else Polled.UNEXPECTED
