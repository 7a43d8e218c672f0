"""Student's t against published values, and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.verdicts.student import above, cdf, mixed, quantile, two_sided

PUBLISHED = {
    # Pearson and Hartley, Biometrika Tables for Statisticians, table 12: df to the 97.5 % and 99.95 % points
    1: (12.706, 636.619),
    2: (4.303, 31.599),
    3: (3.182, 12.924),
    4: (2.776, 8.610),
    5: (2.571, 6.869),
    10: (2.228, 4.587),
    20: (2.086, 3.850),
    30: (2.042, 3.646),
    60: (2.000, 3.460),
    120: (1.980, 3.373),
}


@pytest.mark.parametrize("df", PUBLISHED)
def test_quantiles_are_those_of_the_published_tables(df: int) -> None:
    usual, far = PUBLISHED[df]
    assert float(quantile(0.975, df)) == pytest.approx(usual, abs=6e-4)
    assert float(quantile(0.9995, df)) == pytest.approx(far, abs=6e-4)


def test_one_and_two_degrees_have_their_closed_forms() -> None:
    at = np.array([-40.0, -3.0, -0.1, 0.0, 0.7, 2.0, 500.0])
    assert cdf(at, 1) == pytest.approx(0.5 + np.arctan(at) / np.pi, rel=1e-9)
    assert cdf(at, 2) == pytest.approx(0.5 + at / (2 * np.sqrt(2 + at * at)), rel=1e-9)


@given(st.floats(1e-9, 1 - 1e-9), st.lists(st.floats(0.7, 1e6), min_size=1, max_size=5))
def test_a_quantile_is_exceeded_as_often_as_it_says(p: float, df: list[float]) -> None:
    assert cdf(quantile(p, df), df) == pytest.approx(p, rel=1e-6)


@given(st.floats(0, 1e6), st.floats(1, 1e6))
def test_what_is_farther_is_less_likely(t: float, df: float) -> None:
    assert two_sided(t * 1.01 + 0.01, df) <= two_sided(t, df) <= 1


@given(st.floats(0.1, 50), st.floats(1, 1e5))
def test_more_degrees_of_freedom_have_lighter_tails(t: float, df: float) -> None:
    if t > 1.2:
        assert two_sided(t, df * 1.5) <= two_sided(t, df)


def test_no_number_is_no_evidence_and_infinity_is_certain() -> None:
    assert two_sided([np.nan, np.inf, 0.0], 4).tolist() == [1.0, 0.0, 1.0]


@given(st.floats(0.01, 100), st.floats(1.5, 200), st.floats(0.001, 0.2))
def test_a_mixture_of_one_is_that_one(scale: float, df: float, alpha: float) -> None:
    half, freedom = mixed(np.ones(1), np.array([scale**2]), np.array([df]), alpha)
    assert half == pytest.approx(scale * float(quantile(1 - alpha / 2, df)), rel=1e-3)
    assert freedom == pytest.approx(df, rel=0.1)


def test_a_mixture_is_exceeded_as_often_as_it_says_and_has_the_heavier_tails() -> None:
    weighed, variance, df = np.array([0.7, 0.3]), np.array([1.0, 25.0]), np.array([8.0, 8.0])
    half, freedom = mixed(weighed, variance, df, 0.05)
    luck = np.random.default_rng(1)
    drawn = luck.standard_t(8, 400_000) * np.where(luck.random(400_000) < 0.7, 1.0, 5.0)
    # four standard errors of a share of 5 %
    assert float((np.abs(drawn) > half).mean()) == pytest.approx(0.05, abs=4 * (0.05 * 0.95 / 400_000) ** 0.5)
    assert freedom < 8


def test_a_mixture_around_several_middles_is_exceeded_as_often_as_it_says() -> None:
    weighed, variance, df = np.array([0.7, 0.3]), np.array([1.0, 4.0]), np.array([8.0, 8.0])
    half, _ = mixed(weighed, variance, df, 0.05, np.array([-1.0, 3.0]))
    luck = np.random.default_rng(1)
    first = luck.random(400_000) < 0.7
    drawn = luck.standard_t(8, 400_000) * np.where(first, 1.0, 2.0) + np.where(first, -1.0, 3.0)
    assert float((np.abs(drawn) > half).mean()) == pytest.approx(0.05, abs=4 * (0.05 * 0.95 / 400_000) ** 0.5)


def test_the_upper_tail_is_what_is_left_of_the_lower() -> None:
    at = np.array([-40.0, -1.0, 0.0, 2.0, 30.0])
    assert above(at, 5) == pytest.approx(1 - cdf(at, 5))
    assert float(above(300.0, 8)) == pytest.approx(float(two_sided(300.0, 8)) / 2, rel=1e-12)
