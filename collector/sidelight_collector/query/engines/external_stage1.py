"""Stage 1 in an external engine, with an optional fallback to this process.

The engine reads the same objects. Its result counts only if the samples of each state equal those of the
selected windows, which `profiles` has. An object that was skipped or read twice, or another bucket with the
same keys, can therefore not make a response wrong.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import structlog

from sidelight_collector.arrow_ops import dictionary_encode, sum_ints
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.window_sums import SUM_SCHEMA, Scan, merge_sums, plan_scans, run_scans
from sidelight_collector.query.engines.sum_statements import (
    EngineClient,
    EngineError,
    EngineFailure,
    StatementBuilder,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import EngineUnavailable
from sidelight_collector.query.windows import SelectedWindows
from sidelight_model.counts import STATES

ENGINE_FALLBACK: Final = "fallback"
"""The value of `QueryContext.engine` if this process summed because the engine failed."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ExternalStage1:
    """Sums stacks in an external engine.

    timeout_seconds: the limit of all statements of one query; the deadline of the query applies too.
    can_fall_back: whether this process sums if the engine fails; otherwise the query fails.
    """

    client: EngineClient
    build_statements: StatementBuilder
    metrics: Metrics
    timeout_seconds: float
    can_fall_back: bool

    def sum_stacks(self, context: QueryContext, windows: SelectedWindows) -> pa.Table:
        """Sum the samples of the selected windows by (service, h, period_ns) and state.

        Raises EngineUnavailable if the engine fails and the fallback is off.
        """
        scans = plan_scans(context, windows)
        # After one failure, do not wait for the engine a second time in the same query.
        if not scans or context.engine == ENGINE_FALLBACK:
            return run_scans(context, scans, windows.services)
        start = time.perf_counter()
        try:
            table = self._run_statements(context, scans)
            _check_totals(table, windows)
        except EngineError as error:
            self.metrics.engine_errors.labels(error.cause).inc()
            where = str(self.client.server)
            log.warning("the engine failed", where=where, cause=error.cause, error=str(error))
            if not self.can_fall_back:
                raise EngineUnavailable(where, error.cause, str(error)) from error
            context.engine = ENGINE_FALLBACK
            return run_scans(context, scans, windows.services)
        self.metrics.engine_seconds.observe(time.perf_counter() - start)
        context.engine = self.client.server.engine
        return table

    def _run_statements(self, context: QueryContext, scans: Sequence[Scan]) -> pa.Table:
        until = time.monotonic() + self.timeout_seconds
        parts: list[pa.Table] = []
        for statement in self.build_statements(scans):
            seconds = min(until - time.monotonic(), context.deadline.remaining())
            if seconds <= 0:
                raise EngineError(EngineFailure.TIMEOUT, f"not done within {self.timeout_seconds:g} s")
            parts.append(_parse_rows(self.client.query(statement, seconds, context.deadline.remaining)))
        return parts[0] if len(parts) == 1 else merge_sums(parts)


def _parse_rows(answer: pa.Table) -> pa.Table:
    """Convert a result to SUM_SCHEMA. Raises EngineError if its columns differ."""
    if answer.num_columns != len(SUM_SCHEMA):
        raise EngineError(
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
            raise EngineError(EngineFailure.INVALID_RESPONSE, "an object lacks a column")
        return pa.table(columns, schema=SUM_SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        raise EngineError(EngineFailure.INVALID_RESPONSE, f"a column is of another type: {error}") from error


def _check_totals(table: pa.Table, windows: SelectedWindows) -> None:
    for state in STATES:
        actual, expected = sum_ints(table[state]), sum_ints(windows.table[state])
        if actual != expected:
            raise EngineError(
                EngineFailure.INVALID_RESPONSE, f"{actual} {state} samples where the windows have {expected}"
            )
