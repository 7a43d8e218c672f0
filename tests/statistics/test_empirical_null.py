"""The empirical null: the common shift and the spread of functions that did not change."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sidelight_collector.statistics.inference.empirical_null import (
    DEFAULT_SPREAD,
    MIN_FUNCTIONS,
    EmpiricalNull,
    estimate_empirical_null,
)

OWN = 0.02**2


def drawn(count: int, *, shift: float = 0.0, spread: float = 0.0, seed: int = 1) -> EmpiricalNull:
    rng = np.random.default_rng(seed)
    return estimate_empirical_null(rng.normal(shift, np.sqrt(OWN + spread**2), count), np.full(count, OWN))


def test_functions_that_differ_by_their_own_variance_have_no_spread() -> None:
    rng = np.random.default_rng(2)
    own = rng.uniform(0.01, 0.05, 400) ** 2
    found = estimate_empirical_null(rng.normal(0, np.sqrt(own)), own)
    assert abs(found.shift) < 0.005
    assert found.variance < 0.012**2


@pytest.mark.parametrize("spread", [0.05, 0.15, 0.4])
def test_shift_and_spread_are_those_that_were_drawn(spread: float) -> None:
    found = drawn(4000, shift=-0.1, spread=spread)
    assert found.shift == pytest.approx(-0.1, abs=0.15 * spread)
    assert found.variance == pytest.approx(spread**2, rel=0.15)


def test_a_third_of_the_functions_may_change_without_hiding_the_rest() -> None:
    rng = np.random.default_rng(3)
    ratios = rng.normal(0, 0.1, 300)
    ratios[:100] += np.where(rng.random(100) < 0.5, 2.0, -2.0)
    found = estimate_empirical_null(ratios, np.full(300, OWN))
    assert abs(found.shift) < 0.05
    assert np.sqrt(found.variance) < 0.2


def test_one_large_function_does_not_decide() -> None:
    """It has a hundred times the precision of each of the others, and it doubled."""
    ratios = np.append(np.random.default_rng(4).normal(0, 0.05, 40), np.log(2))
    found = estimate_empirical_null(ratios, np.append(np.full(40, 0.05**2), 0.005**2))
    assert abs(found.shift) < 0.03
    assert np.sqrt(found.variance) < 0.08


def test_few_functions_show_no_spread_and_a_usual_one_is_assumed() -> None:
    assert drawn(MIN_FUNCTIONS - 1, shift=3.0).variance == DEFAULT_SPREAD**2
    assert drawn(MIN_FUNCTIONS - 1, shift=3.0).shift == 0.0
    assert drawn(MIN_FUNCTIONS, shift=3.0).shift == pytest.approx(3.0, abs=0.05)


def test_the_spread_of_equal_precisions_is_the_median_absolute_deviation() -> None:
    """Against scipy: with equal variances, the total spread is the normal-consistent MAD."""
    rng = np.random.default_rng(5)
    ratios = rng.normal(0.3, 0.2, 501)
    found = estimate_empirical_null(ratios, np.full(501, OWN))
    assert found.shift == pytest.approx(float(np.median(ratios)), abs=1e-3)
    expected = stats.median_abs_deviation(ratios, scale="normal") ** 2 - OWN
    assert found.variance == pytest.approx(expected, rel=0.02)
