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
TRIGGER_NAMES = (CPU, THROTTLED, RSS, READY, SIGTERM)
"""What a window's label `trigger` says, and the labels of the metric."""

_RESET_SHARE = 0.8
_MAX_POINTS = 60
_MAX_REASON_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class GrowthThreshold:
    """So many bytes, or such a share of what there was."""

    size_bytes: int = 0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class TriggerRules:
    """Thresholds as shares (None: that trigger is off), times in seconds."""

    cpu_share: float | None = None
    throttled_share: float | None = None
    window_seconds: float = 30.0
    rss_growth: GrowthThreshold | None = None
    rss_growth_seconds: float = 300.0
    fires_on_ready: bool = False
    fires_on_sigterm: bool = False
    boost_seconds: float = 30.0
    cooldown_seconds: float = 600.0

    @property
    def enabled_triggers(self) -> tuple[str, ...]:
        """The words of those that are on."""
        shown = (self.cpu_share is not None, self.throttled_share is not None, self.rss_growth is not None)
        return tuple(
            word
            for word, on in zip(
                TRIGGER_NAMES, (*shown, self.fires_on_ready, self.fires_on_sigterm), strict=True
            )
            if on
        )

    @property
    def check_interval_seconds(self) -> float:
        """How often to look: a tenth of the shortest time that is measured, from one second to three."""
        return min(3.0, max(1.0, min(self.window_seconds, self.rss_growth_seconds) / 10))

    @property
    def needs_polling(self) -> bool:
        """Whether processes have to be looked at for it."""
        return bool(set(self.enabled_triggers) - {SIGTERM})


class TriggerEvent(NamedTuple):
    """A trigger and, in words with figures, why."""

    trigger: str
    reason: str


class SlidingWindow:
    """Values of the last `seconds`, at most sixty of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._points: deque[tuple[float, Sequence[float]]] = deque()

    def add(self, now: float, values: Sequence[float]) -> None:
        if self._points and now - self._points[-1][0] < self._seconds / _MAX_POINTS:
            return
        self._points.append((now, values))
        # The newest that is old enough stays: what happened since then is what is asked for.
        while len(self._points) > 1 and self._points[1][0] <= now - self._seconds:
            self._points.popleft()

    def find_baseline(self, now: float) -> tuple[float, Sequence[float]] | None:
        """The newest values that are `seconds` old, with their age; None while there are none."""
        if not self._points or self._points[0][0] > now - self._seconds:
            return None
        at, values = self._points[0]
        return now - at, values

    def compute_minimum(self) -> float:
        """The least of the first values kept; infinite when there are none."""
        return min((values[0] for _, values in self._points), default=math.inf)

    def clear(self) -> None:
        self._points.clear()


class Hysteresis:
    """Lets a condition through once, until it has calmed down."""

    def __init__(self) -> None:
        self._is_armed = True

    def should_fire(self, value: float | None, threshold: float, *, can_fire: bool) -> bool:
        """Whether it fires now; one that is true while it is not `can_fire` to fire does when it is."""
        if value is None:
            return False
        if self._is_armed and value > threshold:
            self._is_armed = not can_fire
            return can_fire
        self._is_armed = self._is_armed or value < _RESET_SHARE * threshold
        return False


class ProcessTriggers:
    """One process: its CPU time where no limit is known, and its memory."""

    def __init__(self, rules: TriggerRules) -> None:
        self._rules = rules
        self._cpu_window, self._rss_window = (
            SlidingWindow(rules.window_seconds),
            SlidingWindow(rules.rss_growth_seconds),
        )
        self._cpu_hysteresis, self._rss_hysteresis = Hysteresis(), Hysteresis()

    def evaluate(
        self, now: float, *, age: float, cpu_seconds: float, rss: int, has_cpu_limit: bool, can_fire: bool
    ) -> list[TriggerEvent]:
        """What fires now; `age` is how long it lives, `has_cpu_limit` whether it is judged with its
        container.
        """
        events = []
        rules = self._rules
        if rules.cpu_share is not None and not has_cpu_limit:
            self._cpu_window.add(now, (cpu_seconds,))
            share = _compute_rate(self._cpu_window, now, cpu_seconds)
            if (
                self._cpu_hysteresis.should_fire(share, rules.cpu_share, can_fire=can_fire)
                and share is not None
            ):
                events.append(
                    TriggerEvent(
                        CPU, f"CPU {_format_percent(share)} of a core over {rules.window_seconds:g} s"
                    )
                )
        if rules.rss_growth is not None and age >= rules.rss_growth_seconds:
            self._rss_window.add(now, (float(rss),))
            least = self._rss_window.compute_minimum()
            above = rules.rss_growth.size_bytes or rules.rss_growth.share * least
            if self._rss_hysteresis.should_fire(rss - least, above, can_fire=can_fire):
                self._rss_window.clear()
                grown = (
                    f"{_format_mebibytes(rss - least)} ({_format_percent((rss - least) / max(1.0, least))})"
                )
                text = (
                    f"RSS grew by {grown} to {_format_mebibytes(rss)} within {rules.rss_growth_seconds:g} s"
                )
                events.append(TriggerEvent(RSS, text))
        return events


@dataclass(frozen=True, slots=True)
class CpuUsage:
    """What a container's cgroup says: its limit in cores (None: none is known) and its counters."""

    limit_cores: float | None
    cpu_seconds: float = 0.0
    periods: int = 0
    throttled_periods: int = 0


class ContainerTriggers:
    """One container: what it takes of its limit, and how often it was frozen for it."""

    def __init__(self, rules: TriggerRules) -> None:
        self._rules = rules
        self._usage_window = SlidingWindow(rules.window_seconds)
        self._cpu_hysteresis, self._throttled_hysteresis = Hysteresis(), Hysteresis()

    def evaluate(self, now: float, usage: CpuUsage, *, can_fire: bool) -> list[TriggerEvent]:
        """What fires now."""
        if usage.limit_cores is None:
            self._usage_window.clear()
            return []
        rules, limit = self._rules, usage.limit_cores
        self._usage_window.add(now, (usage.cpu_seconds, usage.periods, usage.throttled_periods))
        before = self._usage_window.find_baseline(now)
        if before is None:
            return []
        elapsed, (used, periods, throttles) = before
        events = []
        share = (usage.cpu_seconds - used) / elapsed / limit
        if rules.cpu_share is not None and self._cpu_hysteresis.should_fire(
            share, rules.cpu_share, can_fire=can_fire
        ):
            text = (
                f"CPU {_format_percent(share)} of the limit of {limit:g} cores over "
                f"{rules.window_seconds:g} s"
            )
            events.append(TriggerEvent(CPU, text))
        throttled_share = (usage.throttled_periods - throttles) / max(1.0, usage.periods - periods)
        if rules.throttled_share is not None and self._throttled_hysteresis.should_fire(
            throttled_share, rules.throttled_share, can_fire=can_fire
        ):
            text = (
                f"throttled in {_format_percent(throttled_share)} of its periods over "
                f"{rules.window_seconds:g} s"
            )
            events.append(TriggerEvent(THROTTLED, f"{text}, limit {limit:g} cores"))
        return events


def is_in_cooldown(rules: TriggerRules, fired_at: float | None, now: float) -> bool:
    """Whether no trigger may fire on a process now, given when one last did."""
    if fired_at is None or now < fired_at + rules.boost_seconds:
        return False
    return now < fired_at + rules.boost_seconds + rules.cooldown_seconds


def build_trigger_labels(events: Sequence[TriggerEvent]) -> dict[str, str]:
    """The labels of the windows that were taken for this."""
    words = [word for word in TRIGGER_NAMES if any(one.trigger == word for one in events)]
    return {
        "trigger": "+".join(words),
        "trigger_reason": _truncate_reason("; ".join(one.reason for one in events)),
    }


def _compute_rate(window: SlidingWindow, now: float, value: float) -> float | None:
    before = window.find_baseline(now)
    return None if before is None else (value - before[1][0]) / before[0]


def _format_percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _format_mebibytes(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"


def _truncate_reason(text: str) -> str:
    # A collector takes 256 bytes of a label; all that is said here is ASCII.
    return text if len(text) <= _MAX_REASON_CHARACTERS else text[: _MAX_REASON_CHARACTERS - 3] + "..."
