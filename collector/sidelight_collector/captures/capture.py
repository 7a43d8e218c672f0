"""What a capture is, and how far it has come.

A capture is a request for sampling and the sidecars that took it. What it is lies in the store, so that any
collector answers for it: the request with those who took it in one object, what each of them told last in one
of its own. How far it has come is not written down but follows from these and the clock, until it has ended:

    queued      nobody has taken it yet
    scheduled   sidecars took it, and none has begun
    sampling    at least one samples
    uploading   all have sampled, and what they ship is on its way
    ready       it can be queried
    stopped     as ready, but somebody ended it early
    failed      there is nothing to be queried, and `problem` and `hint` say why and what to do
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
"""Sidecars may join a capture for so long after the first has taken it."""
STOP_GRACE_SECONDS: Final = 5.0
"""An order that was on its way when its capture was stopped is heard of within this time."""
WINDOW_ARRIVAL_SECONDS: Final = 30.0
"""Windows that sidecars say they shipped are found within this time, or are missing."""


FINAL_STATES: Final = frozenset(
    (CaptureState.DONE, CaptureState.READY, CaptureState.FAILED, CaptureState.STOPPED)
)


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """A checked request; pods are a number, names, or "all" of those that `service` and `query` match.

    `attach`: pods without a sidecar get one for this capture, beside `container` (empty: the usual one).
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
    """A sidecar that the collector attached to a pod for one capture, as an ephemeral container.

    `agent` is what it calls itself, `secret` the SHA-256 of what its token ends with, which is good `until`.
    """

    container: str
    agent: str
    uid: str
    secret: str
    until: float


@dataclass(frozen=True, slots=True)
class Claim:
    """A sidecar that took a capture, at which Unix second, and its labels."""

    agent: str
    labels: Mapping[str, str]
    claimed_at: float
    ephemeral_sidecar: EphemeralSidecar | None = None

    @property
    def pod_key(self) -> tuple[str, str]:
        """The pod, or the sidecar itself if it has no pod."""
        return self.labels.get("namespace", ""), self.labels.get("pod", "") or self.agent


@dataclass(frozen=True, slots=True)
class CaptureOutcome:
    """How a capture ended."""

    state: CaptureState
    at: float
    problem: str = ""
    hint: str = ""
    samples: int = 0
    elapsed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture as it lies in the store: times in Unix seconds."""

    id: str
    request: CaptureRequest
    created_at: float
    requested_by: str = ""
    claims: tuple[Claim, ...] = ()
    stop_at: float | None = None
    outcome: CaptureOutcome | None = None


@dataclass(frozen=True, slots=True)
class CapturePart:
    """The last report of a sidecar, and when it came (Unix seconds)."""

    agent: str
    last_seen: float
    report: CaptureReport


@dataclass(frozen=True, slots=True)
class CapturePolicy:
    """Bounds of captures, from the settings."""

    max_pods: int = 5
    max_seconds: float = 600.0
    max_rate: int = 1000
    max_running: int = 10
    claim_timeout_seconds: float = 60.0
    agent_timeout_seconds: float = 60.0
    retention_days: float = 7.0
    max_recording_bytes: int = 8 << 20
    attach_timeout_seconds: float = 120.0

    @property
    def max_lifetime_seconds(self) -> float:
        """Seconds after which no capture goes on, whatever became of its sidecars; an hour of slack."""
        waits = max(self.claim_timeout_seconds, self.attach_timeout_seconds)
        return self.max_seconds + waits + self.agent_timeout_seconds + 3600


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """How far a capture has come at a moment, with each claim's state, problem and hint."""

    state: CaptureState
    problem: str
    hint: str
    part_outcomes: tuple[CaptureOutcome, ...]

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES


PartsByAgent = Mapping[str, CapturePart]
"""Parts by the sidecar they are of."""


def compute_max_claims(capture_request: CaptureRequest, policy: CapturePolicy) -> int:
    """How many sidecars may take it."""
    if isinstance(capture_request.pods, int):
        return capture_request.pods
    return policy.max_pods if isinstance(capture_request.pods, str) else len(capture_request.pods)


def count_free_slots(capture: Capture, policy: CapturePolicy, now: float) -> int:
    """How many more sidecars may take it now."""
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
    """The capture with those of the claims that have room; None if there is none for any."""
    free = count_free_slots(capture, policy, now)
    places = {claim.pod_key for claim in capture.claims}
    added: list[Claim] = []
    for claim in claims:
        if len(added) < free and claim.pod_key not in places:
            added.append(claim)
            places.add(claim.pod_key)
    return replace(capture, claims=(*capture.claims, *added)) if added else None


def request_stop(capture: Capture, now: float) -> Capture | None:
    """The capture as one that is to stop; None if it is already, or has ended."""
    return None if capture.outcome or capture.stop_at is not None else replace(capture, stop_at=now)


def choose_later_state(stored: Capture, cached: Capture) -> Capture:
    """The later of two states of a capture that goes on: claims are added, and no stop is taken back."""
    return max(stored, cached, key=lambda one: (one.stop_at is not None, len(one.claims)))


def is_newer_report(old: CapturePart | None, new: CapturePart) -> bool:
    """Whether a report takes the place of another: what is final stays, and nothing goes back."""
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
    """How far the part of one sidecar has come."""
    pod = claim.labels.get("pod") or claim.agent
    if part is None:
        if capture.stop_at is not None and now > capture.stop_at + STOP_GRACE_SECONDS:
            return CaptureOutcome(CaptureState.STOPPED, capture.stop_at)
        if claim.ephemeral_sidecar is not None:
            if now <= claim.claimed_at + policy.attach_timeout_seconds:
                return CaptureOutcome(CaptureState.SCHEDULED, claim.claimed_at)
            return CaptureOutcome(
                CaptureState.FAILED,
                claim.claimed_at,
                f"the sidecar attached to {pod} was not heard of within {policy.attach_timeout_seconds:g} s",
                f"kubectl logs {pod} -c {claim.ephemeral_sidecar.container} -n "
                f"{claim.labels.get('namespace', '')} "
                "says whether it reaches the collector; an image that takes longer needs a longer "
                "--attach-wait-seconds.",
            )
        if now > claim.claimed_at + policy.agent_timeout_seconds:
            return CaptureOutcome(
                CaptureState.FAILED,
                claim.claimed_at,
                f"the sidecar of {pod} took the order and was not heard of within "
                f"{policy.agent_timeout_seconds:g} s",
                "See that the pod is there and its sidecar runs (its log, /readyz), then start again.",
            )
        return CaptureOutcome(CaptureState.SCHEDULED, claim.claimed_at)
    report = part.report
    if report.state not in FINAL_STATES and now > part.last_seen + policy.agent_timeout_seconds:
        return CaptureOutcome(
            CaptureState.FAILED,
            part.last_seen,
            f"the sidecar of {pod} has not been heard of for {now - part.last_seen:.0f} s, "
            f"while {report.state}",
            "The pod may have been restarted or moved: what was shipped before is kept. Start again.",
        )
    return CaptureOutcome(report.state, part.last_seen, report.problem, report.hint)


def compute_progress(
    capture: Capture, parts: PartsByAgent, policy: CapturePolicy, now: float
) -> CaptureProgress:
    """How far a capture has come; one whose sidecars are all done is `uploading` until `ended` says more."""
    states = tuple(
        compute_part_outcome(capture, claim, parts.get(claim.agent), policy, now) for claim in capture.claims
    )
    if capture.outcome is not None:
        ended = capture.outcome
        return CaptureProgress(ended.state, ended.problem, ended.hint, states)
    if not states:
        if capture.stop_at is not None:
            return CaptureProgress(CaptureState.STOPPED, "it was stopped before a sidecar took it", "", ())
        if now > capture.created_at + policy.claim_timeout_seconds:
            problem = f"no sidecar took it within {policy.claim_timeout_seconds:g} s"
            hint = "GET /api/v1/agents tells which sidecars ask for work, and what keeps them from it."
            return CaptureProgress(CaptureState.FAILED, problem, hint, ())
        return CaptureProgress(CaptureState.QUEUED, "", "", ())
    all_states = {one.state for one in states}
    for state in (CaptureState.SAMPLING, CaptureState.UPLOADING, CaptureState.SCHEDULED):
        if state in all_states:
            return CaptureProgress(state, "", "", states)
    if all_states == {CaptureState.FAILED}:
        return CaptureProgress(CaptureState.FAILED, states[0].problem, states[0].hint, states)
    if not any(part.report.windows for part in parts.values()):
        if capture.stop_at is not None:
            return CaptureProgress(
                CaptureState.STOPPED, "it was stopped before anything was sampled", "", states
            )
        return CaptureProgress(
            CaptureState.FAILED,
            "no sample was taken",
            "The processes had ended, or the sidecar watches none: look at its /readyz.",
            states,
        )
    return CaptureProgress(CaptureState.UPLOADING, "", "", states)


def build_outcome(
    capture: Capture, parts: PartsByAgent, progress: CaptureProgress, now: float
) -> CaptureOutcome:
    """How a capture ended whose windows can be queried."""
    pieces = [
        part.problem for part in progress.part_outcomes if part.state is CaptureState.FAILED and part.problem
    ]
    problem = f"{len(pieces)} of {len(progress.part_outcomes)} pods failed: {pieces[0]}" if pieces else ""
    hints = [part.hint for part in progress.part_outcomes if part.state is CaptureState.FAILED and part.hint]
    if not problem and (missing := _describe_unclaimed_pods(capture)):
        problem, hints = missing, ["GET /api/v1/agents tells what keeps other sidecars from it."]
    early = capture.stop_at is not None or any(
        part.state is CaptureState.STOPPED for part in progress.part_outcomes
    )
    return CaptureOutcome(
        CaptureState.STOPPED if early else CaptureState.READY, now, problem, hints[0] if hints else ""
    )


def _describe_unclaimed_pods(capture: Capture) -> str:
    """Which pods were asked for that no sidecar took it for."""
    asked = capture.request.pods
    if isinstance(asked, tuple):
        pods = {claim.labels.get("pod", "") for claim in capture.claims}
        names = [name for name in asked if name not in pods]
        return f"no sidecar took it for {', '.join(names)}" if names else ""
    few = isinstance(asked, int) and len(capture.claims) < asked
    return f"{len(capture.claims)} of {asked} pods asked for could take it" if few else ""


def count_shipped_windows(parts: PartsByAgent) -> int:
    """How many windows sidecars say they shipped."""
    return sum(part.report.windows for part in parts.values())


def is_status_change(old: CapturePart, report: CaptureReport) -> bool:
    """Whether a report says more than other numbers of samples."""
    return (old.report.state, old.report.problem) != (report.state, report.problem)


def build_capture_job(capture: Capture, policy: CapturePolicy) -> CaptureJob:
    """What a sidecar is told of a capture."""
    capture_request = capture.request
    return CaptureJob(
        capture.id,
        capture_request.seconds,
        capture_request.rate,
        capture_request.mode,
        timeline=capture_request.timeline,
        max_recording_bytes=policy.max_recording_bytes,
    )
