"""Build the authorization of a collector from its settings."""

from __future__ import annotations

from typing import Final

from sidelight.request_origin import is_loopback
from sidelight_collector.auth.authorizer import Authorizer, BearerTokens, read_named_tokens
from sidelight_collector.auth.read_rules import ReadPolicy, TrustedProxy, load_read_rules
from sidelight_collector.auth.token_review import TokenReviewer, TokenReviewPolicy
from sidelight_collector.metrics import Metrics
from sidelight_collector.runtime.file_reload import FileReloader
from sidelight_collector.settings.collector import Settings
from sidelight_kubernetes.kubernetes_client import KubernetesClient

_RELOAD_PROBLEM: Final = (
    "a changed file of tokens or rules cannot be used, and the content before stays in use: the log says why"
)


def load_tokens(settings: Settings) -> BearerTokens:
    """Load the tokens of the files that the settings name. Raises BadSetting."""
    files = settings.read_tokens_file, settings.capture_tokens_file, settings.write_tokens_file
    read, capture, write = map(read_named_tokens, files)
    names = {**(capture or {}), **(read or {})}
    may_read = None if read is None else (*read, *(capture or ()))
    may_write = None if write is None else tuple(write)
    if write is None and settings.in_cluster and not settings.allow_anonymous_writes:
        may_write = ()
    if read is None and settings.read_proxy_header is not None:
        # Only the proxy and the tokens of captures grant reading.
        may_read = tuple(capture or ())
    may_capture = may_read if capture is None else tuple(capture)
    if capture is None and may_read is None and not is_loopback(settings.address[0]):
        may_capture = ()
    return BearerTokens(may_write, may_read, may_capture, names)


def load_read_policy(settings: Settings) -> ReadPolicy:
    """Load the rules for reading, and the trusted proxies. Raises BadSetting."""
    user, groups = settings.read_proxy_header or "", settings.read_proxy_groups_header or ""
    return ReadPolicy(
        TrustedProxy(user, groups, settings.trusted_proxies, settings.capture_groups),
        load_read_rules(settings.read_rules_file),
    )


def has_auth_files(settings: Settings) -> bool:
    """Return whether the settings name a file of tokens or rules."""
    files = settings.read_tokens_file, settings.capture_tokens_file, settings.write_tokens_file
    return any((*files, settings.read_rules_file))


class AuthContext:
    """The authorizer of one process, with a token reviewer if it runs in a cluster.

    `reloader` loads the files of tokens and rules again when they change, if there are any. `close` ends the
    token reviewer.
    """

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
                node_agents=frozenset(settings.node_agents),
            )
            self._token_reviewer = TokenReviewer(KubernetesClient.open(settings.kubernetes), rules, metrics)
        self.authorizer = Authorizer(tokens, load_read_policy(settings), self._token_reviewer)
        self.reloader: FileReloader[tuple[BearerTokens, ReadPolicy]] | None = None
        if has_auth_files(settings):
            self.reloader = FileReloader(
                "tokens and rules",
                lambda: (load_tokens(settings), load_read_policy(settings)),
                self._use,
                lambda outcome: metrics.auth_reloads.labels(outcome).inc(),
                # Everybody may read /readyz, and a line of the rules names users.
                describe=lambda _: _RELOAD_PROBLEM,
            )

    def _use(self, content: tuple[BearerTokens, ReadPolicy]) -> bool:
        """Use these tokens and rules; return whether they differ from the previous ones."""
        authorizer = self.authorizer
        if content == (authorizer.tokens, authorizer.read_policy):
            return False
        authorizer.tokens, authorizer.read_policy = content
        return True

    async def check_permissions(self) -> None:
        """Check permissions in the cluster for the log and metrics: a root task that ends."""
        if self._token_reviewer is not None:
            await self._token_reviewer.check_permissions()

    def describe_problems(self) -> list[str]:
        """Describe the current problems, one line each."""
        sources = self._token_reviewer, self.reloader
        return [problem for source in sources if source for problem in source.describe_problems()]

    def close(self) -> None:
        """End the token reviewer."""
        if self._token_reviewer is not None:
            self._token_reviewer.close()
