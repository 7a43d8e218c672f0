"""Evaluate groups of rules once for each interval and reader."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import structlog

from sidelight_collector.metrics import Metrics
from sidelight_collector.profile_metrics.exposition import GroupResult, format_groups
from sidelight_collector.profile_metrics.rule_values import evaluate_rules
from sidelight_collector.profile_metrics.rules import RuleGroup, RuleResult
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_model.errors import SidelightError
from sidelight_model.selectors import Selector

MAX_CACHED_GROUPS: Final = 256
"""Results in memory, for all groups and readers together."""

_log = structlog.get_logger()
_Evaluation: TypeAlias = asyncio.Task[Sequence[RuleResult]]


class ProfileMetrics:
    """The metrics of all groups of rules.

    A group is evaluated at the first scrape after its interval is
    complete, by one query at a time; other scrapes get the same result. An evaluation goes on when the scrape
    that began it is given up. `close` ends those that run.
    """

    def __init__(
        self,
        engine: QueryEngine,
        groups: tuple[RuleGroup, ...],
        max_series: int,
        metrics: Metrics,
        clock_ns: Callable[[], int],
    ) -> None:
        self._groups = groups
        self._engine = engine
        self._max_series = max_series
        self._metrics = metrics
        self._clock_ns = clock_ns
        self._evaluations: OrderedDict[tuple[Selector, RuleGroup], tuple[int, _Evaluation]] = OrderedDict()
        self._turn = asyncio.Lock()
        self._reported: set[str] = set()

    def use(self, groups: tuple[RuleGroup, ...]) -> bool:
        """Use these groups; return whether they differ from the previous ones."""
        if groups == self._groups:
            return False
        self._groups = groups
        self._reported.clear()
        return True

    async def render(self, required: Selector) -> str:
        """Return the metrics of windows that `required` selects."""
        results = [await self._get_result(group, required) for group in self._groups]
        exposition = format_groups(results, self._max_series)
        for name, number in exposition.dropped.items():
            if name not in self._reported:
                self._reported.add(name)
                _log.warning(
                    "series of a metric from profiles dropped",
                    metric=name,
                    series=number,
                    hint="Keep fewer labels, or raise the rule's limit or --profile-metrics-max-series.",
                )
        self._metrics.profile_rule_series_dropped.set(sum(exposition.dropped.values()))
        return exposition.text

    def close(self) -> None:
        """End running evaluations."""
        for _, evaluation in self._evaluations.values():
            evaluation.cancel()
        self._evaluations.clear()

    async def _get_result(self, group: RuleGroup, required: Selector) -> GroupResult:
        key = (required, group)
        from_ns, until_ns = group.find_interval(self._clock_ns())
        end, evaluation = self._evaluations.get(key, (0, None))
        if evaluation is None or end != until_ns:
            evaluation = asyncio.create_task(self._evaluate(group, required, from_ns, until_ns))
            evaluation.add_done_callback(partial(self._finish, key))
            self._evaluations[key] = (until_ns, evaluation)
            self._evaluations.move_to_end(key)
            while len(self._evaluations) > MAX_CACHED_GROUPS:
                self._evaluations.popitem(last=False)
        try:
            return GroupResult(group, until_ns, await asyncio.shield(evaluation))
        except SidelightError:
            return GroupResult(group, until_ns, None)

    def _finish(self, key: tuple[Selector, RuleGroup], evaluation: _Evaluation) -> None:
        """Count an evaluation.

        One that failed is forgotten, so that the next scrape tries again.
        """
        if evaluation.cancelled():
            return
        error = evaluation.exception()
        self._metrics.profile_rule_evaluations.labels("failed" if error else "computed").inc()
        if error is None:
            return
        if self._evaluations.get(key, (0, None))[1] is evaluation:
            del self._evaluations[key]
        if isinstance(error, SidelightError):
            _log.warning(
                "rules of metrics from profiles not evaluated",
                group=key[1].name,
                error=error.message,
                hint=error.hint,
            )

    async def _evaluate(
        self, group: RuleGroup, required: Selector, from_ns: int, until_ns: int
    ) -> Sequence[RuleResult]:
        async with self._turn:
            return await self._engine.run(
                partial(
                    evaluate_rules, rules=group.rules, from_ns=from_ns, until_ns=until_ns, required=required
                )
            )
