"""The state of a capture, as values and pure functions.

A capture is a request for samples and the sidecars that took it. It is kept in the store, so that any
collector can answer for it: one object has the request and its claims, another one per sidecar has the
sidecar's last report. The state is not stored until the capture ends. Until then it follows from these
objects and the clock:

    queued      no sidecar has taken it yet
    scheduled   sidecars took it, and none has begun
    sampling    at least one samples
    uploading   all have sampled, and their windows are on the way
    ready       its windows can be queried
    stopped     as ready, but a user ended it early
    failed      there is nothing to query; `problem` and `hint` say why and what to do
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sidelight_model.capture_protocol import REPORTABLE_STATES, CaptureJob, CaptureReport, CaptureState
from sidelight_model.selectors import Selector

CAPTURE_ID_PATTERN: Final = re.compile(r"c_[0-9A-HJKMNP-TV-Z]{26}")
JOIN_SECONDS: Final = 10.0
"""Sidecars may join a capture this long after the first one took it."""
STOP_GRACE_SECONDS: Final = 5.0
"""A sidecar may report a job this long after its capture was stopped.

It may have received the job just before.
"""
WINDOW_ARRIVAL_SECONDS: Final = 30.0
"""Windows that sidecars shipped can be queried within this time, or are missing."""


FINAL_STATES: Final = frozenset(
    (CaptureState.DONE, CaptureState.READY, CaptureState.FAILED, CaptureState.STOPPED)
)


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """A validated capture request.

    `pods` is a number, names, or "all" pods that `service` and `query` match. With `attach`, pods without a
    sidecar get one for this capture, beside `container` (empty: the container that is usually profiled).
    """

    service: str
    query: str
    selector: Selector
    pods: int | str | tuple[str, ...]
    seconds: float
    rate: int
    mode: str
    timeline: bool
    attach: bool = False
    container: str = ""


@dataclass(frozen=True, slots=True)
class EphemeralSidecar:
    """A sidecar attached for one capture, or a node agent in its place.

    `container` is the name of its ephemeral container, `agent` its own name, and `uid` that of its pod.
    `secret` is the SHA-256 of the secret in its token, which is valid `until` (Unix seconds). A node agent
    has its own token: `container` and `secret` are empty, and `uid` is that of the agent's pod.
    """

    container: str
    agent: str
    uid: str
    secret: str
    until: float

    @property
    def is_node_agent(self) -> bool:
        return not self.container


@dataclass(frozen=True, slots=True)
class Claim:
    """A sidecar that took a capture, its labels, and when (Unix seconds)."""

    agent: str
    labels: Mapping[str, str]
    claimed_at: float
    ephemeral_sidecar: EphemeralSidecar | None = None

    @property
    def pod_key(self) -> tuple[str, str]:
        """The sidecar's namespace and pod, or its own name if it has no pod."""
        return self.labels.get("namespace", ""), self.labels.get("pod", "") or self.agent

    def is_of_pod(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels of a window or a recording name the sidecar's pod."""
        return all(labels.get(name, "") == self.labels.get(name, "") for name in ("namespace", "pod"))


@dataclass(frozen=True, slots=True)
class CaptureOutcome:
    """The end of a capture, or the state of one sidecar's part.

    `at` is in Unix seconds.
    """

    state: CaptureState
    at: float
    problem: str = ""
    hint: str = ""
    samples: int = 0
    elapsed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture as stored. Times are in Unix seconds."""

    id: str
    request: CaptureRequest
    created_at: float
    requested_by: str = ""
    claims: tuple[Claim, ...] = ()
    stop_at: float | None = None
    outcome: CaptureOutcome | None = None


@dataclass(frozen=True, slots=True)
class CapturePart:
    """The last report of a sidecar, and when it arrived (Unix seconds)."""

    agent: str
    last_seen: float
    report: CaptureReport


@dataclass(frozen=True, slots=True)
class CapturePolicy:
    """Limits and timeouts of captures, from the settings."""

    max_pods: int = 5
    max_seconds: float = 600.0
    max_rate: int = 1000
    max_running: int = 10
    max_running_per_namespace: int = 5
    claim_timeout_seconds: float = 60.0
    agent_timeout_seconds: float = 60.0
    retention_days: float = 7.0
    max_recording_bytes: int = 8 << 20
    attach_timeout_seconds: float = 120.0

    @property
    def max_lifetime_seconds(self) -> float:
        """Seconds after which no capture is still running, with an hour of slack."""
        waits = max(self.claim_timeout_seconds, self.attach_timeout_seconds)
        return self.max_seconds + waits + self.agent_timeout_seconds + 3600


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """The state of a capture at a moment, and of the part of each claim."""

    state: CaptureState
    problem: str
    hint: str
    part_outcomes: tuple[CaptureOutcome, ...]

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def have_parts_ended(self) -> bool:
        """Whether there are parts, and all have ended."""
        return bool(self.part_outcomes) and all(part.state in FINAL_STATES for part in self.part_outcomes)


PartsByAgent = Mapping[str, CapturePart]
"""Parts by the name of their sidecar."""


def compute_max_claims(capture_request: CaptureRequest, policy: CapturePolicy) -> int:
    """Return how many sidecars may take a capture."""
    if isinstance(capture_request.pods, int):
        return capture_request.pods
    return policy.max_pods if isinstance(capture_request.pods, str) else len(capture_request.pods)


def count_free_slots(capture: Capture, policy: CapturePolicy, now: float) -> int:
    """Return how many more sidecars may take a capture now."""
    if (
        capture.outcome
        or capture.stop_at is not None
        or now > capture.created_at + policy.claim_timeout_seconds
    ):
        return 0
    if capture.claims and now > min(claim.claimed_at for claim in capture.claims) + JOIN_SECONDS:
        return 0
    return max(0, compute_max_claims(capture.request, policy) - len(capture.claims))


def claim_slots(
    capture: Capture, claims: Sequence[Claim], policy: CapturePolicy, now: float
) -> Capture | None:
    """Add the claims that have room, at most one per pod.

    Returns None if no claim was added.
    """
    free = count_free_slots(capture, policy, now)
    claimed_pods = {claim.pod_key for claim in capture.claims}
    added: list[Claim] = []
    for claim in claims:
        if len(added) < free and claim.pod_key not in claimed_pods:
            added.append(claim)
            claimed_pods.add(claim.pod_key)
    return replace(capture, claims=(*capture.claims, *added)) if added else None


def request_stop(capture: Capture, now: float) -> Capture | None:
    """Return the capture marked to stop; None if it is already, or has ended."""
    return None if capture.outcome or capture.stop_at is not None else replace(capture, stop_at=now)


def choose_later_state(stored: Capture, cached: Capture) -> Capture:
    """Return the later of two states of a running capture.

    Claims are only ever added, and a stop is never withdrawn.
    """
    return max(stored, cached, key=lambda capture: (capture.stop_at is not None, len(capture.claims)))


def is_newer_report(old: CapturePart | None, new: CapturePart) -> bool:
    """Return whether `new` replaces `old`.

    A final report stays. A report of an earlier state, or of less time sampled, does not replace a later
    one.
    """
    if old is None:
        return True
    if old.report.state in FINAL_STATES:
        return False
    steps = REPORTABLE_STATES.index(old.report.state), REPORTABLE_STATES.index(new.report.state)
    return steps[1] > steps[0] or (
        steps[1] == steps[0] and new.report.elapsed_seconds >= old.report.elapsed_seconds
    )


def compute_part_outcome(
    capture: Capture, claim: Claim, part: CapturePart | None, policy: CapturePolicy, now: float
) -> CaptureOutcome:
    """Compute the state of one sidecar's part of a capture."""
    pod = claim.labels.get("pod") or claim.agent
    if part is None:
        if capture.stop_at is not None and now > capture.stop_at + STOP_GRACE_SECONDS:
            return CaptureOutcome(CaptureState.STOPPED, capture.stop_at)
        if claim.ephemeral_sidecar is not None:
            if now <= claim.claimed_at + policy.attach_timeout_seconds:
                return CaptureOutcome(CaptureState.SCHEDULED, claim.claimed_at)
            if claim.ephemeral_sidecar.is_node_agent:
                return CaptureOutcome(
                    CaptureState.FAILED,
                    claim.claimed_at,
                    f"the node agent of {claim.labels.get('node', '')} did not sample {pod} within "
                    f"{policy.attach_timeout_seconds:g} s",
                    "See that a Python process runs in the pod, and what the agent's log says of the pod.",
                )
            return CaptureOutcome(
                CaptureState.FAILED,
                claim.claimed_at,
                f"the sidecar attached to {pod} did not report within {policy.attach_timeout_seconds:g} s",
                f"kubectl logs {pod} -c {claim.ephemeral_sidecar.container} -n "
                f"{claim.labels.get('namespace', '')} "
                "says whether it reaches the collector; an image that takes longer needs a longer "
                "--attach-wait-seconds.",
            )
        if now > claim.claimed_at + policy.agent_timeout_seconds:
            return CaptureOutcome(
                CaptureState.FAILED,
                claim.claimed_at,
                f"the sidecar of {pod} took the job and did not report within "
                f"{policy.agent_timeout_seconds:g} s",
                "See that the pod is there and its sidecar runs (its log, /readyz), then start again.",
            )
        return CaptureOutcome(CaptureState.SCHEDULED, claim.claimed_at)
    report = part.report
    if report.state not in FINAL_STATES and now > part.last_seen + policy.agent_timeout_seconds:
        return CaptureOutcome(
            CaptureState.FAILED,
            part.last_seen,
            f"the sidecar of {pod} has not reported for {now - part.last_seen:.0f} s, while {report.state}",
            "The pod may have been restarted or moved: what was shipped before is kept. Start again.",
        )
    return CaptureOutcome(report.state, part.last_seen, report.problem, report.hint)


def compute_progress(
    capture: Capture, parts: PartsByAgent, policy: CapturePolicy, now: float
) -> CaptureProgress:
    """Compute the state of a capture.

    If all its sidecars are done but it has no outcome yet, the state is `uploading`.
    """
    part_outcomes = tuple(
        compute_part_outcome(capture, claim, parts.get(claim.agent), policy, now) for claim in capture.claims
    )
    if capture.outcome is not None:
        outcome = capture.outcome
        return CaptureProgress(outcome.state, outcome.problem, outcome.hint, part_outcomes)
    if not part_outcomes:
        if capture.stop_at is not None:
            return CaptureProgress(CaptureState.STOPPED, "it was stopped before a sidecar took it", "", ())
        if now > capture.created_at + policy.claim_timeout_seconds:
            problem = f"no sidecar took it within {policy.claim_timeout_seconds:g} s"
            hint = "GET /api/v1/agents lists the sidecars that poll, and why one cannot take a capture."
            return CaptureProgress(CaptureState.FAILED, problem, hint, ())
        return CaptureProgress(CaptureState.QUEUED, "", "", ())
    all_states = {part.state for part in part_outcomes}
    for state in (CaptureState.SAMPLING, CaptureState.UPLOADING, CaptureState.SCHEDULED):
        if state in all_states:
            return CaptureProgress(state, "", "", part_outcomes)
    if all_states == {CaptureState.FAILED}:
        return CaptureProgress(
            CaptureState.FAILED, part_outcomes[0].problem, part_outcomes[0].hint, part_outcomes
        )
    if not any(part.report.windows for part in parts.values()):
        if capture.stop_at is not None:
            return CaptureProgress(
                CaptureState.STOPPED, "it was stopped before anything was sampled", "", part_outcomes
            )
        return CaptureProgress(
            CaptureState.FAILED,
            "no sample was taken",
            "The processes had ended, or the sidecar watches none: look at its /readyz.",
            part_outcomes,
        )
    return CaptureProgress(CaptureState.UPLOADING, "", "", part_outcomes)


def decide_outcome(
    capture: Capture, parts: PartsByAgent, progress: CaptureProgress, queryable_windows: int, now: float
) -> CaptureOutcome | None:
    """Return the outcome of a capture whose parts have ended.

    None: its windows may still arrive.
    """
    shipped_windows = count_shipped_windows(parts)
    last = max(part.at for part in progress.part_outcomes)
    if queryable_windows < shipped_windows and now < last + WINDOW_ARRIVAL_SECONDS:
        return None
    if not queryable_windows:
        return CaptureOutcome(
            CaptureState.FAILED,
            now,
            f"the sidecars shipped {shipped_windows} windows, and a query finds none of them",
            "See that they ship to a collector with the same --store, and that pods' clocks are right.",
        )
    return build_outcome(capture, parts, progress, now)


def build_outcome(
    capture: Capture, parts: PartsByAgent, progress: CaptureProgress, now: float
) -> CaptureOutcome:
    """Build the outcome of a capture whose windows can be queried."""
    problems = [
        part.problem for part in progress.part_outcomes if part.state is CaptureState.FAILED and part.problem
    ]
    problem = (
        f"{len(problems)} of {len(progress.part_outcomes)} pods failed: {problems[0]}" if problems else ""
    )
    hints = [part.hint for part in progress.part_outcomes if part.state is CaptureState.FAILED and part.hint]
    if not problem and (missing := _describe_unclaimed_pods(capture)):
        problem, hints = missing, ["GET /api/v1/agents says why the other sidecars cannot take it."]
    stopped_early = capture.stop_at is not None or any(
        part.state is CaptureState.STOPPED for part in progress.part_outcomes
    )
    return CaptureOutcome(
        CaptureState.STOPPED if stopped_early else CaptureState.READY, now, problem, hints[0] if hints else ""
    )


def _describe_unclaimed_pods(capture: Capture) -> str:
    """Describe the requested pods that no sidecar took; empty if there are none."""
    requested = capture.request.pods
    if isinstance(requested, tuple):
        pods = {claim.labels.get("pod", "") for claim in capture.claims}
        names = [name for name in requested if name not in pods]
        return f"no sidecar took it for {', '.join(names)}" if names else ""
    is_short = isinstance(requested, int) and len(capture.claims) < requested
    return f"{len(capture.claims)} of {requested} requested pods could take it" if is_short else ""


def count_shipped_windows(parts: PartsByAgent) -> int:
    """Return how many windows the sidecars report as shipped."""
    return sum(part.report.windows for part in parts.values())


def is_status_change(old: CapturePart, report: CaptureReport) -> bool:
    """Return whether a report differs in more than its numbers."""
    return (old.report.state, old.report.problem) != (report.state, report.problem)


def build_capture_job(capture: Capture, policy: CapturePolicy) -> CaptureJob:
    """Build the job that a sidecar receives for a capture."""
    capture_request = capture.request
    return CaptureJob(
        capture.id,
        capture_request.seconds,
        capture_request.rate,
        capture_request.mode,
        timeline=capture_request.timeline,
        max_recording_bytes=policy.max_recording_bytes,
    )
