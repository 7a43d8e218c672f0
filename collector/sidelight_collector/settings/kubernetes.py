"""Settings of a collector that has to do with a Kubernetes cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidelight.settings import BadSetting, parse_nonnegative_int, parse_positive_float, parse_seconds, setting
from sidelight_collector.settings.comparison import ComparisonSettings
from sidelight_collector.settings.deploys import parse_plain_url
from sidelight_collector.settings.types import (
    DAY_SECONDS,
    check_bounds,
    parse_namespace,
    parse_namespace_or_all,
    parse_service_account,
)
from sidelight_kubernetes.label_names import AUDIENCE

MAX_NAMESPACES: Final = 20

_POSITIVE_SETTINGS: Final = (
    "token_cache_entries",
    "token_review_concurrency",
    "discovery_max_pods",
    "discovery_max_rollouts",
)
_SETTING_MAXIMUMS: Final = {
    "token_cache_seconds": DAY_SECONDS,
    "token_negative_cache_seconds": 600.0,
    "token_stale_if_error_seconds": DAY_SECONDS,
    "token_review_concurrency": 64,
    "discovery_stale_seconds": DAY_SECONDS,
    "discovery_publish_interval_seconds": 60.0,
    "discovery_lease_seconds": 600.0,
    "attach_wait_seconds": DAY_SECONDS,
}


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class KubernetesSettings(ComparisonSettings):
    """Settings of identities, discovery and attached sidecars in a cluster."""

    kubernetes: str = setting(
        "off",
        "API server that verifies sidecars: off, in-cluster, or the path of a kubeconfig",
        metavar="WHERE",
    )
    token_audience: str = setting(AUDIENCE, "audience that tokens of sidecars must have")
    kubernetes_namespaces: tuple[str, ...] = setting(
        (),
        "namespace in which to look up pods' labels; may be repeated; none: all namespaces",
        parse=parse_namespace,
        metavar="NAMESPACE",
    )
    node_agents: tuple[str, ...] = setting(
        (),
        "service account of node agents, whose pods write for all pods of their node; may be repeated",
        parse=parse_service_account,
        metavar="NAMESPACE/NAME",
    )
    token_cache_seconds: float = setting(
        300.0,
        "how long to accept a verified token without a new TokenReview",
        parse=parse_positive_float,
    )
    token_negative_cache_seconds: float = setting(
        10.0, "how long to reject a rejected token without a new TokenReview", parse=parse_seconds
    )
    token_stale_if_error_seconds: float = setting(
        3600.0,
        "how much longer to accept a verified, unexpired token while the API server does not respond",
        parse=parse_seconds,
    )
    token_cache_entries: int = setting(
        20_000,
        "TokenReview results in memory; the least recently used are dropped first",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    token_review_concurrency: int = setting(
        8,
        "most concurrent TokenReviews; up to 1,000 more can wait",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )

    discovery: bool = setting(default=True, help="watch pods and their owners in the cluster of --kubernetes")
    discovery_namespaces: tuple[str, ...] = setting(
        (), "watch only this namespace; may be repeated", parse=parse_namespace, metavar="NAMESPACE"
    )
    discovery_max_pods: int = setting(
        50_000,
        "most pods in memory; pods above it are only counted",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    discovery_stale_seconds: float = setting(
        180.0, "time without a report after which a running sidecar is stale", parse=parse_positive_float
    )
    discovery_publish_interval_seconds: float = setting(
        5.0,
        "time between updates from the collector that watches the cluster to the others",
        parse=parse_positive_float,
    )
    discovery_lease_seconds: float = setting(
        30.0,
        "time without a report of the watching collector after which another one takes over",
        parse=parse_positive_float,
    )
    discovery_max_rollouts: int = setting(
        5000,
        "most rollouts to keep, latest first, over all workloads",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    attach_image: str = setting(
        "",
        "image of sidecars that captures attach to pods without one; empty: only node agents take captures",
        metavar="IMAGE",
    )
    attach_namespaces: tuple[str, ...] = setting(
        (),
        "namespace whose pods captures may attach to; may be repeated; *: all; none: never",
        parse=parse_namespace_or_all,
        metavar="NAMESPACE",
    )
    attach_collector_url: str = setting(
        "", "URL of this collector for attached sidecars", parse=parse_plain_url, metavar="URL"
    )
    attach_ca_file: Path | None = setting(
        None,
        "PEM file of the authorities that attached sidecars trust for an https:// --attach-collector-url; "
        "without it, the system's",
        parse=Path,
    )
    attach_wait_seconds: float = setting(
        120.0, "how long a capture waits for sidecars that it attached", parse=parse_positive_float
    )

    def check_kubernetes(self) -> None:
        """Raises BadSetting or ValueError for settings that cannot be."""
        check_bounds(self, _POSITIVE_SETTINGS, _SETTING_MAXIMUMS)
        if len(self.discovery_namespaces) > MAX_NAMESPACES:
            raise BadSetting(
                f"discovery_namespaces has more than {MAX_NAMESPACES} names",
                hint="Each takes six watches: give none, and a ClusterRole, to watch all namespaces at once.",
            )
        if self.attach_image:
            self._check_attach()
        if self.attach_namespaces and not self.in_cluster:
            raise BadSetting(
                "attach_namespaces is given, and kubernetes is off", hint="Give --kubernetes too."
            )

    @property
    def in_cluster(self) -> bool:
        """Whether a cluster vouches for sidecars."""
        return self.kubernetes not in ("", "off")

    def _check_attach(self) -> None:
        if self.kubernetes == "off":
            raise BadSetting("attach_image is given, and kubernetes is off", hint="Give --kubernetes too.")
        if not self.attach_namespaces:
            raise BadSetting(
                "attach_image is given without attach_namespaces",
                hint="Name the namespaces in which captures may attach sidecars, or give '*' for all.",
            )
        if not self.attach_collector_url.startswith(("http://", "https://")):
            raise BadSetting(
                "attach_image is given without attach_collector_url",
                hint="Give the address of this collector as pods reach it: http://sidelight.NAMESPACE:8080.",
            )
        if self.attach_ca_file is not None and not self.attach_collector_url.startswith("https://"):
            raise BadSetting(
                "attach_ca_file is given, and attach_collector_url is not an https:// URL",
                hint="Use https:// in --attach-collector-url, or leave --attach-ca-file out.",
            )
