"""Detects new versions in the windows stored since the last scan.

Creates a deploy for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from sidelight_collector.deploys.deploy import (
    Deploy,
    DeployEnd,
    DeployPolicy,
    DeployRollout,
    create_deploy,
)
from sidelight_collector.deploys.deploy_repository import DeployNotFound, DeployRepository
from sidelight_collector.deploys.query_client import QueryClient
from sidelight_collector.deploys.rate_limiter import AnalysisRateLimiter
from sidelight_collector.deploys.rollout_matching import RolloutMatcher
from sidelight_collector.deploys.version_admission import VersionAdmission
from sidelight_collector.deploys.version_discovery import split_range
from sidelight_collector.deploys.version_registry import VersionArrival, VersionRegistry
from sidelight_collector.kubernetes_discovery.rollouts import Rollout, RunningVersion
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.select.observed_time import list_version_spans
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.lease import ShouldStop
from sidelight_collector.storage.objects import ObjectDamaged
from sidelight_collector.times import SECOND_NS
from sidelight_model.errors import SidelightError
from sidelight_model.selectors import Selector

OVERLAP_SECONDS: Final = 900.0
"""Windows that arrive at most this late are still scanned."""
CHUNK_SECONDS: Final = 6 * 3600.0
MIN_CHUNK_SECONDS: Final = 60.0
"""Minimum length of a scan by one query.

A scan begins with `CHUNK_SECONDS`, which is halved when a query times out.
"""
FIRST_LOOKBACK_SECONDS: Final = 86_400.0
MAX_LOOKBACK_SECONDS: Final = 14 * 86_400.0
REGISTRY_WRITE_SECONDS: Final = 600.0
"""Minimum time between two writes of the registry, unless there is a new version."""
_DAY_SECONDS: Final = 86_400.0
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DeployContext:
    """What detection and evaluation share.

    `list_rollouts` returns the rollouts that the cluster showed, `list_running` the versions that its pods
    run now. `clock` gives Unix seconds, `timer` seconds that never go back.
    """

    repository: DeployRepository
    query: QueryClient
    policy: DeployPolicy
    metrics: Metrics
    rate_limiter: AnalysisRateLimiter
    retention_days: float
    list_rollouts: Callable[[], Iterable[Rollout]] = lambda: ()
    list_running: Callable[[], Iterable[RunningVersion]] = lambda: ()
    clock: Callable[[], float] = time.time
    timer: Callable[[], float] = time.monotonic


class DeployDetector:
    """Detects deploys, with the versions that this process knows of.

    For one thread at a time. All calls block.
    """

    def __init__(self, context: DeployContext) -> None:
        self._repository = context.repository
        self._query = context.query
        self._policy = context.policy
        self._metrics = context.metrics
        self._rate_limiter = context.rate_limiter
        self._retention_seconds = context.retention_days * _DAY_SECONDS
        self._admission = VersionAdmission(
            lambda: RolloutMatcher(context.list_rollouts(), context.list_running()),
            context.policy.max_versions_per_day,
            context.metrics,
        )
        self._clock = context.clock
        self._timer = context.timer
        self._chunk_seconds = CHUNK_SECONDS
        self._written_at = float("-inf")
        self._etag: str | None = None
        self.registry: VersionRegistry | None = None

    def reset(self) -> None:
        """Forget the known versions; `load` reads them from the store again."""
        self.registry, self._etag = None, None

    def load(self) -> bool:
        """Load the known versions from the store; return False if they are loaded.

        Raises StoreError.
        """
        if self.registry is not None:
            return False
        stored = self._repository.find_versions()
        if stored.document is None and stored.etag is not None:
            _log.warning("the registry of versions cannot be read: it is built again")
        self.registry, self._etag = stored.document or VersionRegistry(), stored.etag
        return True

    def detect(self, should_stop: ShouldStop) -> Iterator[Deploy]:
        """Yield the deploys of versions that arrived since the last scan, as stored.

        This includes deploys that another process created. Raises QueryEngineBusy, QueryTimeout and
        StoreError; the next call continues the scan.
        """
        registry, now = self.registry or VersionRegistry(), self._clock()
        self._admission.refresh()
        is_first_scan = registry.scanned_until == 0.0
        begin = max(now - MAX_LOOKBACK_SECONDS, registry.scanned_until - OVERLAP_SECONDS)
        if is_first_scan:
            begin = now - max(self._policy.last_analysis_seconds, FIRST_LOOKBACK_SECONDS)
        for start, until in split_range(begin, now, self._chunk_seconds):
            if should_stop():
                return
            # Blocks merge the windows of an hour, and so hide pauses.
            edges = round(start * SECOND_NS), round(until * SECOND_NS)
            query = WindowQuery(Selector(), *edges, by_window=True)
            pause = self._policy.absent_seconds
            try:
                spans = self._query(partial(list_version_spans, question=query, pause_seconds=pause))
            except QueryTimeout:
                self._chunk_seconds = max(MIN_CHUNK_SECONDS, self._chunk_seconds / 2)
                raise
            self._rate_limiter.record_cpu(self._query.cpu_seconds)
            try:
                arrivals = registry.record_spans(
                    spans,
                    self._policy.absent_seconds,
                    begin if is_first_scan else 0.0,
                    self._admission.accept,
                )
                deploys = self._create_deploys(arrivals)
            except SidelightError:
                self.reset()  # deploys that were not stored must be detected again
                raise
            registry.scanned_until = max(registry.scanned_until, until)
            self._write_registry(registry, is_new=bool(arrivals) or is_first_scan)
            yield from deploys

    def find_end(self, deploy: Deploy) -> DeployEnd | None:
        """Return when and why a deploy ended; None if it goes on.

        Raises StoreError.
        """
        if self.registry is None:
            return None
        service = deploy.namespace, deploy.service
        return self.registry.find_end(deploy, partial(self._admission.is_rollout, service))

    def _create_deploys(self, arrivals: Sequence[VersionArrival]) -> list[Deploy]:
        deploys = []
        for arrival in arrivals:
            deploy = self._create_or_get_deploy(arrival, self._admission.matcher.find_rollout(arrival))
            if deploy is None:
                self._metrics.deploys_skipped.inc()
                labels = {
                    "namespace": arrival.namespace,
                    "service": arrival.service,
                    "version": arrival.version,
                }
                _log.info("a version comes and goes too often to be compared", **labels)
            else:
                deploys.append(deploy)
        return deploys

    def _create_or_get_deploy(self, arrival: VersionArrival, rollout: DeployRollout | None) -> Deploy | None:
        """Create the deploy of an arrival, or return the stored one.

        None if the version has arrived too often on its day. Two arrivals of a version are at least
        `absent_seconds` apart. Two scans of one arrival usually agree to the second, but differ more if
        windows arrived late.
        """
        labels = arrival.namespace, arrival.service, arrival.version
        for number in range(1, self._policy.max_arrivals_per_day + 1):
            deploy = create_deploy(
                labels,
                arrival.first_seen,
                arrival.previous,
                arrival.previous_seen,
                rollout,
                self._policy,
                number,
            )
            if self._repository.create(deploy):
                self._metrics.deploys_detected.inc()
                _log.info("deploy found", id=deploy.id, previous=deploy.previous, **deploy.labels)
                return deploy
            with suppress(DeployNotFound, ObjectDamaged):
                existing = self._repository.get(deploy.id)
                if abs(existing.first_seen - arrival.first_seen) < self._policy.absent_seconds:
                    return existing
        return None

    def _write_registry(self, registry: VersionRegistry, *, is_new: bool) -> None:
        now = self._timer()
        if not is_new and now - self._written_at < REGISTRY_WRITE_SECONDS:
            return
        registry.drop_unseen(self._clock() - self._retention_seconds)
        if committed := self._repository.commit_versions(registry, self._etag):
            self._etag, self._written_at = committed.etag, now
        else:
            # Another process wrote it: it is read again next time. The new deploys are stored already.
            self.reset()
