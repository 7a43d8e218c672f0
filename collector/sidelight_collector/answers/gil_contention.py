"""The share of the time in which threads want to run that they wait for the GIL."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypedDict

from sidelight_collector.arrow_ops import sum_ints
from sidelight_collector.comparison.matrix import observe_one_side
from sidelight_collector.query.sampling_quality import list_nested_strings
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.statistics.inference.sample_shares import estimate_share

MIN_SAMPLES: Final = 1000
MIN_SHARE: Final = 0.1
_WAITING: Final = "gil_wait"
_WANTED: Final = ("gil", "running", "cpu_wait", _WAITING)


class GilContention(TypedDict):
    """A share with its interval; its ends are None where one pod at one time shows no scatter."""

    share: float
    low: float | None
    high: float | None


def measure_gil_contention(windows: SelectedWindows) -> GilContention | None:
    """Measure what the GIL costs, with an interval from how far pods and times differ.

    The result is None where it is little, not known for all windows, or of few samples.
    """
    waiting, wanted = (
        sum(sum_ints(windows.table[state]) for state in states) for states in ((_WAITING,), _WANTED)
    )
    if wanted < MIN_SAMPLES or waiting < MIN_SHARE * wanted:
        return None
    if _WAITING in list_nested_strings(windows.process_windows["missing_states"]):
        return None
    observations = observe_one_side(windows)
    matrix = replace(observations.matrix, exposure=observations.sum_seconds(_WANTED))
    found = estimate_share(matrix, observations.sum_seconds((_WAITING,)), wanted)
    return {"share": found.share, "low": found.low, "high": found.high}
