"""Functions tell of each other how they scatter, as far as they are many and scatter for themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.shrinkage import (
    MIN_FUNCTIONS,
    PriorVariance,
    _digamma,
    _trigamma,
    count_independent,
    estimate_prior_variance,
)

F64 = NDArray[np.float64]


def errors(luck: np.random.Generator, functions: int, pods: int = 8) -> F64:
    drawn = luck.standard_normal((functions, pods))
    centred: F64 = drawn - drawn.mean(1, keepdims=True)
    return centred


def taught(of: F64, rate: F64, spread: F64 | float, counting: float = 0.0) -> PriorVariance:
    """What is learned of functions that scatter by a part of their rates."""
    scatters = rate**2 * np.asarray(spread) + counting
    variance = (of**2).sum(1) / (of.shape[1] - 1) * scatters
    df = np.full(len(of), of.shape[1] - 1.0)
    return estimate_prior_variance(variance, df, np.full(len(of), counting), rate, of)


@pytest.mark.parametrize(
    ("x", "first", "second"),
    [
        (1.0, -0.5772156649015329, np.pi**2 / 6),
        (0.5, -1.9635100260214235, np.pi**2 / 2),
        (2.0, 0.42278433509846714, np.pi**2 / 6 - 1),
        (1000.0, 6.907255195648812, 0.0010005001666666333),
    ],
)
def test_derivatives_of_the_logarithm_of_gamma(x: float, first: float, second: float) -> None:
    assert _digamma(np.array([x]))[0] == pytest.approx(first, rel=1e-9)
    assert _trigamma(np.array([x]))[0] == pytest.approx(second, rel=1e-9)


@pytest.mark.parametrize(("pods", "least", "most"), [(4, 2, 12), (8, 25, 60), (40, 150, 300)])
def test_those_that_scatter_for_themselves_are_counted(pods: int, least: int, most: int) -> None:
    counted = [count_independent(errors(np.random.default_rng(seed), 200, pods)) for seed in range(30)]
    assert least < np.median(counted) < most  # 200, and fewer where few pods can tell them apart


@pytest.mark.parametrize("groups", [2, 5])
def test_those_that_scatter_together_count_as_one(groups: int) -> None:
    luck = np.random.default_rng(1)
    counted = [count_independent(np.repeat(errors(luck, groups), 50, 0)) for _ in range(200)]
    assert np.median(counted) == pytest.approx(groups, rel=0.3)
    same = np.outer(luck.uniform(1, 9, 60), errors(luck, 1)[0])
    assert count_independent(same) == pytest.approx(1, abs=1e-6)
    assert count_independent(np.zeros((5, 4))) == 0


def test_many_that_are_alike_are_known_by_each_other() -> None:
    luck = np.random.default_rng(2)
    rate = luck.lognormal(0, 1, 400)
    usual = taught(errors(luck, 400), rate, 0.01)
    assert usual.df > 30
    assert usual.rate_factor == pytest.approx(0.01, rel=0.1)


def test_many_that_are_unlike_tell_little_of_each_other() -> None:
    luck = np.random.default_rng(3)
    rate = luck.lognormal(0, 1, 400)
    alike, unlike = (
        taught(errors(luck, 400), rate, 0.01 * luck.lognormal(0, spread, 400)) for spread in (0.2, 1.5)
    )
    assert unlike.df < 3
    assert alike.df > 3 * unlike.df


def test_what_counting_misses_is_not_taken_for_scatter() -> None:
    luck = np.random.default_rng(4)
    rate = luck.uniform(20, 200, 400)
    usual = taught(errors(luck, 400), rate, 1e-9, counting=20.0)
    assert usual.rate_factor * 100**2 < 0.2 * 20
    assert usual.df > 30


def test_those_that_say_the_same_tell_nothing() -> None:
    luck = np.random.default_rng(5)
    rate = luck.lognormal(0, 1, 400)
    assert taught(np.repeat(errors(luck, 1), 400, 0), rate, 0.01) == PriorVariance()


@pytest.mark.parametrize(("functions", "learns"), [(MIN_FUNCTIONS - 1, False), (MIN_FUNCTIONS, True)])
def test_few_tell_nothing(functions: int, learns: bool) -> None:
    luck = np.random.default_rng(6)
    assert (taught(errors(luck, functions), np.ones(functions), 0.01).df > 0) is learns


def test_each_variance_is_drawn_to_the_usual_one_by_the_degrees_of_freedom() -> None:
    usual = PriorVariance(rate_factor=0.01, df=40)
    variance = usual.shrink(np.array([0.5, 0.01, 0.0001]), np.full(3, 6.0), np.zeros(3), np.ones(3))
    assert variance == pytest.approx([(6 * own + 40 * 0.01) / 46 for own in (0.5, 0.01, 0.0001)])


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6), st.floats(1, 1e6), st.floats(0, 1e3), st.just(0.0) | st.floats(1e-9, 1e6)
        ),
        max_size=40,
    ),
    st.integers(1, 9),
)
def test_whatever_is_seen_variances_lie_between_their_own_and_the_usual_one(
    seen: list[tuple[float, float, float, float]], pods: int
) -> None:
    variance, df, counting, rate = np.array(seen, float).reshape(-1, 4).T
    of = errors(np.random.default_rng(len(seen)), len(seen), pods)
    usual = estimate_prior_variance(variance, df, counting, rate, of)
    assert np.isfinite([usual.rate_factor, usual.df]).all()
    assert usual.df >= 0
    after = usual.shrink(variance, df, counting, rate)
    prior = counting + usual.rate_factor * rate**2
    assert (after >= np.minimum(variance, prior) * (1 - 1e-12)).all()
    assert (after <= np.maximum(variance, prior) * (1 + 1e-12)).all()
