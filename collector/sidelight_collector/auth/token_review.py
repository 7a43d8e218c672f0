"""Identify pods by their tokens with TokenReviews of the Kubernetes API.

Reviews run in threads, never on the event loop. Concurrent requests with the same token share one review,
and a cached result is reviewed again when it is old. While the API server is unavailable, cached tokens
stay valid for a grace period, unless they expire; senders with other tokens must retry, so that their
windows wait in the sidecar's spool. The cache stores digests of tokens.
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

from sidelight_collector.auth.node_identity import NodePods, NodeWriterIdentity
from sidelight_collector.auth.write_identity import TokenRejected, TokenWithoutPod, WriterIdentity
from sidelight_collector.metrics import Metrics
from sidelight_kubernetes import naming
from sidelight_kubernetes.api_paths import build_path
from sidelight_kubernetes.kubernetes_client import (
    AccessDenied,
    ClusterError,
    ClusterUnavailable,
    KubernetesClient,
    NotFoundInCluster,
)
from sidelight_model.errors import Reason, SidelightError

SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
REVIEW_TIMEOUT_SECONDS: Final = 15.0
"""How long a request waits for a review; the review continues for the next attempt."""
LEEWAY_SECONDS: Final = 60.0
"""Allowed difference of clocks after a token expires, as the API server allows it."""
UNAVAILABLE_BACKOFF_SECONDS: Final = 2.0
"""Pause of reviews after the API server did not respond."""
DENIED_BACKOFF_SECONDS: Final = 30.0
"""Pause of reading the pods of a namespace after the API server denied it."""
MAX_REJECTED_TOKENS: Final = 1000
"""Size of the cache of rejected tokens, which is separate to evict no valid token."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class TokenReviewPolicy:
    """Settings of the cache of tokens, and of the reviews.

    audience: the audience that tokens must have.
    cache_seconds: how long a result is used before the next review.
    negative_cache_seconds: how long a rejection is cached.
    stale_if_error_seconds: how much longer a result is used while the API server is unavailable.
    max_cached_tokens: the size of the cache.
    concurrency: reviews that run at once; max_pending: reviews that run or wait.
    namespaces: only pods of these namespaces are read; all if it is empty.
    node_agents: service accounts (NAMESPACE/NAME) whose pods write for all pods of their node.
    """

    audience: str = "sidelight"
    cache_seconds: float = 300.0
    negative_cache_seconds: float = 10.0
    stale_if_error_seconds: float = 3600.0
    max_cached_tokens: int = 20_000
    concurrency: int = 8
    max_pending: int = 1000
    namespaces: frozenset[str] = frozenset()
    node_agents: frozenset[str] = frozenset()

    def can_read_pods(self, namespace: str) -> bool:
        """Whether the policy allows reading pods of this namespace."""
        return not self.namespaces or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class _CachedWriter:
    """The writer of a token, with the time of the next review and the end of grace."""

    writer: WriterIdentity
    fresh_until: float
    usable_until: float


@dataclass(frozen=True, slots=True)
class _RejectedToken:
    """The reason why a token was rejected, and until when it is cached."""

    reason: Reason
    message: str
    hint: str
    cached_until: float


class TokenReviewer:
    """Identifies pods by their tokens, for one event loop.

    `close` ends its threads and the connections of the Kubernetes client.
    """

    def __init__(
        self,
        cluster: KubernetesClient,
        policy: TokenReviewPolicy,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._metrics = metrics
        self._clock = clock
        self._executor = ThreadPoolExecutor(policy.concurrency, thread_name_prefix="review")
        self._cached_writers: OrderedDict[bytes, _CachedWriter] = OrderedDict()
        self._rejected_tokens: OrderedDict[bytes, _RejectedToken] = OrderedDict()
        self._pending_reviews: dict[bytes, asyncio.Future[WriterIdentity]] = {}
        self._unavailable_error: ClusterError | None = None
        self._unavailable_until = 0.0
        self._denied_until: dict[str, float] = {}
        self._node_pods = NodePods(self._get_pod, policy.cache_seconds, policy.stale_if_error_seconds, clock)
        for resource in ("tokenreviews", "pods"):
            metrics.identity_degraded.labels(resource).set(0)

    async def identify(self, token: str) -> WriterIdentity:
        """Return the pod that a token is bound to.

        Raises TokenRejected, TokenWithoutPod, and ClusterError if that cannot be determined now.
        """
        key, now = sha256(token.encode(errors="surrogateescape")).digest(), self._clock()
        cached, rejected = self._cached_writers.get(key), self._rejected_tokens.get(key)
        if cached and now < cached.fresh_until:
            self._cached_writers.move_to_end(key)
            self._count_outcome("cached")
            return cached.writer
        if rejected and now < rejected.cached_until:
            raise self._build_rejection(rejected)
        expires = check_claims(token, self._policy.audience, now)
        usable = cached if cached and now < cached.usable_until else None
        try:
            if self._unavailable_error and now < self._unavailable_until:
                raise copy_error(self._unavailable_error)
            review = self._pending_reviews.get(key) or self._start_review(key, token, expires, cached)
            async with asyncio.timeout(REVIEW_TIMEOUT_SECONDS):
                writer = await asyncio.shield(review)
                self._count_outcome("accepted")
                return writer
        except (ClusterError, TimeoutError, TooManyPendingReviews) as error:
            if usable:
                self._count_outcome("stale")
                return usable.writer
            self._count_outcome("throttled" if isinstance(error, TooManyPendingReviews) else "unavailable")
            if isinstance(error, TimeoutError):
                raise _timeout_error() from None
            raise

    async def check_permissions(self) -> None:
        """Check permissions at the start, so that logs and metrics show missing ones."""
        loop = asyncio.get_running_loop()
        try:
            tokens, pods = await loop.run_in_executor(self._executor, self._query_permissions)
        except ClusterError as error:
            self._record_unavailable(error)
            return
        if not tokens:
            self._record_unavailable(
                AccessDenied(
                    "this process may not create tokenreviews.authentication.k8s.io", *_CREATE_TOKEN_REVIEWS
                )
            )
        _log.info("kubernetes vouches for sidecars", server=self._cluster.url, tokens=tokens, pods=pods)

    def describe_problems(self) -> list[str]:
        """Describe the current problems, one line each."""
        problems = [f"kubernetes: {self._unavailable_error.message}"] if self._unavailable_error else []
        if denied := self._count_denied_namespaces():
            problems.append(
                f"kubernetes: pods of {denied} namespaces may not be read: "
                "service and version are what sidecars say"
            )
        return problems

    def close(self) -> None:
        """End the threads."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._cluster.close()

    def _query_permissions(self) -> tuple[bool, bool]:
        reviews = self._cluster.is_allowed("create", "tokenreviews", group="authentication.k8s.io")
        return reviews, all(
            self._cluster.is_allowed("get", "pods", namespace)
            for namespace in self._policy.namespaces or ("",)
        )

    def _start_review(
        self, key: bytes, token: str, expires: float, cached: _CachedWriter | None
    ) -> asyncio.Future[WriterIdentity]:
        if len(self._pending_reviews) >= self._policy.max_pending:
            raise TooManyPendingReviews(
                f"{len(self._pending_reviews)} tokens wait to be reviewed already",
                hint="Ask again soon; start more collectors, or raise --token-review-concurrency.",
            )
        loop = asyncio.get_running_loop()
        previous = cached.writer if cached else None
        review = loop.run_in_executor(self._executor, self._review, token, previous)
        review.add_done_callback(partial(self._finish_review, key, expires))
        self._pending_reviews[key] = review
        return review

    def _review(self, token: str, previous: WriterIdentity | None) -> WriterIdentity:
        """Review a token with the API server; runs in a thread."""
        review = self._cluster.review_token(token, self._policy.audience)
        if not review.authenticated:
            raise TokenRejected(
                f"the cluster does not accept the token: {review.error[:300]}",
                hint="The pod or its service account may be gone, the token expired, or of another cluster.",
            )
        if not (review.service_account and review.pod):
            raise TokenWithoutPod(review.username)
        writer = WriterIdentity(review.namespace, review.pod, review.pod_uid, review.node)
        named = self._add_pod_labels(writer, previous)
        if f"{review.namespace}/{review.service_account}" not in self._policy.node_agents:
            return named
        return NodeWriterIdentity(
            named.namespace,
            named.pod,
            named.pod_uid,
            named.node,
            named.service,
            named.version,
            self._node_pods,
        )

    def _add_pod_labels(self, writer: WriterIdentity, previous: WriterIdentity | None) -> WriterIdentity:
        """Return the writer with node, service and version of its pod, if readable."""
        if not self._policy.can_read_pods(writer.namespace) or self._clock() < self._denied_until.get(
            writer.namespace, 0.0
        ):
            return writer
        try:
            pod = self._get_pod(writer.namespace, writer.pod)
        except AccessDenied as error:
            self._record_denied(writer.namespace, error)
            return writer
        except NotFoundInCluster:
            raise _pod_deleted_error(writer) from None
        except ClusterUnavailable:
            if previous is None or previous.pod_uid != writer.pod_uid:
                raise
            return previous
        self._denied_until.pop(writer.namespace, None)
        return add_pod_labels(writer, pod)

    def _get_pod(self, namespace: str, name: str) -> Mapping[str, Any]:
        if not self._policy.can_read_pods(namespace):
            raise AccessDenied(f"--kubernetes-namespaces leaves out the namespace {namespace}", "get", "pods")
        return self._cluster.get(build_path("pods", namespace=namespace, name=name))

    def _finish_review(self, key: bytes, expires: float, pending: asyncio.Future[WriterIdentity]) -> None:
        """Cache the result of a review; runs on the event loop."""
        self._pending_reviews.pop(key, None)
        if pending.cancelled():
            return
        error, now = pending.exception(), self._clock()
        self._metrics.identity_degraded.labels("pods").set(1 if self._count_denied_namespaces() else 0)
        if error is None:
            self._record_available()
            fresh = now + self._policy.cache_seconds
            usable = min(expires, fresh + self._policy.stale_if_error_seconds)
            self._rejected_tokens.pop(key, None)
            _put_bounded(
                self._cached_writers,
                key,
                _CachedWriter(pending.result(), min(expires, fresh), usable),
                self._policy.max_cached_tokens,
            )
        elif isinstance(error, (TokenRejected, TokenWithoutPod)):
            self._record_available()
            self._cached_writers.pop(key, None)
            until = now + self._policy.negative_cache_seconds
            rejected = _RejectedToken(error.reason, error.message, error.hint, until)
            _put_bounded(self._rejected_tokens, key, rejected, MAX_REJECTED_TOKENS)
        elif isinstance(error, (ClusterUnavailable, AccessDenied)):
            self._record_unavailable(error)

    def _record_available(self) -> None:
        if self._unavailable_error:
            _log.info("kubernetes answers again", server=self._cluster.url)
        self._unavailable_error = None
        self._metrics.identity_degraded.labels("tokenreviews").set(0)

    def _record_unavailable(self, error: ClusterError) -> None:
        """Record that tokens cannot be reviewed now."""
        if self._unavailable_error is None:
            _log.warning("tokens cannot be reviewed", error=error.message, hint=error.hint)
        self._unavailable_error, self._unavailable_until = error, self._clock() + UNAVAILABLE_BACKOFF_SECONDS
        self._metrics.identity_degraded.labels("tokenreviews").set(1)

    def _record_denied(self, namespace: str, error: AccessDenied) -> None:
        if namespace not in self._denied_until:
            _log.warning(
                "pods may not be read: services are what sidecars say",
                namespace=namespace,
                error=error.message,
                hint=error.hint,
            )
        self._denied_until[namespace] = self._clock() + DENIED_BACKOFF_SECONDS

    def _count_denied_namespaces(self) -> int:
        """Count namespaces whose pods were denied last, within `cache_seconds`."""
        since = self._clock() - self._policy.cache_seconds
        return sum(until > since for until in list(self._denied_until.values()))

    def _build_rejection(self, rejected: _RejectedToken) -> SidelightError:
        self._count_outcome("rejected")
        return SidelightError(rejected.message, reason=rejected.reason, hint=rejected.hint)

    def _count_outcome(self, outcome: str) -> None:
        self._metrics.token_reviews.labels(outcome).inc()


class TooManyPendingReviews(SidelightError):
    """Too many tokens wait to be reviewed."""

    reason = Reason.OVERLOADED


def add_pod_labels(writer: WriterIdentity, pod: Mapping[str, Any]) -> WriterIdentity:
    """Add node, service and version from the pod object to a writer.

    Raises TokenRejected if the object is another pod with the same name.
    """
    uid = (pod.get("metadata") or {}).get("uid")
    if writer.pod_uid and uid != writer.pod_uid:
        raise _pod_deleted_error(writer)
    node = writer.node or str((pod.get("spec") or {}).get("nodeName") or "")
    service, version = naming.service_of(pod), naming.version_of(pod)
    return WriterIdentity(writer.namespace, writer.pod, writer.pod_uid, node, service, version)


def check_claims(token: str, audience: str, now: float) -> float:
    """Return when a token expires, from its unverified claims.

    Raises TokenRejected for a token that would fail a review: of another kind, for another audience, or
    expired.
    """
    claims = decode_claims(token) if _JWT.fullmatch(token) else {}
    audiences, expires = claims.get("aud"), claims.get("exp")
    if not str(claims.get("sub", "")).startswith(SERVICE_ACCOUNT_PREFIX) or not isinstance(
        expires, (int, float)
    ):
        raise TokenRejected(
            "the token is neither one of --write-tokens-file nor that of a service account",
            hint="In a cluster mount a projected service account token with audience "
            f"{audience} and name its file with --token-file; docs/identity.md has the volume.",
        )
    if audience not in (audiences if isinstance(audiences, list) else [audiences]):
        raise TokenRejected(
            f"the token is not meant for {audience}",
            hint=f"Give the projected volume `audience: {audience}`, or the collector the other "
            "--token-audience.",
        )
    if expires + LEEWAY_SECONDS <= now:
        raise TokenRejected(
            f"the token expired {now - expires:.0f} s ago",
            hint="The kubelet renews the file of a projected token: read it again (the sidecar does).",
        )
    return float(expires) + LEEWAY_SECONDS


def decode_claims(token: str) -> Mapping[str, Any]:
    """Decode the claims of a JSON Web Token, unverified; empty for any other text."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def copy_error(error: ClusterError) -> ClusterError:
    """Copy an error, to raise it again."""
    if isinstance(error, AccessDenied):
        return AccessDenied(error.message, error.verb, error.resource)
    return ClusterUnavailable(error.message, hint=error.hint)


_CREATE_TOKEN_REVIEWS: Final = ("create", "tokenreviews")
_JWT: Final = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)


def _pod_deleted_error(writer: WriterIdentity) -> TokenRejected:
    return TokenRejected(
        f"the pod {writer.namespace}/{writer.pod} of the token is gone",
        hint="Nothing is to be done: a pod of the same name has a token of its own.",
    )


def _timeout_error() -> ClusterUnavailable:
    return ClusterUnavailable(
        f"the API server did not review the token within {REVIEW_TIMEOUT_SECONDS:g} s", hint="Ask again soon."
    )


def _put_bounded(cache: OrderedDict[bytes, Any], key: bytes, value: object, max_entries: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > max_entries:
        cache.popitem(last=False)
