"""docs/collector.md and docs/formats.md name everything there is."""

from __future__ import annotations

import re
from pathlib import Path

from sidelight_collector.auth.authorizer import HTTP_STATUS
from sidelight_collector.storage.tables import SCHEMAS
from sidelight_model.errors import Reason

DOCS = Path(__file__).parents[2] / "docs"
COLLECTOR = (DOCS / "collector.md").read_text()
FORMATS = (DOCS / "formats.md").read_text()
ELSEWHERE = {Reason.UI_MISSING, Reason.CAPTURE_RUNNING, Reason.FORBIDDEN, Reason.STORE_FORMAT}


def test_every_refusal_is_documented_with_its_status() -> None:
    for reason, status in HTTP_STATUS.items():
        if reason not in ELSEWHERE:
            (row,) = [row for row in COLLECTOR.splitlines() if row.startswith("|") and f"`{reason}`" in row]
            assert str(status) in row


def test_every_column_is_documented() -> None:
    quality_and_labels = re.findall(r"`([a-z_]+)`", FORMATS)
    for schema in SCHEMAS.values():
        assert set(schema.names) <= set(quality_and_labels)
