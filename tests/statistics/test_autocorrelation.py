"""Cosines over blocks of time, and the variance of a sum that they show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import fft

from sidelight_collector.statistics.inference.autocorrelation import MAX_COSINES, build_cosines


@settings(max_examples=20)
@given(st.integers(2, 40))
def test_cosines_are_orthonormal_and_add_up_to_nothing(blocks: int) -> None:
    cosines = build_cosines(blocks)
    assert cosines.shape == (blocks, min(MAX_COSINES, blocks - 1))
    assert cosines.T @ cosines == pytest.approx(np.eye(cosines.shape[1]), abs=1e-9)
    assert cosines.sum(0) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("blocks", [2, 5, 16, 31])
def test_projections_are_the_discrete_cosine_transform_of_scipy(blocks: int) -> None:
    series = np.random.default_rng(blocks).normal(size=blocks)
    count = min(MAX_COSINES, blocks - 1)
    assert series @ build_cosines(blocks) == pytest.approx(fft.dct(series, norm="ortho")[1 : 1 + count])


def test_one_block_has_no_cosines() -> None:
    assert build_cosines(1).shape == (1, 0)


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_projections_have_the_variance_of_the_sum_of_correlated_blocks(kept: float) -> None:
    """A first-order autoregression of 16 blocks, each of which keeps half of the last."""
    rng, blocks = np.random.default_rng(1), 16
    covariance = kept ** np.abs(np.subtract.outer(np.arange(blocks), np.arange(blocks)))
    series = rng.multivariate_normal(np.zeros(blocks), covariance, 20_000)
    cosines = build_cosines(blocks)
    estimate = blocks / cosines.shape[1] * ((series @ cosines) ** 2).sum(1).mean()
    # Eight cosines reach to half of the highest frequency, where correlated blocks vary less.
    assert (0.45 if kept else 0.98) <= estimate / covariance.sum() <= 1.02
