"""A deploy: a new version of a service, compared with the previous one.

It is analysed when the version has been seen for 10, 20, 40 … minutes, and last after a day. Missed
analyses are not made up one by one: only the latest that is due runs. The k-th analysis that runs has the
significance level alpha/(k(k+1)). These add up to at most alpha, however many there are (docs/comparison.md).

    watching        no analysis was conclusive yet
    pass            the last conclusive analysis found that every condition holds
    regressed       the last conclusive analysis found a condition that does not hold
    inconclusive    all analyses have run, and none had enough data
    not_comparable  the last analysis found that the sides are not comparable
    finished        rolled back, or replaced by the next version, while it was analysed or regressed

Pure: clocks are arguments, times are Unix seconds.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from math import sqrt
from typing import Any, Final

from sidelight_collector.times import ObservedSpan

DEPLOY_ID_PATTERN: Final = re.compile(r"\d{8}-[a-z2-7]{16}", re.ASCII)


class DeployState(StrEnum):
    """The state of a deploy, or of an analysis (never `watching` or `finished`)."""

    WATCHING = "watching"
    PASS = "pass"  # noqa: S105 - a state, not a password
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not_comparable"
    FINISHED = "finished"


class FinishReason(StrEnum):
    """Why a deploy is finished."""

    ROLLED_BACK = "rolled_back"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class DeployPolicy:
    """When deploys are analysed, and which conditions they must satisfy.

    The first analysis runs when the version has been seen for `first_analysis_seconds`, the last after
    `last_analysis_seconds`. Its first `warmup_seconds` do not count. A version not seen for
    `absent_seconds` while its service is has gone. A version that comes and goes is a deploy at most
    `max_arrivals_per_day` times a day, and a service has at most `max_versions_per_day` new versions, unless
    they are rollouts of a watched cluster. Analyses run `ingest_delay_seconds` late, for windows that are
    still on their way.
    """

    first_analysis_seconds: float = 600.0
    last_analysis_seconds: float = 86_400.0
    warmup_seconds: float = 60.0
    absent_seconds: float = 900.0
    max_arrivals_per_day: int = 4
    max_versions_per_day: int = 10
    ingest_delay_seconds: float = 120.0
    fail_on: tuple[str, ...] = ("cpu>+5%",)
    min_effect: float = 0.05


@dataclass(frozen=True, slots=True)
class DeployRollout:
    """The rollout of a version, if the collector watches the cluster."""

    kind: str
    workload: str
    revision: int
    started: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time range that excludes `until`."""

    start: float
    until: float

    @property
    def seconds(self) -> float:
        return self.until - self.start


@dataclass(frozen=True, slots=True)
class DeployAnalysis:
    """An analysis: number `index`, made `at`, of a version's first `seconds`.

    `comparison_mode` is how the previous version's time was selected: `canary`, `same_hours` (of an earlier
    day), `previous_period` or `none`. `problem` says why there was no comparison; it is empty if there was.
    """

    index: int
    at: float
    seconds: float
    state: DeployState
    comparison_mode: str = "none"
    baseline: TimeRange | None = None
    comparison: TimeRange | None = None
    summary: str = ""
    rate: Mapping[str, Any] | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DeployEnd:
    """When and why a deploy finished, and the version that took its place."""

    at: float
    reason: FinishReason
    successor: str


@dataclass(frozen=True, slots=True)
class AlertResolution:
    """When a user resolved the alert of a regressed deploy, and which user."""

    at: float
    user: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """The last or next notification of one receiver about one deploy.

    `event` is `regressed` or `resolved`; `number` counts the notifications of this receiver about this
    deploy. `outcome` is `pending` until the receiver accepts it (`sent`), refuses it permanently
    (`refused`), or the collector gives up (`failed`). `since` is when the event happened, `due` the next
    attempt, `at` the delivery, and `problem` the error of the last of its `attempts`.
    """

    receiver: str
    event: str
    number: int
    since: float
    due: float
    outcome: str = "pending"
    attempts: int = 0
    at: float | None = None
    problem: str = ""

    @property
    def is_possibly_delivered(self) -> bool:
        """Return whether the receiver has it, or may have: a response can be lost."""
        return self.outcome == "sent" or (self.outcome == "pending" and self.attempts > 0)


@dataclass(frozen=True, slots=True)
class Deploy:
    """A deploy as stored.

    `started` is when its rollout began, or when it was first seen. `previous_seen` is when the previous
    version was seen until then. `due` is the time of the next analysis, None if there is none. `conclusion`
    is the state of the last conclusive analysis, and `verdict` that of the last analysis.
    """

    id: str
    namespace: str
    service: str
    version: str
    previous: str
    started: float
    first_seen: float
    previous_seen: ObservedSpan
    due: float | None
    rollout: DeployRollout | None = None
    state: DeployState = DeployState.WATCHING
    conclusion: str = ""
    analyses: tuple[DeployAnalysis, ...] = ()
    verdict: Mapping[str, Any] | None = None
    finished: DeployEnd | None = None
    resolved: AlertResolution | None = None
    regressed_at: float | None = None
    deliveries: tuple[Delivery, ...] = field(default=())

    @property
    def is_active(self) -> bool:
        """Return whether the deploy can still change without a user's action."""
        has_due_notice = any(
            delivery.outcome == "pending" or self._needs_resolved_notice(delivery)
            for delivery in self.deliveries
        )
        return self.due is not None or self.is_firing or has_due_notice

    def _needs_resolved_notice(self, delivery: Delivery) -> bool:
        """Return whether a receiver still has to learn that the alert has ended."""
        return delivery.event == "regressed" and delivery.is_possibly_delivered and not self.is_firing

    @property
    def is_firing(self) -> bool:
        """Return whether the deploy has an alert that nobody has resolved."""
        return self.state is DeployState.REGRESSED and self.resolved is None

    @property
    def labels(self) -> dict[str, str]:
        return {"namespace": self.namespace, "service": self.service, "version": self.version}


def build_deploy_id(
    namespace: str, service: str, version: str, first_seen: float, arrival_number: int = 1
) -> str:
    """Build the id of a deploy, the same on every collector.

    It has the day, 40 bits of the hash of the service, and 40 of that of all labels. `arrival_number`
    counts the arrivals of the version on that day.
    """
    arrival = (str(arrival_number),) if arrival_number > 1 else ()
    digest = _digest("\0".join((namespace, service, version, *arrival)))
    return f"{datetime.fromtimestamp(first_seen, UTC):%Y%m%d}-{build_service_prefix(service)}{digest}"


def build_service_prefix(service: str) -> str:
    """Build the part of an id after the day, which all deploys of a service share.

    With it, a service's deploys are found without reading others.
    """
    return _digest(service)


def _digest(text: str) -> str:
    return b32encode(sha256(text.encode()).digest()[:5]).decode().lower()


def list_analysis_offsets(policy: DeployPolicy) -> tuple[float, ...]:
    """List the ages (seconds) at which a version is analysed.

    Each is twice the previous one. The last replaces a doubling that is nearer to it than to the doubling
    before.
    """
    offsets, at = [], policy.first_analysis_seconds
    while at < policy.last_analysis_seconds / sqrt(2):
        offsets.append(at)
        at *= 2
    return (*offsets, policy.last_analysis_seconds)


def create_deploy(
    labels: tuple[str, str, str],
    first_seen: float,
    previous: str,
    previous_seen: ObservedSpan,
    rollout: DeployRollout | None,
    policy: DeployPolicy,
    arrival_number: int = 1,
) -> Deploy:
    """Create a newly detected deploy.

    `labels` are namespace, service and version; `arrival_number` is as in its id.
    """
    namespace, service, version = labels
    return Deploy(
        build_deploy_id(namespace, service, version, first_seen, arrival_number),
        namespace,
        service,
        version,
        previous,
        rollout.started if rollout else first_seen,
        first_seen,
        previous_seen,
        first_seen + list_analysis_offsets(policy)[0] + policy.ingest_delay_seconds,
        rollout,
    )


def find_due_offset(deploy: Deploy, now: float, policy: DeployPolicy) -> float | None:
    """Return the offset of the due analysis, the latest of missed ones.

    None if none is due.
    """
    if deploy.due is None or deploy.due > now:
        return None
    age = now - policy.ingest_delay_seconds - deploy.first_seen
    done = deploy.analyses[-1].seconds if deploy.analyses else 0.0
    missed = [offset for offset in list_analysis_offsets(policy) if done < offset <= age]
    return missed[-1] if missed else None


def compute_next_due(deploy: Deploy, done_seconds: float, policy: DeployPolicy) -> float | None:
    """Return when the next analysis after `done_seconds` is due; None if none is left."""
    left = [offset for offset in list_analysis_offsets(policy) if offset > done_seconds]
    return deploy.first_seen + left[0] + policy.ingest_delay_seconds if left else None


def reschedule(deploy: Deploy, policy: DeployPolicy) -> Deploy:
    """Set the time of the next analysis by `policy`.

    For a deploy that became due under an earlier policy.
    """
    due = compute_next_due(deploy, deploy.analyses[-1].seconds if deploy.analyses else 0.0, policy)
    if due is None and deploy.state is DeployState.WATCHING:
        return replace(
            deploy, due=None, state=DeployState.INCONCLUSIVE, conclusion=str(DeployState.INCONCLUSIVE)
        )
    return replace(deploy, due=due)


def add_analysis(
    deploy: Deploy, analysis: DeployAnalysis, verdict: Mapping[str, Any] | None, policy: DeployPolicy
) -> Deploy:
    """Add an analysis to a deploy and update its state.

    An inconclusive analysis leaves the state as it was, unless it is the last one.
    """
    due = compute_next_due(deploy, analysis.seconds, policy)
    state, conclusion = deploy.state, deploy.conclusion
    if analysis.state is not DeployState.INCONCLUSIVE:
        state, conclusion = analysis.state, str(analysis.state)
    elif due is None and state is DeployState.WATCHING:
        state, conclusion = DeployState.INCONCLUSIVE, str(DeployState.INCONCLUSIVE)
    regressed_at = deploy.regressed_at
    if state is DeployState.REGRESSED and deploy.state is not DeployState.REGRESSED:
        regressed_at = analysis.at
    return replace(
        deploy,
        state=state,
        conclusion=conclusion,
        analyses=(*deploy.analyses, analysis),
        verdict=verdict,
        due=due,
        regressed_at=regressed_at,
    )


def finish_deploy(deploy: Deploy, end: DeployEnd) -> Deploy:
    """Finish a deploy that was rolled back or replaced."""
    return replace(deploy, state=DeployState.FINISHED, finished=end, due=None)


def resolve_deploy(deploy: Deploy, now: float, resolved_by: str) -> Deploy | None:
    """Resolve the alert of a deploy; None if it has none."""
    return replace(deploy, resolved=AlertResolution(now, resolved_by)) if deploy.is_firing else None
