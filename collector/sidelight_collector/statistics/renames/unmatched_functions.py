"""Functions that only one side has.

The other side must lack a function beyond doubt. The function therefore has so many samples, and would have
so many at the same rate on the other side, that chance does not explain their absence (`MIN_SAMPLES`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_model.frames import Frame, unescape_frame

F64 = NDArray[np.float64]

MIN_SAMPLES: Final = 10.0
"""A Poisson count of this mean is 0 with a probability of 5e-5."""
MAX_CANDIDATES: Final = 200


@dataclass(frozen=True, slots=True)
class UnmatchedFunctions:
    """Functions that only one side has, beyond doubt: removed from A, new in B."""

    removed: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def files(self) -> frozenset[str]:
        """The files of these functions, for which line numbers are needed."""
        return frozenset(Frame.parse(unescape_frame(text)).file for text in (*self.removed, *self.new))

    def __bool__(self) -> bool:
        return bool(self.removed) and bool(self.new)


def find_unmatched(
    names: Sequence[str], samples: tuple[F64, F64], samples_per_rate: tuple[float, float]
) -> UnmatchedFunctions:
    """Find functions whose absence from one side is not chance.

    `samples` are the samples of each name on each side. `samples_per_rate` is the number of samples for a
    rate of 1 (a second per pod-second) on each side.
    """
    by_side = []
    for side, other in ((0, 1), (1, 0)):
        expected = (
            samples[side] * samples_per_rate[other] / samples_per_rate[side]
            if samples_per_rate[side] > 0
            else samples[side] * 0
        )
        is_unmatched = (samples[other] == 0) & (np.minimum(samples[side], expected) >= MIN_SAMPLES)
        codes = [int(at) for at in np.argsort(-samples[side], kind="stable") if is_unmatched[at]]
        by_side.append(
            tuple(names[at] for at in codes if Frame.parse(unescape_frame(names[at])).file)[:MAX_CANDIDATES]
        )
    return UnmatchedFunctions(*by_side)
