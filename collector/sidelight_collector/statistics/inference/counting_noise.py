"""Counting noise of rates: n samples scatter by the square root of n (Poisson).

Both rates are estimated as if they were equal, which is what the test supposes: Ng and Tang, Statistics in
Medicine 24, 2005, constrained maximum likelihood.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.residuals import Residuals

F64 = NDArray[np.float64]


def compute_counting_variances(a: Residuals, b: Residuals, samples_a: F64, samples_b: F64) -> tuple[F64, F64]:
    """Return the least variances of both rates that their numbers of samples allow.

    Both sides are taken to have the rate that they have together, as the test supposes: a side that happens
    to have few samples would seem certain otherwise. One more sample is counted, so that none is not certain
    to be none. A side without samples is assumed to have samples as long as the other's.
    """
    exposure = a.total_exposure + b.total_exposure
    together = (a.rate * a.total_exposure + b.rate * b.total_exposure) / exposure
    variances = []
    for own, other, count, others in ((a, b, samples_a, samples_b), (b, a, samples_b, samples_a)):
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(
                count > 0,
                own.rate * own.total_exposure / count,
                np.where(others > 0, other.rate * other.total_exposure / others, 0.0),
            )
        whole = own.total_exposure
        variances.append(np.where(np.isinf(count), 0.0, together * each / whole + (each / whole) ** 2))
    return variances[0], variances[1]
