"""The methods of a comparison against independent implementations, on random inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special, stats

from sidelight_collector.statistics.inference.autocorrelation import build_cosines
from sidelight_collector.statistics.inference.cluster_variance import estimate_variance
from sidelight_collector.statistics.inference.design import SideMatrix, build_design
from sidelight_collector.statistics.inference.effect_size import compute_effects
from sidelight_collector.statistics.inference.fdr import benjamini_hochberg
from sidelight_collector.statistics.inference.fieller import compute_fieller_interval
from sidelight_collector.statistics.inference.residuals import compute_residuals
from sidelight_collector.statistics.inference.shrinkage import (
    _digamma,
    _trigamma,
    estimate_prior_variance,
)
from sidelight_collector.statistics.inference.student_t import (
    POWER,
    compute_required_errors,
    t_quantile,
    two_sided_p_value,
)

F64 = NDArray[np.float64]
SEEDS = st.integers(0, 10_000)
DF = st.floats(0.6, 1e5)


@given(st.floats(-60, 60), DF)
def test_probabilities_of_students_t_are_those_of_scipy(t: float, df: float) -> None:
    assert float(two_sided_p_value(t, df)) == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-7)


@given(st.floats(1e-4, 1 - 1e-4), DF)
def test_quantiles_of_students_t_are_those_of_scipy(p: float, df: float) -> None:
    assert float(t_quantile(p, df)) == pytest.approx(stats.t.ppf(p, df), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("df", [2, 4, 10, 40, 300])
def test_the_required_errors_have_the_power_of_the_noncentral_t_of_scipy(df: int) -> None:
    """The change is stated in errors that are as small as the median of those observed."""
    errors = float(compute_required_errors(0.975, df))
    true_errors = errors * np.sqrt(stats.chi2.median(df) / df)
    threshold = stats.t.ppf(0.975, df)
    assert stats.nct.sf(threshold, df, true_errors) == pytest.approx(POWER, abs=0.04)


@given(st.floats(0.05, 1e6))
def test_derivatives_of_the_logarithm_of_gamma_are_those_of_scipy(x: float) -> None:
    assert _digamma(np.array([x]))[0] == pytest.approx(special.digamma(x), rel=1e-9, abs=1e-9)
    assert _trigamma(np.array([x]))[0] == pytest.approx(special.polygamma(1, x), rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_q_values_are_those_of_scipy(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p, method="bh"))


@given(st.floats(0.1, 10), st.floats(0.01, 10), st.floats(1e-4, 1), st.floats(1e-4, 1))
def test_ends_of_fiellers_interval_solve_its_equation(
    a: float, b: float, square_a: float, square_b: float
) -> None:
    ends = [
        float(end[0])
        for end in compute_fieller_interval(*(np.array([of]) for of in (a, b, square_a, square_b)))
    ]
    for end in ends:
        if 0 < end < 1e4:  # farther out the equation itself has no digits left
            assert (b - end * a) ** 2 == pytest.approx(square_b + end**2 * square_a, rel=1e-6, abs=1e-9)
    inside = np.linspace(0, 50, 2001)
    holds = (b - inside * a) ** 2 < square_b + inside**2 * square_a
    assert ((inside > ends[0] - 1e-9) & (inside < ends[1] + 1e-9))[holds].all()


def draw_side(rng: np.random.Generator, pods: int, blocks: int) -> tuple[SideMatrix, F64]:
    """Unequal exposure, and a rate that differs by pods, by times, and by cells."""
    exposure = rng.uniform(20, 60, (pods, blocks))
    rate = np.exp(
        rng.normal(0, 0.2, (pods, 1)) + rng.normal(0, 0.2, (1, blocks)) + rng.normal(0, 0.1, (pods, blocks))
    )
    return SideMatrix(exposure, tuple((f"pod-{row}",) for row in range(pods)), 60.0), exposure * rate


def sandwich(side: SideMatrix, cells: F64) -> tuple[float, float, float, float]:
    """The explicit sandwich of one side: rate, and variances clustered by pods, by times, by neither.

    Residuals of cells are computed one by one. Times that depend on each other are weighed by the cosines.
    """
    whole, rate = side.exposure.sum(), cells.sum() / side.exposure.sum()
    errors = (cells - rate * side.exposure) / whole
    pods, blocks = errors.shape
    kernel = build_cosines(blocks) @ build_cosines(blocks).T * blocks / build_cosines(blocks).shape[1]
    correction = pods / (pods - 1)
    by_pod = correction * sum(errors[row].sum() ** 2 for row in range(pods))
    by_time = errors.sum(0) @ kernel @ errors.sum(0)
    share = side.exposure.sum(1) / whole
    beside = errors - share[:, None] * errors.sum(0)
    by_cell = correction * sum(beside[row] @ kernel @ beside[row] for row in range(pods))
    return float(rate), float(by_pod), float(by_time), float(by_cell)


@settings(max_examples=40)
@given(SEEDS, st.integers(2, 8), st.integers(4, 20))
def test_the_variance_is_that_of_the_explicit_sandwich(seed: int, pods: int, blocks: int) -> None:
    """Sides of different times, of equally many pods."""
    rng = np.random.default_rng(seed)
    (side_a, a), (side_b, b) = draw_side(rng, pods, blocks), draw_side(rng, pods, blocks)
    design = build_design(side_a, side_b)
    residuals = compute_residuals(side_a, a[None]), compute_residuals(side_b, b[None])
    estimate = estimate_variance(design, *residuals)
    parts = [sandwich(side_a, a), sandwich(side_b, b)]
    assert [float(of.rate[0]) for of in residuals] == pytest.approx([part[0] for part in parts])
    # Pods of both sides differ alike relative to their rate.
    size = [float((side.exposure.sum(1) ** 2).sum() / side.exposure.sum() ** 2) for side in (side_a, side_b)]
    relative = sum(part[1] / of for part, of in zip(parts, size, strict=True))
    within = sum(part[3] / of for part, of in zip(parts, size, strict=True))
    scale = sum(part[0] ** 2 for part in parts)
    pods_variance = 0.0
    for part, of in zip(parts, size, strict=True):
        lasting = max(relative - within, 0) / scale * part[0] ** 2 * of
        pods_variance += lasting + part[3] * min(relative / within, 1)
    expected = pods_variance + sum(part[2] - part[3] for part in parts)
    assert float(estimate.variance[0]) == pytest.approx(max(expected, 0.25 * pods_variance), rel=1e-9)


@settings(max_examples=30)
@given(SEEDS, st.integers(2, 6), st.floats(0.5, 2))
def test_pods_that_never_vary_in_time_are_compared_as_by_scipy(seed: int, pods: int, factor: float) -> None:
    """Student's test of two samples of pods; their mean rates are equal, so that they differ alike."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.8, 1.2, (2, pods))
    rates[1] *= rates[0].mean() / rates[1].mean()
    rates[1] += 1e-3 * factor
    side = SideMatrix(np.full((pods, 8), 60.0), tuple((f"pod-{row}",) for row in range(pods)), 60.0)
    cells = [np.repeat(60 * own[:, None], 8, 1)[None] for own in rates]
    none = np.array([np.inf])
    result = compute_effects(build_design(side, side, same_time=True), *cells, none, none)
    expected = stats.ttest_ind(rates[1], rates[0])
    assert result.p[0] == pytest.approx(expected.pvalue, rel=0.01)
    interval = expected.confidence_interval(0.95)
    assert (result.low[0], result.high[0]) == pytest.approx((interval.low, interval.high), rel=0.01)


def test_the_usual_variance_is_the_most_likely_one_by_scipy() -> None:
    """Variances of a scaled F distribution (Smyth, 2004), fitted by maximum likelihood."""
    rng = np.random.default_rng(5)
    df, prior_df, factor, count = 6.0, 12.0, 0.02, 600
    rate = rng.lognormal(0, 0.5, count)
    variance = factor * rate**2 * stats.f.rvs(df, prior_df, size=count, random_state=rng)
    errors = rng.normal(size=(count, 400))
    found = estimate_prior_variance(variance, np.full(count, df), np.zeros(count), rate, errors)

    def negative_likelihood(logs: F64) -> float:
        scale, freedom = np.exp(logs)
        return -float(stats.f.logpdf(variance / rate**2 / scale, df, freedom).sum() - count * logs[0])

    best = np.exp(optimize.minimize(negative_likelihood, np.log([0.01, 5.0]), method="Nelder-Mead").x)
    assert found.rate_factor == pytest.approx(best[0], rel=0.05)
    assert found.df == pytest.approx(best[1], rel=0.35)
