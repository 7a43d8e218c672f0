"""Keeps sampling within its budget: collects what it took, and tells each process's loop how fast to sample.

`budget` decides about rates and `cgroup` about the limit this sidecar runs under; here are the
clocks, the counters and the members. Ordinary sampling and captures have a budget each.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.cgroup import SHARE_OF_LIMIT, Cgroups, Level, Pressure, judged
from sidelight_sidecar.discovery.processes import Key
from sidelight_sidecar.health import Board, Problem
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.overhead.budget import (
    CGROUP,
    OFF_SECONDS,
    WHY,
    Account,
    Allowance,
    Budget,
    governed,
    joined,
    observed,
)
from sidelight_sidecar.samplers.sampler import (
    COMMAND,
    Sampled,
    Used,
)

ORDINARY, CAPTURE = "ordinary", "capture"
_TICK_SECONDS = 1.0
_RECENT = 10
_UNLIMITED_SECONDS = 10.0
"""Where there is no limit, how often one is looked for."""
_OVERHEAD = 60
_LONGEST_OF_SECONDS = 60.0
_SURPRISE = 2.0
_HALT = Allowance(0.0, 1, (CGROUP,))
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.overhead.governor")


@dataclass(slots=True)
class _Member:
    """A process that is sampled: for whom, whether that stops it, and whether it must be slowed at once."""

    pool: str
    account: Account
    stops: bool
    wake: Callable[[], None]
    held_up: bool = False
    urgent: bool = False
    stood: float = 0.0


@dataclass(frozen=True, slots=True)
class _Mark:
    """CPU seconds of sampling until a moment.

    `engine` is its thread's, `told` the part of it that was told of processes.
    """

    at: float
    engine: float
    told: float
    attach: float
    commands: float

    @property
    def total(self) -> float:
        return self.engine + self.attach + self.commands


class Governor:
    """One for all processes; used from the event loop alone.

    `engine_cpu` is the CPU time of the extension's thread so far, `clock` monotonic seconds.
    """

    def __init__(
        self,
        budgets: dict[str, Budget],
        cgroups: Cgroups,
        engine_cpu: Callable[[], float],
        metrics: Metrics,
        board: Board,
        clock: Callable[[], float],
    ) -> None:
        self._budgets = budgets
        self._cgroups = cgroups
        self._engine_cpu = engine_cpu
        self._metrics = metrics
        self._board = board
        self._clock = clock
        self._members: dict[Key, _Member] = {}
        self._known: dict[Key, Account] = {}
        self._levels: list[Level] = cgroups.levels()
        self._pressures: dict[Level, Pressure] = {}
        self._limit_looked = -math.inf
        self._longest: deque[tuple[float, float]] = deque()
        self._told = self._attach = self._commands = 0.0
        self._own_cpu = 0.0
        self._marks: deque[_Mark] = deque([self._mark()], maxlen=_OVERHEAD + 1)

    def join(
        self,
        key: Key,
        asked_hz: float,
        pool: str = ORDINARY,
        *,
        stops: bool = True,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """Sample a process from now on; what is known of its cost is remembered.

        `wake` is called when its window must be ended early, or may begin.
        """
        before = self._known.get(key)
        account = joined(self._accounts(pool), key, asked_hz, self._budget(pool), self._clock(), before)
        self._members[key] = _Member(pool, account, stops, wake)

    def leave(self, key: Key) -> None:
        """Sample a process no more for now."""
        member = self._members.pop(key, None)
        if member is not None and member.account.known:
            self._known[key] = member.account
        self._board.clear(_subject(key))

    def forget(self, key: Key) -> None:
        """The process is gone."""
        self.leave(key)
        self._known.pop(key, None)

    def allowance(self, key: Key) -> Allowance | None:
        """How the next window of a process is to be sampled (not at all at rate 0); None before it joins."""
        member = self._members.get(key)
        if member is None:
            return None
        return _HALT if member.held_up else member.account.allowance

    def begin(self, key: Key) -> None:
        """A window begins."""
        self._members[key].urgent = False

    def hurries(self, key: Key) -> bool:
        """Whether the window that is open must be ended now."""
        member = self._members.get(key)
        return member is not None and (member.urgent or member.held_up)

    def look(self, key: Key, sampled: Sampled, used: Used) -> None:
        """Take in what a part of a window took."""
        self._attach += sampled.attach_cpu_ns / 1e9
        if sampled.quality.mode == COMMAND:
            self._commands += used.cpu
        else:
            self._told += used.cpu
        self._longest.append((self._clock(), sampled.quality.longest_stop_ns / 1e9))
        member = self._members.get(key)
        if member is None or not used.ticks:
            return
        member.stood = used.stopped / used.seconds
        foreseen = member.account.tick_stop * used.rate_hz
        if member.stood > _SURPRISE * max(self._budgets[member.pool].stops, foreseen):
            member.urgent = True

    def settle(self, key: Key, used: Used) -> None:
        """Take in what a whole window took, and decide anew for all."""
        member = self._members.get(key)
        if member is None:
            return
        member.urgent = False
        member.account = observed(member.account, used)
        self._govern(member.pool)

    async def run(self) -> None:
        """Look at the clocks and the limit every second."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            await self.tick()

    async def tick(self) -> None:
        """One look; see `run`."""
        await self._look_at_limit()
        mark, before = self._mark(), self._marks[-1]
        self._marks.append(mark)
        if self._surprised(before, mark):
            for member in self._members.values():
                member.urgent = True
                member.wake()
        for pool in self._budgets:
            self._govern(pool)
        self._tell(mark, before)

    def _accounts(self, pool: str) -> dict[Key, Account]:
        return {key: member.account for key, member in self._members.items() if member.pool == pool}

    def _budget(self, pool: str) -> Budget:
        """The budget of a pool, less what is spent beside ticks, and below this sidecar's own limit."""
        budget = self._budgets[pool]
        limits = [p.reading.limit for p in self._pressures.values() if p.reading and p.reading.limit]
        if limits and min(limits) * SHARE_OF_LIMIT < budget.cpu:
            budget = replace(budget, cpu=min(limits) * SHARE_OF_LIMIT, why=CGROUP)
        first, last = self._marks[0], self._marks[-1]
        if pool != ORDINARY or last.at - first.at < _OVERHEAD / 4:
            return budget
        untold = (last.engine - last.told) - (first.engine - first.told)
        overhead = (max(0.0, untold) + last.attach - first.attach) / (last.at - first.at)
        return replace(budget, cpu=max(budget.cpu / 5, budget.cpu - overhead))

    def _govern(self, pool: str) -> None:
        for key, account in governed(self._accounts(pool), self._budget(pool), self._clock()).items():
            member = self._members[key]
            before, after = member.account.allowance, account.allowance
            member.account = account
            if after != before:
                _log.info(
                    "a sampling rate is changed", pid=key.pid, rate_hz=after.rate_hz, every=after.every,
                    reasons=after.reasons,
                )  # fmt: skip
            if after.off and not before.off:
                self._board.report(_subject(key), _left_alone(key, account))
            elif before.off and not after.off:
                self._board.clear(_subject(key))

    def _surprised(self, before: _Mark, mark: _Mark) -> bool:
        """Whether the engine takes far more than was foreseen for what is sampled now."""
        elapsed = mark.at - before.at
        if elapsed <= 0:
            return False
        members = self._members.values()
        foreseen = sum(member.account.tick_cpu * member.account.allowance.rate_hz for member in members)
        allowed = sum(self._budgets[pool].cpu for pool in {member.pool for member in members})
        return (mark.engine - before.engine) / elapsed > _SURPRISE * max(allowed, foreseen) > 0

    async def _look_at_limit(self) -> None:
        now = self._clock()
        limited = any(p.reading and p.reading.limit is not None for p in self._pressures.values())
        if not self._levels or (not limited and now < self._limit_looked + _UNLIMITED_SECONDS):
            return
        self._limit_looked = now
        readings = await asyncio.to_thread(lambda: [(level, level.read()) for level in self._levels])
        was_near = any(pressure.near(now) for pressure in self._pressures.values())
        for level, reading in readings:
            before = self._pressures.get(level, Pressure())
            if before.reading is not None:
                throttled = reading.throttled - before.reading.throttled
                self._metrics.throttled_seconds.inc(max(0.0, throttled))
            self._pressures[level] = judged(before, reading, now)
        near = [level for level, pressure in self._pressures.items() if pressure.near(now)]
        self._metrics.cpu_limit.set(min((r.limit for _, r in readings if r.limit is not None), default=0.0))
        for key, member in self._members.items():
            paths = [(level, self._cgroups.path(key.pid, level.version)) for level in near]
            held_up = member.stops and any(not level.holds(path) for level, path in paths)
            if held_up != member.held_up:
                member.held_up = held_up
                member.wake()
        if any(member.held_up for member in self._members.values()):
            if self._board.report("cpu limit", _NEAR_LIMIT):
                _log.warning("nothing is stopped: the CPU limit is near", hint=_NEAR_LIMIT.hint)
        elif self._board.clear("cpu limit") and was_near:
            _log.info("the CPU limit is far enough again")

    def _mark(self) -> _Mark:
        return _Mark(self._clock(), self._engine_cpu(), self._told, self._attach, self._commands)

    def _tell(self, mark: _Mark, before: _Mark) -> None:
        metrics, members = self._metrics, self._members.values()
        metrics.sampler_cpu_seconds.inc(max(0.0, mark.total - before.total))
        recent = self._marks[-min(len(self._marks), _RECENT + 1)]
        metrics.sampler_cpu_ratio.set(max(0.0, mark.total - recent.total) / max(1e-9, mark.at - recent.at))
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        metrics.cpu_seconds.inc(max(0.0, own - self._own_cpu))
        self._own_cpu = own
        allowances = [allowance for key in self._members if (allowance := self.allowance(key)) is not None]
        rates = [allowance.mean_hz for allowance in allowances]
        metrics.rate_hz.labels("lowest").set(min(rates, default=0.0))
        metrics.rate_hz.labels("highest").set(max(rates, default=0.0))
        metrics.stopped_ratio.set(max((member.stood for member in members), default=0.0))
        while self._longest and self._longest[0][0] < mark.at - _LONGEST_OF_SECONDS:
            self._longest.popleft()
        metrics.longest_stop_seconds.set(max((stop for _, stop in self._longest), default=0.0))
        reasons = [why for allowance in allowances for why in allowance.reasons]
        for why in WHY[:-1]:
            metrics.reduced_rate.labels(why).set(reasons.count(why))


_NEAR_LIMIT = Problem(
    Reason.THROTTLED,
    "sampling rests: the sidecar has nearly used up its CPU limit, and to be frozen in the middle of a stop "
    "would freeze the process that is sampled",
    "Remove the CPU limit of the sidecar (a request is enough), or raise it.",
)


def _subject(key: Key) -> str:
    return f"budget of process {key.pid}"


def _left_alone(key: Key, account: Account) -> Problem:
    return Problem(
        Reason.OVER_BUDGET,
        f"process {key.pid} is not sampled: one look at it takes {account.tick_cpu * 1e3:.3g} ms of CPU and "
        f"stops it for {account.tick_stop * 1e3:.3g} ms, which is above the budget however rarely it is done",
        "Raise --budget-cpu-percent or --budget-stop-percent, or leave this process out; it is tried again "
        f"after {OFF_SECONDS / 60:.0f} minutes or more.",
    )
