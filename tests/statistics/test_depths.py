"""How deep stacks are: known distributions, drawn with pods that differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sidelight_collector.statistics.depths.depth_comparison import DepthComparison, compare_depths
from sidelight_collector.statistics.inference.design import Design, SideMatrix, build_design
from sidelight_model.change import Direction

F64 = NDArray[np.float64]
PODS, BLOCKS = 6, 12


def designed(a: F64, b: F64, *, same_time: bool = False, same_pods: bool = False) -> Design:
    sides = [
        SideMatrix(np.full(one.shape[1:], 60.0), tuple((f"pod-{row}",) for row in range(one.shape[1])), 60.0)
        for one in (a, b)
    ]
    made = build_design(*sides, same_time=same_time, same_pods=same_pods)
    return replace(made, alpha=0.05)


def compared(
    depth: list[int], a: F64, b: F64, *, same_time: bool = False, same_pods: bool = False
) -> DepthComparison:
    found = compare_depths(designed(a, b, same_time=same_time, same_pods=same_pods), np.array(depth), a, b)
    assert found is not None
    return found


def drawn(luck: np.random.Generator, weights: F64, samples: int, *, differ: float = 0.2) -> F64:
    """Samples by depth in each cell, of pods that differ in how much deep work they do."""
    cells = np.zeros((len(weights), PODS, BLOCKS))
    tilt = np.linspace(-1, 1, len(weights))
    for row in range(PODS):
        own = weights * np.exp(tilt * luck.normal(0, differ))
        for column in range(BLOCKS):
            cells[:, row, column] = luck.multinomial(luck.poisson(samples), own / own.sum())
    return cells


def bell(middle: float, depth: NDArray[np.int64], width: float = 6.0) -> F64:
    weights: F64 = np.exp(-(((depth - middle) / width) ** 2) / 2)
    return weights / weights.sum()


def test_stacks_that_are_four_frames_deeper_are_found_deeper_by_four() -> None:
    depth, luck = np.arange(1, 61), np.random.default_rng(8)
    a, b = (drawn(luck, bell(middle, depth), 400, differ=0.02) for middle in (25, 29))
    found = compared(depth.tolist(), a, b)
    assert found.mean.direction == (Direction.INCREASED,)
    assert found.mean.low[0] < 4 < found.mean.high[0]
    assert found.quantiles.direction == (Direction.INCREASED,) * 3
    assert found.quantiles.delta.tolist() == pytest.approx([4, 4, 4], abs=1)
    assert found.gap.low < 0.26 < found.gap.high
    assert found.gap.depth == pytest.approx(27, abs=2)


@pytest.mark.parametrize(("frames", "direction"), [(0.06, Direction.MINOR), (0.2, Direction.INCREASED)])
def test_a_mean_depth_that_differs_by_less_than_a_tenth_of_a_frame_is_minor(
    frames: float, direction: Direction
) -> None:
    a = np.full((2, PODS, BLOCKS), 500_000.0)
    b = a * (1 + frames * np.array([-1.0, 1.0]))[:, None, None]
    design = replace(designed(a, b), min_relevant=0.1)
    found = compare_depths(design, np.array([10, 12]), a, b)
    assert found is not None
    assert found.mean.delta[0] == pytest.approx(frames)
    assert found.mean.direction == (direction,)


def test_a_tail_alone_moves_the_high_quantiles_and_not_the_median() -> None:
    depth, luck = np.arange(1, 91), np.random.default_rng(3)
    plain = bell(20, depth)
    a = drawn(luck, plain * 0.92 + bell(40, depth, 3) * 0.08, 400, differ=0.02)
    b = drawn(luck, plain * 0.92 + bell(70, depth, 3) * 0.08, 400, differ=0.02)
    found = compared(depth.tolist(), a, b)
    assert found.quantiles.direction[0] is Direction.UNCHANGED
    assert found.quantiles.direction[2] is Direction.INCREASED
    assert found.quantiles.delta[2] == pytest.approx(30, abs=3)


def test_more_load_alone_does_not_make_stacks_deeper() -> None:
    depth, luck = np.arange(1, 41), np.random.default_rng(5)
    a, b = (drawn(luck, bell(20, depth), samples, differ=0.02) for samples in (100, 400))
    found = compared(depth.tolist(), a, b)
    assert found.mean.direction[0] is Direction.UNCHANGED
    assert found.gap.low <= 0 <= found.gap.high


def test_the_same_samples_on_both_sides_are_no_change() -> None:
    depth, luck = np.arange(1, 41), np.random.default_rng(2)
    a = drawn(luck, bell(20, depth), 300)
    for paired in (False, True):
        found = compared(depth.tolist(), a, a, same_time=paired, same_pods=paired)
        assert found.mean.p[0] == pytest.approx(1)
        assert found.quantiles.p.tolist() == [1, 1, 1]
        assert found.gap.gap == 0
        assert found.max_depths == (int(np.flatnonzero(a.sum((1, 2)))[-1]) + 1,) * 2


@pytest.mark.long
def test_what_pods_differ_by_is_not_called_a_change() -> None:
    depth, luck = np.arange(1, 61), np.random.default_rng(17)
    changed = np.zeros(4)
    for _ in range(60):
        a, b = (drawn(luck, bell(25, depth, 10), 60, differ=0.4) for _ in range(2))
        found = compared(depth.tolist(), a, b)
        changed += [found.mean.p[0] <= 0.05, *(found.quantiles.p <= 0.05)]
    # Of 60 comparisons of equals 3 by luck; 9 or more in a hundred thousand would be one in 300.
    assert changed.max() < 9


def test_pairing_sees_a_shift_that_is_smaller_than_what_times_differ_by() -> None:
    depth, luck = np.arange(1, 61), np.random.default_rng(11)
    a, b = np.zeros((60, 1, BLOCKS)), np.zeros((60, 1, BLOCKS))
    for column, middle in enumerate(luck.normal(25, 4, BLOCKS)):
        a[:, 0, column] = np.round(bell(middle, depth) * 1000)
        b[:, 0, column] = np.round(bell(middle + 1, depth) * 1000)
    assert compared(depth.tolist(), a, b, same_time=True).mean.direction[0] is Direction.INCREASED
    assert compared(depth.tolist(), a, b).mean.direction[0] is Direction.INCONCLUSIVE


def test_a_side_without_samples_has_no_depth() -> None:
    a, none = np.ones((3, 1, 8)), np.zeros((3, 1, 8))
    assert compare_depths(designed(a, none), np.array([1, 2, 3]), a, none) is None
    assert compare_depths(designed(none, a), np.array([1, 2, 3]), none, a) is None


def test_one_depth_alone_is_certain() -> None:
    a = np.full((1, 2, 8), 50.0)
    found = compared([7], a, a)
    assert found.quantiles.baseline.tolist() == [7, 7, 7]
    assert (found.mean.low[0], found.mean.high[0]) == pytest.approx((0, 0))
    assert (found.gap.low, found.gap.high) == (0, 0)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(2, 30), st.sampled_from([1, 2, 6]))
def test_intervals_hold_what_they_are_of_and_p_says_whether_0_is_in_them(
    seed: int, count: int, pods: int
) -> None:
    luck = np.random.default_rng(seed)
    a, b = (luck.poisson(luck.gamma(0.5, 4, (count, pods, 8))).astype(float) for _ in range(2))
    found = compare_depths(designed(a, b), np.arange(1, count + 1) * 3, a, b)
    if found is None:
        return
    for one in (found.mean, found.quantiles):
        assert (one.low <= one.delta + 1e-9).all()
        assert (one.delta <= one.high + 1e-9).all()
        outside = (one.low > 1e-9) | (one.high < -1e-9)
        sure = np.abs(one.p - 0.05) > 1e-4
        assert ((one.p < 0.05) == outside)[sure].all()
    assert found.gap.low <= found.gap.gap <= found.gap.high
    # What of each side is deeper than this depth differs by exactly the gap.
    deep = np.arange(1, count + 1) * 3 > found.gap.depth
    assert found.gap.gap == pytest.approx(
        b[deep].sum() / b.sum() - a[deep].sum() / a.sum() if deep.any() else 0, abs=1e-9
    )
