"""Read the samples of Chrome traces and of Firefox Profiler files.

`sidelight_model.import_formats.trace_events` and `gecko_profile` read the formats. A trace has times instead
of samples: they are divided by the period, as those of speedscope are. A gecko profile has samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidelight_model.counts import Counts
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.folded import Stack
from sidelight_model.import_formats.gecko_profile import GeckoSummary, iter_gecko_stacks
from sidelight_model.import_formats.trace_events import NS_PER_US, TraceSummary, iter_trace_stacks
from sidelight_model.recordings.inputs.sample_weights import count_weighted_samples
from sidelight_model.recordings.inputs.speedscope_input import find_sample_period

_STRUCTURE_ERRORS: Final = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)


class BadTimeline(SidelightError):
    """A JSON file has no stacks over time that can be read."""

    reason = Reason.BAD_FOLDED


def count_trace_samples(
    file_name: str, document: Any, sample_weight: float | None
) -> tuple[Mapping[Stack, Counts], int]:
    """Return the samples of a trace by stack, and the number of damaged events.

    `sample_weight` is the time of one sample in microseconds. Raises BadTimeline.
    """
    summary = TraceSummary()
    try:
        entries = list(iter_trace_stacks(document, summary))
        period = sample_weight * NS_PER_US if sample_weight else None
        weights = [entry.weight for entry in entries]
        counts = count_weighted_samples(entries, find_sample_period(weights, None, period, NS_PER_US))
    except _STRUCTURE_ERRORS as error:
        raise BadTimeline(
            f"{file_name} is a Chrome trace without readable stacks: {error}",
            hint="Record it again; it needs events B and E, or X.",
        ) from error
    return counts, summary.damaged_events


def count_gecko_samples(file_name: str, document: Any) -> tuple[Mapping[Stack, Counts], int]:
    """Return the samples of a gecko profile by stack, and the number of damaged ones.

    Raises BadTimeline.
    """
    summary = GeckoSummary()
    try:
        counts = count_weighted_samples(iter_gecko_stacks(document, summary), 1)
    except _STRUCTURE_ERRORS as error:
        raise BadTimeline(
            f"{file_name} looks like a profile of the Firefox Profiler, and cannot be read ({error})",
            hint="Save it again from the Firefox Profiler.",
        ) from error
    return counts, summary.damaged_samples
