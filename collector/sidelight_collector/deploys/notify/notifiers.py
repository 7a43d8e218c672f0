"""Sends notifications about deploys to a webhook and to Alertmanagers.

Errors, log lines and records have only the host of a URL: the rest may have a password or a token.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson
import structlog

from sidelight import __version__
from sidelight_collector.deploys.deploy import Delivery, Deploy
from sidelight_collector.deploys.deploy_repository import DeployNotFound, DeployRepository
from sidelight_collector.deploys.notify import notifications
from sidelight_collector.deploys.notify.notifications import ALERTMANAGER, REGRESSED, RESOLVED, WEBHOOK
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.lease import ShouldStop
from sidelight_collector.storage.objects import ObjectDamaged

TIMEOUT_SECONDS: Final = 8.0
ALERT_BATCH_SIZE: Final = 100
MAX_RESPONSE_BYTES: Final = 2000
MAX_RESPONSE_CHARACTERS: Final = 200
RETRYABLE_STATUSES: Final = (408, 425, 429)
"""Statuses below 500 after which a retry makes sense."""
ALERTS_PATH: Final = "/api/v2/alerts"
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DeliveryFailure:
    """Why a receiver did not accept a request.

    `is_permanent`: it never will. `is_unavailable`: it accepts nothing at the moment.
    """

    problem: str
    is_permanent: bool
    is_unavailable: bool


@dataclass(frozen=True, slots=True)
class ReceiverAddress:
    """The address of a receiver.

    A user and a password in its URL become basic authentication (RFC 7617).
    """

    url: str = field(repr=False)

    @property
    def host(self) -> str:
        """Host and port, the part of the URL that may be logged."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def post(self, content: bytes, headers: Mapping[str, str], path: str = "") -> DeliveryFailure | None:
        """Post JSON there; None if it was accepted.

        Redirects are not followed.
        """
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        tls_options: dict[str, Any] = (
            {"context": ssl.create_default_context()} if parts.scheme == "https" else {}
        )
        target = (parts.path.rstrip("/") if path else parts.path or "/") + path
        request_headers = {
            "Content-Type": "application/json",
            "User-Agent": f"sidelight/{__version__}",
            **headers,
        }
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            request_headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS, **tls_options)
        try:
            connection.request(
                "POST", target + (f"?{parts.query}" if parts.query else ""), content, request_headers
            )
            response = connection.getresponse()
            status, content_start = response.status, response.read(MAX_RESPONSE_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            cause = str(error) or type(error).__name__
            return DeliveryFailure(
                f"no answer from {self.host}: {cause}"[: 2 * MAX_RESPONSE_CHARACTERS], False, True
            )
        finally:
            connection.close()
        if 200 <= status < 300:
            return None
        text = "".join(one if one.isprintable() else " " for one in content_start.decode(errors="replace"))
        problem = f"{self.host} answered {status}: {text[:MAX_RESPONSE_CHARACTERS].strip()}".rstrip(": ")
        is_retryable = status >= 500 or status in RETRYABLE_STATUSES
        return DeliveryFailure(problem, not is_retryable, is_retryable)


@dataclass(slots=True)
class _ReceiverBackoff:
    """Consecutive failures of a receiver, and when it is tried again."""

    failures: int = 0
    retry_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Receivers:
    """The receivers of notifications; `secret` signs those to the webhook."""

    webhook: ReceiverAddress | None = None
    secret: bytes | None = None
    alertmanagers: Sequence[ReceiverAddress] = ()


class DeployNotifier:
    """Notifies receivers of deploys; without any URL, nobody.

    All calls block.
    """

    def __init__(
        self,
        repository: DeployRepository,
        metrics: Metrics,
        receivers: Receivers,
        *,
        resend_seconds: float = 60.0,
        retry_seconds: float = 21_600.0,
        public_url: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._repository = repository
        self._metrics = metrics
        self._webhook = receivers.webhook
        self._secret = receivers.secret
        self._alertmanagers = receivers.alertmanagers
        self._resend_seconds = resend_seconds
        self._retry_seconds = retry_seconds
        self._public_url = public_url.rstrip("/")
        self._clock = clock
        self.receiver_names = [
            *([WEBHOOK] if receivers.webhook else []),
            *([ALERTMANAGER] if receivers.alertmanagers else []),
        ]
        self._backoffs = {name: _ReceiverBackoff() for name in self.receiver_names}
        self._alert_sent_at: dict[str, float] = {}
        self._firing_labels: set[tuple[str, ...]] = set()

    def notify(self, deploys: Iterable[Deploy], should_stop: ShouldStop) -> list[Deploy]:
        """Send the notifications that are due; return the deploys that changed.

        Stops when `should_stop` returns True: the lease is lost, or the collector is shutting down.
        """
        updated_deploys: dict[str, Deploy] = {}
        firing: list[Deploy] = []
        deploys = list(deploys)
        self._firing_labels = {tuple(current.labels.values()) for current in deploys if current.is_firing}
        for deploy in deploys if self.receiver_names else ():
            if should_stop():
                break
            now = self._clock()
            current = deploy
            if notifications.update_deliveries(current, self.receiver_names, now):
                current = self._update_deploy(
                    current,
                    partial(notifications.update_deliveries, receivers=self.receiver_names, now=now),
                    updated_deploys,
                )
            for delivery in notifications.list_due_deliveries(current, self.receiver_names, now):
                if self._backoffs[delivery.receiver].retry_at <= now and not should_stop():
                    current = self._attempt_delivery(current, delivery, updated_deploys, should_stop)
            if current.is_firing and self._needs_resend(current):
                firing.append(current)
        self._alert_sent_at = {
            current.id: self._alert_sent_at[current.id]
            for current in firing
            if current.id in self._alert_sent_at
        } | {
            name: at for name, at in self._alert_sent_at.items() if self._clock() - at < self._resend_seconds
        }
        self._resend_alerts(firing, should_stop)
        return list(updated_deploys.values())

    def _attempt_delivery(
        self, deploy: Deploy, delivery: Delivery, updated_deploys: dict[str, Deploy], should_stop: ShouldStop
    ) -> Deploy:
        """Send one notification to one receiver, unless another process does."""
        now, is_claimed = self._clock(), False

        def claim_attempt(current: Deploy) -> Deploy | None:
            nonlocal is_claimed
            attempted = notifications.record_attempt(current, delivery, now)
            is_claimed = attempted is not None
            return attempted

        after = self._update_deploy(deploy, claim_attempt, updated_deploys)
        if not is_claimed:
            return after
        claim = next(stored for stored in after.deliveries if stored.receiver == delivery.receiver)
        failure = self._send(after, claim, should_stop)
        now = self._clock()
        self._update_backoff(delivery.receiver, failure, now)
        if failure is None:
            result = notifications.mark_delivered(claim, now)
        else:
            result = notifications.mark_failed(
                claim,
                failure.problem,
                now,
                is_permanent=failure.is_permanent,
                retry_seconds=self._retry_seconds,
            )
        outcome = {"sent": "sent", "refused": "refused", "failed": "given_up"}.get(result.outcome, "failed")
        self._metrics.deploy_alerts.labels(delivery.receiver, outcome).inc()
        log = _log.info if failure is None else _log.warning
        log(
            "told of a deploy" if failure is None else "deploy notification failed",
            id=deploy.id,
            receiver=delivery.receiver,
            notice=delivery.event,
            outcome=outcome,
            problem=result.problem,
        )
        return self._update_deploy(
            after, lambda current: notifications.replace_delivery(current, result), updated_deploys
        )

    def _send(self, deploy: Deploy, delivery: Delivery, should_stop: ShouldStop) -> DeliveryFailure | None:
        now = self._clock()
        if delivery.receiver == ALERTMANAGER:
            if delivery.event == RESOLVED and tuple(deploy.labels.values()) in self._firing_labels:
                return None  # the version came back: its alert there now belongs to another deploy
            alert = notifications.build_alert(
                deploy, delivery.event, now, self._resend_seconds, self._public_url
            )
            self._alert_sent_at[deploy.id] = now
            return self._post_alerts([alert], should_stop)
        content = orjson.dumps(notifications.build_webhook_body(deploy, delivery, self._public_url))
        headers = notifications.build_webhook_headers(deploy, delivery, content, self._secret, now)
        return self._webhook.post(content, headers) if self._webhook else None

    def _post_alerts(
        self, alerts: Sequence[Mapping[str, Any]], should_stop: ShouldStop
    ) -> DeliveryFailure | None:
        """Send alerts to all Alertmanagers; None if at least one accepted them.

        The others get them with the next resend. A collector that is shutting down finishes only the
        current request.
        """
        content, failures, is_delivered = orjson.dumps(alerts), list[DeliveryFailure](), False
        for address in self._alertmanagers:
            if failures and should_stop():
                break
            failure = address.post(content, {}, ALERTS_PATH)
            if failure is not None:
                failures.append(failure)
                if len(self._alertmanagers) > 1:
                    _log.warning("an alertmanager did not take alerts", problem=failure.problem)
            else:
                is_delivered = True
        if is_delivered:
            return None
        return next((failure for failure in failures if not failure.is_permanent), failures[0])

    def _needs_resend(self, deploy: Deploy) -> bool:
        """Return whether Alertmanager has an alert that would end by itself."""
        is_sent = any(
            delivery.receiver == ALERTMANAGER and delivery.event == REGRESSED and delivery.outcome == "sent"
            for delivery in deploy.deliveries
        )
        last = self._alert_sent_at.get(deploy.id, float("-inf"))
        return is_sent and self._clock() - last >= self._resend_seconds

    def _resend_alerts(self, firing: Sequence[Deploy], should_stop: ShouldStop) -> None:
        for start in range(0, len(firing), ALERT_BATCH_SIZE):
            now = self._clock()
            if should_stop() or self._backoffs[ALERTMANAGER].retry_at > now:
                return
            batch = firing[start : start + ALERT_BATCH_SIZE]
            alerts = [
                notifications.build_alert(deploy, REGRESSED, now, self._resend_seconds, self._public_url)
                for deploy in batch
            ]
            failure = self._post_alerts(alerts, should_stop)
            self._update_backoff(ALERTMANAGER, failure, now)
            outcome = "sent" if failure is None else "refused" if failure.is_permanent else "failed"
            self._metrics.deploy_alerts.labels(ALERTMANAGER, outcome).inc(len(batch))
            if failure is not None:
                _log.warning("alerts not sent again", alerts=len(batch), problem=failure.problem)
                if not failure.is_permanent:
                    return
            for deploy in batch:
                self._alert_sent_at[deploy.id] = now

    def _update_backoff(self, receiver: str, failure: DeliveryFailure | None, now: float) -> None:
        """Delay all further deliveries to a receiver that is unavailable."""
        backoff = self._backoffs[receiver]
        if failure is None or not failure.is_unavailable:
            backoff.failures, backoff.retry_at = 0, 0.0
            return
        backoff.failures += 1
        backoff.retry_at = now + min(
            notifications.MAX_RETRY_SECONDS, notifications.FIRST_RETRY_SECONDS * 2 ** (backoff.failures - 1)
        )

    def _update_deploy(
        self, deploy: Deploy, change: Callable[[Deploy], Deploy | None], updated_deploys: dict[str, Deploy]
    ) -> Deploy:
        try:
            after = self._repository.update(deploy.id, change)
        except (DeployNotFound, ObjectDamaged):
            return deploy  # the evaluator drops it from its active deploys
        updated_deploys[after.id] = after
        return after
