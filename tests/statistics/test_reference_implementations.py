"""The methods of a comparison against independent implementations, on random inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special, stats

from sidelight_collector.statistics.depths.depth_comparison import compare_depths
from sidelight_collector.statistics.depths.quantile_shift import QUANTILES, _EmpiricalDistribution
from sidelight_collector.statistics.inference.autocorrelation import build_cosines
from sidelight_collector.statistics.inference.cluster_variance import compute_df, estimate_variance
from sidelight_collector.statistics.inference.counting_noise import compute_counting_variances
from sidelight_collector.statistics.inference.design import SideMatrix, build_design
from sidelight_collector.statistics.inference.effect_size import compute_effects
from sidelight_collector.statistics.inference.fdr import benjamini_hochberg
from sidelight_collector.statistics.inference.fieller import compute_fieller_interval
from sidelight_collector.statistics.inference.power import advise_sample_size
from sidelight_collector.statistics.inference.residuals import compute_residuals
from sidelight_collector.statistics.inference.sample_shares import estimate_share
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
from tests.statistics.sides import even, judge, pods, side

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


@given(st.floats(1, 1e5), st.floats(1, 1e5), st.integers(0, 10**5), st.integers(1, 10**5))
def test_counting_noise_is_that_of_the_chi_squared_test_of_scipy(
    exposure_a: float, exposure_b: float, count_a: int, count_b: int
) -> None:
    """Two Poisson counts, tested as if their rates were equal; one more sample is counted for each rate."""
    exposure, counts = np.array([exposure_a, exposure_b]), np.array([count_a, count_b], float)
    residuals = [
        compute_residuals(side(np.full((1, 1), of)), np.full((1, 1, 1), count))
        for of, count in zip(exposure, counts, strict=True)
    ]
    found = compute_counting_variances(*residuals, counts[:1], counts[1:])
    pooled = sum(float(of[0]) for of in found) - float((1 / exposure**2).sum())
    square = float(counts[1] / exposure[1] - counts[0] / exposure[0]) ** 2 / pooled
    expected = stats.chisquare(counts, counts.sum() * exposure / exposure.sum()).statistic
    assert square == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(SEEDS, st.integers(2, 40))
def test_degrees_of_freedom_of_two_samples_are_those_of_welchs_test_by_scipy(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 1, count), rng.normal(0, 2, count + 3)
    parts = [of.var(ddof=1) / len(of) for of in (a, b)]
    squares = sum(part**2 / (len(of) - 1) for part, of in zip(parts, (a, b), strict=True))
    found = compute_df(np.array([sum(parts)]), np.array([squares]))
    assert found[0] == pytest.approx(stats.ttest_ind(a, b, equal_var=False).df)


@settings(max_examples=30)
@given(SEEDS, st.integers(2, 12))
def test_the_same_pods_are_compared_as_by_the_paired_test_of_scipy(seed: int, count: int) -> None:
    """Their mean rates are equal, so that both sides weigh alike."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.8, 1.2, (2, count))
    rates[1] *= rates[0].mean() / rates[1].mean()
    cells = [np.repeat(60 * own[:, None], 16, 1)[None] for own in rates]
    _, result = judge(*cells, same_pods=True)
    interval = stats.ttest_rel(rates[1], rates[0]).confidence_interval(0.95)
    assert (result.low[0], result.high[0]) == pytest.approx((interval.low, interval.high), rel=1e-6)


@settings(max_examples=30)
@given(SEEDS, st.integers(2, 8))
def test_the_detectable_change_solves_its_equation_as_by_scipy(seed: int, count: int) -> None:
    """B's errors grow with its rate, so the change is on both sides of the equation."""
    _, found = judge(pods(seed, count, spread=0.02), pods(seed + 1, count, spread=0.02))
    rate, needed = float(found.baseline[0]), float(found.required_errors[0])
    parts = float(found.variance_a[0]), float(found.variance_b[0])
    share_a = parts[0] / sum(parts) if sum(parts) else 0.5
    variance = float(found.variance[0])

    def lack(rise: float) -> float:
        return rise * rate - needed * np.sqrt(variance * (share_a + (1 - share_a) * (1 + rise) ** 2))

    expected = optimize.brentq(lack, 0, 1e3)
    assert float(found.min_detectable_effect[0]) == pytest.approx(expected, rel=1e-6)


@settings(max_examples=30)
@given(SEEDS, st.integers(2, 8))
def test_a_share_of_equally_many_samples_of_each_pod_has_the_interval_of_scipy(seed: int, count: int) -> None:
    # Pods that differ by more than the scatter of their samples, which is the least variance of an estimate.
    shares = np.linspace(0.3, 0.7, count) + np.random.default_rng(seed).uniform(-0.02, 0.02, count)
    samples = np.full((count, 1), 1e6)
    found = estimate_share(side(samples), samples * shares[:, None], float(samples.sum()))
    expected = stats.ttest_1samp(shares, 0).confidence_interval(0.95)
    assert found.low == pytest.approx(max(expected.low, 0))
    assert found.high == pytest.approx(min(expected.high, 1))


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


@settings(max_examples=30)
@given(SEEDS, st.integers(1, 30), st.integers(20, 400))
def test_the_largest_gap_of_depths_is_that_of_kolmogorov_and_smirnov_by_scipy(
    seed: int, deepest: int, size: int
) -> None:
    rng = np.random.default_rng(seed)
    depths = np.arange(1, deepest + 1)
    samples = [rng.choice(depths, size=size + 10 * at, p=rng.dirichlet(np.ones(deepest))) for at in (0, 1)]
    cells = [np.bincount(of, minlength=deepest + 1)[1:, None, None].astype(float) for of in samples]
    design = build_design(even(1, 1), even(1, 1))
    found = compare_depths(design, depths, *cells)
    assert found is not None
    assert abs(found.gap.gap) == pytest.approx(stats.ks_2samp(*samples, method="asymp").statistic)
    for quantile, p in enumerate(QUANTILES):
        expected = np.quantile(samples[0], p, method="inverted_cdf")
        assert found.quantiles.baseline[quantile] == pytest.approx(expected)


@settings(max_examples=30)
@given(SEEDS, st.integers(30, 3000), st.sampled_from(QUANTILES[:2]))
def test_intervals_of_quantiles_are_those_of_order_statistics_by_scipy(
    seed: int, size: int, p: float
) -> None:
    """Woodruff's interval by a normal approximation, scipy's by the binomial distribution of ranks."""
    samples = np.random.default_rng(seed).permutation(size).astype(float)
    share = np.arange(1, size + 1) / size
    found = _EmpiricalDistribution(np.arange(size), share, share * (1 - share) / size)
    expected = stats.quantile_test(samples, q=p * size, p=p).confidence_interval(0.95)
    low, high = found.quantile_interval(p, 1.96)
    # In ranks; the highest quantiles of few samples have no upper end.
    ranks = 2 + 0.15 * np.sqrt(size * p * (1 - p))
    assert low == pytest.approx(expected.low, abs=ranks)
    assert high == pytest.approx(np.nan_to_num(expected.high, nan=size), abs=ranks)


@given(st.integers(200, 10**5), st.integers(200, 10**5))
def test_the_band_around_the_gap_is_the_critical_value_of_kolmogorov_by_scipy(a: int, b: int) -> None:
    """Half of each side's samples are deeper; then all their shares are as uncertain as possible."""
    cells = [np.full((2, 1, 1), float(2 * of)) for of in (a, b)]
    found = compare_depths(build_design(even(1, 1), even(1, 1)), np.array([1, 2]), *cells)
    assert found is not None
    expected = stats.kstwobign.ppf(0.95) * np.sqrt(1 / (4 * a) + 1 / (4 * b))
    assert found.gap.high - found.gap.gap == pytest.approx(expected, rel=0.01)


@settings(max_examples=30, suppress_health_check=[HealthCheck.filter_too_much])
@given(SEEDS, st.integers(2, 6))
def test_the_pods_that_would_do_have_the_power_of_the_noncentral_t_of_scipy(seed: int, count: int) -> None:
    """Pods that differ and never vary in time; without the pods they have, the least number that does."""
    a, b = (np.repeat(pods(seed + at, count, spread=0.04)[:, :, :1], 16, 2) for at in (0, 1))
    design, effects = judge(a, b)
    advice = advise_sample_size(effects, design)
    assume(advice is not None and advice.pods is not None and advice.pods <= 16)
    assert advice is not None
    assert advice.pods is not None
    each = float(effects.variance[0]) * count / 2
    target = design.min_effect / (1 + design.min_effect) * float(effects.baseline[0])

    def power(pods_a_side: int) -> float:
        df = 2 * pods_a_side - 2
        noise = np.sqrt(each * 2 / pods_a_side / stats.chi2.median(df) * df)
        return float(stats.nct.sf(stats.t.ppf(0.975, df), df, target / noise))

    assert power(advice.pods) > 0.75
    assert power(advice.pods - 1) < 0.85
