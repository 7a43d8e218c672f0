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

ID: Final = re.compile(r"\d{8}-[a-z2-7]{16}", re.ASCII)


class State(StrEnum):
    """How a deploy stands, and how a single analysis did (never `watching` or `finished`)."""

    WATCHING = "watching"
    FINE = "pass"
    REGRESSED = "regressed"
    UNCLEAR = "inconclusive"
    INCOMPARABLE = "not_comparable"
    OVER = "finished"


class Why(StrEnum):
    """Why a deploy is over."""

    ROLLED_BACK = "rolled_back"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Rules:
    """When deploys are looked at, and what of each.

    The first look when the version has been seen for `first_seconds`, the last after `last_seconds`; the
    `warmup_seconds` at its beginning do not count. A version not seen for `gone_seconds` while its service
    is has gone; one that comes and goes is a deploy at most `arrivals` times a day. `settle_seconds` are left
    for windows that are still on their way.
    """

    first_seconds: float = 600.0
    last_seconds: float = 86_400.0
    warmup_seconds: float = 60.0
    gone_seconds: float = 900.0
    arrivals: int = 4
    settle_seconds: float = 120.0
    fail_on: tuple[str, ...] = ("cpu>+5%",)
    detect: float = 0.05


@dataclass(frozen=True, slots=True)
class Span:
    """From when until when something was seen."""

    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Rolled:
    """The rollout that brought a version, where the cluster is watched."""

    kind: str
    workload: str
    revision: int
    started: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class Range:
    """A range of time; `until` is not in it."""

    start: float
    until: float

    @property
    def seconds(self) -> float:
        return self.until - self.start


@dataclass(frozen=True, slots=True)
class Look:
    """One comparison: of number `index`, made `at`, of the first `seconds` of the version.

    `comparison_mode` says what the previous version's time is: `canary`, `same_hours` (of an earlier day),
    `previous_period`, or `none`. `problem` is given where the comparison itself could not be made.
    """

    index: int
    at: float
    seconds: float
    state: State
    comparison_mode: str = "none"
    baseline: Range | None = None
    comparison: Range | None = None
    summary: str = ""
    rate: Mapping[str, Any] | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Over:
    """Since when a deploy is finished, why, and the version that took its place."""

    at: float
    reason: Why
    successor: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """When somebody said that a regressed deploy needs nobody any longer, and who."""

    at: float
    user: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one receiver was told last, or is to be told, of one deploy.

    `event` is `regressed` or `resolved`, the `number`-th thing that this receiver is told of this deploy.
    `outcome` is `pending` until it is taken (`sent`), refused for good (`refused`) or given up (`failed`).
    `since` is when there was something to tell, `due` when it is tried next, `at` when it was taken, and
    `problem` what the last of its `attempts` met.
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
    def was_heard(self) -> bool:
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
    previous_seen: Span
    due: float | None
    rollout: Rolled | None = None
    state: State = State.WATCHING
    conclusion: str = ""
    analyses: tuple[Look, ...] = ()
    verdict: Mapping[str, Any] | None = None
    finished: Over | None = None
    resolved: Resolved | None = None
    regressed_at: float | None = None
    deliveries: tuple[Delivery, ...] = field(default=())

    @property
    def is_active(self) -> bool:
        """Whether anything can still become of it without somebody's doing."""
        told = any(one.outcome == "pending" or self._is_owed(one) for one in self.deliveries)
        return self.due is not None or self.is_firing or told

    def _is_owed(self, one: Delivery) -> bool:
        """Whether a receiver is still to be told that there is nothing to know any longer."""
        return one.event == "regressed" and one.was_heard and not self.is_firing

    @property
    def is_firing(self) -> bool:
        """Whether somebody has to know of it."""
        return self.state is State.REGRESSED and self.resolved is None

    @property
    def labels(self) -> dict[str, str]:
        return {"namespace": self.namespace, "service": self.service, "version": self.version}


def deploy_id(namespace: str, service: str, version: str, first_seen: float, number: int = 1) -> str:
    """The day, 40 bits for the service and 40 for all three: the same from whichever collector.

    `number`: which arrival of the version on that day it is.
    """
    arrival = (str(number),) if number > 1 else ()
    whole = _digest("\0".join((namespace, service, version, *arrival)))
    return f"{datetime.fromtimestamp(first_seen, UTC):%Y%m%d}-{of_service(service)}{whole}"


def of_service(service: str) -> str:
    """What all ids of a service's deploys have behind the day, so that it is found without reading others."""
    return _digest(service)


def _digest(text: str) -> str:
    return b32encode(sha256(text.encode()).digest()[:5]).decode().lower()


def offsets(rules: Rules) -> tuple[float, ...]:
    """After how many seconds of a version it is looked at: each twice the one before, then the last.

    A doubling that is nearer to the last than another doubling would be is left out for it.
    """
    found, at = [], rules.first_seconds
    while at < rules.last_seconds / sqrt(2):
        found.append(at)
        at *= 2
    return (*found, rules.last_seconds)


def new(
    labels: tuple[str, str, str],
    first_seen: float,
    previous: str,
    previous_seen: Span,
    rollout: Rolled | None,
    rules: Rules,
    number: int = 1,
) -> Deploy:
    """A deploy that was just found; `labels` are namespace, service and version, `number` as in its id."""
    namespace, service, version = labels
    return Deploy(
        deploy_id(namespace, service, version, first_seen, number),
        namespace,
        service,
        version,
        previous,
        rollout.started if rollout else first_seen,
        first_seen,
        previous_seen,
        first_seen + offsets(rules)[0] + rules.settle_seconds,
        rollout,
    )


def due_offset(deploy: Deploy, now: float, rules: Rules) -> float | None:
    """The offset of the look that is due: the latest of those missed; None when none is."""
    if deploy.due is None or deploy.due > now:
        return None
    age = now - rules.settle_seconds - deploy.first_seen
    done = deploy.analyses[-1].seconds if deploy.analyses else 0.0
    missed = [offset for offset in offsets(rules) if done < offset <= age]
    return missed[-1] if missed else None


def next_due(deploy: Deploy, done: float, rules: Rules) -> float | None:
    """When the look after that at offset `done` is due."""
    left = [offset for offset in offsets(rules) if offset > done]
    return deploy.first_seen + left[0] + rules.settle_seconds if left else None


def postponed(deploy: Deploy, rules: Rules) -> Deploy:
    """A deploy whose look is due by other rules than these: when it is by these."""
    due = next_due(deploy, deploy.analyses[-1].seconds if deploy.analyses else 0.0, rules)
    if due is None and deploy.state is State.WATCHING:
        return replace(deploy, due=None, state=State.UNCLEAR, conclusion=str(State.UNCLEAR))
    return replace(deploy, due=due)


def looked(deploy: Deploy, look: Look, verdict: Mapping[str, Any] | None, rules: Rules) -> Deploy:
    """A deploy after one more look. What a look cannot tell leaves the state as it was."""
    due = next_due(deploy, look.seconds, rules)
    state, said = deploy.state, deploy.conclusion
    if look.state is not State.UNCLEAR:
        state, said = look.state, str(look.state)
    elif due is None and state is State.WATCHING:
        state, said = State.UNCLEAR, str(State.UNCLEAR)
    began = deploy.regressed_at
    if state is State.REGRESSED and deploy.state is not State.REGRESSED:
        began = look.at
    return replace(
        deploy,
        state=state,
        conclusion=said,
        analyses=(*deploy.analyses, look),
        verdict=verdict,
        due=due,
        regressed_at=began,
    )


def ended(deploy: Deploy, over: Over) -> Deploy:
    """A deploy that was rolled back or replaced."""
    return replace(deploy, state=State.OVER, finished=over, due=None)


def resolved(deploy: Deploy, now: float, by: str) -> Deploy | None:
    """A deploy that nobody has to know of any longer; None if that is so already."""
    return replace(deploy, resolved=Resolved(now, by)) if deploy.is_firing else None
