"""A side of a comparison, cut into cells: rows are pods, columns are blocks of time.

Pods and stretches of time are what a comparison has to learn from: how far they differ among themselves says
how far two sides differ by luck. So a side is kept as an array of shape (P, T), P rows of pods by T blocks of
equal length, of how long was watched in each, and beside it one of the same shape for each thing that is
compared, its seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.autocorrelation import DAY, Passing, passing

F64 = NDArray[np.float64]

ROWS: Final = 16
"""More pods than these share rows, so that a thousand pods take no more memory."""
BLOCKS: Final = 16
"""Into so many blocks a range is cut, where its windows are short enough."""


ROOM: Final = 0.8
"""What is tested for itself spends this part of its level. How often few pods differ by luck depends on which
pods they are: by recordings (`bench/verdicts`) false changes lie up to a quarter above what is spent."""


class Load(StrEnum):
    """How it is known how far load alone makes two sides differ.

    `CONCURRENT`: both had it at the same time. `ASSUMED_EQUAL`: the caller says that both had the same, and
    what passes within the sides is luck that forgets fast. `COURSE`: what is compared is no time, and changes
    slowly as its own course within the sides shows. `UNKNOWN`: nothing tells, so that nothing is said of a
    difference.
    """

    CONCURRENT = "concurrent"
    ASSUMED_EQUAL = "assumed_equal"
    COURSE = "course"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Side:
    """What was watched of one side: pod-seconds (or requests) in each of (P, T) cells.

    `pods` names the pods of each row, `seconds` is the length of a block. A cell that nobody watched is 0.
    """

    watched: F64
    pods: tuple[tuple[str, ...], ...]
    seconds: float

    @property
    def whole(self) -> float:
        return float(self.watched.sum())

    @property
    def rows(self) -> int:
        """The rows in which something was watched."""
        return int((self.watched.sum(1) > 0).sum())

    @property
    def blocks(self) -> int:
        """The blocks in which something was watched."""
        return int((self.watched.sum(0) > 0).sum())


@dataclass(frozen=True, slots=True)
class Design:
    """Two sides, and how they are compared: the same for every quantity of one comparison.

    `same_time`: a column of A and the same of B belong together, as they had the same load (a canary) or,
    with `other_days`, were the same hours of other days, whose loads resemble each other and are not the
    same. `same_pods`: a row of A and the same of B are the same pods. `passing`: how the passing of time is
    judged, for each side, or once for their difference where columns are paired. `alpha`: the level that is
    spent at this look. `detect`: the relative change one wants to see. `load`: how it is known what load
    does.
    """

    a: Side
    b: Side
    same_time: bool
    other_days: bool
    same_pods: bool
    passing: Passing
    alpha: float
    detect: float
    load: Load = Load.UNKNOWN

    @property
    def tested(self) -> float:
        """At which level a single quantity is tested, so that `alpha` is kept whichever pods there are."""
        return ROOM * self.alpha

    @property
    def frequencies(self) -> int:
        """Of how many waves of each series the passing of time is judged; 0 where there is one block."""
        return min(len(weights) for weights in self.passing.weights)


def design(
    a: Side,
    b: Side,
    whole_a: F64,
    whole_b: F64,
    *,
    same_time: bool = False,
    other_days: bool = False,
    same_pods: bool = False,
    alpha: float = 0.05,
    look: int = 0,
    detect: float = 0.05,
    load: Load = Load.UNKNOWN,
) -> Design:
    """How these sides are compared; the whole time of each cell, (P, T) of each side, tells how slowly what
    is compared changes. `load`: how it is known what load does where sides are not of the same time.

    Sides that are to be paired have as many columns (or rows) each: ValueError where they do not.
    """
    for side, whole in ((a, whole_a), (b, whole_b)):
        if side.watched.shape != whole.shape or len(side.pods) != len(side.watched):
            raise ValueError(
                f"a side of {side.watched.shape} cells and {len(side.pods)} rows has {whole.shape} sums"
            )
    if same_time and a.watched.shape[1] != b.watched.shape[1]:
        raise ValueError("sides of the same time have as many blocks")
    if same_pods and a.watched.shape[0] != b.watched.shape[0]:
        raise ValueError("sides of the same pods have as many rows")
    rows = [residuals(side, whole) for side, whole in ((a, whole_a), (b, whole_b))]
    series = [cells.sum(0) for cells in rows]
    if same_time:
        series = [series[1] - series[0]]
    level = spent(alpha, look)
    seconds = [a.seconds] if same_time else [a.seconds, b.seconds]
    apart = not same_time or other_days
    fast = load is Load.ASSUMED_EQUAL
    found = passing(series, seconds, ROOM * level, None if same_time else DAY, fast=fast)
    by = load if apart else Load.CONCURRENT
    return Design(a, b, same_time, other_days, same_pods, found, level, detect, by)


def spent(alpha: float, look: int) -> float:
    """What of `alpha` a look spends: all of it where it is the only one (0).

    Where there are more to come the k-th spends alpha/(k(k+1)), which adds up to alpha over any number of
    looks.
    """
    return alpha / (look * (look + 1)) if look else alpha


def residuals(side: Side, cells: F64) -> F64:
    """What each cell adds to the error of the rate, relative to it: (P, T), their sum is 0."""
    whole, seconds = side.whole, float(cells.sum())
    if whole <= 0 or seconds <= 0:
        return np.zeros_like(side.watched)
    relative: F64 = cells / seconds - side.watched / whole
    return relative


def row_of(namespace: str, pod: str, rows: int = ROWS) -> int:
    """The row that a pod shares where there are more pods than rows: the same in every question."""
    name = f"{namespace}/{pod}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") % rows
