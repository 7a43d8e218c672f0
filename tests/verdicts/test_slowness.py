"""What a course of load says of the error of its mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sidelight.verdicts.slowness import FREQUENCIES, cosines, passing

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
    waves = cosines(blocks, blocks - 1)
    assert waves.T @ waves == pytest.approx(np.eye(blocks - 1), abs=1e-9)
    assert waves.sum(0) == pytest.approx(0, abs=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 500), st.floats(0.01, 100))
def test_neither_the_unit_of_load_nor_that_of_time_matters(seed: int, unit: float) -> None:
    one = passing([course(seed, 0.5)], [60.0], 0.05)
    other = passing([course(seed, 0.5) * unit], [60.0 * unit], 0.05)
    assert other.stretch == pytest.approx(one.stretch, rel=1e-6)
    assert other.weights[0] == pytest.approx(one.weights[0], rel=1e-6)
    assert other.correlation == pytest.approx(one.correlation * unit, rel=1e-6)


def test_load_that_changes_slowly_is_seen_to_and_held_to_say_less() -> None:
    fast, slow = (
        [passing([course(seed, keeps)], [60.0], 0.05) for seed in range(60)] for keeps in (0.0, 0.9)
    )
    assert np.median([one.correlation for one in slow]) > 3 * np.median([one.correlation for one in fast])
    assert np.median([one.weights[0].sum() for one in slow]) > 2 * np.median(
        [one.weights[0].sum() for one in fast]
    )


def test_of_one_block_nothing_follows() -> None:
    found = passing([np.zeros(1), course(1, 0.5)], [60.0, 60.0], 0.05)
    assert len(found.weights[0]) == 0
    assert found.stretch == 1


def test_a_course_that_never_changes_is_no_trouble() -> None:
    found = passing([np.zeros(16)], [60.0], 0.05)
    assert found.stretch == 1
    assert np.isfinite(found.weights[0]).all()


def test_only_the_first_cosines_are_asked() -> None:
    assert [len(one) for one in passing([course(1, 0.5), course(2, 0.5, 5)], [60.0, 60.0], 0.05).weights] == [
        FREQUENCIES,
        4,
    ]
