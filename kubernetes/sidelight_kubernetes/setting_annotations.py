"""Settings that annotations of a pod change, for sidecars and agents. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidelight_kubernetes import label_names

_OTHERS: Final = (label_names.SERVICE, label_names.VERSION, label_names.CONTAINER, label_names.SOURCE_URL)
SETTINGS: Final = {
    name: name.removeprefix(f"{label_names.DOMAIN}/").replace("-", "_")
    for name in label_names.ANNOTATIONS
    if name not in _OTHERS
}
"""Annotations, and the setting of the sidecar that each changes."""


def list_changes(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """Return the new values of settings by their names, as text; None for the default.

    A schedule of the pod replaces that of the installation.
    """
    changes: dict[str, str | None] = {}
    if label_names.INTERVAL_SECONDS in annotations:
        changes["on_demand"] = None
    elif annotations.get(label_names.ON_DEMAND, "").lower() in ("1", "true", "yes"):
        changes |= {"interval_seconds": None, "jitter_seconds": None}
    return changes | {setting: annotations[name] for name, setting in SETTINGS.items() if name in annotations}
