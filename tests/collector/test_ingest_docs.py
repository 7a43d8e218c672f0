"""docs/collector.md and docs/formats.md name everything there is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from sidelight.settings import format_flag
from sidelight_collector.auth.authorizer import HTTP_STATUS
from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.tables import SCHEMAS
from sidelight_model.errors import Reason

DOCS = Path(__file__).parents[2] / "docs"
COLLECTOR = (DOCS / "collector.md").read_text()
FORMATS = (DOCS / "formats.md").read_text()
ELSEWHERE = {Reason.UI_MISSING, Reason.CAPTURE_RUNNING, Reason.FORBIDDEN, Reason.STORE_FORMAT}


@pytest.mark.parametrize("field", dataclasses.fields(Settings), ids=lambda field: field.name)
def test_every_option_is_documented_with_what_it_is_for(field: dataclasses.Field[object]) -> None:
    (row,) = re.findall(rf"^\| `{format_flag(field)}` \| .* \| (.*) \|$", COLLECTOR, re.MULTILINE)
    assert row == field.metadata["help"]


def test_every_option_in_the_table_exists() -> None:
    listed = set(re.findall(r"^\| `(--[a-z0-9-]+)` \|", COLLECTOR, re.MULTILINE))
    assert listed == {format_flag(field) for field in dataclasses.fields(Settings)}


def test_every_metric_is_documented() -> None:
    published = {family.name for family in Metrics().registry.collect()}
    named = {name.removesuffix("_total") for name in re.findall(r"sidelight_[a-z_]+", COLLECTOR)}
    assert published <= named
    assert named <= published


def test_every_refusal_is_documented_with_its_status() -> None:
    for reason, status in HTTP_STATUS.items():
        if reason not in ELSEWHERE:
            (row,) = [row for row in COLLECTOR.splitlines() if row.startswith("| ") and f"`{reason}`" in row]
            assert str(status) in row


def test_every_column_is_documented() -> None:
    quality_and_labels = re.findall(r"`([a-z_]+)`", FORMATS)
    for schema in SCHEMAS.values():
        assert set(schema.names) <= set(quality_and_labels)
