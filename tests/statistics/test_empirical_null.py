"""The empirical null: the common shift and the spread of functions that did not change."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from sidelight_collector.statistics.inference import empirical_null
from sidelight_collector.statistics.inference.empirical_null import (
    CUT,
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


def test_a_fifth_of_the_functions_may_change_without_hiding_the_rest() -> None:
    rng = np.random.default_rng(3)
    ratios = rng.normal(0, 0.1, 300)
    ratios[:60] += np.where(rng.random(60) < 0.5, 2.0, -2.0)
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
    for count in (1, 3, MIN_FUNCTIONS - 1, MIN_FUNCTIONS):
        assert drawn(count, shift=3.0).shift == pytest.approx(3.0, abs=0.05)
    assert estimate_empirical_null(np.zeros(0), np.zeros(0)).shift == 0.0


def test_constants_are_those_of_the_normal_distribution_cut_by_scipy() -> None:
    mean = stats.norm.expect(lambda z: min(z * z, CUT**2))
    assert pytest.approx(mean, abs=1e-4) == empirical_null._MEAN_CUT_SQUARE
    noise = stats.norm.expect(lambda z: min(z * z, CUT**2) ** 2) - mean**2
    slope = stats.norm.expect(lambda z: 2 * z * z, lb=-CUT, ub=CUT)
    assert pytest.approx(slope**2 / (2 * noise), abs=1e-3) == empirical_null._EFFICIENCY


@pytest.mark.parametrize("seed", range(5))
def test_the_spread_solves_its_equation_as_by_scipy(seed: int) -> None:
    """Equal weights, because own variances are equal: shift and spread by the median and a root finder."""
    rng = np.random.default_rng(seed)
    ratios = rng.normal(0.3, 0.2, 501)
    found = estimate_empirical_null(ratios, np.full(501, OWN))
    squares = (ratios - np.median(ratios)) ** 2
    mean = stats.norm.expect(lambda z: min(z * z, CUT**2))
    expected = optimize.brentq(lambda v: np.minimum(squares / (OWN + v), CUT**2).mean() - mean, 0, 10)
    assert found.shift == pytest.approx(float(np.median(ratios)), abs=1e-3)
    assert found.variance == pytest.approx(expected, rel=0.01)
    assert found.df == pytest.approx(empirical_null._EFFICIENCY * 500)


def test_a_share_near_1_differs_as_little_as_its_rest() -> None:
    null = EmpiricalNull(variance=0.04, are_shares=True)
    shares = np.array([0.01, 0.5, 0.99])
    assert null.compute_variance(shares) == pytest.approx(0.04 * np.array([0.0099, 0.25, 0.0099]) ** 2)
    assert EmpiricalNull(variance=0.04).compute_variance(shares) == pytest.approx(0.04 * shares**2)
    rng = np.random.default_rng(6)
    shares = rng.uniform(0.01, 0.9, 2000)
    ratios = rng.normal(-0.05, np.sqrt(OWN + 0.1**2 * (1 - shares) ** 2))
    found = estimate_empirical_null(ratios, np.full(2000, OWN), rests=1 - shares)
    assert found.shift == pytest.approx(-0.05, abs=0.01)
    assert found.variance == pytest.approx(0.1**2, rel=0.15)


def test_a_shift_that_is_known_from_others_is_the_center() -> None:
    ratios = np.random.default_rng(7).normal(0.3, 0.02, 100)
    found = estimate_empirical_null(ratios, np.full(100, OWN), shift=0.0)
    assert found.shift == 0.0
    assert np.sqrt(found.variance) == pytest.approx(0.3, rel=0.15)
