"""docs/sidecar.md is complete: an option or metric that it does not name fails here."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from sidelight.settings import format_flag
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.settings import SAMPLING_MODES, SidecarSettings

PAGE = (Path(__file__).parents[2] / "docs" / "sidecar.md").read_text()


def test_every_option_is_documented_and_no_other() -> None:
    flags = {format_flag(field) for field in dataclasses.fields(SidecarSettings)}
    named = set(re.findall(r"`(--[a-z-]+)", PAGE)) - {"--no-include-children", "--no-captures-from-collector"}
    assert named == flags


def test_every_mode_is_documented() -> None:
    for mode in SAMPLING_MODES:
        assert f"| `{mode}` |" in PAGE


def test_every_metric_is_documented() -> None:
    table = PAGE.partition("## Metrics")[2]
    named = set(re.findall(r"`([a-z_]+)`", table)) - {"sidelight_sidecar_", "_total"}
    declared = {
        metric.name.removeprefix("sidelight_sidecar_") for metric in SidecarMetrics().registry.collect()
    }
    assert declared <= named
