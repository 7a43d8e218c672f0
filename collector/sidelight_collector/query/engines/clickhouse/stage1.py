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
from sidelight_collector.arrow_ops import dictionary_encode, sum_ints
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.window_sums import SUM_SCHEMA, Scan, merge_sums, plan_scans, run_scans
from sidelight_collector.query.engines.clickhouse.clickhouse_client import (
    ClickHouseClient,
    ClickHouseError,
    EngineFailure,
)
from sidelight_collector.query.engines.clickhouse.sql import build_statements
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import EngineUnavailable
from sidelight_collector.query.windows import (
    SelectedWindows,
)
from sidelight_collector.settings.engine_url import ClickHouseUrl
from sidelight_collector.storage.tables import STATES

ENGINE_CLICKHOUSE: Final = "clickhouse"
ENGINE_FALLBACK: Final = "fallback"
"""What an answer says about where its samples were added up."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9._/-]+")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClickHouseStage1:
    """Adds up on ClickHouse.

    place: what comes before every key, as the server knows the objects.
    timeout_seconds: for one question; the query's own time is the limit in any case.
    fallback: whether this process does it when ClickHouse did not; if not, the query fails.
    """

    client: ClickHouseClient
    object_prefix: str
    metrics: Metrics
    timeout_seconds: float
    can_fall_back: bool

    def sum_stacks(self, context: QueryContext, windows: SelectedWindows) -> pa.Table:
        """Samples by state of each (service, h, period_ns). Raises EngineUnavailable without fallback."""
        scans = plan_scans(context, windows)
        # Who waited for it once in a query does not wait for it again.
        if not scans or context.engine == ENGINE_FALLBACK:
            return run_scans(context, scans)
        start = time.perf_counter()
        try:
            table = self._run_statements(context, scans)
            _check_totals(table, windows)
        except ClickHouseError as failed:
            self.metrics.clickhouse_errors.labels(failed.cause).inc()
            log.warning(
                "clickhouse did not add up",
                where=str(self.client.server),
                cause=failed.cause,
                error=str(failed),
            )
            if not self.can_fall_back:
                raise EngineUnavailable(failed.cause, str(failed)) from failed
            context.engine = ENGINE_FALLBACK
            return run_scans(context, scans)
        self.metrics.clickhouse_seconds.observe(time.perf_counter() - start)
        context.engine = ENGINE_CLICKHOUSE
        return table

    def _run_statements(self, context: QueryContext, scans: Sequence[Scan]) -> pa.Table:
        until = time.monotonic() + self.timeout_seconds
        parts: list[pa.Table] = []
        for one in build_statements(self.client.server, self.object_prefix, scans):
            seconds = min(until - time.monotonic(), context.deadline.remaining())
            if seconds <= 0:
                raise ClickHouseError(EngineFailure.TIMEOUT, f"not done within {self.timeout_seconds:g} s")
            answer = self.client.query(one.text, one.parameters, seconds, context.deadline.remaining)
            parts.append(_parse_rows(answer))
        return parts[0] if len(parts) == 1 else merge_sums(parts)


def build_object_prefix(server: ClickHouseUrl, store: str, s3_endpoint: str | None) -> str:
    """What comes before every key of an s3:// store where ClickHouse looks. Raises BadSetting."""
    bucket, _, prefix = store.removeprefix("s3://").partition("/")
    prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    if not _PLAIN_KEY.fullmatch(bucket + prefix):
        raise BadSetting(
            f"ClickHouse would take {store!r} for a pattern, or read it otherwise",
            hint="With --clickhouse-url, a bucket and a prefix have letters, digits and . _ - / only.",
        )
    if server.collection:
        return prefix
    if endpoint := server.endpoint or s3_endpoint:
        return f"{endpoint.rstrip('/')}/{bucket}/{prefix}"
    # Imported here because the SDK takes a third of a second that others need not pay.
    from sidelight_collector.storage.backends.s3 import S3Store

    return S3Store(bucket, prefix).url


def _parse_rows(answer: pa.Table) -> pa.Table:
    """An answer as stage 1 has it. Raises EngineFailed when it has other columns."""
    if answer.num_columns != len(SUM_SCHEMA):
        raise ClickHouseError(
            EngineFailure.INVALID_RESPONSE,
            f"{answer.num_columns} columns where {len(SUM_SCHEMA)} were asked for",
        )
    try:
        columns = [
            dictionary_encode(column.cast(pa.string()))
            if field.name == "service"
            else column.cast(field.type)
            for column, field in zip(answer.columns, SUM_SCHEMA, strict=True)
        ]
        if any(column.null_count for column in columns):
            raise ClickHouseError(EngineFailure.INVALID_RESPONSE, "an object lacks a column")
        return pa.table(columns, schema=SUM_SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        raise ClickHouseError(
            EngineFailure.INVALID_RESPONSE, f"a column is of another type: {error}"
        ) from error


def _check_totals(table: pa.Table, windows: SelectedWindows) -> None:
    for state in STATES:
        found, wanted = sum_ints(table[state]), sum_ints(windows.table[state])
        if found != wanted:
            raise ClickHouseError(
                EngineFailure.INVALID_RESPONSE, f"{found} {state} samples where the windows have {wanted}"
            )
