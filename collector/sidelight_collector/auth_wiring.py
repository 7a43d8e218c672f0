"""Who may do what at one collector, put together from its settings."""

from __future__ import annotations

from sidelight_collector.auth.authorizer import Authorizer, BearerTokens, read_named_tokens
from sidelight_collector.auth.read_rules import ReadPolicy, TrustedProxy, load_read_rules
from sidelight_collector.auth.token_review import TokenReviewer, TokenReviewPolicy
from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.collector import Settings, is_loopback
from sidelight_kubernetes.kubernetes_client import KubernetesClient


def load_tokens(settings: Settings) -> BearerTokens:
    """Who may do what, from the files that the settings name. Raises BadSetting."""
    files = settings.read_tokens_file, settings.capture_tokens_file, settings.write_tokens_file
    read, capture, write = map(read_named_tokens, files)
    names = {**(capture or {}), **(read or {})}
    may_read = None if read is None else (*read, *(capture or ()))
    may_write = None if write is None else tuple(write)
    if write is None and settings.in_cluster and not settings.allow_anonymous_writes:
        may_write = ()
    if read is None and settings.read_proxy_header is not None:
        # The proxy is the only way in, but for whoever may start captures.
        may_read = tuple(capture or ())
    may_capture = may_read if capture is None else tuple(capture)
    if capture is None and may_read is None and not is_loopback(settings.address[0]):
        may_capture = ()
    return BearerTokens(may_write, may_read, may_capture, names, has_capture_tokens=capture is not None)


def load_read_policy(settings: Settings) -> ReadPolicy:
    """Who may see what, from the settings. Raises BadSetting."""
    user, groups = settings.read_proxy_header or "", settings.read_proxy_groups_header or ""
    return ReadPolicy(
        TrustedProxy(user, groups, settings.trusted_proxies), load_read_rules(settings.read_rules_file)
    )


class AuthContext:
    """The guard of one process and, where there is a cluster, what asks it; `close` ends that."""

    def __init__(self, settings: Settings, tokens: BearerTokens, metrics: Metrics) -> None:
        self._token_reviewer: TokenReviewer | None = None
        if settings.in_cluster and settings.role != "compactor":
            rules = TokenReviewPolicy(
                settings.token_audience,
                settings.token_cache_seconds,
                settings.token_negative_cache_seconds,
                settings.token_stale_if_error_seconds,
                settings.token_cache_entries,
                settings.token_review_concurrency,
                namespaces=frozenset(settings.kubernetes_namespaces),
            )
            self._token_reviewer = TokenReviewer(KubernetesClient.open(settings.kubernetes), rules, metrics)
        self.authorizer = Authorizer(tokens, load_read_policy(settings), self._token_reviewer)

    async def check_permissions(self) -> None:
        """Say in the log and in metrics what the cluster lets this process do: a root task that ends."""
        if self._token_reviewer is not None:
            await self._token_reviewer.check_permissions()

    def describe_problems(self) -> list[str]:
        """What does not work, a line each."""
        return [] if self._token_reviewer is None else self._token_reviewer.describe_problems()

    def close(self) -> None:
        """Ask the cluster no more."""
        if self._token_reviewer is not None:
            self._token_reviewer.close()
