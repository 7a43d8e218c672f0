"""The one process of all collectors on a store that looks after deploys, and what it does each time.

It is one of those that compact (`--role all` or `compactor`): the lease `v1/lease/deploys.json` says which.
Each time it looks which versions were seen since the last time, keeps what is new, ends what was rolled back
or replaced, and makes the comparisons that are due, the one that has waited longest first. A comparison is a
query like any other: it waits for nothing while all places for queries are taken, and there is at most one
at a time, at the pace that the settings allow.

Two processes may do so in one moment, when a lease is taken over: then each finds what the other has written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Final, Protocol

import structlog

from sidelight_collector.deploys.deploy import (
    Deploy,
    Look,
    Over,
    Rules,
    State,
    due_offset,
    ended,
    looked,
    postponed,
)
from sidelight_collector.deploys.deploy_detector import Learning
from sidelight_collector.deploys.deploy_repository import NoDeploy, Shelf
from sidelight_collector.deploys.evaluation import Found, Judge
from sidelight_collector.deploys.query_client import Ask, Busy
from sidelight_collector.deploys.rate_limiter import Pace
from sidelight_collector.kubernetes_discovery.rollouts import Rollout
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.lease import Leases, Stopped, unleased
from sidelight_collector.storage.objects import ObjectDamaged
from sidelight_model.errors import SidelightError

LEASE: Final = "deploys"
TICK_SECONDS: Final = 5.0
TRIES: Final = 5
"""A look that cannot be made so often is put down as one that found nothing out."""
RETRY_SECONDS: Final = 120.0
_log = structlog.get_logger()


class Alerts(Protocol):
    """Who tells others of deploys."""

    def tell(self, deploys: Iterable[Deploy], ended: Stopped) -> list[Deploy]:
        """Tell what is to be told now; those of the deploys that were changed by it."""


@dataclass(slots=True)
class _Missed:
    """A look that could not be made: how often, and when it is tried again."""

    tries: int
    due: float


class Watch:
    """Looks after deploys. Everything but `run` blocks, and is for one thread at a time."""

    def __init__(
        self,
        shelf: Shelf,
        ask: Ask,
        judge: Judge | None,
        rules: Rules,
        metrics: Metrics,
        *,
        pace: Pace,
        interval_seconds: float,
        keep_days: float,
        alerts: Alerts | None = None,
        rollouts: Callable[[], Iterable[Rollout]] = lambda: (),
        leases: Leases[str] | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shelf = shelf
        self._ask = ask
        self._judge = judge
        self._rules = rules
        self._metrics = metrics
        self._pace = pace
        self._interval = interval_seconds
        self._alerts = alerts
        self._taken = leases.taken if leases else unleased
        self._clock = clock
        self._timer = timer
        self._turn: Iterator[tuple[str, Stopped]] | None = None
        self._ended: Stopped = lambda: True
        self._next = timer() + interval_seconds  # a collector that starts has other things to do first
        self._learning = Learning(
            shelf,
            ask,
            rules,
            metrics,
            pace=pace,
            keep_days=keep_days,
            rollouts=rollouts,
            clock=clock,
            timer=timer,
        )
        self._active: dict[str, Deploy] = {}
        self._etags: dict[str, str | None] = {}
        self._missed: dict[str, _Missed] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Look after deploys until `stop` is set."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="deploys") as thread:
            while not stop.is_set():
                await loop.run_in_executor(thread, self.tick, stop.is_set)
                try:
                    async with asyncio.timeout(TICK_SECONDS):
                        await stop.wait()
                except TimeoutError:
                    continue
            await loop.run_in_executor(thread, self.leave)

    def tick(self, stopped: Stopped = lambda: False) -> None:
        """Do what is to be done now, if it is this process that does."""
        now = self._timer()
        due = now >= self._next
        if self._turn is None and not due:
            return
        if due:
            self._next = now + self._interval
        try:
            if self._turn is not None and self._ended():
                self.leave()
            if self._turn is None and not (due and self._begin(stopped)):
                return
            if due:
                self._learn()
                self._refresh()
            self._look(stopped)
            if self._alerts is not None:
                self._take(self._alerts.tell(list(self._active.values()), self._ended))
        except Busy:
            self._metrics.deploy_analyses_postponed.inc()
        except SidelightError as error:
            self._metrics.deploy_errors.inc()
            _log.warning("deploys not looked after", error=error.message, hint=error.hint)
        self._metrics.deploys_active.set(len(self._active))

    def leave(self) -> None:
        """Let another process do it."""
        turn, self._turn = self._turn, None
        if turn is not None:
            _close(turn)
        self._learning.forget()
        self._active, self._etags, self._missed = {}, {}, {}
        self._metrics.deploys_active.set(0)

    def _begin(self, stopped: Stopped) -> bool:
        turn = iter(self._taken([LEASE], stopped))
        found = next(turn, None)
        if found is None:
            return False
        self._turn, self._ended = turn, found[1]
        return True

    def _learn(self) -> None:
        """Find new versions; one that begins reads first what others kept."""
        if self._learning.read():
            for day in self._shelf.days():
                if self._ended():
                    break
                self._take(self._shelf.of_day(day))
        for deploy in self._learning.found(self._ended):
            self._take([deploy])

    def _refresh(self) -> None:
        """Read active deploys anew where they were changed, and end those that are over."""
        for day in {_day(one) for one in self._active.values()}:
            etags = self._shelf.etags(day)
            own = [name for name, one in self._active.items() if _day(one) == day]
            for name in own:
                if name not in etags:
                    del self._active[name]
                elif etags[name] is None or etags[name] != self._etags.get(name):
                    self._change(self._active[name], lambda _: None)
            self._etags |= etags
        self._etags = {name: etag for name, etag in self._etags.items() if name in self._active}
        known = self._learning.known
        if known is None:
            return
        for deploy in list(self._active.values()):
            if deploy.state is State.OVER or (deploy.due is None and not deploy.is_firing):
                continue
            over = known.over(deploy)
            if over is not None:
                self._change(deploy, partial(_ended, over=over))
                _log.info(
                    "deploy finished",
                    id=deploy.id,
                    reason=over.reason,
                    successor=over.successor,
                    **deploy.labels,
                )

    def _look(self, stopped: Stopped) -> None:
        """Make the comparisons that are due, as many as the pace allows."""
        if self._judge is None:
            return
        now = self._clock()
        waiting = sorted((one.due, one.id) for one in self._active.values() if one.due and one.due <= now)
        for _, name in waiting:
            missed = self._missed.get(name)
            if missed is not None and missed.due > now:
                continue
            if stopped() or self._ended():
                return
            if not self._pace.ready(self._timer()):
                self._metrics.deploy_analyses_postponed.inc()
                return
            self._pace.looked()
            try:
                self._compare(self._active[name], self._judge)
            except Busy:
                self._metrics.deploy_analyses_postponed.inc()
                return

    def _compare(self, deploy: Deploy, judge: Judge) -> None:
        now = self._clock()
        offset = due_offset(deploy, now, self._rules)
        if offset is None:
            self._change(deploy, lambda one: None if one.finished else postponed(one, self._rules))
            return
        k = len(deploy.analyses) + 1
        try:
            found = self._ask(lambda reading: judge(reading, deploy, offset, k))
        except Busy:
            raise
        except SidelightError as error:
            _log.warning("a deploy was not compared", id=deploy.id, error=error.message, hint=error.hint)
            if not self._is_given_up(deploy, now):
                return
            found = Found(State.UNCLEAR, problem=error.message)
        except Exception:  # noqa: BLE001 - what one service's windows bring about must not end the collector
            _log.exception("a deploy was not compared", id=deploy.id)
            if not self._is_given_up(deploy, now):
                return
            found = Found(State.UNCLEAR, problem="The comparison failed; the collector's log says why.")
        finally:
            self._pace.spent(self._ask.cpu_seconds)
        self._missed.pop(deploy.id, None)
        look = Look(
            k,
            now,
            offset,
            found.state,
            found.way,
            found.baseline,
            found.comparison,
            found.sentence,
            found.rate,
            found.conditions,
            found.problem,
        )
        self._metrics.deploy_analyses.labels(look.state).inc()

        def changed(one: Deploy) -> Deploy | None:
            # Another process may have made this look, or ended the deploy.
            return (
                None
                if one.finished or len(one.analyses) >= k
                else looked(one, look, found.verdict, self._rules)
            )

        after = self._change(deploy, changed)
        if after is not None and after.state is not deploy.state:
            _log.info("deploy judged", id=after.id, state=after.state, look=k, **after.labels)

    def _is_given_up(self, deploy: Deploy, now: float) -> bool:
        """Whether a look has failed too often to be tried again."""
        self._metrics.deploy_errors.inc()
        missed = self._missed.setdefault(deploy.id, _Missed(0, 0.0))
        missed.tries, missed.due = missed.tries + 1, now + RETRY_SECONDS
        return missed.tries >= TRIES

    def _change(self, deploy: Deploy, change: Callable[[Deploy], Deploy | None]) -> Deploy | None:
        try:
            after = self._shelf.change(deploy.id, change)
        except NoDeploy:
            self._active.pop(deploy.id, None)
            return None
        except ObjectDamaged as error:
            self._metrics.deploy_errors.inc()
            _log.warning("a deploy cannot be read", error=error.message)
            self._active.pop(deploy.id, None)
            return None
        self._take([after])
        return after

    def _take(self, deploys: Iterable[Deploy]) -> None:
        """Keep in mind what can still change."""
        for one in deploys:
            if one.is_active:
                self._active[one.id] = replace(one, verdict=None)
            else:
                self._active.pop(one.id, None)


def _ended(deploy: Deploy, over: Over) -> Deploy | None:
    return None if deploy.finished else ended(deploy, over)


def _day(deploy: Deploy) -> date:
    return datetime.strptime(deploy.id[:8], "%Y%m%d").replace(tzinfo=UTC).date()


def _close(turn: Iterator[object]) -> None:
    close = getattr(turn, "close", None)
    if close is not None:
        close()
