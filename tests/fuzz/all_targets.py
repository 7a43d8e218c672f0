"""All targets, by name."""

from __future__ import annotations

from typing import Final

from tests.fuzz import file_targets, json_targets, otlp_targets, pyroscope_targets, targets
from tests.fuzz.targets import Target

TARGETS: Final = (
    *targets.TARGETS,
    *json_targets.TARGETS,
    *file_targets.TARGETS,
    *pyroscope_targets.TARGETS,
    *otlp_targets.TARGETS,
)


def find_target(name: str) -> Target:
    """Return a target. Raises KeyError."""
    return {target.name: target for target in TARGETS}[name]
