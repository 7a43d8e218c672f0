"""The loop that evaluates deploys, in one process of all collectors on a store.

The process is one that compacts (`--role all` or `compactor`); the lease `v1/lease/deploys.json` decides
which. Each run detects versions that arrived since the last one and stores them as deploys, finishes
deploys that were rolled back or replaced, and runs the analyses that are due, the most overdue first. An
analysis is an ordinary query. It does not start while all query slots are taken. There is at most one at a
time, at the rate that the settings allow.

Two processes may do this at the same moment, when one takes over the lease. Each then finds what the other
has written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Final, Protocol

import structlog

from sidelight.waiting import wait_for_event
from sidelight_collector.deploys.deploy import (
    Deploy,
    DeployAnalysis,
    DeployEnd,
    DeployState,
    add_analysis,
    find_due_offset,
    finish_deploy,
    reschedule,
)
from sidelight_collector.deploys.deploy_detector import DeployContext, DeployDetector
from sidelight_collector.deploys.deploy_repository import DeployNotFound
from sidelight_collector.deploys.evaluation import Analyser, AnalysisResult
from sidelight_collector.deploys.query_client import QueryEngineBusy
from sidelight_collector.storage.lease import Leases, ShouldStop, iter_without_leases
from sidelight_collector.storage.objects import ObjectDamaged
from sidelight_model.errors import SidelightError

LEASE_NAME: Final = "deploys"
TICK_SECONDS: Final = 5.0
MAX_ATTEMPTS: Final = 5
"""After this many failures an analysis is recorded as inconclusive."""
RETRY_SECONDS: Final = 120.0
_log = structlog.get_logger()


class Notifier(Protocol):
    """Notifies receivers of deploys."""

    def notify(self, deploys: Iterable[Deploy], should_stop: ShouldStop) -> list[Deploy]:
        """Send the notifications that are due; return the deploys that changed."""


@dataclass(slots=True)
class _FailedAnalysis:
    """An analysis that failed: how often, and when to try again."""

    attempts: int
    retry_at: float


class DeployEvaluator:
    """Detects and analyses deploys.

    All methods but `run` block, and are for one thread at a time.
    """

    def __init__(
        self,
        context: DeployContext,
        analyse: Analyser | None,
        *,
        interval_seconds: float,
        notifier: Notifier | None = None,
        leases: Leases[str] | None = None,
    ) -> None:
        self._repository = context.repository
        self._query = context.query
        self._analyse = analyse
        self._policy = context.policy
        self._metrics = context.metrics
        self._rate_limiter = context.rate_limiter
        self._interval_seconds = interval_seconds
        self._notifier = notifier
        self._iter_leases = leases.iter_acquired if leases else iter_without_leases
        self._clock = context.clock
        self._timer = context.timer
        self._lease_turns: Iterator[tuple[str, ShouldStop]] | None = None
        self._lease_lost: ShouldStop = lambda: True
        self._next_run_at = self._timer() + interval_seconds  # a starting collector has more urgent work
        self._detector = DeployDetector(context)
        self._active: dict[str, Deploy] = {}
        self._etags: dict[str, str | None] = {}
        self._failed_analyses: dict[str, _FailedAnalysis] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Evaluate deploys until `stop` is set."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="deploys") as thread:
            while not stop.is_set():
                await loop.run_in_executor(thread, self.run_once, stop.is_set)
                await wait_for_event(stop, TICK_SECONDS)
            await loop.run_in_executor(thread, self.release)

    def run_once(self, should_stop: ShouldStop = lambda: False) -> None:
        """Do the work that is due now, if this process has or gets the lease."""
        now = self._timer()
        due = now >= self._next_run_at
        if self._lease_turns is None and not due:
            return
        if due:
            self._next_run_at = now + self._interval_seconds
        try:
            if self._lease_turns is not None and self._lease_lost():
                self.release()
            if self._lease_turns is None and not (due and self._acquire_lease(should_stop)):
                return
            if due:
                self._detect_deploys()
                self._refresh_active()
            self._run_due_analyses(should_stop)
            if self._notifier is not None:
                self._track(self._notifier.notify(list(self._active.values()), self._lease_lost))
        except QueryEngineBusy:
            self._metrics.deploy_analyses_postponed.inc()
        except SidelightError as error:
            self._metrics.deploy_errors.inc()
            _log.warning("deploys not looked after", error=error.message, hint=error.hint)
        self._metrics.deploys_active.set(len(self._active))

    def release(self) -> None:
        """Give up the lease, so that another process can take it."""
        lease_turns, self._lease_turns = self._lease_turns, None
        if lease_turns is not None:
            _close_iterator(lease_turns)
        self._detector.reset()
        self._active, self._etags, self._failed_analyses = {}, {}, {}
        self._metrics.deploys_active.set(0)

    def _acquire_lease(self, should_stop: ShouldStop) -> bool:
        lease_turns = iter(self._iter_leases([LEASE_NAME], should_stop))
        acquired = next(lease_turns, None)
        if acquired is None:
            return False
        self._lease_turns, self._lease_lost = lease_turns, acquired[1]
        return True

    def _detect_deploys(self) -> None:
        """Detect new versions; at the start of a lease, first load stored deploys."""
        if self._detector.load():
            for day in self._repository.list_days():
                if self._lease_lost():
                    break
                self._track(self._repository.list_day(day))
        for deploy in self._detector.detect(self._lease_lost):
            self._track([deploy])

    def _refresh_active(self) -> None:
        """Reload active deploys that others changed, and finish those that are over."""
        for day in {_parse_day(active) for active in self._active.values()}:
            etags = self._repository.list_etags(day)
            active_ids = [name for name, active in self._active.items() if _parse_day(active) == day]
            for name in active_ids:
                if name not in etags:
                    del self._active[name]
                elif etags[name] is None or etags[name] != self._etags.get(name):
                    self._update_deploy(self._active[name], lambda _: None)
            self._etags |= etags
        self._etags = {name: etag for name, etag in self._etags.items() if name in self._active}
        for deploy in list(self._active.values()):
            if deploy.state is DeployState.FINISHED or (deploy.due is None and not deploy.is_firing):
                continue
            end = self._detector.find_end(deploy)
            if end is not None:
                self._update_deploy(deploy, partial(_finish_if_active, end=end))
                _log.info(
                    "deploy finished",
                    id=deploy.id,
                    reason=end.reason,
                    successor=end.successor,
                    **deploy.labels,
                )

    def _run_due_analyses(self, should_stop: ShouldStop) -> None:
        """Run the analyses that are due, as many as the rate limiter allows."""
        if self._analyse is None:
            return
        now = self._clock()
        waiting = sorted(
            (deploy.due, deploy.id) for deploy in self._active.values() if deploy.due and deploy.due <= now
        )
        for _, name in waiting:
            failed = self._failed_analyses.get(name)
            if failed is not None and failed.retry_at > now:
                continue
            if should_stop() or self._lease_lost():
                return
            if not self._rate_limiter.can_start(self._timer()):
                self._metrics.deploy_analyses_postponed.inc()
                return
            self._rate_limiter.record_start()
            try:
                self._run_analysis(self._active[name], self._analyse)
            except QueryEngineBusy:
                self._metrics.deploy_analyses_postponed.inc()
                return

    def _run_analysis(self, deploy: Deploy, analyse: Analyser) -> None:
        now = self._clock()
        offset = find_due_offset(deploy, now, self._policy)
        if offset is None:
            self._update_deploy(
                deploy, lambda current: None if current.finished else reschedule(current, self._policy)
            )
            return
        analysis_index = len(deploy.analyses) + 1
        try:
            result = self._query(lambda reading: analyse(reading, deploy, offset, analysis_index))
        except QueryEngineBusy:
            raise
        except SidelightError as error:
            _log.warning("a deploy was not compared", id=deploy.id, error=error.message, hint=error.hint)
            if not self._is_exhausted(deploy, now):
                return
            result = AnalysisResult(DeployState.INCONCLUSIVE, problem=error.message)
        except Exception:  # noqa: BLE001 - windows of one service must not end the collector
            _log.exception("a deploy was not compared", id=deploy.id)
            if not self._is_exhausted(deploy, now):
                return
            result = AnalysisResult(
                DeployState.INCONCLUSIVE, problem="The comparison failed; the collector's log says why."
            )
        finally:
            self._rate_limiter.record_cpu(self._query.cpu_seconds)
        self._failed_analyses.pop(deploy.id, None)
        analysis = DeployAnalysis(
            analysis_index,
            now,
            offset,
            result.state,
            result.comparison_mode,
            result.baseline,
            result.comparison,
            result.summary,
            result.rate,
            result.conditions,
            result.problem,
        )
        self._metrics.deploy_analyses.labels(analysis.state).inc()

        def apply_analysis(current: Deploy) -> Deploy | None:
            # Another process may have made this analysis, or finished the deploy.
            if current.finished or len(current.analyses) >= analysis_index:
                return None
            return add_analysis(current, analysis, result.verdict, self._policy)

        updated = self._update_deploy(deploy, apply_analysis)
        if updated is not None and updated.state is not deploy.state:
            _log.info(
                "deploy analysed", id=updated.id, state=updated.state, look=analysis_index, **updated.labels
            )

    def _is_exhausted(self, deploy: Deploy, now: float) -> bool:
        """Record a failed analysis; return whether it has failed too often to retry."""
        self._metrics.deploy_errors.inc()
        failed = self._failed_analyses.setdefault(deploy.id, _FailedAnalysis(0, 0.0))
        failed.attempts, failed.retry_at = failed.attempts + 1, now + RETRY_SECONDS
        return failed.attempts >= MAX_ATTEMPTS

    def _update_deploy(self, deploy: Deploy, change: Callable[[Deploy], Deploy | None]) -> Deploy | None:
        try:
            updated = self._repository.update(deploy.id, change)
        except DeployNotFound:
            self._active.pop(deploy.id, None)
            return None
        except ObjectDamaged as error:
            self._metrics.deploy_errors.inc()
            _log.warning("a deploy cannot be read", error=error.message)
            self._active.pop(deploy.id, None)
            return None
        self._track([updated])
        return updated

    def _track(self, deploys: Iterable[Deploy]) -> None:
        """Track the deploys that can still change, and drop the others."""
        for deploy in deploys:
            if deploy.is_active:
                self._active[deploy.id] = replace(deploy, verdict=None)
            else:
                self._active.pop(deploy.id, None)


def _finish_if_active(deploy: Deploy, end: DeployEnd) -> Deploy | None:
    return None if deploy.finished else finish_deploy(deploy, end)


def _parse_day(deploy: Deploy) -> date:
    return datetime.strptime(deploy.id[:8], "%Y%m%d").replace(tzinfo=UTC).date()


def _close_iterator(lease_turns: Iterator[object]) -> None:
    close = getattr(lease_turns, "close", None)
    if close is not None:
        close()
