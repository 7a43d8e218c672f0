"""One deploy: a new version of a service and what was found when it was compared with the one before.

It is looked at when the version has been seen for 10, 20, 40 … minutes, at last after a day. Looks that were
missed are not made one by one: there is one for the latest that is due. The k-th look that is made is judged
at alpha/(k(k+1)), which adds up to alpha however many there are (docs/verdicts.md).

    watching        no analysis was conclusive yet
    pass            the last conclusive analysis found that every condition holds
    regressed       the last conclusive analysis found one that does not
    inconclusive    all analyses are made, and none had enough data
    not_comparable  the last analysis says that the sides are not comparable
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

DEPLOY_ID_PATTERN: Final = re.compile(r"\d{8}-[a-z2-7]{16}", re.ASCII)


class DeployState(StrEnum):
    """How a deploy stands, and how a single analysis did (never `watching` or `finished`)."""

    WATCHING = "watching"
    PASS = "pass"  # noqa: S105 - a state, not a password
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not_comparable"
    FINISHED = "finished"


class FinishReason(StrEnum):
    """Why a deploy is over."""

    ROLLED_BACK = "rolled_back"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class DeployPolicy:
    """When deploys are looked at, and what of each.

    The first look when the version has been seen for `first_analysis_seconds`, the last after
    `last_analysis_seconds`; the `warmup_seconds` at its beginning do not count. A version not seen for
    `absent_seconds` while its service is has gone; one that comes and goes is a deploy at most
    `max_arrivals_per_day` times a day. `ingest_delay_seconds` are left for windows that are still on their
    way.
    """

    first_analysis_seconds: float = 600.0
    last_analysis_seconds: float = 86_400.0
    warmup_seconds: float = 60.0
    absent_seconds: float = 900.0
    max_arrivals_per_day: int = 4
    ingest_delay_seconds: float = 120.0
    fail_on: tuple[str, ...] = ("cpu>+5%",)
    min_effect: float = 0.05


@dataclass(frozen=True, slots=True)
class ObservedSpan:
    """From when until when something was seen."""

    first: float
    last: float


@dataclass(frozen=True, slots=True)
class DeployRollout:
    """The rollout that brought a version, where the cluster is watched."""

    kind: str
    workload: str
    revision: int
    started: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range of time; `until` is not in it."""

    start: float
    until: float

    @property
    def seconds(self) -> float:
        return self.until - self.start


@dataclass(frozen=True, slots=True)
class DeployAnalysis:
    """One comparison: of number `index`, made `at`, of the first `seconds` of the version.

    `comparison_mode` says what the previous version's time is: `canary`, `same_hours` (of an earlier day),
    `previous_period`, or `none`. `problem` is given where the comparison itself could not be made.
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
    """Since when a deploy is finished, why, and the version that took its place."""

    at: float
    reason: FinishReason
    successor: str


@dataclass(frozen=True, slots=True)
class AlertResolution:
    """When somebody said that a regressed deploy needs nobody any longer, and who."""

    at: float
    user: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one receiver was told last, or is to be told, of one deploy.

    `event` is `regressed` or `resolve_deploy`, the `number`-th thing that this receiver is told of this
    deploy. `outcome` is `pending` until it is taken (`sent`), refused for good (`refused`) or given up
    (`failed`). `since` is when there was something to tell, `due` when it is tried next, `at` when it was
    taken, and `problem` what the last of its `attempts` met.
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
        """Whether the receiver knows of it, or may: an answer can be lost."""
        return self.outcome == "sent" or (self.outcome == "pending" and self.attempts > 0)


@dataclass(frozen=True, slots=True)
class Deploy:
    """A deploy as it is kept.

    `started` is when its rollout began, or when it was first seen; `previous_seen` is when the version
    before it was seen until then. `due` is when the next analysis is, None when there is none. `conclusion`
    is the state by the last conclusive analysis, and `verdict` is that of the last analysis.
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
        """Whether anything can still become of it without somebody's doing."""
        told = any(one.outcome == "pending" or self._needs_resolved_notice(one) for one in self.deliveries)
        return self.due is not None or self.is_firing or told

    def _needs_resolved_notice(self, delivery: Delivery) -> bool:
        """Whether a receiver is still to be told that there is nothing to know any longer."""
        return delivery.event == "regressed" and delivery.is_possibly_delivered and not self.is_firing

    @property
    def is_firing(self) -> bool:
        """Whether somebody has to know of it."""
        return self.state is DeployState.REGRESSED and self.resolved is None

    @property
    def labels(self) -> dict[str, str]:
        return {"namespace": self.namespace, "service": self.service, "version": self.version}


def build_deploy_id(
    namespace: str, service: str, version: str, first_seen: float, arrival_number: int = 1
) -> str:
    """The day, 40 bits for the service and 40 for all three: the same from whichever collector.

    `arrival_number`: which arrival of the version on that day it is.
    """
    arrival = (str(arrival_number),) if arrival_number > 1 else ()
    whole = _digest("\0".join((namespace, service, version, *arrival)))
    return f"{datetime.fromtimestamp(first_seen, UTC):%Y%m%d}-{build_service_prefix(service)}{whole}"


def build_service_prefix(service: str) -> str:
    """What all ids of a service's deploys have behind the day, so that it is found without reading others."""
    return _digest(service)


def _digest(text: str) -> str:
    return b32encode(sha256(text.encode()).digest()[:5]).decode().lower()


def list_analysis_offsets(policy: DeployPolicy) -> tuple[float, ...]:
    """After how many seconds of a version it is looked at: each twice the one before, then the last.

    A doubling that is nearer to the last than another doubling would be is left out for it.
    """
    found, at = [], policy.first_analysis_seconds
    while at < policy.last_analysis_seconds / sqrt(2):
        found.append(at)
        at *= 2
    return (*found, policy.last_analysis_seconds)


def create_deploy(
    labels: tuple[str, str, str],
    first_seen: float,
    previous: str,
    previous_seen: ObservedSpan,
    rollout: DeployRollout | None,
    policy: DeployPolicy,
    arrival_number: int = 1,
) -> Deploy:
    """A deploy that was just found; `labels` are namespace, service and version, `arrival_number` as in its
    id.
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
    """The offset of the look that is due: the latest of those missed; None when none is."""
    if deploy.due is None or deploy.due > now:
        return None
    age = now - policy.ingest_delay_seconds - deploy.first_seen
    done = deploy.analyses[-1].seconds if deploy.analyses else 0.0
    missed = [offset for offset in list_analysis_offsets(policy) if done < offset <= age]
    return missed[-1] if missed else None


def compute_next_due(deploy: Deploy, done_seconds: float, policy: DeployPolicy) -> float | None:
    """When the look after that at offset `done_seconds` is due."""
    left = [offset for offset in list_analysis_offsets(policy) if offset > done_seconds]
    return deploy.first_seen + left[0] + policy.ingest_delay_seconds if left else None


def reschedule(deploy: Deploy, policy: DeployPolicy) -> Deploy:
    """A deploy whose look is due by other rules than these: when it is by these."""
    due = compute_next_due(deploy, deploy.analyses[-1].seconds if deploy.analyses else 0.0, policy)
    if due is None and deploy.state is DeployState.WATCHING:
        return replace(
            deploy, due=None, state=DeployState.INCONCLUSIVE, conclusion=str(DeployState.INCONCLUSIVE)
        )
    return replace(deploy, due=due)


def add_analysis(
    deploy: Deploy, analysis: DeployAnalysis, verdict: Mapping[str, Any] | None, policy: DeployPolicy
) -> Deploy:
    """A deploy after one more look. What a look cannot tell leaves the state as it was."""
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
    """A deploy that was rolled back or replaced."""
    return replace(deploy, state=DeployState.FINISHED, finished=end, due=None)


def resolve_deploy(deploy: Deploy, now: float, resolved_by: str) -> Deploy | None:
    """A deploy that nobody has to know of any longer; None if that is so already."""
    return replace(deploy, resolved=AlertResolution(now, resolved_by)) if deploy.is_firing else None
