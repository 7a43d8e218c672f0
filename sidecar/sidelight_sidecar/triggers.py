"""When a closer look is worth its cost: decided from readings, on any clock.

A trigger compares what was seen some seconds ago with what is seen now, so it speaks of a mean over that
time and not of a moment. One fires once: then not again before its value has been below four fifths of
the threshold. After one has fired all rest for a while (`rest`), but those that come up while a process is
still looked at closely are added to the first. A process that grows is measured anew from where it was when
the trigger fired, and what it takes in the first `growth_seconds` of its life is its start.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

CPU, THROTTLED, RSS, READY, SIGTERM = "cpu", "throttled", "rss", "ready", "sigterm"
WORDS = (CPU, THROTTLED, RSS, READY, SIGTERM)
"""What a window's label `trigger` says, and the labels of the metric."""

_CALM = 0.8
_POINTS = 60
_MOST_REASON = 256


@dataclass(frozen=True, slots=True)
class Growth:
    """So many bytes, or such a share of what there was."""

    size: int = 0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Rules:
    """Thresholds as shares (None: that trigger is off), times in seconds."""

    cpu: float | None = None
    throttled: float | None = None
    over: float = 30.0
    growth: Growth | None = None
    growth_seconds: float = 300.0
    ready: bool = False
    sigterm: bool = False
    lasts: float = 30.0
    rest: float = 600.0

    @property
    def on(self) -> tuple[str, ...]:
        """The words of those that are on."""
        shown = (self.cpu is not None, self.throttled is not None, self.growth is not None)
        return tuple(word for word, on in zip(WORDS, (*shown, self.ready, self.sigterm), strict=True) if on)

    @property
    def tick_seconds(self) -> float:
        """How often to look: a tenth of the shortest time that is measured, from one second to three."""
        return min(3.0, max(1.0, min(self.over, self.growth_seconds) / 10))

    @property
    def watches(self) -> bool:
        """Whether processes have to be looked at for it."""
        return bool(set(self.on) - {SIGTERM})


class Fired(NamedTuple):
    """A trigger and, in words with figures, why."""

    word: str
    reason: str


class Trail:
    """Values of the last `seconds`, at most sixty of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._points: deque[tuple[float, Sequence[float]]] = deque()

    def add(self, at: float, values: Sequence[float]) -> None:
        if self._points and at - self._points[-1][0] < self._seconds / _POINTS:
            return
        self._points.append((at, values))
        # The newest that is old enough stays: what happened since then is what is asked for.
        while len(self._points) > 1 and self._points[1][0] <= at - self._seconds:
            self._points.popleft()

    def since(self, now: float) -> tuple[float, Sequence[float]] | None:
        """The newest values that are `seconds` old, with their age; None while there are none."""
        if not self._points or self._points[0][0] > now - self._seconds:
            return None
        at, values = self._points[0]
        return now - at, values

    def least(self) -> float:
        """The least of the first values kept; infinite when there are none."""
        return min((values[0] for _, values in self._points), default=math.inf)

    def clear(self) -> None:
        self._points.clear()


class Latch:
    """Lets a condition through once, until it has calmed down."""

    def __init__(self) -> None:
        self._set = True

    def passes(self, value: float | None, above: float, *, free: bool) -> bool:
        """Whether it fires now; one that is true while it is not `free` to fire does when it is."""
        if value is None:
            return False
        if self._set and value > above:
            self._set = not free
            return free
        self._set = self._set or value < _CALM * above
        return False


class ProcessTrail:
    """One process: its CPU time where no limit is known, and its memory."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cpu, self._rss = Trail(rules.over), Trail(rules.growth_seconds)
        self._cpu_latch, self._rss_latch = Latch(), Latch()

    def judge(
        self, now: float, *, age: float, cpu_seconds: float, rss: int, limited: bool, free: bool
    ) -> list[Fired]:
        """What fires now; `age` is how long it lives, `limited` whether it is judged with its container."""
        fired = []
        rules = self._rules
        if rules.cpu is not None and not limited:
            self._cpu.add(now, (cpu_seconds,))
            share = _rate(self._cpu, now, cpu_seconds)
            if self._cpu_latch.passes(share, rules.cpu, free=free) and share is not None:
                fired.append(Fired(CPU, f"CPU {_percent(share)} of a core over {rules.over:g} s"))
        if rules.growth is not None and age >= rules.growth_seconds:
            self._rss.add(now, (float(rss),))
            least = self._rss.least()
            above = rules.growth.size or rules.growth.share * least
            if self._rss_latch.passes(rss - least, above, free=free):
                self._rss.clear()
                grown = f"{_megabytes(rss - least)} ({_percent((rss - least) / max(1.0, least))})"
                text = f"RSS grew by {grown} to {_megabytes(rss)} within {rules.growth_seconds:g} s"
                fired.append(Fired(RSS, text))
        return fired


@dataclass(frozen=True, slots=True)
class Spent:
    """What a container's cgroup says: its limit in cores (None: none is known) and its counters."""

    limit: float | None
    used: float = 0.0
    periods: int = 0
    throttles: int = 0


class ContainerTrail:
    """One container: what it takes of its limit, and how often it was frozen for it."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._trail = Trail(rules.over)
        self._cpu, self._throttled = Latch(), Latch()

    def judge(self, now: float, spent: Spent, *, free: bool) -> list[Fired]:
        """What fires now."""
        if spent.limit is None:
            self._trail.clear()
            return []
        rules, limit = self._rules, spent.limit
        self._trail.add(now, (spent.used, spent.periods, spent.throttles))
        before = self._trail.since(now)
        if before is None:
            return []
        elapsed, (used, periods, throttles) = before
        fired = []
        share = (spent.used - used) / elapsed / limit
        if rules.cpu is not None and self._cpu.passes(share, rules.cpu, free=free):
            text = f"CPU {_percent(share)} of the limit of {limit:g} cores over {rules.over:g} s"
            fired.append(Fired(CPU, text))
        frozen = (spent.throttles - throttles) / max(1.0, spent.periods - periods)
        if rules.throttled is not None and self._throttled.passes(frozen, rules.throttled, free=free):
            text = f"throttled in {_percent(frozen)} of its periods over {rules.over:g} s"
            fired.append(Fired(THROTTLED, f"{text}, limit {limit:g} cores"))
        return fired


def rests(rules: Rules, fired_at: float | None, now: float) -> bool:
    """Whether no trigger may fire on a process now, given when one last did."""
    if fired_at is None or now < fired_at + rules.lasts:
        return False
    return now < fired_at + rules.lasts + rules.rest


def labels_of(fired: Sequence[Fired]) -> dict[str, str]:
    """The labels of the windows that were taken for this."""
    words = [word for word in WORDS if any(one.word == word for one in fired)]
    return {"trigger": "+".join(words), "trigger_reason": _clipped("; ".join(one.reason for one in fired))}


def _rate(trail: Trail, now: float, value: float) -> float | None:
    before = trail.since(now)
    return None if before is None else (value - before[1][0]) / before[0]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _megabytes(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"


def _clipped(text: str) -> str:
    # A collector takes 256 bytes of a label; all that is said here is ASCII.
    return text if len(text) <= _MOST_REASON else text[: _MOST_REASON - 3] + "..."
