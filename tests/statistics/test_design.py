"""The design of a comparison: cells of pods and blocks, their residuals, and bootstrap rounds over them."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_collector.statistics.inference.bootstrap import BootstrapRounds, compute_seed, draw_rounds
from sidelight_collector.statistics.inference.design import (
    MAX_ROWS,
    assign_row,
    build_design,
    compute_cell_residuals,
)
from sidelight_model.change import spend_alpha
from tests.statistics.sides import even, judge, pods, side


@settings(max_examples=40)
@given(st.floats(0.001, 0.5), st.integers(1, 1000))
def test_looks_never_spend_more_than_the_level(alpha: float, looks: int) -> None:
    spends = list(accumulate(spend_alpha(alpha, look) for look in range(1, looks + 1)))
    assert spends[-1] <= alpha
    assert spend_alpha(alpha, 0) == alpha


@settings(max_examples=40)
@given(st.text(), st.text(), st.integers(1, MAX_ROWS))
def test_a_pod_always_has_the_same_row(namespace: str, pod: str, rows: int) -> None:
    assert 0 <= assign_row(namespace, pod, rows) < rows
    assert assign_row(namespace, pod, rows) == assign_row(namespace, pod, rows)


def test_many_pods_are_dealt_evenly() -> None:
    dealt = np.bincount([assign_row("shop", f"web-{pod}") for pod in range(1600)], minlength=MAX_ROWS)
    assert dealt.min() > 60
    assert dealt.max() < 150


def test_residuals_add_up_to_nothing() -> None:
    assert compute_cell_residuals(even(3), pods(1, 3)[0]).sum() == pytest.approx(0, abs=1e-12)
    assert not compute_cell_residuals(side(np.zeros((2, 4))), np.zeros((2, 4))).any()


def test_rows_and_blocks_are_those_that_were_watched() -> None:
    watched = np.full((3, 4), 60.0)
    watched[1] = 0
    watched[:, 3] = 0
    assert (side(watched).row_count, side(watched).block_count) == (2, 3)


@pytest.mark.parametrize(
    ("b", "how"),
    [(even(3, 8), {"same_time": True}), (even(4), {"same_pods": True})],
)
def test_sides_that_do_not_fit_together_are_not_paired(b: object, how: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match="as many"):
        build_design(even(3), b, even(3).exposure, b.exposure, **how)  # type: ignore[attr-defined, arg-type]


def test_sums_have_the_shape_of_their_side() -> None:
    with pytest.raises(ValueError, match="sums"):
        build_design(even(3), even(3), np.zeros((2, 16)), even(3).exposure)


def drawn(a: int, b: int, **how: bool) -> BootstrapRounds:
    one, two = pods(1, a), pods(2, b)
    return draw_rounds(judge(one, two, **how)[0], 200, seed=5)


@settings(max_examples=20)
@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_each_round_draws_as_much_as_there_is(a: int, b: int, together: bool) -> None:
    found = drawn(a, b, same_time=together)
    for weights, rows in ((found.a, a), (found.b, b)):
        assert weights.counts.shape == (200, rows if found.unit == "pods" else 16)
        assert (weights.counts.sum(1) == weights.counts.shape[1]).all()
        assert (weights.counts >= 0).all()


def test_pods_are_drawn_where_each_side_has_five_and_else_blocks() -> None:
    assert drawn(5, 5).unit == "pods"
    assert drawn(5, 4).unit == "blocks"


def test_what_is_paired_is_drawn_together() -> None:
    assert (drawn(6, 6, same_pods=True).a.counts == drawn(6, 6, same_pods=True).b.counts).all()
    assert (drawn(2, 3, same_time=True).a.counts == drawn(2, 3, same_time=True).b.counts).all()
    assert (drawn(6, 6).a.counts != drawn(6, 6).b.counts).any()


def test_equal_questions_have_equal_answers() -> None:
    a, b = pods(1, 6), pods(2, 6)
    assert compute_seed(a, b) == compute_seed(a.copy(), b.copy()) != compute_seed(b, a)
    assert (drawn(6, 6).a.counts == drawn(6, 6).a.counts).all()


def test_rounds_add_up_what_they_drew_whole_or_in_parts() -> None:
    cells = pods(3, 6, quantities=5000)
    weights = drawn(6, 6).a
    whole = weights.resample(cells)
    assert np.allclose(whole, weights.counts.astype(float) @ cells.sum(2).T, rtol=1e-5)
    parts = [sums for _, sums in weights.resample_chunks(cells)]
    assert len(parts) > 1
    assert np.allclose(np.concatenate(parts, axis=1), whole, rtol=1e-6)


def test_pods_that_were_not_watched_are_not_drawn() -> None:
    watched = np.concatenate([even(6).exposure, np.zeros((2, 16))])
    padded = side(watched)
    plan = build_design(padded, padded, watched, watched)
    found = draw_rounds(plan, 50, seed=1)
    assert not found.a.counts[:, 6:].any()
    assert (found.a.resample_exposure(padded) == watched.sum()).all()


def test_intervals_of_rates_are_like_those_of_the_formula() -> None:
    a, b = pods(11, 12, spread=0.1), pods(12, 12, spread=0.1)
    plan, formula = judge(a, b, same_time=True)
    found = draw_rounds(plan, seed=compute_seed(a, b))
    sums_a, sums_b = found.a.resample(a)[:, 0], found.b.resample(b)[:, 0]
    deltas = sums_b / found.b.resample_exposure(plan.b) - sums_a / found.a.resample_exposure(plan.a)
    low, high = found.interval(float(formula.delta[0]), deltas)
    # a percentile of 1,000 rounds, and a variance of 22 degrees, are known to a tenth or so
    assert (high - low) == pytest.approx(formula.high[0] - formula.low[0], rel=0.3)


def test_rounds_without_a_value_are_left_out_and_none_bounds_nothing() -> None:
    found = drawn(6, 6)
    assert found.interval(1.0, np.array([np.nan, 1.0, 1.0])) == (1.0, 1.0)
    assert found.interval(1.0, np.array([np.nan])) == (-np.inf, np.inf)
