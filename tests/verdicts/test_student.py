"""Student's t against published values, and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.verdicts.student import cdf, quantile, two_sided

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
