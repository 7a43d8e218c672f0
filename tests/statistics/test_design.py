"""The design of a comparison: cells of pods and blocks, their residuals, and bootstrap rounds over them."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_collector.statistics.inference.bootstrap import Rounds, rounds, seed_of
from sidelight_collector.statistics.inference.design import ROWS, design, residuals, row_of, spent
from tests.statistics.sides import even, judge, pods, side


@settings(max_examples=40)
@given(st.floats(0.001, 0.5), st.integers(1, 1000))
def test_looks_never_spend_more_than_the_level(alpha: float, looks: int) -> None:
    spends = list(accumulate(spent(alpha, look) for look in range(1, looks + 1)))
    assert spends[-1] <= alpha
    assert spent(alpha, 0) == alpha


@settings(max_examples=40)
@given(st.text(), st.text(), st.integers(1, ROWS))
def test_a_pod_always_has_the_same_row(namespace: str, pod: str, rows: int) -> None:
    assert 0 <= row_of(namespace, pod, rows) < rows
    assert row_of(namespace, pod, rows) == row_of(namespace, pod, rows)


def test_many_pods_are_dealt_evenly() -> None:
    dealt = np.bincount([row_of("shop", f"web-{pod}") for pod in range(1600)], minlength=ROWS)
    assert dealt.min() > 60
    assert dealt.max() < 150


def test_residuals_add_up_to_nothing() -> None:
    assert residuals(even(3), pods(1, 3)[0]).sum() == pytest.approx(0, abs=1e-12)
    assert not residuals(side(np.zeros((2, 4))), np.zeros((2, 4))).any()


def test_rows_and_blocks_are_those_that_were_watched() -> None:
    watched = np.full((3, 4), 60.0)
    watched[1] = 0
    watched[:, 3] = 0
    assert (side(watched).rows, side(watched).blocks) == (2, 3)


@pytest.mark.parametrize(
    ("b", "how"),
    [(even(3, 8), {"same_time": True}), (even(4), {"same_pods": True})],
)
def test_sides_that_do_not_fit_together_are_not_paired(b: object, how: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match="as many"):
        design(even(3), b, even(3).watched, b.watched, **how)  # type: ignore[attr-defined, arg-type]


def test_sums_have_the_shape_of_their_side() -> None:
    with pytest.raises(ValueError, match="sums"):
        design(even(3), even(3), np.zeros((2, 16)), even(3).watched)


def drawn(a: int, b: int, **how: bool) -> Rounds:
    one, two = pods(1, a), pods(2, b)
    return rounds(judge(one, two, **how)[0], 200, seed=5)


@settings(max_examples=20)
@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_each_round_draws_as_much_as_there_is(a: int, b: int, together: bool) -> None:
    found = drawn(a, b, same_time=together)
    for weights, rows in ((found.a, a), (found.b, b)):
        assert weights.drawn.shape == (200, rows if found.unit == "pods" else 16)
        assert (weights.drawn.sum(1) == weights.drawn.shape[1]).all()
        assert (weights.drawn >= 0).all()


def test_pods_are_drawn_where_each_side_has_five_and_else_blocks() -> None:
    assert drawn(5, 5).unit == "pods"
    assert drawn(5, 4).unit == "blocks"


def test_what_is_paired_is_drawn_together() -> None:
    assert (drawn(6, 6, same_pods=True).a.drawn == drawn(6, 6, same_pods=True).b.drawn).all()
    assert (drawn(2, 3, same_time=True).a.drawn == drawn(2, 3, same_time=True).b.drawn).all()
    assert (drawn(6, 6).a.drawn != drawn(6, 6).b.drawn).any()


def test_equal_questions_have_equal_answers() -> None:
    a, b = pods(1, 6), pods(2, 6)
    assert seed_of(a, b) == seed_of(a.copy(), b.copy()) != seed_of(b, a)
    assert (drawn(6, 6).a.drawn == drawn(6, 6).a.drawn).all()


def test_rounds_add_up_what_they_drew_whole_or_in_parts() -> None:
    cells = pods(3, 6, quantities=5000)
    weights = drawn(6, 6).a
    whole = weights.of(cells)
    assert np.allclose(whole, weights.drawn.astype(float) @ cells.sum(2).T, rtol=1e-5)
    parts = [sums for _, sums in weights.chunks(cells)]
    assert len(parts) > 1
    assert np.allclose(np.concatenate(parts, axis=1), whole, rtol=1e-6)


def test_pods_that_were_not_watched_are_not_drawn() -> None:
    watched = np.concatenate([even(6).watched, np.zeros((2, 16))])
    padded = side(watched)
    plan = design(padded, padded, watched, watched)
    found = rounds(plan, 50, seed=1)
    assert not found.a.drawn[:, 6:].any()
    assert (found.a.watched(padded) == watched.sum()).all()


def test_intervals_of_rates_are_like_those_of_the_formula() -> None:
    a, b = pods(11, 12, spread=0.1), pods(12, 12, spread=0.1)
    plan, formula = judge(a, b, same_time=True)
    found = rounds(plan, seed=seed_of(a, b))
    sums_a, sums_b = found.a.of(a)[:, 0], found.b.of(b)[:, 0]
    deltas = sums_b / found.b.watched(plan.b) - sums_a / found.a.watched(plan.a)
    low, high = found.interval(float(formula.delta[0]), deltas)
    # a percentile of 1,000 rounds, and a variance of 22 degrees, are known to a tenth or so
    assert (high - low) == pytest.approx(formula.high[0] - formula.low[0], rel=0.3)


def test_rounds_without_a_value_are_left_out_and_none_bounds_nothing() -> None:
    found = drawn(6, 6)
    assert found.interval(1.0, np.array([np.nan, 1.0, 1.0])) == (1.0, 1.0)
    assert found.interval(1.0, np.array([np.nan])) == (-np.inf, np.inf)
