"""The sample size that detects a change, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sidelight_model.change import format_percent

MAX_DAYS: Final = 30
"""A longer duration is not stated exactly."""
HOUR_MINUTES: Final = 60
DAY_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True)
class RequiredSample:
    """The sample size that detects a change of `min_effect`.

    `minutes` is the additional time, `pods` the number of pods of each side. If both are None, not even
    `max_pods` are sufficient. `pod_variation` is the lasting difference between pods. `is_too_brief`: the
    minutes are the minimum for any result. `is_transient`: the noise is load, which concurrent sides share.
    """

    min_effect: float
    minutes: float | None = None
    pods: int | None = None
    pod_variation: float = 0.0
    is_too_brief: bool = False
    is_transient: bool = False
    max_pods: int = 1000

    def describe(self, detectable: float, *, is_per_request: bool) -> str:
        """Describe what is lacking, as the end of a sentence.

        `detectable` is the relative change that the data would have shown.
        """
        change = f"a change of {format_share(self.min_effect)}"
        sensitivity = (
            "" if math.isinf(detectable) else f". With these one of {format_share(detectable)} would show"
        )
        if self.minutes is None:
            variation = format_share(self.pod_variation)
            pods = f": pods of one side differ by about {variation}, however long they run, so"
            if self.pods is not None:
                return f"{pods} it takes {self.pods} of each side to show {change}"
            return f"{pods} not even {self.max_pods:,} of each side would show {change}{sensitivity}"
        time = f"{format_minutes(self.minutes)} more of both sides"
        if self.is_too_brief:
            return f": both sides are too short to distinguish a change from chance. Take at least {time}"
        pods = "" if self.pods is None else f", or {self.pods} pods of each,"
        # More time removes less of load than concurrent sides or requests do.
        other = "" if is_per_request else ", or per request,"
        load = f"if that is load, both at the same time{other} need less"
        hint = f". Most of what blurs it comes and goes: {load}" if self.is_transient else ""
        if self.minutes <= MAX_DAYS * DAY_MINUTES:
            return f": about {time}{pods} would show {change}{hint}"
        end = hint or ("" if pods else sensitivity)
        return f": it takes over {MAX_DAYS} days more of both sides{pods} to show {change}{end}"


def format_minutes(minutes: float) -> str:
    """Format minutes in words, rounded up to a usual unit."""
    if minutes <= 1:
        return "a minute"
    if minutes < 2 * HOUR_MINUTES:
        return f"{math.ceil(minutes)} minutes"
    if minutes < 2 * DAY_MINUTES:
        return f"{math.ceil(minutes / HOUR_MINUTES)} hours"
    return f"{math.ceil(minutes / DAY_MINUTES):,} days"


def format_share(part: float) -> str:
    """Format a share without insignificant digits."""
    return format_percent(part, 0 if part >= 0.1 or round(part * 100, 6).is_integer() else 1)
