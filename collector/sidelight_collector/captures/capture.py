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

ID: Final = re.compile(r"c_[0-9A-HJKMNP-TV-Z]{26}")
JOIN_SECONDS: Final = 10.0
"""Sidecars may join a capture for so long after the first has taken it."""
STOP_SECONDS: Final = 5.0
"""An order that was on its way when its capture was stopped is heard of within this time."""
STORE_SECONDS: Final = 30.0
"""Windows that sidecars say they shipped are found within this time, or are missing."""


FINAL: Final = frozenset((CaptureState.DONE, CaptureState.READY, CaptureState.FAILED, CaptureState.STOPPED))


@dataclass(frozen=True, slots=True)
class Wish:
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
class Attached:
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
    at: float
    attached: Attached | None = None

    @property
    def place(self) -> tuple[str, str]:
        """The pod, or the sidecar itself if it has no pod."""
        return self.labels.get("namespace", ""), self.labels.get("pod", "") or self.agent


@dataclass(frozen=True, slots=True)
class Outcome:
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
    wish: Wish
    created: float
    by: str = ""
    claims: tuple[Claim, ...] = ()
    stop_at: float | None = None
    ended: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The last report of a sidecar, and when it came (Unix seconds)."""

    agent: str
    last_seen: float
    report: CaptureReport


@dataclass(frozen=True, slots=True)
class Rules:
    """Bounds of captures, from the settings."""

    max_pods: int = 5
    max_seconds: float = 600.0
    max_rate: int = 1000
    max_running: int = 10
    wait_seconds: float = 60.0
    lost_seconds: float = 60.0
    retention_days: float = 7.0
    max_recording_bytes: int = 8 << 20
    attach_wait_seconds: float = 120.0

    @property
    def longest(self) -> float:
        """Seconds after which no capture goes on, whatever became of its sidecars; an hour of slack."""
        waits = max(self.wait_seconds, self.attach_wait_seconds)
        return self.max_seconds + waits + self.lost_seconds + 3600


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a capture has come at a moment, with each claim's state, problem and hint."""

    state: CaptureState
    problem: str
    hint: str
    parts: tuple[Outcome, ...]

    @property
    def final(self) -> bool:
        return self.state in FINAL


Parts = Mapping[str, Part]
"""Parts by the sidecar they are of."""


def most_claims(wish: Wish, rules: Rules) -> int:
    """How many sidecars may take it."""
    if isinstance(wish.pods, int):
        return wish.pods
    return rules.max_pods if isinstance(wish.pods, str) else len(wish.pods)


def room(capture: Capture, rules: Rules, now: float) -> int:
    """How many more sidecars may take it now."""
    if capture.ended or capture.stop_at is not None or now > capture.created + rules.wait_seconds:
        return 0
    if capture.claims and now > min(claim.at for claim in capture.claims) + JOIN_SECONDS:
        return 0
    return max(0, most_claims(capture.wish, rules) - len(capture.claims))


def taken(capture: Capture, claims: Sequence[Claim], rules: Rules, now: float) -> Capture | None:
    """The capture with those of the claims that have room; None if there is none for any."""
    free = room(capture, rules, now)
    places = {claim.place for claim in capture.claims}
    added: list[Claim] = []
    for claim in claims:
        if len(added) < free and claim.place not in places:
            added.append(claim)
            places.add(claim.place)
    return replace(capture, claims=(*capture.claims, *added)) if added else None


def stopped(capture: Capture, now: float) -> Capture | None:
    """The capture as one that is to stop; None if it is already, or has ended."""
    return None if capture.ended or capture.stop_at is not None else replace(capture, stop_at=now)


def later(read: Capture, known: Capture) -> Capture:
    """The later of two states of a capture that goes on: claims are added, and no stop is taken back."""
    return max(read, known, key=lambda one: (one.stop_at is not None, len(one.claims)))


def newer(old: Part | None, new: Part) -> bool:
    """Whether a report takes the place of another: what is final stays, and nothing goes back."""
    if old is None:
        return True
    if old.report.state in FINAL:
        return False
    steps = REPORTABLE_STATES.index(old.report.state), REPORTABLE_STATES.index(new.report.state)
    return steps[1] > steps[0] or (
        steps[1] == steps[0] and new.report.elapsed_seconds >= old.report.elapsed_seconds
    )


def part_seen(capture: Capture, claim: Claim, part: Part | None, rules: Rules, now: float) -> Outcome:
    """How far the part of one sidecar has come."""
    pod = claim.labels.get("pod") or claim.agent
    if part is None:
        if capture.stop_at is not None and now > capture.stop_at + STOP_SECONDS:
            return Outcome(CaptureState.STOPPED, capture.stop_at)
        if claim.attached is not None:
            if now <= claim.at + rules.attach_wait_seconds:
                return Outcome(CaptureState.SCHEDULED, claim.at)
            return Outcome(
                CaptureState.FAILED,
                claim.at,
                f"the sidecar attached to {pod} was not heard of within {rules.attach_wait_seconds:g} s",
                f"kubectl logs {pod} -c {claim.attached.container} -n {claim.labels.get('namespace', '')} "
                "says whether it reaches the collector; an image that takes longer needs a longer "
                "--attach-wait-seconds.",
            )
        if now > claim.at + rules.lost_seconds:
            return Outcome(
                CaptureState.FAILED,
                claim.at,
                f"the sidecar of {pod} took the order and was not heard of within {rules.lost_seconds:g} s",
                "See that the pod is there and its sidecar runs (its log, /readyz), then start again.",
            )
        return Outcome(CaptureState.SCHEDULED, claim.at)
    report = part.report
    if report.state not in FINAL and now > part.last_seen + rules.lost_seconds:
        return Outcome(
            CaptureState.FAILED,
            part.last_seen,
            f"the sidecar of {pod} has not been heard of for {now - part.last_seen:.0f} s, "
            f"while {report.state}",
            "The pod may have been restarted or moved: what was shipped before is kept. Start again.",
        )
    return Outcome(report.state, part.last_seen, report.problem, report.hint)


def seen(capture: Capture, parts: Parts, rules: Rules, now: float) -> Seen:
    """How far a capture has come; one whose sidecars are all done is `uploading` until `ended` says more."""
    states = tuple(part_seen(capture, claim, parts.get(claim.agent), rules, now) for claim in capture.claims)
    if capture.ended is not None:
        ended = capture.ended
        return Seen(ended.state, ended.problem, ended.hint, states)
    if not states:
        if capture.stop_at is not None:
            return Seen(CaptureState.STOPPED, "it was stopped before a sidecar took it", "", ())
        if now > capture.created + rules.wait_seconds:
            problem = f"no sidecar took it within {rules.wait_seconds:g} s"
            hint = "GET /api/v1/agents tells which sidecars ask for work, and what keeps them from it."
            return Seen(CaptureState.FAILED, problem, hint, ())
        return Seen(CaptureState.QUEUED, "", "", ())
    all_states = {one.state for one in states}
    for state in (CaptureState.SAMPLING, CaptureState.UPLOADING, CaptureState.SCHEDULED):
        if state in all_states:
            return Seen(state, "", "", states)
    if all_states == {CaptureState.FAILED}:
        return Seen(CaptureState.FAILED, states[0].problem, states[0].hint, states)
    if not any(part.report.windows for part in parts.values()):
        if capture.stop_at is not None:
            return Seen(CaptureState.STOPPED, "it was stopped before anything was sampled", "", states)
        return Seen(
            CaptureState.FAILED,
            "no sample was taken",
            "The processes had ended, or the sidecar watches none: look at its /readyz.",
            states,
        )
    return Seen(CaptureState.UPLOADING, "", "", states)


def finished(capture: Capture, parts: Parts, told: Seen, now: float) -> Outcome:
    """How a capture ended whose windows can be queried."""
    pieces = [part.problem for part in told.parts if part.state is CaptureState.FAILED and part.problem]
    problem = f"{len(pieces)} of {len(told.parts)} pods failed: {pieces[0]}" if pieces else ""
    hints = [part.hint for part in told.parts if part.state is CaptureState.FAILED and part.hint]
    if not problem and (missing := _missing(capture)):
        problem, hints = missing, ["GET /api/v1/agents tells what keeps other sidecars from it."]
    early = capture.stop_at is not None or any(part.state is CaptureState.STOPPED for part in told.parts)
    return Outcome(
        CaptureState.STOPPED if early else CaptureState.READY, now, problem, hints[0] if hints else ""
    )


def _missing(capture: Capture) -> str:
    """Which pods were asked for that no sidecar took it for."""
    asked = capture.wish.pods
    if isinstance(asked, tuple):
        pods = {claim.labels.get("pod", "") for claim in capture.claims}
        names = [name for name in asked if name not in pods]
        return f"no sidecar took it for {', '.join(names)}" if names else ""
    few = isinstance(asked, int) and len(capture.claims) < asked
    return f"{len(capture.claims)} of {asked} pods asked for could take it" if few else ""


def shipped(parts: Parts) -> int:
    """How many windows sidecars say they shipped."""
    return sum(part.report.windows for part in parts.values())


def news(old: Part, report: CaptureReport) -> bool:
    """Whether a report says more than other numbers of samples."""
    return (old.report.state, old.report.problem) != (report.state, report.problem)


def order(capture: Capture, rules: Rules) -> CaptureJob:
    """What a sidecar is told of a capture."""
    wish = capture.wish
    return CaptureJob(
        capture.id,
        wish.seconds,
        wish.rate,
        wish.mode,
        timeline=wish.timeline,
        max_recording_bytes=rules.max_recording_bytes,
    )
