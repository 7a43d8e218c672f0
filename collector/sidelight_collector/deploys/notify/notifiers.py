"""Tells a webhook and Alertmanagers of deploys: what they answer, and when they are tried again.

No error, log line or record has more of a URL than its host: there may be a password or a token in it.
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
from sidelight_collector.deploys.deploy_repository import NoDeploy, Shelf
from sidelight_collector.deploys.notify import notifications
from sidelight_collector.deploys.notify.notifications import ALERTMANAGER, REGRESSED, RESOLVED, WEBHOOK
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.lease import Stopped
from sidelight_collector.storage.objects import ObjectDamaged

TIMEOUT_SECONDS: Final = 8.0
ALERTS_AT_ONCE: Final = 100
ANSWER_BYTES: Final = 2000
SAID_CHARACTERS: Final = 200
AGAIN: Final = (408, 425, 429)
"""Answers below 500 after which it is worth trying again."""
API: Final = "/api/v2/alerts"
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Missed:
    """Why a receiver did not take what it was sent; `final`: it never will, `away`: it takes nothing now."""

    problem: str
    final: bool
    away: bool


@dataclass(frozen=True, slots=True)
class Address:
    """Where a receiver is; a user and a password in its URL are sent as such (RFC 7617)."""

    url: str = field(repr=False)

    @property
    def host(self) -> str:
        """Host and port: what may be told."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def post(self, content: bytes, headers: Mapping[str, str], path: str = "") -> Missed | None:
        """Send JSON there; None if it was taken. Redirects are not followed."""
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        more: dict[str, Any] = {"context": ssl.create_default_context()} if parts.scheme == "https" else {}
        target = (parts.path.rstrip("/") if path else parts.path or "/") + path
        told = {"Content-Type": "application/json", "User-Agent": f"sidelight/{__version__}", **headers}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            told["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS, **more)
        try:
            connection.request("POST", target + (f"?{parts.query}" if parts.query else ""), content, told)
            response = connection.getresponse()
            status, said = response.status, response.read(ANSWER_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            cause = str(error) or type(error).__name__
            return Missed(f"no answer from {self.host}: {cause}"[: 2 * SAID_CHARACTERS], False, True)
        finally:
            connection.close()
        if 200 <= status < 300:
            return None
        text = "".join(one if one.isprintable() else " " for one in said.decode(errors="replace"))
        problem = f"{self.host} answered {status}: {text[:SAID_CHARACTERS].strip()}".rstrip(": ")
        again = status >= 500 or status in AGAIN
        return Missed(problem, not again, again)


@dataclass(slots=True)
class _Away:
    """How often a receiver took nothing, one time after the other, and until when it is left alone."""

    times: int = 0
    until: float = 0.0


class Receivers:
    """Who is told of deploys; everything blocks. Nobody is, without any URL."""

    def __init__(
        self,
        shelf: Shelf,
        metrics: Metrics,
        *,
        webhook: Address | None = None,
        secret: bytes | None = None,
        alertmanagers: Sequence[Address] = (),
        resend_seconds: float = 60.0,
        retry_seconds: float = 21_600.0,
        public_url: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = shelf
        self._metrics = metrics
        self._webhook = webhook
        self._secret = secret
        self._alertmanagers = alertmanagers
        self._resend = resend_seconds
        self._retry = retry_seconds
        self._public = public_url.rstrip("/")
        self._clock = clock
        self.names = [
            *([WEBHOOK] if webhook else []),
            *([ALERTMANAGER] if alertmanagers else []),
        ]
        self._away = {name: _Away() for name in self.names}
        self._sent: dict[str, float] = {}
        self._firing: set[tuple[str, ...]] = set()

    def tell(self, deploys: Iterable[Deploy], ended: Stopped) -> list[Deploy]:
        """Tell what is to be told now; those of the deploys that were changed by it.

        It goes on until `ended`: because of the lease, or because the collector ends.
        """
        changed: dict[str, Deploy] = {}
        firing: list[Deploy] = []
        deploys = list(deploys)
        self._firing = {tuple(one.labels.values()) for one in deploys if one.is_firing}
        for deploy in deploys if self.names else ():
            if ended():
                break
            now = self._clock()
            one = deploy
            if notifications.noticed(one, self.names, now):
                one = self._change(
                    one, partial(notifications.noticed, receivers=self.names, now=now), changed
                )
            for delivery in notifications.due(one, self.names, now):
                if self._away[delivery.receiver].until <= now and not ended():
                    one = self._try(one, delivery, changed, ended)
            if one.is_firing and self._is_due_again(one):
                firing.append(one)
        self._sent = {one.id: self._sent[one.id] for one in firing if one.id in self._sent} | {
            name: at for name, at in self._sent.items() if self._clock() - at < self._resend
        }
        self._send_again(firing, ended)
        return list(changed.values())

    def _try(self, deploy: Deploy, delivery: Delivery, changed: dict[str, Deploy], ended: Stopped) -> Deploy:
        """Tell one receiver one thing, if nobody else does."""
        now, mine = self._clock(), False

        def claimed(each: Deploy) -> Deploy | None:
            nonlocal mine
            made = notifications.tried(each, delivery, now)
            mine = made is not None
            return made

        after = self._change(deploy, claimed, changed)
        if not mine:
            return after
        claim = next(one for one in after.deliveries if one.receiver == delivery.receiver)
        missed = self._send(after, claim, ended)
        now = self._clock()
        self._noted(delivery.receiver, missed, now)
        if missed is None:
            result = notifications.taken(claim, now)
        else:
            result = notifications.missed(
                claim, missed.problem, now, final=missed.final, retry_seconds=self._retry
            )
        outcome = {"sent": "sent", "refused": "refused", "failed": "given_up"}.get(result.outcome, "failed")
        self._metrics.deploy_alerts.labels(delivery.receiver, outcome).inc()
        log = _log.info if missed is None else _log.warning
        log(
            "told of a deploy" if missed is None else "not told of a deploy",
            id=deploy.id,
            receiver=delivery.receiver,
            notice=delivery.event,
            outcome=outcome,
            problem=result.problem,
        )
        return self._change(after, lambda each: notifications.changed(each, result), changed)

    def _send(self, deploy: Deploy, delivery: Delivery, ended: Stopped) -> Missed | None:
        now = self._clock()
        if delivery.receiver == ALERTMANAGER:
            if delivery.event == RESOLVED and tuple(deploy.labels.values()) in self._firing:
                return None  # the version came back, and its alert there is now that of another deploy
            told = notifications.alert(deploy, delivery.event, now, self._resend, self._public)
            self._sent[deploy.id] = now
            return self._to_alertmanagers([told], ended)
        content = orjson.dumps(notifications.body(deploy, delivery, self._public))
        headers = notifications.headers(deploy, delivery, content, self._secret, now)
        return self._webhook.post(content, headers) if self._webhook else None

    def _to_alertmanagers(self, told: Sequence[Mapping[str, Any]], ended: Stopped) -> Missed | None:
        """Send alerts to each; None if one took them: the others get them the next time.

        A collector that ends waits for no more than the one that it is at.
        """
        content, missed, taken = orjson.dumps(told), list[Missed](), False
        for address in self._alertmanagers:
            if missed and ended():
                break
            failure = address.post(content, {}, API)
            if failure is not None:
                missed.append(failure)
                if len(self._alertmanagers) > 1:
                    _log.warning("an alertmanager did not take alerts", problem=failure.problem)
            else:
                taken = True
        if taken:
            return None
        return next((one for one in missed if not one.final), missed[0])

    def _is_due_again(self, deploy: Deploy) -> bool:
        """Whether Alertmanager has an alert that would end by itself."""
        told = any(
            one.receiver == ALERTMANAGER and one.event == REGRESSED and one.outcome == "sent"
            for one in deploy.deliveries
        )
        last = self._sent.get(deploy.id, float("-inf"))
        return told and self._clock() - last >= self._resend

    def _send_again(self, firing: Sequence[Deploy], ended: Stopped) -> None:
        for start in range(0, len(firing), ALERTS_AT_ONCE):
            now = self._clock()
            if ended() or self._away[ALERTMANAGER].until > now:
                return
            some = firing[start : start + ALERTS_AT_ONCE]
            told = [notifications.alert(one, REGRESSED, now, self._resend, self._public) for one in some]
            missed = self._to_alertmanagers(told, ended)
            self._noted(ALERTMANAGER, missed, now)
            outcome = "sent" if missed is None else "refused" if missed.final else "failed"
            self._metrics.deploy_alerts.labels(ALERTMANAGER, outcome).inc(len(some))
            if missed is not None:
                _log.warning("alerts not sent again", alerts=len(some), problem=missed.problem)
                if not missed.final:
                    return
            for one in some:
                self._sent[one.id] = now

    def _noted(self, receiver: str, missed: Missed | None, now: float) -> None:
        """A receiver that takes nothing is left alone for a while, whatever there is to tell."""
        away = self._away[receiver]
        if missed is None or not missed.away:
            away.times, away.until = 0, 0.0
            return
        away.times += 1
        away.until = now + min(
            notifications.MOST_SECONDS, notifications.FIRST_SECONDS * 2 ** (away.times - 1)
        )

    def _change(
        self, deploy: Deploy, change: Callable[[Deploy], Deploy | None], changed: dict[str, Deploy]
    ) -> Deploy:
        try:
            after = self._shelf.change(deploy.id, change)
        except (NoDeploy, ObjectDamaged):
            return deploy  # whoever looks after it will see
        changed[after.id] = after
        return after
