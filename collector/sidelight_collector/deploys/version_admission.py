"""Decides which versions in windows count as versions of their service.

Of a service that Kubernetes covers, only rollouts count. Of other services every version counts, up to a
limit of new ones a day. Versions that do not count are counted in a metric, and logged once a day and
service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Final, TypeVar

import structlog

from sidelight_collector.deploys.rollout_matching import RolloutMatcher
from sidelight_collector.deploys.version_registry import MAX_VERSIONS, ServiceKey, VersionRun
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.select.observed_time import VersionSpan

T = TypeVar("T")

MAX_REMEMBERED: Final = 10_000
"""Ignored versions of a day that are remembered, so that each is counted once."""
_log = structlog.get_logger()


class IgnoreReason(StrEnum):
    """Why a version does not count: no rollout has it, or too many are new."""

    NO_ROLLOUT = "no_rollout"
    LIMIT = "limit"


_HINTS: Final = {
    IgnoreReason.NO_ROLLOUT: "No rollout and no running pod of its workload has this version.",
    IgnoreReason.LIMIT: "Raise --deploy-max-versions-per-day, or find out who sends these versions.",
}


class VersionAdmission:
    """The decision for each new or returning version.

    It reads the cluster with `load_matcher` when it is first asked after `refresh`. Not thread-safe.
    """

    def __init__(
        self, load_matcher: Callable[[], RolloutMatcher], max_versions_per_day: int, metrics: Metrics
    ) -> None:
        self._load_matcher = load_matcher
        self._max_versions_per_day = max_versions_per_day
        self._metrics = metrics
        self._matcher: RolloutMatcher | None = None
        self._counted: dict[tuple[date, ServiceKey, str], None] = {}
        self._logged: dict[tuple[date, ServiceKey], None] = {}

    @property
    def matcher(self) -> RolloutMatcher:
        """The rollouts of the cluster. Raises StoreError."""
        if self._matcher is None:
            self._matcher = self._load_matcher()
        return self._matcher

    def refresh(self) -> None:
        """Read the cluster again when it is needed."""
        self._matcher = None

    def accept(
        self, span: VersionSpan, previous_last_seen: float, versions: Mapping[str, VersionRun]
    ) -> bool:
        """Return whether a new or returning version counts beside the known `versions`.

        Raises StoreError.
        """
        service = span.namespace, span.service
        first_seen, day = span.span.first, _get_day(span.span.first)
        if self.matcher.is_covered(service, {*versions, span.version}):
            if self.matcher.is_rollout(service, span.version, first_seen, previous_last_seen):
                return True
            self._record_ignored(IgnoreReason.NO_ROLLOUT, day, service, span.version)
            return False
        if span.version in versions:
            return True
        new_today = sum(
            _get_day(run.first_seen) == day and not run.previous_last_seen for run in versions.values()
        )
        present = sum(not run.is_absent for run in versions.values())
        if new_today < self._max_versions_per_day and present < MAX_VERSIONS:
            return True
        self._record_ignored(IgnoreReason.LIMIT, day, service, span.version)
        return False

    def is_rollout(
        self, service: ServiceKey, version: str, run: VersionRun, versions: Mapping[str, VersionRun]
    ) -> bool:
        """Return whether Kubernetes covers the service and rolled this version out.

        Raises StoreError.
        """
        matcher = self.matcher
        return matcher.is_covered(service, versions) and matcher.is_rollout(
            service, version, run.first_seen, run.previous_last_seen
        )

    def _record_ignored(self, reason: IgnoreReason, day: date, service: ServiceKey, version: str) -> None:
        if not _remember(self._counted, (day, service, version)):
            return
        self._metrics.deploy_versions_ignored.labels(reason).inc()
        if _remember(self._logged, (day, service)):
            _log.warning(
                "a version does not count as a deploy",
                namespace=service[0],
                service=service[1],
                version=version,
                reason=str(reason),
                hint=_HINTS[reason],
            )


def _remember(remembered: dict[T, None], key: T) -> bool:
    """Add a key, and drop the oldest above the limit; return whether it is new."""
    if key in remembered:
        return False
    remembered[key] = None
    if len(remembered) > MAX_REMEMBERED:
        del remembered[next(iter(remembered))]
    return True


def _get_day(unix: float) -> date:
    return datetime.fromtimestamp(unix, UTC).date()
