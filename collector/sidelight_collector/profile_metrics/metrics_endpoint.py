"""`/metrics/profiles`, and the file of its rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web

from sidelight_collector.auth.authorizer import PROFILE_METRICS_PATH, get_principal
from sidelight_collector.metrics import Metrics
from sidelight_collector.profile_metrics.exposition import CONTENT_TYPE
from sidelight_collector.profile_metrics.rule_evaluator import ProfileMetrics
from sidelight_collector.profile_metrics.rule_file import load_rule_file
from sidelight_collector.profile_metrics.rules import RuleGroup
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.runtime.file_reload import FileReloader
from sidelight_model.errors import Reason, SidelightError

_RELOAD_PROBLEM: Final = (
    "the changed file of profile metrics cannot be used, and the rules before stay in use: the log says why"
)


class ProfileMetricsEndpoint:
    """Serves the metrics of a file of rules, if there is one.

    Raises BadSetting for a file with errors.
    `reloader` loads the file again when it changes.
    """

    def __init__(
        self,
        path: Path | None,
        engine: QueryEngine,
        max_series: int,
        metrics: Metrics,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._profile_metrics: ProfileMetrics | None = None
        self.reloader: FileReloader[tuple[RuleGroup, ...]] | None = None
        if path is not None:
            profile_metrics = ProfileMetrics(engine, load_rule_file(path), max_series, metrics, clock_ns)
            self._profile_metrics = profile_metrics
            self.reloader = FileReloader(
                "rules of profile metrics",
                partial(load_rule_file, path),
                profile_metrics.use,
                lambda outcome: metrics.profile_rule_reloads.labels(outcome).inc(),
                # Everybody may read /readyz.
                describe=lambda _: _RELOAD_PROBLEM,
            )

    def routes(self) -> list[web.RouteDef]:
        """Return the route, which also exists without a file, and says what to do."""
        return [web.get(PROFILE_METRICS_PATH, self._serve)]

    def describe_problems(self) -> Sequence[str]:
        """Describe why the file cannot be used now, if it cannot."""
        return self.reloader.describe_problems() if self.reloader else ()

    def close(self) -> None:
        """End running evaluations."""
        if self._profile_metrics:
            self._profile_metrics.close()

    async def _serve(self, request: web.Request) -> web.Response:
        required = get_principal(request).selector
        if self._profile_metrics is None:
            raise SidelightError(
                "no metrics from profiles are configured here",
                reason=Reason.NOT_FOUND,
                hint="Start the collector with --profile-metrics-file.",
            )
        text = await self._profile_metrics.render(required)
        response = web.Response(
            body=text.encode(), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "private, no-cache"}
        )
        response.enable_compression()
        return response
