"""What a course of load says of the error of its mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.autocorrelation import (
    DAY_SECONDS,
    MAX_FREQUENCIES,
    LoadModel,
    build_cosine_basis,
    estimate_har_weights,
)

F64 = NDArray[np.float64]


def course(seed: int, keeps: float, blocks: int = 16) -> F64:
    """What blocks add to the error of a mean, each keeping so much of the last; they add up to 0."""
    luck = np.random.default_rng(seed)
    values = [luck.standard_normal()]
    for _ in range(blocks - 1):
        values.append(keeps * values[-1] + (1 - keeps**2) ** 0.5 * luck.standard_normal())
    found = np.array(values) / blocks
    return found - found.mean()


@settings(max_examples=20)
@given(st.integers(2, 40))
def test_cosines_are_orthonormal_and_add_up_to_nothing(blocks: int) -> None:
    waves = build_cosine_basis(blocks, blocks - 1)
    assert waves.T @ waves == pytest.approx(np.eye(blocks - 1), abs=1e-9)
    assert waves.sum(0) == pytest.approx(0, abs=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 500), st.floats(0.01, 100))
def test_neither_the_unit_of_load_nor_that_of_time_matters(seed: int, unit: float) -> None:
    one = estimate_har_weights([course(seed, 0.5)], [60.0], 0.05)
    other = estimate_har_weights([course(seed, 0.5) * unit], [60.0 * unit], 0.05, DAY_SECONDS * unit)
    assert other.replication_df_ratio == pytest.approx(one.replication_df_ratio, rel=1e-6)
    assert other.weights[0] == pytest.approx(one.weights[0], rel=1e-6)
    assert other.correlation_seconds == pytest.approx(one.correlation_seconds * unit, rel=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 500), st.integers(2, 20), st.floats(0.3, 3))
def test_waves_stay_orthonormal_and_add_up_to_nothing_however_they_are_turned(
    seed: int, blocks: int, days: float
) -> None:
    found = estimate_har_weights([course(seed, 0.5, blocks)], [days * DAY_SECONDS / blocks], 0.05)
    (waves,) = found.waves
    assert waves.T @ waves == pytest.approx(np.eye(waves.shape[1]), abs=1e-9)
    assert waves.sum(0) == pytest.approx(0, abs=1e-9)
    assert (found.weights[0] >= 0).all()


@pytest.mark.parametrize("daily", [0.0, 0.4, 1.0])
def test_load_is_averaged_over_blocks_as_many_moments_of_it_would_be(daily: float) -> None:
    blocks, moments, forgets, day = 4, 400, 1.7, 3.3
    at = (np.arange(blocks * moments) + 0.5) / moments
    lag = np.abs(np.subtract.outer(at, at))
    turns = 0.9 * np.cos(2 * np.pi * lag / day) + 0.1 * np.cos(4 * np.pi * lag / day)
    every = (1 - daily) * np.exp(-lag / forgets) + daily * turns
    brute = every.reshape(blocks, moments, blocks, moments).mean((1, 3))
    found = sum(LoadModel(np.array([forgets]), np.array([daily]), day).compute_covariances(blocks))
    assert found[0] == pytest.approx(brute, abs=1e-4)


def days(seed: int, length: float, swing: float = 0.5) -> F64:
    """What 16 blocks of so many days add to the error of a mean: a day at any hour, and what forgets fast."""
    luck = np.random.default_rng(seed)
    at = (np.arange(16) + 0.5) / 16 * length
    found = swing * np.cos(2 * np.pi * (at + luck.random())) + 0.1 * luck.standard_normal(16)
    return (found - found.mean()) / 16


def test_of_whole_days_the_mean_holds_nothing_of_the_day_and_of_parts_it_does() -> None:
    def error(length: float, day: float | None) -> float:
        found = []
        for one in (days(seed, length) for seed in range(40)):
            passed = estimate_har_weights([one], [length * DAY_SECONDS / 16], 0.05, day)
            found.append(float((one @ passed.waves[0]) ** 2 @ passed.weights[0]))
        return float(np.median(np.sqrt(found)))

    assert error(1.0, DAY_SECONDS) < 0.25 * error(1.0, None)
    assert error(1.5, DAY_SECONDS) > 1.5 * error(2.0, DAY_SECONDS)


def test_a_range_that_is_no_whole_day_is_judged_as_if_there_were_none() -> None:
    one = course(3, 0.8)
    seconds = [0.5 * DAY_SECONDS / 16]
    assert estimate_har_weights([one], seconds, 0.05, DAY_SECONDS).weights[0] == pytest.approx(
        estimate_har_weights([one], seconds, 0.05, None).weights[0]
    )


def test_load_that_changes_slowly_is_seen_to_and_held_to_say_less() -> None:
    fast, slow = (
        [estimate_har_weights([course(seed, keeps)], [60.0], 0.05) for seed in range(60)]
        for keeps in (0.0, 0.9)
    )
    assert np.median([one.correlation_seconds for one in slow]) > 3 * np.median(
        [one.correlation_seconds for one in fast]
    )
    assert np.median([one.weights[0].sum() for one in slow]) > 2 * np.median(
        [one.weights[0].sum() for one in fast]
    )


def test_of_one_block_nothing_follows() -> None:
    found = estimate_har_weights([np.zeros(1), course(1, 0.5)], [60.0, 60.0], 0.05)
    assert len(found.weights[0]) == 0
    assert found.replication_df_ratio == 1


def test_a_course_that_never_changes_is_no_trouble() -> None:
    found = estimate_har_weights([np.zeros(16)], [60.0], 0.05)
    assert found.replication_df_ratio == 1
    assert np.isfinite(found.weights[0]).all()


def test_only_the_first_cosines_are_asked() -> None:
    assert [
        len(one)
        for one in estimate_har_weights([course(1, 0.5), course(2, 0.5, 5)], [60.0, 60.0], 0.05).weights
    ] == [
        MAX_FREQUENCIES,
        4,
    ]
