"""Labels, annotations and names that mean something to Sidelight in a cluster."""

from __future__ import annotations

from typing import Final

DOMAIN: Final = "sidelight.dev"

INJECT: Final = f"{DOMAIN}/inject"
"""Label of a namespace or a pod: `true` or `false`; the pod's word wins."""

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
"""Annotation: the container whose processes are watched."""
MATCH: Final = f"{DOMAIN}/match"
STATUS: Final = f"{DOMAIN}/status"
"""Annotation that the webhook writes: `injected`, or `skipped: ` and why."""

ANNOTATIONS: Final = (
    *(SERVICE, VERSION, RATE, MODE, INTERVAL_SECONDS, WINDOW_SECONDS, ON_DEMAND),
    *(BUDGET_CPU_PERCENT, CONTAINER, MATCH),
    *(TRIGGER_CPU_PERCENT, TRIGGER_THROTTLED_PERCENT, TRIGGER_RSS_GROWTH, TRIGGER_READY, TRIGGER_SIGTERM),
    *(TRIGGER_RATE, TRIGGER_DURATION_SECONDS),
)
"""What people may write on a pod, all of it optional."""

APP_NAME: Final = "app.kubernetes.io/name"
APP_VERSION: Final = "app.kubernetes.io/version"

SIDECAR: Final = "sidelight"
"""Name of the sidecar's container in every way of installing it."""
EPHEMERAL_PREFIX: Final = f"{SIDECAR}-"
"""What the name of an ephemeral one begins with."""

AUDIENCE: Final = "sidelight"
"""Whom the token of a sidecar is meant for: an API server's own token is of no use to a collector."""
IN_CLUSTER: Final = "in-cluster"
"""`--kubernetes in-cluster`: the API server of the pod that this runs in, as its service account."""


def is_sidecar(container: str) -> bool:
    """Whether a container of this name is Sidelight's own."""
    return container == SIDECAR or container.startswith(EPHEMERAL_PREFIX)
