"""Rules that make metrics from profiles, as values. Pure.

A value is a gauge, the mean over the last complete interval, and not a counter. Windows arrive late, several
collectors answer from one store, and stored windows are deleted one day. A counter that follows them would
fall, or jump when a collector restarts, and `rate()` would show CPU time that nobody used. Gauges can be
computed again by any collector at any time, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ON_CPU_STATES, STATES_BY_TYPE, ProfileType
from sidelight_model.selectors import Selector

FUNCTION: Final = "function"
PACKAGE: Final = "package"
ENDPOINT: Final = "endpoint"
STATE: Final = "state"
STACK_LABELS: Final = (FUNCTION, PACKAGE, ENDPOINT)
"""Labels that come from stacks; a rule may keep one of them."""
DEFAULT_LIMIT: Final = 20
DEFAULT_INTERVAL_SECONDS: Final = 300
DEFAULT_OFFSET_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class MetricRule:
    """A rule for one metric.

    record: the metric's name.
    selector: selects windows, and stacks by their endpoint.
    function, package: patterns of frames; at most one is not empty.
    states: the states of samples to count, of those of the type.
    is_self: only stacks that end with a matching frame count.
    by: the labels to keep.
    labels: fixed labels.
    limit: the most series.
    """

    record: str
    profile_type: ProfileType = ProfileType.CPU
    selector: Selector = field(default_factory=Selector)
    function: str = ""
    package: str = ""
    states: tuple[str, ...] = ON_CPU_STATES
    is_self: bool = False
    by: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    limit: int = DEFAULT_LIMIT

    @property
    def unit(self) -> str:
        """The unit of the values, and the end of the metric's name."""
        if self.profile_type is ProfileType.TASKS:
            return "tasks"
        return "cores" if self.profile_type.is_cpu_time else "threads"

    @property
    def window_labels(self) -> tuple[str, ...]:
        """The labels to keep that windows have."""
        return tuple(name for name in self.by if name not in (*STACK_LABELS, STATE))

    @property
    def stack_label(self) -> str:
        """The label to keep that comes from stacks; empty without one."""
        return next((name for name in self.by if name in STACK_LABELS), "")

    @property
    def frame_label(self) -> str:
        """What kind of frames the rule looks for: `function`, `package` or none."""
        if self.function or self.stack_label == FUNCTION:
            return FUNCTION
        return PACKAGE if self.package or self.stack_label == PACKAGE else ""

    @property
    def required_states(self) -> frozenset[str]:
        """The states without which a sampler's windows say nothing about this rule.

        A sampler that cannot tell `idle` has recorded CPU time only, so its wall time is unknown.
        """
        if len(self.states) < len(STATES_BY_TYPE[self.profile_type]):
            return frozenset("gil" if state == "running" else state for state in self.states)
        of_type = {
            ProfileType.WALL: "idle",
            ProfileType.OFF_CPU: "idle",
            ProfileType.GIL: "gil",
            ProfileType.GIL_WAIT: "gil_wait",
        }
        return frozenset({of_type[self.profile_type]}) if self.profile_type in of_type else frozenset()


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules whose values are means over the same intervals.

    An interval counts as complete `offset_seconds` after its end.
    """

    name: str
    rules: tuple[MetricRule, ...]
    interval_seconds: int = DEFAULT_INTERVAL_SECONDS
    offset_seconds: int = DEFAULT_OFFSET_SECONDS

    def find_interval(self, now_ns: int) -> tuple[int, int]:
        """Return the start and end of the last complete interval (Unix ns)."""
        length = self.interval_seconds * SECOND_NS
        until = (now_ns - self.offset_seconds * SECOND_NS) // length * length
        return until - length, until


@dataclass(frozen=True, slots=True)
class Series:
    """A value with its labels, which are sorted."""

    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The series of a rule, the largest value first.

    `dropped` counts the series above its limit.
    """

    rule: MetricRule
    series: tuple[Series, ...]
    dropped: int = 0
