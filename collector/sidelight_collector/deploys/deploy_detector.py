"""Finds new versions: looks through what windows came since the last time, and keeps a deploy of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from sidelight_collector.deploys.deploy import Deploy, Rolled, Rules, new
from sidelight_collector.deploys.deploy_repository import NoDeploy, Shelf
from sidelight_collector.deploys.query_client import Ask
from sidelight_collector.deploys.rate_limiter import Pace
from sidelight_collector.deploys.version_discovery import chunks, versions_seen
from sidelight_collector.deploys.version_registry import Appeared, Known, decode, encode
from sidelight_collector.kubernetes_discovery.rollouts import Rollout
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.storage.lease import Stopped
from sidelight_collector.storage.objects import ObjectChanged, ObjectDamaged, ObjectExists
from sidelight_collector.times import SECOND_NS
from sidelight_model.errors import SidelightError
from sidelight_model.selectors import Selector

OVERLAP_SECONDS: Final = 900.0
"""Windows may come so late and still be seen."""
CHUNK_SECONDS: Final = 6 * 3600.0
LEAST_CHUNK_SECONDS: Final = 60.0
"""What is looked through at once; where a query has not the time for that, half of it is."""
FIRST_BACK_SECONDS: Final = 86_400.0
MOST_BACK_SECONDS: Final = 14 * 86_400.0
WRITE_SECONDS: Final = 600.0
"""What is known is written at most so often, unless something is new."""
_DAY_SECONDS: Final = 86_400.0
_LATE_SECONDS: Final = 60.0
_log = structlog.get_logger()


class Learning:
    """What one process knows of versions; for one thread at a time. All calls block."""

    def __init__(
        self,
        shelf: Shelf,
        ask: Ask,
        rules: Rules,
        metrics: Metrics,
        *,
        pace: Pace,
        keep_days: float,
        rollouts: Callable[[], Iterable[Rollout]],
        clock: Callable[[], float],
        timer: Callable[[], float],
    ) -> None:
        self._shelf = shelf
        self._ask = ask
        self._rules = rules
        self._metrics = metrics
        self._pace = pace
        self._keep_seconds = keep_days * _DAY_SECONDS
        self._rollouts = rollouts
        self._clock = clock
        self._timer = timer
        self._chunk = CHUNK_SECONDS
        self._written = float("-inf")
        self._etag: str | None = None
        self.known: Known | None = None

    def forget(self) -> None:
        """Know nothing: what is in the store is read the next time."""
        self.known, self._etag = None, None

    def read(self) -> bool:
        """Know what is in the store, if nothing is known; whether that was so. Raises StoreError."""
        if self.known is not None:
            return False
        kept = self._shelf.seen()
        known = decode(kept[0]) if kept else Known()
        if known is None:
            _log.warning("what is known of versions cannot be read: it is learnt anew")
            known = Known()
        self.known, self._etag = known, kept[1] if kept else None
        return True

    def found(self, ended: Stopped) -> Iterator[Deploy]:
        """The deploys that there are since the last time, each kept; those that others kept come too.

        Raises Busy, QueryTimeout and StoreError: what was not looked through is the next time.
        """
        known, now = self.known or Known(), self._clock()
        first = known.until == 0.0
        begin = max(now - MOST_BACK_SECONDS, known.until - OVERLAP_SECONDS)
        if first:
            begin = now - max(self._rules.last_seconds, FIRST_BACK_SECONDS)
        for start, until in chunks(begin, now, self._chunk):
            if ended():
                return
            # Within an hour that was added up nobody sees a pause.
            edges = round(start * SECOND_NS), round(until * SECOND_NS)
            question = Question(Selector(), *edges, by_window=True)
            pause = self._rules.gone_seconds
            try:
                seen = self._ask(partial(versions_seen, question=question, pause_seconds=pause))
            except QueryTimeout:
                self._chunk = max(LEAST_CHUNK_SECONDS, self._chunk / 2)
                raise
            self._pace.spent(self._ask.cpu_seconds)
            appeared = known.learn(seen, self._rules.gone_seconds, begin if first else 0.0)
            try:
                made = self._kept(appeared)
            except SidelightError:
                self.forget()  # what was not kept is to be found again
                raise
            known.until = max(known.until, until)
            self._write(known, new=bool(appeared) or first)
            yield from made

    def _kept(self, appeared: Sequence[Appeared]) -> list[Deploy]:
        rollouts = list(self._rollouts()) if appeared else []
        found = []
        for one in appeared:
            deploy = self._made(one, _rollout_of(one, rollouts))
            if deploy is None:
                self._metrics.deploys_skipped.inc()
                labels = {"namespace": one.namespace, "service": one.service, "version": one.version}
                _log.info("a version comes and goes too often to be compared", **labels)
            else:
                found.append(deploy)
        return found

    def _made(self, one: Appeared, rolled: Rolled | None) -> Deploy | None:
        """The deploy of an arrival, made or as it is kept; None where the version had too many on its day.

        Two arrivals of one version are never within `gone_seconds`; two looks at one mostly agree to the
        second, and to less where windows came late.
        """
        labels = one.namespace, one.service, one.version
        for number in range(1, self._rules.arrivals + 1):
            deploy = new(labels, one.first_seen, one.previous, one.previous_seen, rolled, self._rules, number)
            if self._shelf.create(deploy):
                self._metrics.deploys_detected.inc()
                _log.info("deploy found", id=deploy.id, previous=deploy.previous, **deploy.labels)
                return deploy
            with suppress(NoDeploy, ObjectDamaged):
                kept = self._shelf.deploy(deploy.id)
                if abs(kept.first_seen - one.first_seen) < self._rules.gone_seconds:
                    return kept
        return None

    def _write(self, known: Known, *, new: bool) -> None:
        now = self._timer()
        if not new and now - self._written < WRITE_SECONDS:
            return
        known.forget(self._clock() - self._keep_seconds)
        try:
            self._etag = self._shelf.put_seen(encode(known), self._etag)
        except (ObjectChanged, ObjectExists):
            # Another process was at it: what it knows is read next time. What was found is kept already.
            self.forget()
            return
        self._written = now


def _rollout_of(one: Appeared, rollouts: Sequence[Rollout]) -> Rolled | None:
    """The rollout that brought a version: the last that began before its first window."""
    own = [
        each
        for each in rollouts
        if (each.namespace, each.service, each.version) == (one.namespace, one.service, one.version)
        and max(one.first_seen - _DAY_SECONDS, one.before) <= each.started <= one.first_seen + _LATE_SECONDS
    ]
    if not own:
        return None
    last = max(own, key=lambda each: each.started)
    return Rolled(last.kind, last.workload, last.revision, min(last.started, one.first_seen), last.ended)
