"""How fast each process may be sampled so that all stays within a budget: decided from what was measured.

What sampling takes is nearly proportional to its rate, so the rate that fits is computed, not
searched for: room / what a tick takes. The room is shared max-min: a process that takes little
keeps its rate, and those that take much divide what is left. Two things are bounded: the CPU time
of sampling all processes, as a share of one core, and the time each process stands still, as a
share of its own.

Over budget, rates are set so that four fifths of the budget are used: first lower rates, down to
FLOOR_HZ; then only some of the windows are sampled (`every`); and a process that would take more
than the budget in the longest such row, all by itself, is left alone (off) and tried again later.

Nothing swings. What a tick takes is believed at once when it rises and forgotten slowly when it
falls. A rate is lowered only when the budget is exceeded. It is raised only when that is worth a
quarter, in steps (by half, or to four times the windows), after it was measured, and after a wait
that doubles each time a raise had to be taken back: a rate that cannot settle is raised and taken
back two dozen times in an hour at most.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from sidelight_sidecar.samplers.sampler import Used

K = TypeVar("K", bound=Hashable)

FLOOR_HZ = 5.0
"""Below, a window holds too few samples to tell much: fewer windows are better than thinner ones."""
LONGEST_ROW = 20
OFF_SECONDS = 600.0
_LONGEST_OFF = 3600.0
CPU, STOPS, CGROUP, PAUSED = "cpu", "stops", "cgroup", "paused"
WHY = (CPU, STOPS, CGROUP, PAUSED)
"""Why a rate is below what was asked: also a metric's labels and the words in `quality.reduced`."""

_AIM = 0.8
_WORTH = 1.25
_STEP = 1.5
_STEP_IN_ROW = 4.0
_FIRST_WAIT = 10.0
_LONGEST_WAIT = 320.0
_FORGET_SECONDS = 30.0
_TRUST_SECONDS = 5.0
_TYPICAL_TICK = 50e-6


@dataclass(frozen=True, slots=True)
class Budget:
    """Shares: `cpu` of one core for all processes together, `stops` of each process's time.

    `why` is the word for what bounds `cpu`; without `rows`, rates fall to the floor and no window is
    left out.
    """

    cpu: float
    stops: float
    why: str = CPU
    rows: bool = True


@dataclass(frozen=True, slots=True)
class Allowance:
    """Sample at `rate_hz`, one window of `every` (0: none at all); `reasons` why not as asked."""

    rate_hz: float
    every: int = 1
    reasons: tuple[str, ...] = ()

    @property
    def off(self) -> bool:
        return self.every == 0

    @property
    def mean_hz(self) -> float:
        """The rate over a whole row of windows."""
        return self.rate_hz / self.every if self.every else 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """What is known of one process: `tick_cpu` and `tick_stop` are seconds taken by one tick.

    `known` once it was measured at all, `measured` since the allowance was last changed (`since`);
    `wait` seconds must pass before a rate that was lowered is raised, and `raised` is when the last raise
    was; `off_wait` seconds must pass before one that is off is tried again.
    """

    asked_hz: float
    allowance: Allowance
    since: float
    tick_cpu: float = _TYPICAL_TICK
    tick_stop: float = 0.0
    known: bool = False
    measured: bool = False
    wait: float = _FIRST_WAIT
    raised: float = -math.inf
    off_wait: float = OFF_SECONDS

    @property
    def cpu(self) -> float:
        """The share of a core this process's sampling takes, by what is known."""
        return self.allowance.mean_hz * self.tick_cpu

    @property
    def stops(self) -> float:
        """The share of its time this process stands still, by what is known."""
        return self.allowance.mean_hz * self.tick_stop


def joined(
    accounts: Mapping[K, Account],
    key: K,
    asked_hz: float,
    budget: Budget,
    now: float,
    before: Account | None = None,
) -> Account:
    """The account of a process that comes in; `before` is one it had.

    One that is new is taken for one like the others until it is measured.
    """
    if before is not None and before.known:
        if before.allowance.off and budget.rows:
            return replace(before, asked_hz=asked_hz)
        new = replace(before, asked_hz=asked_hz, allowance=Allowance(asked_hz), since=now, measured=False)
    else:
        known = [account for account in accounts.values() if account.known]
        cpu = median(account.tick_cpu for account in known) if known else _TYPICAL_TICK
        stop = median(account.tick_stop for account in known) if known else 0.0
        new = Account(asked_hz, Allowance(asked_hz), now, tick_cpu=cpu, tick_stop=stop)
    hz, reasons = ideal({**accounts, key: new}, budget)[key]
    if not new.known:
        hz = max(hz, _least(asked_hz))
    return replace(new, allowance=_allowance(hz, asked_hz, reasons, budget))


def observed(account: Account, used: Used) -> Account:
    """The account after a window; one without a tick tells nothing."""
    if not used.ticks:
        return account
    # A window stands for those that are left out beside it.
    known, seconds = account.known, used.seconds * max(1, account.allowance.every)
    return replace(
        account,
        tick_cpu=_believed(account.tick_cpu, used.cpu / used.ticks, seconds, known),
        tick_stop=_believed(account.tick_stop, used.stopped / used.ticks, seconds, known),
        known=True,
        measured=account.measured or used.rate_hz == account.allowance.rate_hz,
    )


def governed(accounts: Mapping[K, Account], budget: Budget, now: float) -> dict[K, Account]:
    """The accounts with the allowances that hold from now on."""
    best = ideal(accounts, budget)
    over = sum(account.cpu for account in accounts.values()) > budget.cpu
    return {
        key: _settled(account, *best[key], over=over or account.stops > budget.stops, budget=budget, now=now)
        for key, account in accounts.items()
    }


def ideal(accounts: Mapping[K, Account], budget: Budget) -> dict[K, tuple[float, tuple[str, ...]]]:
    """The mean rate of each process that together take four fifths of the budget, and what bounds it."""
    limits = {
        key: min(account.asked_hz, _AIM * budget.stops / max(account.tick_stop, 1e-12))
        for key, account in accounts.items()
    }
    costs = {key: max(account.tick_cpu, 1e-12) for key, account in accounts.items()}
    needs = [limits[key] * costs[key] for key in accounts]
    found: dict[K, tuple[float, tuple[str, ...]]] = {}
    for key, need, share in zip(accounts, needs, fair(needs, _AIM * budget.cpu), strict=True):
        reasons = (STOPS,) if limits[key] < accounts[key].asked_hz else ()
        found[key] = (share / costs[key], (budget.why, *reasons)) if share < need else (limits[key], reasons)
    return found


def fair(needs: Sequence[float], room: float) -> list[float]:
    """Max-min shares of `room`: nobody gets more than it needs, nor less than another that needs more."""
    shares = [0.0] * len(needs)
    for place, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], room / (len(needs) - place))
        room -= shares[index]
    return shares


def _settled(
    account: Account, hz: float, reasons: tuple[str, ...], *, over: bool, budget: Budget, now: float
) -> Account:
    current = account.allowance
    if current.off:
        if now - account.since < account.off_wait:
            return account
        # What it took then is no guide any more; one window will tell.
        tried = _allowance(_least(account.asked_hz), account.asked_hz, current.reasons, budget)
        return Account(account.asked_hz, tried, now, off_wait=min(_LONGEST_OFF, 2 * account.off_wait))
    if over and hz < current.mean_hz:
        wait = _FIRST_WAIT
        if now - account.raised < 2 * _LONGEST_WAIT:
            wait = min(_LONGEST_WAIT, 2 * account.wait)
        lower = _allowance(hz, account.asked_hz, reasons, budget)
        if budget.rows and _hopeless(account, budget):
            lower = Allowance(0.0, 0, reasons)
        if lower.mean_hz >= current.mean_hz:
            return account
        return replace(account, allowance=lower, since=now, measured=False, wait=wait)
    worth = hz >= _WORTH * current.mean_hz or (hz >= account.asked_hz and hz > current.mean_hz)
    # The first step up after having been lowered waits; the steps that follow it only need to be measured.
    wait = _FIRST_WAIT if account.since == account.raised else account.wait
    if worth and account.measured and now - account.since >= wait:
        higher = _raised(current, hz, account.asked_hz, reasons, budget)
        if higher.mean_hz > current.mean_hz:
            return replace(account, allowance=higher, since=now, measured=False, raised=now)
    return account


def _hopeless(account: Account, budget: Budget) -> bool:
    """Whether the longest row of windows would take more than the budget if it were sampled alone."""
    least = _least(account.asked_hz) / LONGEST_ROW
    return least * account.tick_cpu > budget.cpu or least * account.tick_stop > budget.stops


def _raised(
    current: Allowance, hz: float, asked_hz: float, reasons: tuple[str, ...], budget: Budget
) -> Allowance:
    step = _STEP if current.every == 1 else _STEP_IN_ROW
    stepped = _allowance(min(hz, step * current.mean_hz), asked_hz, reasons, budget)
    if stepped.mean_hz >= asked_hz or stepped.reasons:
        return stepped
    return replace(stepped, reasons=current.reasons)


def _allowance(hz: float, asked_hz: float, reasons: tuple[str, ...], budget: Budget) -> Allowance:
    least = _least(asked_hz)
    hz = hz if budget.rows else max(hz, least)
    if hz >= asked_hz:
        return Allowance(asked_hz)
    if hz >= least:
        return Allowance(max(least, float(int(hz))), 1, reasons)
    return Allowance(least, math.ceil(least / hz - 1e-9), reasons)


def _least(asked_hz: float) -> float:
    return min(FLOOR_HZ, asked_hz)


def _believed(old: float, new: float, seconds: float, known: bool) -> float:
    if not known or new > 2 * old:
        return new
    if new > old:
        return old + (new - old) * min(1.0, seconds / _TRUST_SECONDS)
    return new + (old - new) * math.exp2(-seconds / _FORGET_SECONDS)
