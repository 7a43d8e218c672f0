"""Stage 1 on ClickHouse, over the same objects, and in this process where that fails and may.

An answer counts only if it adds up: the samples of each state that come back are held against those of the
chosen windows, which `profiles` has. So an object that was passed over or read twice, or another bucket with
the same keys, makes no answer wrong.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import structlog

from sidelight.settings import BadSetting
from sidelight_collector.arrow_ops import total, words
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.window_sums import ROWS, Scan, added_up, combined, plan
from sidelight_collector.query.engines.clickhouse.clickhouse_client import Cause, ClickHouse, EngineFailed
from sidelight_collector.query.engines.clickhouse.sql import statements
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.query_errors import EngineUnavailable
from sidelight_collector.query.windows import (
    Windows,
)
from sidelight_collector.settings.engine_url import EngineUrl
from sidelight_collector.storage.tables import STATES

USED: Final = "clickhouse"
FALLBACK: Final = "fallback"
"""What an answer says about where its samples were added up."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9._/-]+")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Adds up on ClickHouse.

    place: what comes before every key, as the server knows the objects.
    timeout_seconds: for one question; the query's own time is the limit in any case.
    fallback: whether this process does it when ClickHouse did not; if not, the query fails.
    """

    clickhouse: ClickHouse
    place: str
    metrics: Metrics
    timeout_seconds: float
    fallback: bool

    def sums(self, reading: Reading, windows: Windows) -> pa.Table:
        """Samples by state of each (service, h, period_ns). Raises EngineUnavailable without fallback."""
        scans = plan(reading, windows)
        # Who waited for it once in a query does not wait for it again.
        if not scans or reading.engine == FALLBACK:
            return added_up(reading, scans)
        start = time.perf_counter()
        try:
            table = self._asked(reading, scans)
            _check(table, windows)
        except EngineFailed as failed:
            self.metrics.clickhouse_errors.labels(failed.cause).inc()
            log.warning(
                "clickhouse did not add up",
                where=str(self.clickhouse.at),
                cause=failed.cause,
                error=str(failed),
            )
            if not self.fallback:
                raise EngineUnavailable(failed.cause, str(failed)) from failed
            reading.engine = FALLBACK
            return added_up(reading, scans)
        self.metrics.clickhouse_seconds.observe(time.perf_counter() - start)
        reading.engine = USED
        return table

    def _asked(self, reading: Reading, scans: Sequence[Scan]) -> pa.Table:
        until = time.monotonic() + self.timeout_seconds
        parts: list[pa.Table] = []
        for one in statements(self.clickhouse.at, self.place, scans):
            seconds = min(until - time.monotonic(), reading.deadline.remaining())
            if seconds <= 0:
                raise EngineFailed(Cause.TIMEOUT, f"not done within {self.timeout_seconds:g} s")
            answer = self.clickhouse.ask(one.text, one.parameters, seconds, reading.deadline.remaining)
            parts.append(_rows(answer))
        return parts[0] if len(parts) == 1 else combined(parts)


def place(at: EngineUrl, store: str, s3_endpoint: str | None) -> str:
    """What comes before every key of an s3:// store where ClickHouse looks. Raises BadSetting."""
    bucket, _, prefix = store.removeprefix("s3://").partition("/")
    prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    if not _PLAIN.fullmatch(bucket + prefix):
        raise BadSetting(
            f"ClickHouse would take {store!r} for a pattern, or read it otherwise",
            hint="With --clickhouse-url, a bucket and a prefix have letters, digits and . _ - / only.",
        )
    if at.collection:
        return prefix
    if endpoint := at.endpoint or s3_endpoint:
        return f"{endpoint.rstrip('/')}/{bucket}/{prefix}"
    # Imported here because the SDK takes a third of a second that others need not pay.
    from sidelight_collector.storage.backends.s3 import S3Store

    return S3Store(bucket, prefix).url


def _rows(answer: pa.Table) -> pa.Table:
    """An answer as stage 1 has it. Raises EngineFailed when it has other columns."""
    if answer.num_columns != len(ROWS):
        raise EngineFailed(Cause.WRONG, f"{answer.num_columns} columns where {len(ROWS)} were asked for")
    try:
        columns = [
            words(column.cast(pa.string())) if field.name == "service" else column.cast(field.type)
            for column, field in zip(answer.columns, ROWS, strict=True)
        ]
        if any(column.null_count for column in columns):
            raise EngineFailed(Cause.WRONG, "an object lacks a column")
        return pa.table(columns, schema=ROWS)
    except (pa.ArrowException, ValueError) as error:
        raise EngineFailed(Cause.WRONG, f"a column is of another type: {error}") from error


def _check(table: pa.Table, windows: Windows) -> None:
    for state in STATES:
        found, wanted = total(table[state]), total(windows.table[state])
        if found != wanted:
            raise EngineFailed(Cause.WRONG, f"{found} {state} samples where the windows have {wanted}")
