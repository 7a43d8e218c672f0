"""External engines for tests: stage 1 on a running one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.window_sums import Scan
from sidelight_collector.query.engines.external_stage1 import ExternalStage1
from sidelight_collector.query.engines.sum_statements import SqlStatement
from sidelight_collector.settings.engine import EngineUrl
from sidelight_collector.settings_wiring import connect_engine

KEPT = dict.fromkeys(("retention_raw_days", "retention_hour_days", "retention_day_days"), 36_525)
"""What is kept of a day in 2026 whenever the tests run."""


class EngineServer(Protocol):
    """A running engine that may read every bucket of the S3 server."""

    def url_of(self, store: str) -> EngineUrl:
        """The URL by which it reads this store."""


def build_stage1(
    url: EngineUrl, store: str, endpoint: str, *, seconds: float = 120, fallback: bool = False
) -> ExternalStage1:
    """Stage 1 there, over an s3:// store."""
    return ExternalStage1(*connect_engine(url, store, endpoint), Metrics(), seconds, fallback)


def record_tables(stage1: ExternalStage1) -> tuple[ExternalStage1, list[str]]:
    """The same stage 1, and a list that gets the table of each statement that it sends."""
    tables: list[str] = []

    def build(scans: Sequence[Scan]) -> Iterator[SqlStatement]:
        for statement in stage1.build_statements(scans):
            found = re.search(r"/(\w+)\.parquet", statement.parameters.get("objects", statement.text))
            assert found
            tables.append(found[1])
            yield statement

    return replace(stage1, build_statements=build), tables
