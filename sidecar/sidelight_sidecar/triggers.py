"""Triggers: decide from readings when a higher rate is worth its cost.

The clock is an argument. A trigger compares values from some seconds ago with current values, so it judges
a mean over that time and not a moment. It fires once, and again only after its value has been below four
fifths of the threshold. After a trigger has fired, all triggers of the process pause for
`cooldown_seconds`, but triggers that fire during the boost are added to it. Growth of memory is measured
anew from the size at which the trigger fired; growth in the first `rss_growth_seconds` of a process's life
counts as its start.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

CPU, THROTTLED, RSS, READY, SIGTERM = "cpu", "throttled", "rss", "ready", "sigterm"
TRIGGER_NAMES = (CPU, THROTTLED, RSS, READY, SIGTERM)
"""Values of a window's label `trigger` and of the metric's label."""

_RESET_SHARE = 0.8
_MAX_POINTS = 60
_MAX_REASON_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class GrowthThreshold:
    """A growth in bytes, or as a share of the earlier size."""

    size_bytes: int = 0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class TriggerRules:
    """Thresholds as shares (None: the trigger is off), times in seconds."""

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
        """The names of the triggers that are on."""
        has_threshold = (
            self.cpu_share is not None,
            self.throttled_share is not None,
            self.rss_growth is not None,
        )
        return tuple(
            name
            for name, is_enabled in zip(
                TRIGGER_NAMES, (*has_threshold, self.fires_on_ready, self.fires_on_sigterm), strict=True
            )
            if is_enabled
        )

    @property
    def check_interval_seconds(self) -> float:
        """A tenth of the shortest measured time, from one second to three."""
        return min(3.0, max(1.0, min(self.window_seconds, self.rss_growth_seconds) / 10))

    @property
    def needs_polling(self) -> bool:
        """Whether an enabled trigger needs periodic readings."""
        return bool(set(self.enabled_triggers) - {SIGTERM})


class TriggerEvent(NamedTuple):
    """A trigger, and the reason in words with figures."""

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
        # The newest point that is `seconds` old stays as the baseline.
        while len(self._points) > 1 and self._points[1][0] <= now - self._seconds:
            self._points.popleft()

    def find_baseline(self, now: float) -> tuple[float, Sequence[float]] | None:
        """Return the age and values of the newest point that is `seconds` old, or None."""
        if not self._points or self._points[0][0] > now - self._seconds:
            return None
        at, values = self._points[0]
        return now - at, values

    def compute_minimum(self) -> float:
        """Return the minimum of each point's first value; infinite without points."""
        return min((values[0] for _, values in self._points), default=math.inf)

    def clear(self) -> None:
        self._points.clear()


class Hysteresis:
    """Fires once when a value exceeds a threshold, until it has dropped again."""

    def __init__(self) -> None:
        self._is_armed = True

    def should_fire(self, value: float | None, threshold: float, *, can_fire: bool) -> bool:
        """Return whether to fire now.

        While `can_fire` is false, a value above the threshold waits, and fires as soon as it is true.
        """
        if value is None:
            return False
        if self._is_armed and value > threshold:
            self._is_armed = not can_fire
            return can_fire
        self._is_armed = self._is_armed or value < _RESET_SHARE * threshold
        return False


class _GrowthTrigger:
    """The trigger of a memory size; `name` is how a reason calls it."""

    def __init__(self, rules: TriggerRules, name: str) -> None:
        self._rules = rules
        self._name = name
        self._window = SlidingWindow(rules.rss_growth_seconds)
        self._hysteresis = Hysteresis()

    def evaluate(self, now: float, age: float, size: int, *, can_fire: bool) -> list[TriggerEvent]:
        """Return the trigger if it fires now; `age` is that of the process, in seconds."""
        rules = self._rules
        if rules.rss_growth is None or age < rules.rss_growth_seconds:
            return []
        self._window.add(now, (float(size),))
        minimum = self._window.compute_minimum()
        growth = size - minimum
        threshold = rules.rss_growth.size_bytes or rules.rss_growth.share * minimum
        if not self._hysteresis.should_fire(growth, threshold, can_fire=can_fire):
            return []
        self._window.clear()
        percent = _format_percent(growth / max(1.0, minimum))
        text = (
            f"{self._name} grew by {_format_mebibytes(growth)} ({percent}) to {_format_mebibytes(size)} "
            f"within {rules.rss_growth_seconds:g} s"
        )
        return [TriggerEvent(RSS, text)]


class ProcessTriggers:
    """Triggers of one process whose container has no known limit or memory cgroup."""

    def __init__(self, rules: TriggerRules) -> None:
        self.rules = rules
        self._cpu_window = SlidingWindow(rules.window_seconds)
        self._cpu_hysteresis = Hysteresis()
        self._growth = _GrowthTrigger(rules, "RSS")

    def evaluate(
        self,
        now: float,
        *,
        age: float,
        cpu_seconds: float,
        rss: int | None,
        has_cpu_limit: bool,
        can_fire: bool,
    ) -> list[TriggerEvent]:
        """Return the triggers that fire now.

        `age` is the process's age in seconds. With `has_cpu_limit` its CPU time is evaluated with its
        container, and without `rss` its memory.
        """
        events = []
        rules = self.rules
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
        return events + ([] if rss is None else self._growth.evaluate(now, age, rss, can_fire=can_fire))


@dataclass(frozen=True, slots=True)
class CpuUsage:
    """A container's CPU limit in cores (None if unknown) and its cgroup's counters."""

    limit_cores: float | None
    cpu_seconds: float = 0.0
    periods: int = 0
    throttled_periods: int = 0


class ContainerTriggers:
    """Triggers of one container: CPU limit, throttling, and memory."""

    def __init__(self, rules: TriggerRules) -> None:
        self.rules = rules
        self._growth = _GrowthTrigger(rules, "working set")
        self._usage_window = SlidingWindow(rules.window_seconds)
        self._cpu_hysteresis, self._throttled_hysteresis = Hysteresis(), Hysteresis()

    def evaluate_memory(
        self, now: float, age: float, working_set: int | None, *, can_fire: bool
    ) -> list[TriggerEvent]:
        """Return the trigger of the memory if it fires now.

        `age` is that of the oldest process in seconds, `working_set` in bytes, None if unknown.
        """
        return [] if working_set is None else self._growth.evaluate(now, age, working_set, can_fire=can_fire)

    def evaluate(self, now: float, usage: CpuUsage, *, can_fire: bool) -> list[TriggerEvent]:
        """Return the triggers of the CPU that fire now."""
        if usage.limit_cores is None:
            self._usage_window.clear()
            return []
        rules, limit = self.rules, usage.limit_cores
        self._usage_window.add(now, (usage.cpu_seconds, usage.periods, usage.throttled_periods))
        baseline = self._usage_window.find_baseline(now)
        if baseline is None:
            return []
        elapsed, (cpu_seconds, periods, throttled_periods) = baseline
        events = []
        share = (usage.cpu_seconds - cpu_seconds) / elapsed / limit
        if rules.cpu_share is not None and self._cpu_hysteresis.should_fire(
            share, rules.cpu_share, can_fire=can_fire
        ):
            text = (
                f"CPU {_format_percent(share)} of the limit of {limit:g} cores over "
                f"{rules.window_seconds:g} s"
            )
            events.append(TriggerEvent(CPU, text))
        throttled_share = (usage.throttled_periods - throttled_periods) / max(1.0, usage.periods - periods)
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
    """Return whether triggers of a process must not fire, given when one last did."""
    if fired_at is None or now < fired_at + rules.boost_seconds:
        return False
    return now < fired_at + rules.boost_seconds + rules.cooldown_seconds


def build_trigger_labels(events: Sequence[TriggerEvent]) -> dict[str, str]:
    """Build the labels of windows that were sampled because of these events."""
    names = [name for name in TRIGGER_NAMES if any(event.trigger == name for event in events)]
    return {
        "trigger": "+".join(names),
        "trigger_reason": _truncate_reason("; ".join(event.reason for event in events)),
    }


def _compute_rate(window: SlidingWindow, now: float, value: float) -> float | None:
    baseline = window.find_baseline(now)
    return None if baseline is None else (value - baseline[1][0]) / baseline[0]


def _format_percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _format_mebibytes(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"


def _truncate_reason(text: str) -> str:
    # A collector accepts labels of up to 256 bytes; reasons are ASCII.
    return text if len(text) <= _MAX_REASON_CHARACTERS else text[: _MAX_REASON_CHARACTERS - 3] + "..."
