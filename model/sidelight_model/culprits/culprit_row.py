"""A culprit as JSON, in the answers of the collector and of comparisons of files."""

from __future__ import annotations

from typing import TypedDict

from sidelight_model.culprits.culprit_search import Culprit
from sidelight_model.frames import Frame


class CulpritJson(TypedDict):
    """A function where a change starts, and its part of the change.

    `folded` are functions between it and the code that changed. `self_or_total` is `self` if its own time
    changed. `relative` is the part of all its time in the baseline. `names` is the heaviest path to it. Files
    have no pods.
    """

    function: str
    file: str
    folded: list[str]
    self_or_total: str
    delta: float
    share: float
    relative: float | None
    low: float | None
    high: float | None
    direction: str
    q: float
    pods_agreeing: int | None
    pods_total: int | None
    names: list[str]


def build_culprit_row(
    culprit: Culprit,
    baseline: float,
    *,
    delta: float,
    interval: tuple[float | None, float | None],
    pods: tuple[int | None, int | None] = (None, None),
) -> CulpritJson:
    """Build the row of a culprit.

    `delta` with its `interval` is the change, and `baseline` all time of the function in the baseline, in one
    unit. `pods` are those that agree, and all.
    """
    frame = Frame.parse(culprit.frame)
    return {
        "function": frame.function,
        "file": frame.file,
        "folded": list(culprit.folded),
        "self_or_total": "self" if culprit.is_self else "total",
        "delta": delta,
        "share": culprit.share,
        "relative": delta / baseline if baseline > 0 else None,
        "low": interval[0],
        "high": interval[1],
        "direction": culprit.direction.value,
        "q": culprit.q,
        "pods_agreeing": pods[0],
        "pods_total": pods[1],
        "names": list(culprit.path),
    }
