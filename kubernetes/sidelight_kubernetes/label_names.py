"""Labels, annotations and names that Sidelight uses in a cluster."""

from __future__ import annotations

from typing import Final

DOMAIN: Final = "sidelight.dev"

INJECT: Final = f"{DOMAIN}/inject"
"""Label of a namespace or a pod: `true` or `false`; the pod's label takes precedence."""

SERVICE: Final = f"{DOMAIN}/service"
VERSION: Final = f"{DOMAIN}/version"
RATE: Final = f"{DOMAIN}/rate"
MODE: Final = f"{DOMAIN}/mode"
INTERVAL_SECONDS: Final = f"{DOMAIN}/interval-seconds"
WINDOW_SECONDS: Final = f"{DOMAIN}/window-seconds"
ON_DEMAND: Final = f"{DOMAIN}/on-demand"
BUDGET_CPU_PERCENT: Final = f"{DOMAIN}/budget-cpu-percent"
TRIGGER_CPU_PERCENT: Final = f"{DOMAIN}/trigger-cpu-percent"
TRIGGER_THROTTLED_PERCENT: Final = f"{DOMAIN}/trigger-throttled-percent"
TRIGGER_RSS_GROWTH: Final = f"{DOMAIN}/trigger-rss-growth"
TRIGGER_READY: Final = f"{DOMAIN}/trigger-ready"
TRIGGER_SIGTERM: Final = f"{DOMAIN}/trigger-sigterm"
TRIGGER_RATE: Final = f"{DOMAIN}/trigger-rate"
TRIGGER_DURATION_SECONDS: Final = f"{DOMAIN}/trigger-duration-seconds"
CONTAINER: Final = f"{DOMAIN}/container"
"""Annotation: the container whose processes are sampled."""
MATCH: Final = f"{DOMAIN}/match"
SOURCE_URL: Final = f"{DOMAIN}/source-url"
"""Annotation: the URL of a source file, as in the collector's `--source-url`."""
STATUS: Final = f"{DOMAIN}/status"
"""Annotation that the webhook writes: `injected`, or `skipped: ` with the reason."""

ANNOTATIONS: Final = (
    *(SERVICE, VERSION, RATE, MODE, INTERVAL_SECONDS, WINDOW_SECONDS, ON_DEMAND),
    *(BUDGET_CPU_PERCENT, CONTAINER, MATCH, SOURCE_URL),
    *(TRIGGER_CPU_PERCENT, TRIGGER_THROTTLED_PERCENT, TRIGGER_RSS_GROWTH, TRIGGER_READY, TRIGGER_SIGTERM),
    *(TRIGGER_RATE, TRIGGER_DURATION_SECONDS),
)
"""The annotations that users may set on a pod, all optional."""

APP_NAME: Final = "app.kubernetes.io/name"
APP_VERSION: Final = "app.kubernetes.io/version"

SIDECAR: Final = "sidelight"
"""The name of the sidecar's container, however it was installed."""
EPHEMERAL_PREFIX: Final = f"{SIDECAR}-"
"""The prefix of the name of an ephemeral sidecar container."""

AGENT_CONTAINER: Final = "agent"
"""The name of the node agent's container."""

AUDIENCE: Final = "sidelight"
"""The audience of a sidecar's token: a collector does not accept a token for the API server."""
IN_CLUSTER: Final = "in-cluster"
"""`--kubernetes in-cluster`: the API server of this pod's cluster, as its service account."""


def is_sidecar(container: str) -> bool:
    """Return whether a container of this name is a sidecar of Sidelight."""
    return container == SIDECAR or container.startswith(EPHEMERAL_PREFIX)
