"""Whose a pod's token is: asked of the API server, remembered for a while, and never on the event loop.

A token is reviewed once, whoever asks for it meanwhile, and again when what is known of it is old. While the
API server is away known tokens go on for a time of grace, as long as they have not expired; unknown ones are
told to come again, so that their windows wait in the sidecar's spool. Tokens are remembered by their digest.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final

import structlog

from sidelight_collector.auth.write_identity import NotKnown, WithoutPod, Writer
from sidelight_collector.metrics import Metrics
from sidelight_kubernetes import naming
from sidelight_kubernetes.kubernetes_client import (
    Cluster,
    ClusterAway,
    ClusterError,
    Denied,
    NotFoundInCluster,
)
from sidelight_model.errors import Reason, SidelightError

ACCOUNT: Final = "system:serviceaccount:"
ANSWER_SECONDS: Final = 15.0
"""Who waits for a review waits no longer; the review goes on, and is there for the next try."""
LEEWAY_SECONDS: Final = 60.0
"""Clocks may differ by so much: the API server allows a token this much more time too."""
AWAY_SECONDS: Final = 2.0
"""After the API server did not answer it is left alone for so long."""
DENIED_SECONDS: Final = 30.0
"""After it said that pods of a namespace may not be read it is not asked again for so long."""
REFUSED_KEPT: Final = 1000
"""Refused tokens remembered: whoever makes tokens up pushes out no good one."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """How long and how many tokens are remembered, and how many are reviewed at once, or wait for it.

    Pods outside `namespaces` are not read; where it is empty, all are.
    """

    audience: str = "sidelight"
    token_seconds: float = 300.0
    refused_seconds: float = 10.0
    grace_seconds: float = 3600.0
    tokens: int = 20_000
    at_once: int = 8
    waiting: int = 1000
    namespaces: frozenset[str] = frozenset()

    def reads(self, namespace: str) -> bool:
        """Whether pods of a namespace are to be read."""
        return not self.namespaces or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class _Known:
    """Whose a token is; fresh until it is to be reviewed again, usable while that is not possible."""

    writer: Writer
    fresh: float
    usable: float


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why a token was refused, and until when that is remembered."""

    reason: Reason
    message: str
    hint: str
    until: float


class Reviews:
    """Tells whose tokens are; for one event loop. `close` ends its threads and the cluster's connections."""

    def __init__(
        self, cluster: Cluster, rules: ReviewRules, metrics: Metrics, clock: Callable[[], float] = time.time
    ) -> None:
        self._cluster = cluster
        self._rules = rules
        self._metrics = metrics
        self._clock = clock
        self._threads = ThreadPoolExecutor(rules.at_once, thread_name_prefix="review")
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._refused: OrderedDict[bytes, _Refused] = OrderedDict()
        self._flights: dict[bytes, asyncio.Future[Writer]] = {}
        self._away: ClusterError | None = None
        self._away_until = 0.0
        self._denied: dict[str, float] = {}
        for resource in ("tokenreviews", "pods"):
            metrics.identity_degraded.labels(resource).set(0)

    async def writer(self, token: str) -> Writer:
        """The pod that a token is bound to.

        Raises NotKnown, WithoutPod, and ClusterError where that cannot be told now.
        """
        key, now = sha256(token.encode(errors="surrogateescape")).digest(), self._clock()
        known, refused = self._known.get(key), self._refused.get(key)
        if known and now < known.fresh:
            self._known.move_to_end(key)
            self._count("cached")
            return known.writer
        if refused and now < refused.until:
            raise self._refusal(refused)
        expires = check_claims(token, self._rules.audience, now)
        usable = known if known and now < known.usable else None
        try:
            if self._away and now < self._away_until:
                raise again(self._away)
            flight = self._flights.get(key) or self._begin(key, token, expires, known)
            async with asyncio.timeout(ANSWER_SECONDS):
                writer = await asyncio.shield(flight)
                self._count("accepted")
                return writer
        except (ClusterError, TimeoutError, Busy) as error:
            if usable:
                self._count("stale")
                return usable.writer
            self._count("throttled" if isinstance(error, Busy) else "unavailable")
            if isinstance(error, TimeoutError):
                raise _slow() from None
            raise

    async def look(self) -> None:
        """Find out at the start what is allowed, so that the log and metrics say so before a sidecar asks."""
        loop = asyncio.get_running_loop()
        try:
            tokens, pods = await loop.run_in_executor(self._threads, self._allowed)
        except ClusterError as error:
            self._note(error)
            return
        if not tokens:
            self._note(Denied("this process may not create tokenreviews.authentication.k8s.io", *_REVIEWS))
        _log.info("kubernetes vouches for sidecars", server=self._cluster.url, tokens=tokens, pods=pods)

    def problems(self) -> list[str]:
        """What does not work of it, a line each."""
        told = [f"kubernetes: {self._away.message}"] if self._away else []
        if denied := self._denied_now():
            told.append(
                f"kubernetes: pods of {denied} namespaces may not be read: "
                "service and version are what sidecars say"
            )
        return told

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._cluster.close()

    def _allowed(self) -> tuple[bool, bool]:
        reviews = self._cluster.may("create", "tokenreviews", group="authentication.k8s.io")
        return reviews, all(self._cluster.may("get", "pods", one) for one in self._rules.namespaces or ("",))

    def _begin(self, key: bytes, token: str, expires: float, known: _Known | None) -> asyncio.Future[Writer]:
        if len(self._flights) >= self._rules.waiting:
            raise Busy(
                f"{len(self._flights)} tokens wait to be reviewed already",
                hint="Ask again soon; start more collectors, or raise --token-review-concurrency.",
            )
        loop = asyncio.get_running_loop()
        old = known.writer if known else None
        flight = loop.run_in_executor(self._threads, self._identify, token, old)
        flight.add_done_callback(partial(self._landed, key, expires))
        self._flights[key] = flight
        return flight

    def _identify(self, token: str, old: Writer | None) -> Writer:
        """Ask the API server; runs in a thread."""
        review = self._cluster.review_token(token, self._rules.audience)
        if not review.authenticated:
            raise NotKnown(
                f"the cluster does not accept the token: {review.error[:300]}",
                hint="The pod or its service account may be gone, the token expired, or of another cluster.",
            )
        if not (review.service_account and review.pod):
            raise WithoutPod(review.username)
        writer = Writer(review.namespace, review.pod, review.pod_uid, review.node)
        if not self._rules.reads(writer.namespace) or self._clock() < self._denied.get(writer.namespace, 0.0):
            return writer
        try:
            pod = self._cluster.get(f"/api/v1/namespaces/{writer.namespace}/pods/{writer.pod}")
        except Denied as error:
            self._may_not(writer.namespace, error)
            return writer
        except NotFoundInCluster:
            raise _gone(writer) from None
        except ClusterAway:
            if old is None or old.pod_uid != writer.pod_uid:
                raise
            return old
        self._denied.pop(writer.namespace, None)
        return named(writer, pod)

    def _landed(self, key: bytes, expires: float, flight: asyncio.Future[Writer]) -> None:
        """Remember what came of a review; on the event loop."""
        self._flights.pop(key, None)
        if flight.cancelled():
            return
        error, now = flight.exception(), self._clock()
        self._metrics.identity_degraded.labels("pods").set(1 if self._denied_now() else 0)
        if error is None:
            self._answers()
            fresh = now + self._rules.token_seconds
            usable = min(expires, fresh + self._rules.grace_seconds)
            self._refused.pop(key, None)
            _keep(self._known, key, _Known(flight.result(), min(expires, fresh), usable), self._rules.tokens)
        elif isinstance(error, (NotKnown, WithoutPod)):
            self._answers()
            self._known.pop(key, None)
            until = now + self._rules.refused_seconds
            refused = _Refused(error.reason, error.message, error.hint, until)
            _keep(self._refused, key, refused, REFUSED_KEPT)
        elif isinstance(error, (ClusterAway, Denied)):
            self._note(error)

    def _answers(self) -> None:
        if self._away:
            _log.info("kubernetes answers again", server=self._cluster.url)
        self._away = None
        self._metrics.identity_degraded.labels("tokenreviews").set(0)

    def _note(self, error: ClusterError) -> None:
        """Tokens cannot be reviewed now."""
        if self._away is None:
            _log.warning("tokens cannot be reviewed", error=error.message, hint=error.hint)
        self._away, self._away_until = error, self._clock() + AWAY_SECONDS
        self._metrics.identity_degraded.labels("tokenreviews").set(1)

    def _may_not(self, namespace: str, error: Denied) -> None:
        if namespace not in self._denied:
            _log.warning(
                "pods may not be read: services are what sidecars say",
                namespace=namespace,
                error=error.message,
                hint=error.hint,
            )
        self._denied[namespace] = self._clock() + DENIED_SECONDS

    def _denied_now(self) -> int:
        """Namespaces whose pods could not be read when it was tried last, in the time of a review."""
        since = self._clock() - self._rules.token_seconds
        return sum(until > since for until in list(self._denied.values()))

    def _refusal(self, refused: _Refused) -> SidelightError:
        self._count("rejected")
        return SidelightError(refused.message, reason=refused.reason, hint=refused.hint)

    def _count(self, outcome: str) -> None:
        self._metrics.token_reviews.labels(outcome).inc()


class Busy(SidelightError):
    """Too many tokens wait to be reviewed."""

    reason = Reason.OVERLOADED


def named(writer: Writer, pod: Mapping[str, Any]) -> Writer:
    """The writer with what its pod is called. Raises NotKnown when that is a later one of the same name."""
    uid = (pod.get("metadata") or {}).get("uid")
    if writer.pod_uid and uid != writer.pod_uid:
        raise _gone(writer)
    node = writer.node or str((pod.get("spec") or {}).get("nodeName") or "")
    service, version = naming.service_of(pod), naming.version_of(pod)
    return Writer(writer.namespace, writer.pod, writer.pod_uid, node, service, version)


def check_claims(token: str, audience: str, now: float) -> float:
    """When a token expires, as it says itself. Raises NotKnown for one that is not worth a review."""
    claims = claims_of(token) if _JWT.fullmatch(token) else {}
    audiences, expires = claims.get("aud"), claims.get("exp")
    if not str(claims.get("sub", "")).startswith(ACCOUNT) or not isinstance(expires, (int, float)):
        raise NotKnown(
            "the token is neither one of --write-tokens-file nor that of a service account",
            hint="In a cluster mount a projected service account token with audience "
            f"{audience} and name its file with --token-file; docs/identity.md has the volume.",
        )
    if audience not in (audiences if isinstance(audiences, list) else [audiences]):
        raise NotKnown(
            f"the token is not meant for {audience}",
            hint=f"Give the projected volume `audience: {audience}`, or the collector the other "
            "--token-audience.",
        )
    if expires + LEEWAY_SECONDS <= now:
        raise NotKnown(
            f"the token expired {now - expires:.0f} s ago",
            hint="The kubelet renews the file of a projected token: read it anew (the sidecar does).",
        )
    return float(expires) + LEEWAY_SECONDS


def claims_of(token: str) -> Mapping[str, Any]:
    """What a token says of itself, unchecked; nothing for what is no JSON Web Token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        told = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def again(error: ClusterError) -> ClusterError:
    """The same failure, to be raised anew."""
    if isinstance(error, Denied):
        return Denied(error.message, error.verb, error.resource)
    return ClusterAway(error.message, hint=error.hint)


_REVIEWS: Final = ("create", "tokenreviews")
_JWT: Final = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)


def _gone(writer: Writer) -> NotKnown:
    return NotKnown(
        f"the pod {writer.namespace}/{writer.pod} of the token is gone",
        hint="Nothing is to be done: a pod of the same name has a token of its own.",
    )


def _slow() -> ClusterAway:
    return ClusterAway(
        f"the API server did not review the token within {ANSWER_SECONDS:g} s", hint="Ask again soon."
    )


def _keep(kept: OrderedDict[bytes, Any], key: bytes, value: object, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
