"""Which notifications receivers get about deploys, and when. Pure functions.

A receiver is notified once that a deploy is regressed, and once that it no longer is: a later analysis
passes, it was rolled back or replaced, or a user resolved it. The last notification of each receiver is
part of the deploy. It is written before sending (`record_attempt`) and after (`mark_delivered`,
`mark_failed`), each time only if nobody else has. So neither two collectors nor a restarted one notify a
receiver twice. A collector that dies between the two leaves an attempt that is made again, with the same
delivery id.

Alerts end by themselves in Alertmanager unless they are sent again; sending an alert that it has changes
nothing else (https://prometheus.io/docs/alerting/latest/alerts_api/).
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
"""The delay before a retry begins with 10 s and doubles, up to 10 minutes."""
CLOCK_SKEW_SECONDS: Final = 60.0
"""Alerts are resolved this long in the past.

An end that is in the future by Alertmanager's clock is no end, and of two ends it takes the later one.
"""
EXPIRY_INTERVALS: Final = 4
"""An alert that is not sent again ends after this many resend intervals."""


def update_deliveries(deploy: Deploy, receivers: Sequence[str], now: float) -> Deploy | None:
    """Return the deploy with the deliveries that are due now; None if unchanged."""
    by_receiver = {delivery.receiver: delivery for delivery in deploy.deliveries}
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
    """List the deliveries to attempt now."""
    return [
        delivery
        for delivery in deploy.deliveries
        if delivery.outcome == "pending" and delivery.due <= now and delivery.receiver in receivers
    ]


def record_attempt(deploy: Deploy, delivery: Delivery, now: float) -> Deploy | None:
    """Return the deploy with the attempt that is about to be made.

    None if another process changed the delivery.
    """
    if delivery not in deploy.deliveries:
        return None
    attempts = delivery.attempts + 1
    delay = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (attempts - 1))
    return replace_delivery(deploy, replace(delivery, attempts=attempts, due=now + delay))


def mark_delivered(delivery: Delivery, now: float) -> Delivery:
    """Return a delivery as accepted by its receiver."""
    return replace(delivery, outcome="sent", at=now, problem="")


def mark_failed(
    delivery: Delivery, problem: str, now: float, *, is_permanent: bool, retry_seconds: float
) -> Delivery:
    """Return a failed delivery as refused, given up, or to be retried."""
    outcome = "refused" if is_permanent else "failed" if now - delivery.since >= retry_seconds else "pending"
    return replace(delivery, outcome=outcome, problem=problem)


def replace_delivery(deploy: Deploy, delivery: Delivery) -> Deploy | None:
    """Return the deploy with a delivery replaced; None if a newer one exists."""
    current = [(current_delivery.receiver, current_delivery.number) for current_delivery in deploy.deliveries]
    if (delivery.receiver, delivery.number) not in current:
        return None
    deliveries = [
        delivery if current_delivery.receiver == delivery.receiver else current_delivery
        for current_delivery in deploy.deliveries
    ]
    return replace(deploy, deliveries=tuple(deliveries))


def build_delivery_id(deploy: Deploy, delivery: Delivery) -> str:
    """Build the id of a delivery, the same for each attempt."""
    return f"{deploy.id}-{delivery.number}"


def build_webhook_body(deploy: Deploy, delivery: Delivery, public_url: str) -> dict[str, Any]:
    """Build the body of a webhook request; docs/deploys.md specifies it."""
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
                {name: condition[name] for name in ("condition", "state", "summary")}
                for condition in (last.conditions if last else ())
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
    """Build an alert of Alertmanager's API v2 (postableAlert).

    Empty labels do not exist there, and are left out.
    """
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
    """Summarize a regression in one line."""
    where = f"{deploy.namespace}/{deploy.service}" if deploy.namespace else deploy.service
    return f"{where}: version {deploy.version} is worse than {deploy.previous or 'what had no version'}"


def build_description(deploy: Deploy) -> str:
    """Return the summary of the last analysis and of each failed condition."""
    if not deploy.analyses:
        return ""
    last = deploy.analyses[-1]
    failed = [
        str(condition["summary"])
        for condition in last.conditions
        if condition["state"] == DeployState.REGRESSED
    ]
    return " ".join(filter(None, [last.summary, *failed]))


def find_resolution_reason(deploy: Deploy) -> str:
    """Return why the alert of a deploy ended."""
    if deploy.finished is not None:
        return str(FinishReason(deploy.finished.reason))
    return RESOLVED if deploy.resolved is not None else str(deploy.state)


def sign_body(secret: bytes, content: bytes, now: float) -> str:
    """Return `t=SECONDS,v1=HEX`, the signature of a webhook's body.

    HMAC-SHA-256 (RFC 2104) over the seconds, a dot and the body.
    """
    seconds = str(int(now))
    digest = hmac.new(secret, seconds.encode() + b"." + content, sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def build_webhook_headers(
    deploy: Deploy, delivery: Delivery, content: bytes, secret: bytes | None, now: float
) -> Mapping[str, str]:
    """Build the headers of a webhook request besides those of every request."""
    headers = {"Sidelight-Event": delivery.event, "Sidelight-Delivery": build_delivery_id(deploy, delivery)}
    return {**headers, "Sidelight-Signature": sign_body(secret, content, now)} if secret else headers


def _format_time(unix: float) -> str:
    return format_rfc3339(round(unix * 1000) * 1_000_000)
