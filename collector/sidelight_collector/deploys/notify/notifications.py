"""What receivers are told of deploys, and when: pure.

A receiver is told once that a deploy is regressed, and once that it no longer is: a later look is fine, it
was rolled back or replaced, or somebody resolved it. What it was told last is in the deploy, and is written
there before it is sent (`tried`) and after (`taken`, `missed`), each time only if nobody else did: so neither
two collectors nor one that starts again tell it twice. One that dies between the two leaves a try that is
made again; it has the same delivery id.

Alertmanager's own alerts end by themselves unless they are sent again, which does nothing new to those that
it has (https://prometheus.io/docs/alerting/latest/alerts_api/).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from sidelight_collector.deploys.deploy import Delivery, Deploy, State, Why
from sidelight_collector.deploys.notify.deploy_links import view_link
from sidelight_collector.times import rfc3339

WEBHOOK: Final = "webhook"
ALERTMANAGER: Final = "alertmanager"
REGRESSED: Final = "regressed"
RESOLVED: Final = "resolved"
FORMAT: Final = 1
ALERT_NAME: Final = "SidelightRegression"
FIRST_SECONDS: Final = 10.0
MOST_SECONDS: Final = 600.0
"""A try that failed is made again after 10 s, then each time twice as long, at most 10 minutes."""
SKEW_SECONDS: Final = 60.0
"""An end that is still to come by Alertmanager's clock is no end: of two ends it takes the later one."""
LAPSES: Final = 4
"""An alert that is not sent again ends after so many times the time between two."""


def noticed(deploy: Deploy, receivers: Sequence[str], now: float) -> Deploy | None:
    """The deploy with what there is to tell now; None if there is nothing new."""
    known = {one.receiver: one for one in deploy.deliveries}
    for name in receivers:
        last = known.get(name)
        event = last.event if last else RESOLVED
        if deploy.is_firing and event != REGRESSED:
            known[name] = Delivery(name, REGRESSED, last.number + 1 if last else 1, now, now)
        elif last and not deploy.is_firing and event == REGRESSED:
            if last.was_heard:
                known[name] = Delivery(name, RESOLVED, last.number + 1, now, now)
            elif last.outcome == "pending":
                del known[name]
    made = tuple(known[name] for name in sorted(known))
    return None if made == deploy.deliveries else replace(deploy, deliveries=made)


def due(deploy: Deploy, receivers: Sequence[str], now: float) -> list[Delivery]:
    """What is to be tried now."""
    return [
        one
        for one in deploy.deliveries
        if one.outcome == "pending" and one.due <= now and one.receiver in receivers
    ]


def tried(deploy: Deploy, delivery: Delivery, now: float) -> Deploy | None:
    """The deploy with a try written down that is about to be made; None if somebody else does it."""
    if delivery not in deploy.deliveries:
        return None
    attempts = delivery.attempts + 1
    wait = min(MOST_SECONDS, FIRST_SECONDS * 2 ** (attempts - 1))
    return changed(deploy, replace(delivery, attempts=attempts, due=now + wait))


def taken(delivery: Delivery, now: float) -> Delivery:
    """A delivery that was taken."""
    return replace(delivery, outcome="sent", at=now, problem="")


def missed(delivery: Delivery, problem: str, now: float, *, final: bool, retry_seconds: float) -> Delivery:
    """A delivery that was not taken: refused for good, given up, or to be tried again."""
    outcome = "refused" if final else "failed" if now - delivery.since >= retry_seconds else "pending"
    return replace(delivery, outcome=outcome, problem=problem)


def changed(deploy: Deploy, delivery: Delivery) -> Deploy | None:
    """The deploy with a delivery as it is now; None if there is another thing to tell by now."""
    own = [(one.receiver, one.number) for one in deploy.deliveries]
    if (delivery.receiver, delivery.number) not in own:
        return None
    made = [delivery if one.receiver == delivery.receiver else one for one in deploy.deliveries]
    return replace(deploy, deliveries=tuple(made))


def delivery_id(deploy: Deploy, delivery: Delivery) -> str:
    """The same each time that one thing is told."""
    return f"{deploy.id}-{delivery.number}"


def body(deploy: Deploy, delivery: Delivery, public_url: str) -> dict[str, Any]:
    """What a webhook is sent: docs/deploys.md describes it."""
    last = deploy.analyses[-1] if deploy.analyses else None
    return {
        "format": FORMAT,
        "event": delivery.event,
        "delivery_id": delivery_id(deploy, delivery),
        "at": _time(delivery.since),
        "reason": reason(deploy) if delivery.event == RESOLVED else "regressed",
        "summary": summary(deploy),
        "deploy": {
            "id": deploy.id,
            **deploy.labels,
            "previous": deploy.previous,
            "started": _time(deploy.started),
            "state": deploy.state,
            "summary": last.summary if last else "",
            "conditions": [
                {name: one[name] for name in ("condition", "state", "summary")}
                for one in (last.conditions if last else ())
            ],
        },
        "links": {
            "view": public_url + view_link(deploy),
            "api": f"{public_url}/api/v1/deploys/{deploy.id}",
            "resolve": f"{public_url}/api/v1/deploys/{deploy.id}/resolve",
        },
    }


def alert(deploy: Deploy, event: str, now: float, resend_seconds: float, public_url: str) -> dict[str, Any]:
    """An alert of Alertmanager's API v2 (postableAlert). Labels that are empty do not exist there."""
    labels = {"alertname": ALERT_NAME, **{name: value for name, value in deploy.labels.items() if value}}
    starts = deploy.regressed_at or deploy.started
    ends = max(starts, now - SKEW_SECONDS) if event == RESOLVED else now + LAPSES * resend_seconds
    told: dict[str, Any] = {
        "labels": labels,
        "annotations": {"summary": summary(deploy), "description": description(deploy)},
        "startsAt": _time(starts),
        "endsAt": _time(ends),
    }
    if public_url:
        told["generatorURL"] = public_url + view_link(deploy)
    return told


def summary(deploy: Deploy) -> str:
    """One line."""
    where = f"{deploy.namespace}/{deploy.service}" if deploy.namespace else deploy.service
    return f"{where}: version {deploy.version} is worse than {deploy.previous or 'what had no version'}"


def description(deploy: Deploy) -> str:
    """What the last look said, and each condition that does not hold."""
    if not deploy.analyses:
        return ""
    last = deploy.analyses[-1]
    failed = [str(one["summary"]) for one in last.conditions if one["state"] == State.REGRESSED]
    return " ".join(filter(None, [last.summary, *failed]))


def reason(deploy: Deploy) -> str:
    """Why nobody has to know of a deploy any longer."""
    if deploy.finished is not None:
        return str(Why(deploy.finished.reason))
    return RESOLVED if deploy.resolved is not None else str(deploy.state)


def signature(secret: bytes, content: bytes, now: float) -> str:
    """`t=SECONDS,v1=HEX`: HMAC-SHA-256 (RFC 2104) over the seconds, a dot and the body."""
    seconds = str(int(now))
    digest = hmac.new(secret, seconds.encode() + b"." + content, sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def headers(
    deploy: Deploy, delivery: Delivery, content: bytes, secret: bytes | None, now: float
) -> Mapping[str, str]:
    """The headers that a webhook gets besides those of every request."""
    told = {"Sidelight-Event": delivery.event, "Sidelight-Delivery": delivery_id(deploy, delivery)}
    return {**told, "Sidelight-Signature": signature(secret, content, now)} if secret else told


def _time(unix: float) -> str:
    return rfc3339(round(unix * 1000) * 1_000_000)
