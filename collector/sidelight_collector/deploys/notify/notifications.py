"""What receivers are told of deploys, and when: pure.

A receiver is told once that a deploy is regressed, and once that it no longer is: a later look is fine, it
was rolled back or replaced, or somebody resolved it. What it was told last is in the deploy, and is written
there before it is sent (`record_attempt`) and after (`mark_delivered`, `mark_failed`), each time only if
nobody else did: so neither two collectors nor one that starts again tell it twice. One that dies between
the two leaves a try that is made again; it has the same delivery id.

Alertmanager's own alerts end by themselves unless they are sent again, which does nothing new to those that
it has (https://prometheus.io/docs/alerting/latest/alerts_api/).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from sidelight_collector.deploys.deploy import Delivery, Deploy, DeployState, FinishReason
from sidelight_collector.deploys.notify.deploy_links import build_view_link
from sidelight_collector.times import format_rfc3339

WEBHOOK: Final = "webhook"
ALERTMANAGER: Final = "alertmanager"
REGRESSED: Final = "regressed"
RESOLVED: Final = "resolved"
FORMAT: Final = 1
ALERT_NAME: Final = "SidelightRegression"
FIRST_RETRY_SECONDS: Final = 10.0
MAX_RETRY_SECONDS: Final = 600.0
"""A try that failed is made again after 10 s, then each time twice as long, at most 10 minutes."""
CLOCK_SKEW_SECONDS: Final = 60.0
"""An end that is still to come by Alertmanager's clock is no end: of two ends it takes the later one."""
EXPIRY_INTERVALS: Final = 4
"""An alert that is not sent again ends after so many times the time between two."""


def update_deliveries(deploy: Deploy, receivers: Sequence[str], now: float) -> Deploy | None:
    """The deploy with what there is to tell now; None if there is nothing new."""
    by_receiver = {one.receiver: one for one in deploy.deliveries}
    for name in receivers:
        last = by_receiver.get(name)
        event = last.event if last else RESOLVED
        if deploy.is_firing and event != REGRESSED:
            by_receiver[name] = Delivery(name, REGRESSED, last.number + 1 if last else 1, now, now)
        elif last and not deploy.is_firing and event == REGRESSED:
            if last.is_possibly_delivered:
                by_receiver[name] = Delivery(name, RESOLVED, last.number + 1, now, now)
            elif last.outcome == "pending":
                del by_receiver[name]
    deliveries = tuple(by_receiver[name] for name in sorted(by_receiver))
    return None if deliveries == deploy.deliveries else replace(deploy, deliveries=deliveries)


def list_due_deliveries(deploy: Deploy, receivers: Sequence[str], now: float) -> list[Delivery]:
    """What is to be tried now."""
    return [
        one
        for one in deploy.deliveries
        if one.outcome == "pending" and one.due <= now and one.receiver in receivers
    ]


def record_attempt(deploy: Deploy, delivery: Delivery, now: float) -> Deploy | None:
    """The deploy with a try written down that is about to be made; None if somebody else does it."""
    if delivery not in deploy.deliveries:
        return None
    attempts = delivery.attempts + 1
    delay = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (attempts - 1))
    return replace_delivery(deploy, replace(delivery, attempts=attempts, due=now + delay))


def mark_delivered(delivery: Delivery, now: float) -> Delivery:
    """A delivery that was taken."""
    return replace(delivery, outcome="sent", at=now, problem="")


def mark_failed(
    delivery: Delivery, problem: str, now: float, *, is_permanent: bool, retry_seconds: float
) -> Delivery:
    """A delivery that was not taken: refused for good, given up, or to be tried again."""
    outcome = "refused" if is_permanent else "failed" if now - delivery.since >= retry_seconds else "pending"
    return replace(delivery, outcome=outcome, problem=problem)


def replace_delivery(deploy: Deploy, delivery: Delivery) -> Deploy | None:
    """The deploy with a delivery as it is now; None if there is another thing to tell by now."""
    current = [(one.receiver, one.number) for one in deploy.deliveries]
    if (delivery.receiver, delivery.number) not in current:
        return None
    deliveries = [delivery if one.receiver == delivery.receiver else one for one in deploy.deliveries]
    return replace(deploy, deliveries=tuple(deliveries))


def build_delivery_id(deploy: Deploy, delivery: Delivery) -> str:
    """The same each time that one thing is told."""
    return f"{deploy.id}-{delivery.number}"


def build_webhook_body(deploy: Deploy, delivery: Delivery, public_url: str) -> dict[str, Any]:
    """What a webhook is sent: docs/deploys.md describes it."""
    last = deploy.analyses[-1] if deploy.analyses else None
    return {
        "format": FORMAT,
        "event": delivery.event,
        "delivery_id": build_delivery_id(deploy, delivery),
        "at": _format_time(delivery.since),
        "reason": find_resolution_reason(deploy) if delivery.event == RESOLVED else "regressed",
        "summary": build_summary(deploy),
        "deploy": {
            "id": deploy.id,
            **deploy.labels,
            "previous": deploy.previous,
            "started": _format_time(deploy.started),
            "state": deploy.state,
            "summary": last.summary if last else "",
            "conditions": [
                {name: one[name] for name in ("condition", "state", "summary")}
                for one in (last.conditions if last else ())
            ],
        },
        "links": {
            "view": public_url + build_view_link(deploy),
            "api": f"{public_url}/api/v1/deploys/{deploy.id}",
            "resolve": f"{public_url}/api/v1/deploys/{deploy.id}/resolve",
        },
    }


def build_alert(
    deploy: Deploy, event: str, now: float, resend_seconds: float, public_url: str
) -> dict[str, Any]:
    """An alert of Alertmanager's API v2 (postableAlert). Labels that are empty do not exist there."""
    labels = {"alertname": ALERT_NAME, **{name: value for name, value in deploy.labels.items() if value}}
    starts = deploy.regressed_at or deploy.started
    ends = (
        max(starts, now - CLOCK_SKEW_SECONDS)
        if event == RESOLVED
        else now + EXPIRY_INTERVALS * resend_seconds
    )
    document: dict[str, Any] = {
        "labels": labels,
        "annotations": {"summary": build_summary(deploy), "description": build_description(deploy)},
        "startsAt": _format_time(starts),
        "endsAt": _format_time(ends),
    }
    if public_url:
        document["generatorURL"] = public_url + build_view_link(deploy)
    return document


def build_summary(deploy: Deploy) -> str:
    """One line."""
    where = f"{deploy.namespace}/{deploy.service}" if deploy.namespace else deploy.service
    return f"{where}: version {deploy.version} is worse than {deploy.previous or 'what had no version'}"


def build_description(deploy: Deploy) -> str:
    """What the last look said, and each condition that does not hold."""
    if not deploy.analyses:
        return ""
    last = deploy.analyses[-1]
    failed = [str(one["summary"]) for one in last.conditions if one["state"] == DeployState.REGRESSED]
    return " ".join(filter(None, [last.summary, *failed]))


def find_resolution_reason(deploy: Deploy) -> str:
    """Why nobody has to know of a deploy any longer."""
    if deploy.finished is not None:
        return str(FinishReason(deploy.finished.reason))
    return RESOLVED if deploy.resolved is not None else str(deploy.state)


def sign_body(secret: bytes, content: bytes, now: float) -> str:
    """`t=SECONDS,v1=HEX`: HMAC-SHA-256 (RFC 2104) over the seconds, a dot and the body."""
    seconds = str(int(now))
    digest = hmac.new(secret, seconds.encode() + b"." + content, sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def build_webhook_headers(
    deploy: Deploy, delivery: Delivery, content: bytes, secret: bytes | None, now: float
) -> Mapping[str, str]:
    """The headers that a webhook gets besides those of every request."""
    document = {"Sidelight-Event": delivery.event, "Sidelight-Delivery": build_delivery_id(deploy, delivery)}
    return {**document, "Sidelight-Signature": sign_body(secret, content, now)} if secret else document


def _format_time(unix: float) -> str:
    return format_rfc3339(round(unix * 1000) * 1_000_000)
