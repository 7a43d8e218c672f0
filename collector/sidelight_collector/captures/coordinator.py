"""Assigns captures to the sidecars that poll this process.

Also notices when captures end. The coordinator holds a sidecar's poll until there is a response, so that a
capture requested here begins at once. Captures requested from other processes or collectors appear in the
store, which it reads every few seconds while sidecars poll here. The first process that adds a sidecar to a
capture gets the place.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from sidelight.waiting import wait_for_event
from sidelight_collector.auth.write_identity import get_pod_suffix
from sidelight_collector.captures.agent_exchange import AGENT_EXCHANGE_SECONDS, AgentExchange
from sidelight_collector.captures.agent_polls import PendingPolls
from sidelight_collector.captures.agents import (
    Agent,
    AgentRegistry,
    explain_no_agents,
    select_eligible_agents,
)
from sidelight_collector.captures.capture import (
    FINAL_STATES,
    Capture,
    CaptureOutcome,
    CapturePart,
    CapturePolicy,
    CaptureProgress,
    CaptureRequest,
    Claim,
    PartsByAgent,
    choose_later_state,
    claim_slots,
    compute_progress,
    count_free_slots,
    decide_outcome,
    is_status_change,
    request_stop,
)
from sidelight_collector.captures.capture_repository import (
    CaptureNotFound,
    CaptureRepository,
    generate_capture_id,
    unix_now,
)
from sidelight_collector.captures.capture_slots import check_slots, find_namespaces
from sidelight_collector.captures.poll_response import (
    RESEND_SECONDS,
    ActiveCapture,
    build_poll_response,
    respond_to_node_agent,
)
from sidelight_collector.metrics import Metrics
from sidelight_model.capture_protocol import (
    AgentPoll,
    AgentPollResponse,
    CaptureReport,
    CaptureState,
)
from sidelight_model.errors import SidelightError

REPORT_WRITE_SECONDS: Final = 1.5
"""A report in which only numbers changed is written at most this often."""
_log = structlog.get_logger()

WindowCounter = Callable[[Capture, float], Awaitable[int]]
"""Counts the windows of a capture that a query finds.

Only windows that began until a moment (Unix seconds) count.
"""


class CaptureCoordinator:
    """The running captures as one process sees them.

    Belongs to one event loop.
    """

    def __init__(
        self,
        repository: CaptureRepository,
        policy: CapturePolicy,
        metrics: Metrics,
        count_windows: WindowCounter,
        *,
        agents: AgentRegistry,
        poll_timeout_seconds: float,
        check_interval_seconds: float,
        clock: Callable[[], float] = unix_now,
    ) -> None:
        self._repository = repository
        self.policy = policy
        self._metrics = metrics
        self._count_windows = count_windows
        self._poll_timeout_seconds = poll_timeout_seconds
        self._check_interval_seconds = check_interval_seconds
        self._clock = clock
        self._agents = agents
        self._exchange = AgentExchange(repository, self._agents, clock)
        self._active: dict[str, ActiveCapture] = {}
        self._polls = PendingPolls(agents.max_polls, metrics)
        self._claim_lock = asyncio.Lock()
        self._check_requested = asyncio.Event()
        self.is_closed = False
        self.suggest_alternative: Callable[[CaptureRequest], str] = lambda _: ""
        """Returns a hint for a capture that no sidecar took; empty if there is none."""

    async def start(
        self,
        capture_request: CaptureRequest,
        requested_by: str = "",
        capture_id: str = "",
        target_namespaces: AbstractSet[str] = frozenset(),
    ) -> Capture:
        """Create a capture and assign it.

        It gets the id `capture_id` if there is one; `target_namespaces` are those of pods that get a sidecar
        attached. Raises CaptureLimitReached and ObjectExists.
        """
        now = self._clock()
        await self._refresh(force=True)
        await self._check_slots(capture_request, target_namespaces)
        capture = Capture(capture_id or generate_capture_id(now), capture_request, now, requested_by)
        await asyncio.to_thread(self._repository.create, capture)
        self._metrics.captures_started.inc()
        _log.info(
            "capture requested",
            capture=capture.id,
            service=capture_request.service,
            seconds=capture_request.seconds,
        )
        self._merge(capture)
        await self._assign_agents(capture.id)
        self._check_requested.set()
        return self._active[capture.id].capture if capture.id in self._active else capture

    async def _check_slots(
        self, capture_request: CaptureRequest, target_namespaces: AbstractSet[str]
    ) -> None:
        """Raise CaptureLimitReached if a capture may not start now."""
        namespaces = target_namespaces | find_namespaces(self.list_agents(), capture_request)
        if not namespaces:
            await self.load_remote_agents()
            namespaces = find_namespaces(self.list_agents(), capture_request)
        running = [one.capture for one in self._active.values()]
        await asyncio.to_thread(check_slots, running, self.list_agents(), namespaces, self.policy)

    async def add_claims(self, capture_id: str, claims: Sequence[Claim]) -> Capture:
        """Add sidecars that are to be attached to a capture, as far as it has room.

        Raises CaptureNotFound.
        """
        now = self._clock()
        async with self._claim_lock:
            capture = await asyncio.to_thread(
                self._repository.update,
                capture_id,
                lambda stored: claim_slots(stored, claims, self.policy, now),
            )
            self._merge_if_active(capture)
        return capture

    async def fail_part(self, capture_id: str, agent: str, problem: str, hint: str) -> None:
        """Record why the part of a sidecar that has not reported itself failed.

        Raises CaptureNotFound.
        """
        report = CaptureReport(capture_id, CaptureState.FAILED, problem=problem, hint=hint)
        await self._record_report(agent, report)

    def has_reported_or_ended(self, capture_id: str, agent: str) -> bool:
        """Return whether a sidecar has reported on a capture, or is not needed any more."""
        known = self._active.get(capture_id)
        return known is None or known.capture.stop_at is not None or agent in known.parts

    async def stop(self, capture_id: str) -> Capture:
        """End a capture early and keep its windows.

        Raises CaptureNotFound.
        """
        now = self._clock()
        capture = await asyncio.to_thread(
            self._repository.update, capture_id, lambda stored: request_stop(stored, now)
        )
        self._merge_if_active(capture)
        self._check_requested.set()
        return capture

    async def delete(self, capture_id: str) -> None:
        """Delete a capture, and stop the sidecars that are still at it.

        Raises CaptureNotFound.
        """
        await asyncio.to_thread(self._repository.delete, capture_id)
        gone = self._active.pop(capture_id, None)
        if gone:
            self._polls.wake(claim.agent for claim in gone.capture.claims)

    async def handle_poll(
        self,
        poll: AgentPoll,
        is_disconnected: Callable[[], bool] = lambda: False,
        dedicated_capture: str = "",
    ) -> AgentPollResponse:
        """Return the response to a poll: at once if there is one, else when there is.

        The response is empty after a timeout. `is_disconnected` returns whether the sidecar has closed the
        connection; `dedicated_capture` is the capture that it was attached for. Raises CaptureLimitReached.
        """
        now, name, timeout_seconds = self._clock(), poll.status.agent, poll.timeout_seconds
        if poll.for_node:
            timeout_seconds = 0.0 if self.is_closed else min(timeout_seconds, self._poll_timeout_seconds)
            wait = partial(self._polls.wait, get_pod_suffix(name), timeout_seconds, is_disconnected)
            return await respond_to_node_agent(self._active, self._repository, poll, wait, self._clock)
        agent = self._agents.record_poll(poll, now, dedicated_capture, self._polls.is_waiting)
        unknown_ids = [
            one for one in [await self._record_report(name, report) for report in poll.reports] if one
        ]
        deadline = asyncio.get_running_loop().time() + min(timeout_seconds, self._poll_timeout_seconds)
        reported_ids = {report.capture for report in poll.reports}
        del poll  # a poll can be large, and its response may have to wait
        for one in list(self._active.values()):
            if self._can_claim(agent, one.capture) and select_eligible_agents([agent], one.capture.request):
                await self._assign_agents(one.capture.id)
        while True:
            now = await self._reload_due_captures(agent, reported_ids)
            response, pending = build_poll_response(
                self._active.values(), name, reported_ids, unknown_ids, self.policy, now
            )
            left = deadline - asyncio.get_running_loop().time()
            if response or left <= 0 or self.is_closed:
                return response
            await self._polls.wait(name, min(left, RESEND_SECONDS) if pending else left, is_disconnected)

    def list_agents(self) -> list[Agent]:
        """List the sidecars that poll this or another process."""
        return self._agents.list_all(self._clock())

    async def get_progress(self, capture_id: str) -> tuple[Capture, CaptureProgress, PartsByAgent]:
        """Return a capture, its progress and its parts.

        Raises CaptureNotFound.
        """
        capture, parts = await asyncio.to_thread(self._repository.get_with_parts, capture_id)
        if active := self._active.get(capture_id):
            active.overlay_newer_parts(parts)
        # Nobody may be looking after it: the collector that did may have ended.
        is_abandoned = capture.outcome is None and capture_id not in self._active
        if is_abandoned and (outcome := await self._compute_outcome(capture, parts)):
            capture = await self._finish(capture_id, outcome, parts)
        return capture, self.explain_progress(capture, parts), parts

    def explain_progress(self, capture: Capture, parts: PartsByAgent) -> CaptureProgress:
        """Compute a capture's progress; if no sidecar took it, explain why."""
        progress = compute_progress(capture, parts, self.policy, self._clock())
        if progress.state is CaptureState.FAILED and not capture.claims and capture.outcome is None:
            problem, hint = explain_no_agents(self.list_agents(), capture.request)
            hint = self.suggest_alternative(capture.request) or hint
            return replace(progress, problem=f"{progress.problem}: {problem}", hint=hint)
        return progress

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the captures in the store until `stop` is set. A root task.

        It retries if the store fails.
        """
        while not stop.is_set():
            self._check_requested.clear()
            try:
                await self._refresh()
                if any(not one.capture.claims for one in self._active.values()):
                    await self.load_remote_agents()
                await self._finish_captures()
                await self._exchange.publish()
            except SidelightError as error:
                self._record_error(error)
            self._metrics.connected_sidecars.set(len(self._agents.list_local(self._clock())))
            await wait_for_event(self._check_requested, self._check_interval_seconds)

    def close(self) -> None:
        """Answer all pending polls."""
        self.is_closed = True
        self._check_requested.set()
        self._polls.wake_all()

    async def shutdown(self) -> None:
        """Unlist the sidecars of this process for the other processes."""
        try:
            await self._exchange.withdraw()
        except SidelightError as error:
            self._record_error(error)

    async def _refresh(self, *, force: bool = False) -> None:
        """Read captures of other processes, and assign new ones."""
        if not (force or self._agents.list_local(self._clock()) or self._active or len(self._polls)):
            return
        since = self._clock() - self.policy.max_lifetime_seconds
        # One made since the list was asked for need not be in it.
        active = list(self._active)
        stored = await asyncio.to_thread(self._repository.list_since, since)
        unfinished = {one.id: one for one in stored if one.outcome is None}
        for capture_id in active:
            if capture_id not in unfinished and (dropped := self._active.pop(capture_id, None)):
                self._polls.wake(claim.agent for claim in dropped.capture.claims)
        for capture in unfinished.values():
            self._merge(capture)
        for capture_id in list(unfinished):
            await self._assign_agents(capture_id)

    async def _assign_agents(self, capture_id: str) -> None:
        """Add polling sidecars to a capture that has room, and wake their polls."""
        async with self._claim_lock:
            known = self._active.get(capture_id)
            if known is None or not count_free_slots(known.capture, self.policy, self._clock()):
                return
            now = self._clock()
            agents, capture_request = self._agents.list_local(now), known.capture.request
            free = [one for one in agents if self._can_claim(one, known.capture)]
            free = await asyncio.to_thread(select_eligible_agents, free, capture_request)
            if not free:
                return
            random.shuffle(free)
            claims = [Claim(one.status.agent, dict(one.status.labels), now) for one in free]
            try:
                capture = await asyncio.to_thread(
                    self._repository.update,
                    capture_id,
                    lambda stored: claim_slots(stored, claims, self.policy, now),
                )
            except CaptureNotFound:
                self._active.pop(capture_id, None)
                return
            self._merge_if_active(capture)

    def _merge(self, capture: Capture) -> ActiveCapture:
        """Merge a stored capture into the known one, and wake its polls.

        A change that this process made meanwhile stays.
        """
        known, old = self._active.setdefault(capture.id, ActiveCapture(capture)), None
        if known.capture is not capture:
            old, known.capture = known.capture, choose_later_state(capture, known.capture)
        if old is None or (old.stop_at, old.claims) != (known.capture.stop_at, known.capture.claims):
            self._polls.wake(claim.agent for claim in known.capture.claims)
        return known

    def _merge_if_active(self, capture: Capture) -> None:
        """Merge a stored capture if it still runs, as far as this process knows."""
        if capture.id in self._active:
            self._merge(capture)

    async def _reload_due_captures(self, agent: Agent, reported_ids: set[str]) -> float:
        """Read again the captures that this poll would hand out.

        Another collector may have stopped or deleted one. Returns when they were current, in Unix seconds.
        """
        confirmed: set[str] = set()
        while True:
            now = self._clock()
            due_captures = [
                active.capture
                for active in self._active.values()
                if active.must_send(agent.status.agent, reported_ids, now)
            ]
            unread = [one.id for one in due_captures if one.stop_at is None and one.id not in confirmed]
            if not unread:
                return now
            confirmed |= set(unread)
            for capture_id in unread:
                try:
                    capture = await asyncio.to_thread(self._repository.get, capture_id)
                except CaptureNotFound:
                    self._active.pop(capture_id, None)
                    continue
                if capture.outcome is not None:
                    self._active.pop(capture_id, None)
                self._merge_if_active(capture)

    def _can_claim(self, agent: Agent, capture: Capture) -> bool:
        """Return whether a capture has room for this sidecar, and it is there and free."""
        now = self._clock()
        if (
            not count_free_slots(capture, self.policy, now)
            or agent.last_seen < now - self._poll_timeout_seconds - AGENT_EXCHANGE_SECONDS
        ):
            return False
        name = agent.status.agent
        if self._polls.is_disconnected(name):
            return False
        return not any(active.occupies(name) for active in self._active.values())

    async def _record_report(self, agent: str, report: CaptureReport) -> str:
        """Record a report.

        Returns the id of its capture if the sidecar must stop it: the capture is unknown, ended, or not the
        sidecar's.
        """
        now = self._clock()
        known = self._active.get(report.capture)
        old = known.parts.get(agent) if known else None
        part = CapturePart(agent, now, report)
        is_recent = known and now < known.written_at.get(agent, 0.0) + REPORT_WRITE_SECONDS
        if known and old and is_recent and not is_status_change(old, report):
            known.parts[agent] = part
            return ""
        try:
            capture = (
                known.capture if known else await asyncio.to_thread(self._repository.get, report.capture)
            )
            if not any(claim.agent == agent for claim in capture.claims):
                capture = await asyncio.to_thread(self._repository.get, report.capture)
            has_claimed = any(claim.agent == agent for claim in capture.claims)
            if not has_claimed or (capture.outcome and capture.outcome.state is not CaptureState.FAILED):
                return "" if report.state in FINAL_STATES else report.capture
            await asyncio.to_thread(self._repository.put_part, report.capture, part)
            if (
                capture.outcome
                and capture.outcome.state is CaptureState.FAILED
                and report.state is not CaptureState.FAILED
            ):
                # It was given up and is heard again.
                capture = await asyncio.to_thread(
                    self._repository.update, capture.id, lambda stored: replace(stored, outcome=None)
                )
        except CaptureNotFound:
            return "" if report.state in FINAL_STATES else report.capture
        if capture.outcome is None:
            known = self._merge(capture)
            known.parts[agent], known.written_at[agent] = part, now
        if report.state in FINAL_STATES:
            self._check_requested.set()
        return ""

    async def _finish_captures(self) -> None:
        """Write the outcome of captures that have ended."""
        for capture_id, known in list(self._active.items()):
            try:
                capture, parts = await asyncio.to_thread(self._repository.get_with_parts, capture_id)
                known.overlay_newer_parts(parts)
                for agent, part in parts.items():
                    known.parts[agent] = part
                    known.written_at.setdefault(agent, part.last_seen)
                if capture.outcome is None and (outcome := await self._compute_outcome(capture, parts)):
                    await self._finish(capture_id, outcome, parts)
            except CaptureNotFound:
                self._active.pop(capture_id, None)
                self._polls.wake(claim.agent for claim in known.capture.claims)
            except SidelightError as error:
                self._record_error(error)

    async def _compute_outcome(self, capture: Capture, parts: PartsByAgent) -> CaptureOutcome | None:
        """Return the outcome of a capture; None if it still runs."""
        now, progress = self._clock(), self.explain_progress(capture, parts)
        if progress.is_final:
            return CaptureOutcome(progress.state, now, progress.problem, progress.hint)
        if not progress.have_parts_ended:
            return None
        return decide_outcome(capture, parts, progress, await self._count_windows(capture, now), now)

    async def _finish(self, capture_id: str, outcome: CaptureOutcome, parts: PartsByAgent) -> Capture:
        is_first = False
        reports = [part.report for part in parts.values()]
        outcome = replace(
            outcome,
            samples=sum(one.samples for one in reports),
            elapsed_seconds=max((one.elapsed_seconds for one in reports), default=0.0),
        )

        def set_outcome(stored: Capture) -> Capture | None:
            nonlocal is_first
            is_first = stored.outcome is None
            return replace(stored, outcome=outcome) if is_first else None

        capture = await asyncio.to_thread(self._repository.update, capture_id, set_outcome)
        self._active.pop(capture_id, None)
        self._polls.wake(claim.agent for claim in capture.claims)
        if is_first:
            self._metrics.captures_ended.labels(outcome.state).inc()
            _log.info(
                "capture ended", capture=capture_id, outcome=str(outcome.state), problem=outcome.problem
            )
        return capture

    async def load_remote_agents(self) -> None:
        """Read which sidecars poll other processes."""
        await self._exchange.load_remote()

    def _record_error(self, error: SidelightError) -> None:
        self._metrics.capture_errors.inc()
        _log.warning("captures not looked after", error=error.message, hint=error.hint)
