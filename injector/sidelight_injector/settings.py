"""All settings of the injector, declared once and validated together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sidelight import settings as house
from sidelight.connection_settings import ConnectionSettings
from sidelight.settings import BadSetting, setting
from sidelight_injector.admission.pod_security import LEVELS
from sidelight_kubernetes.label_names import IN_CLUSTER

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ConnectionSettings):
    """Settings of `sidelight injector`; units are part of the names."""

    sidecar_file: Path = setting(
        None,
        "JSON file with the sidecar's container and volumes, as the chart renders it",
        parse=Path,
        required=True,
    )
    ca_file: Path | None = setting(
        None,
        "PEM file of the authorities that injected sidecars trust for an https:// collector; read again for "
        "every pod",
        parse=Path,
    )
    listen: str = setting(
        "0.0.0.0:8443", "address of the webhook for the API server, with TLS", metavar="HOST:PORT"
    )
    status_listen: str = setting(
        "0.0.0.0:8080", "address of /livez, /readyz and /metrics, without TLS", metavar="HOST:PORT"
    )
    kubernetes: str = setting(
        IN_CLUSTER, "API server: in-cluster, or the path of a kubeconfig", metavar="WHERE"
    )
    namespace: str = setting("default", "namespace of the injector", metavar="NAME")
    webhook_name: str = setting(
        "sidelight-injector",
        "MutatingWebhookConfiguration whose caBundle the injector updates",
        metavar="NAME",
    )
    webhook_service: str = setting(
        "sidelight-injector", "Service through which the API server reaches the injector", metavar="NAME"
    )
    certificate_secret: str = setting(
        "sidelight-injector", "Secret for the certificates that the injector issues", metavar="NAME"
    )
    certificate_san: tuple[str, ...] = setting(
        (), "additional name or address for the certificate; may be repeated", metavar="NAME"
    )
    certificate_days: float = setting(
        30.0, "lifetime of a certificate, at most a third of --ca-days", parse=house.parse_positive_float
    )
    ca_days: float = setting(365.0, "lifetime of the certificate authority", parse=house.parse_positive_float)
    ca_overlap_seconds: float = setting(
        600.0,
        "how long a new authority is trusted before it signs, and an old one after it",
        parse=house.parse_positive_float,
    )
    certificate_dir: Path | None = setting(
        None,
        "directory with tls.crt and tls.key (cert-manager); the injector then issues no certificates",
        parse=Path,
        metavar="DIR",
    )
    certificate_check_interval_seconds: float = setting(
        30.0, "time between checks of the certificates", parse=house.parse_positive_float
    )
    native_sidecars: str = setting(
        "auto",
        "sidecars as init containers that restart: always, never (ordinary containers), or auto: "
        "from Kubernetes 1.29",
        parse=house.make_choice_parser("auto", "always", "never"),
    )
    exclude_namespace: tuple[str, ...] = setting(
        SYSTEM_NAMESPACES,
        "namespace whose pods are never injected, besides the injector's own; may be repeated",
        metavar="NAME",
    )
    pod_security_default: str = setting(
        "privileged",
        "Pod Security level that the cluster enforces in namespaces without a label",
        parse=house.make_choice_parser(*LEVELS),
        metavar="LEVEL",
    )
    pod_security_exempt: tuple[str, ...] = setting(
        (), "namespace that the cluster exempts from Pod Security; may be repeated", metavar="NAMESPACE"
    )
    namespace_cache_seconds: float = setting(2.0, "how long to cache a namespace", parse=house.parse_seconds)
    namespace_timeout_seconds: float = setting(
        2.0,
        "timeout for reading a namespace, at most 4; the pod is not injected after it",
        parse=house.parse_positive_float,
    )
    events: bool = setting(True, "also write an Event with the reason when a pod is not injected")
    events_per_minute: int = setting(
        30, "most Events per minute, 1 to 6000", parse=house.parse_nonnegative_int
    )
    events_repeat_seconds: float = setting(
        600.0, "shortest time between two equal Events", parse=house.parse_seconds
    )
    max_body_bytes: int = setting(
        8 << 20, "largest AdmissionReview request, at least 1M", parse=house.parse_byte_size
    )
    max_connections: int = setting(
        1024, "most open connections to --listen", parse=house.parse_nonnegative_int, metavar="COUNT"
    )
    drain_seconds: float = setting(
        5.0,
        "time to keep serving after SIGTERM, until API servers have noticed",
        parse=house.parse_seconds,
    )
    log_json: bool = setting(False, "write logs as JSON lines")
    log_level: str = setting("info", "lowest level to log: debug, info, warning or error", parse=str.lower)

    def __post_init__(self) -> None:
        _ = self.address, self.status_address
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise BadSetting(f"--log-level {self.log_level!r} is not one of debug, info, warning, error")
        if self.certificate_days > self.ca_days / 3:
            raise BadSetting(
                "--certificate-days must be at most a third of --ca-days",
                hint="A new authority takes over when a third of the old one's time is left.",
            )
        if not 1 <= self.events_per_minute <= 6000:
            raise BadSetting("--events-per-minute must be from 1 to 6000", hint="--no-events writes none.")
        if self.max_connections < 1:
            raise BadSetting("--max-connections must be at least 1")
        if self.max_body_bytes < 1 << 20:
            raise BadSetting("--max-body-bytes must be at least 1M", hint="A pod may have 1.5 MB.")
        if self.namespace_timeout_seconds > 4:
            raise BadSetting(
                "--namespace-timeout-seconds must be at most 4", hint="The API server waits 5 seconds in all."
            )

    @property
    def address(self) -> tuple[str, int]:
        """`--listen` as host and port."""
        return house.parse_address(self.listen)

    @property
    def status_address(self) -> tuple[str, int]:
        """`--status-listen` as host and port."""
        return house.parse_address(self.status_listen)

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """The DNS names and addresses of the self-signed certificate."""
        name = f"{self.webhook_service}.{self.namespace}.svc"
        return (name, f"{name}.cluster.local", *self.certificate_san)

    @property
    def excluded_namespaces(self) -> frozenset[str]:
        """Namespaces whose pods are never injected."""
        return frozenset((*self.exclude_namespace, self.namespace))
