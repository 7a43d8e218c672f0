"""The response to a sidecar's poll: jobs to start and captures to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from sidelight_collector.auth.write_identity import get_pod_suffix
from sidelight_collector.captures.capture import (
    FINAL_STATES,
    Capture,
    CapturePart,
    CapturePolicy,
    build_capture_job,
)
from sidelight_collector.captures.capture_repository import CaptureNotFound, CaptureRepository
from sidelight_model.capture_protocol import (
    AgentPoll,
    AgentPollResponse,
    Attachment,
    CaptureJob,
    CaptureState,
)

RESEND_SECONDS: Final = 1.0
"""Interval at which a job is repeated until the sidecar confirms it."""


@dataclass(slots=True)
class ActiveCapture:
    """A capture that has not ended, as this process knows it. Times are Unix seconds.

    `parts` are the last reports by agent, `written_at` says when each was last stored, and `sent_at` when
    each agent was last sent the job, or the stop of a capture that it has not started.
    """

    capture: Capture
    parts: dict[str, CapturePart] = field(default_factory=dict)
    written_at: dict[str, float] = field(default_factory=dict)
    sent_at: dict[str, float] = field(default_factory=dict)

    def is_claimed_by(self, agent: str) -> bool:
        """Whether this agent took the capture."""
        return any(claim.agent == agent for claim in self.capture.claims)

    def occupies(self, agent: str) -> bool:
        """Return whether the agent took the capture and has not finished it."""
        part = self.parts.get(agent)
        return self.is_claimed_by(agent) and (part is None or part.report.state not in FINAL_STATES)

    def must_send(self, agent: str, reported_ids: AbstractSet[str], now: float) -> bool:
        """Whether the agent has not confirmed the capture and was not sent it lately."""
        return (
            agent not in self.parts
            and self.capture.id not in reported_ids
            and now >= self.sent_at.get(agent, 0.0) + RESEND_SECONDS
            and self.is_claimed_by(agent)
        )

    def overlay_newer_parts(self, parts: dict[str, CapturePart]) -> None:
        """Replace stored reports by later ones that this process received."""
        for agent, part in self.parts.items():
            if agent not in parts or parts[agent].last_seen <= part.last_seen:
                parts[agent] = part


async def respond_to_node_agent(
    active_captures: Mapping[str, ActiveCapture],
    repository: CaptureRepository,
    poll: AgentPoll,
    wait: Callable[[], Awaitable[None]],
    clock: Callable[[], float],
) -> AgentPollResponse:
    """Return the attachments of a node agent, at once or after `wait`.

    With those of its captures (`poll.attached`) that are over.
    """

    async def build_response() -> AgentPollResponse:
        suffix = get_pod_suffix(poll.status.agent)
        attachments = build_attachments(active_captures.values(), suffix, clock())
        ended = [one for one in poll.attached if await _has_ended(active_captures, repository, one)]
        return AgentPollResponse(stop_captures=tuple(ended), attachments=attachments)

    response = await build_response()
    if not response:
        await wait()
        response = await build_response()
    return response


async def _has_ended(
    active_captures: Mapping[str, ActiveCapture], repository: CaptureRepository, capture_id: str
) -> bool:
    """Return whether a capture is to stop, has ended or is deleted."""
    try:
        active = active_captures.get(capture_id)
        capture = active.capture if active else await asyncio.to_thread(repository.get, capture_id)
    except CaptureNotFound:
        return True
    return capture.stop_at is not None or capture.outcome is not None


def build_attachments(
    active_captures: Iterable[ActiveCapture], agent_suffix: str, now: float
) -> tuple[Attachment, ...]:
    """Build the attachments of a node agent whose names end with this suffix.

    They are repeated until the agent reports on the capture. `sent_at` of what is sent becomes `now`.
    """
    attachments = []
    for active in active_captures:
        capture = active.capture
        for claim in capture.claims:
            sidecar = claim.ephemeral_sidecar
            key = f"attachment {claim.agent}"
            if (
                sidecar is not None
                and sidecar.is_node_agent
                and claim.agent.endswith(agent_suffix)
                and claim.agent not in active.parts
                and capture.stop_at is None
                and now >= active.sent_at.get(key, 0.0) + RESEND_SECONDS
            ):
                active.sent_at[key] = now
                attachments.append(
                    Attachment(
                        capture.id,
                        sidecar.agent,
                        claim.labels.get("namespace", ""),
                        claim.labels.get("pod", ""),
                        max(0.0, sidecar.until - now),
                        capture.request.container,
                    )
                )
    return tuple(attachments)


def build_poll_response(
    active_captures: Iterable[ActiveCapture],
    agent: str,
    reported_ids: AbstractSet[str],
    unknown_ids: Iterable[str],
    policy: CapturePolicy,
    now: float,
) -> tuple[AgentPollResponse, bool]:
    """Build the response to a poll that reported these captures.

    `unknown_ids` are reported captures that do not exist. The second value says whether something was sent
    lately and is not confirmed yet. `sent_at` of what is sent becomes `now`.
    """
    is_pending = False
    jobs: list[CaptureJob] = []
    stop = list(unknown_ids)
    for active in active_captures:
        capture, part = active.capture, active.parts.get(agent)
        if not active.is_claimed_by(agent):
            continue
        if part is not None or capture.id in reported_ids:
            # A sampling agent polls about once a second.
            is_sampling = part is None or part.report.state is CaptureState.SAMPLING
            stop += [capture.id] if is_sampling and capture.stop_at is not None else []
        elif not active.must_send(agent, reported_ids, now):
            is_pending = True
        else:
            active.sent_at[agent] = now
            if capture.stop_at is None:
                jobs.append(build_capture_job(capture, policy))
            else:
                # Its job may have been sent a moment ago.
                stop.append(capture.id)
    return AgentPollResponse(tuple(jobs), tuple(dict.fromkeys(stop))), is_pending
