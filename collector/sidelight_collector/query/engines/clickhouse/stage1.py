"""Stage 1 on ClickHouse, with an optional fallback to this process.

ClickHouse reads the same objects. Its result counts only if the samples of each state equal those of the
selected windows, which `profiles` has. An object that was skipped or read twice, or another bucket with the
same keys, can therefore not make a response wrong.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

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
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.settings.engine_url import ClickHouseUrl
from sidelight_model.counts import STATES

ENGINE_CLICKHOUSE: Final = "clickhouse"
ENGINE_FALLBACK: Final = "fallback"
"""Values of `QueryContext.engine`: where the samples were summed."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9._/-]+")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClickHouseStage1:
    """Sums stacks on ClickHouse.

    object_prefix: precedes every key in the names by which the server reads the objects.
    timeout_seconds: the limit of all statements of one query; the deadline of the query applies too.
    can_fall_back: whether this process sums if ClickHouse fails; otherwise the query fails.
    """

    client: ClickHouseClient
    object_prefix: str
    metrics: Metrics
    timeout_seconds: float
    can_fall_back: bool

    def sum_stacks(self, context: QueryContext, windows: SelectedWindows) -> pa.Table:
        """Sum the samples of the selected windows by (service, h, period_ns) and state.

        Raises EngineUnavailable if ClickHouse fails and the fallback is off.
        """
        scans = plan_scans(context, windows)
        # After one failure, do not wait for ClickHouse a second time in the same query.
        if not scans or context.engine == ENGINE_FALLBACK:
            return run_scans(context, scans)
        start = time.perf_counter()
        try:
            table = self._run_statements(context, scans)
            _check_totals(table, windows)
        except ClickHouseError as error:
            self.metrics.clickhouse_errors.labels(error.cause).inc()
            log.warning(
                "clickhouse did not add up",
                where=str(self.client.server),
                cause=error.cause,
                error=str(error),
            )
            if not self.can_fall_back:
                raise EngineUnavailable(error.cause, str(error)) from error
            context.engine = ENGINE_FALLBACK
            return run_scans(context, scans)
        self.metrics.clickhouse_seconds.observe(time.perf_counter() - start)
        context.engine = ENGINE_CLICKHOUSE
        return table

    def _run_statements(self, context: QueryContext, scans: Sequence[Scan]) -> pa.Table:
        until = time.monotonic() + self.timeout_seconds
        parts: list[pa.Table] = []
        for statement in build_statements(self.client.server, self.object_prefix, scans):
            seconds = min(until - time.monotonic(), context.deadline.remaining())
            if seconds <= 0:
                raise ClickHouseError(EngineFailure.TIMEOUT, f"not done within {self.timeout_seconds:g} s")
            result = self.client.query(
                statement.text, statement.parameters, seconds, context.deadline.remaining
            )
            parts.append(_parse_rows(result))
        return parts[0] if len(parts) == 1 else merge_sums(parts)


def build_object_prefix(server: ClickHouseUrl, store: str, s3_endpoint: str | None) -> str:
    """Build the prefix of the keys of an s3:// store, as ClickHouse reads them.

    It is a URL, or a prefix within the named collection. Raises BadSetting for a store that ClickHouse
    would read as a pattern.
    """
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
        # ClickHouse logs its statements: they have no user and no password of this URL.
        parts = urlsplit(endpoint)
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return f"{plain.rstrip('/')}/{bucket}/{prefix}"
    # Imported here because loading the SDK takes a third of a second.
    from sidelight_collector.storage.backends.s3 import S3Store

    return S3Store(bucket, prefix).url


def _parse_rows(answer: pa.Table) -> pa.Table:
    """Convert a result to SUM_SCHEMA. Raises ClickHouseError if its columns differ."""
    if answer.num_columns != len(SUM_SCHEMA):
        raise ClickHouseError(
            EngineFailure.INVALID_RESPONSE,
            f"{answer.num_columns} columns instead of {len(SUM_SCHEMA)}",
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
        actual, expected = sum_ints(table[state]), sum_ints(windows.table[state])
        if actual != expected:
            raise ClickHouseError(
                EngineFailure.INVALID_RESPONSE, f"{actual} {state} samples where the windows have {expected}"
            )
