"""Significance: Student's t, the chance of seeing nothing of a function, and families of tests."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_collector.statistics.inference.cluster_variance import Effects, compute_effects
from sidelight_collector.statistics.inference.design import build_design
from sidelight_collector.statistics.inference.fdr import (
    benjamini_hochberg,
    compute_parents_and_ends,
    tree_rejections,
)
from sidelight_collector.statistics.inference.student_t import (
    mixture_quantile,
    t_cdf,
    t_quantile,
    two_sided_p_value,
)
from sidelight_collector.statistics.inference.zero_counts import (
    MIN_POD_SHARE,
    MIN_SAMPLES,
    compute_zero_count_p_value,
    upper_bound_for_zero,
)
from sidelight_model.change import Direction
from tests.statistics.sides import F64, even

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
    assert float(t_quantile(0.975, df)) == pytest.approx(usual, abs=6e-4)
    assert float(t_quantile(0.9995, df)) == pytest.approx(far, abs=6e-4)


def test_one_and_two_degrees_have_their_closed_forms() -> None:
    at = np.array([-40.0, -3.0, -0.1, 0.0, 0.7, 2.0, 500.0])
    assert t_cdf(at, 1) == pytest.approx(0.5 + np.arctan(at) / np.pi, rel=1e-9)
    assert t_cdf(at, 2) == pytest.approx(0.5 + at / (2 * np.sqrt(2 + at * at)), rel=1e-9)


@given(st.floats(1e-9, 1 - 1e-9), st.lists(st.floats(0.7, 1e6), min_size=1, max_size=5))
def test_a_quantile_is_exceeded_as_often_as_it_says(p: float, df: list[float]) -> None:
    assert t_cdf(t_quantile(p, df), df) == pytest.approx(p, rel=1e-6)


@given(st.floats(0, 1e6), st.floats(1, 1e6))
def test_what_is_farther_is_less_likely(t: float, df: float) -> None:
    assert two_sided_p_value(t * 1.01 + 0.01, df) <= two_sided_p_value(t, df) <= 1


@given(st.floats(0.1, 50), st.floats(1, 1e5))
def test_more_degrees_of_freedom_have_lighter_tails(t: float, df: float) -> None:
    if t > 1.2:
        assert two_sided_p_value(t, df * 1.5) <= two_sided_p_value(t, df)


def test_no_number_is_no_evidence_and_infinity_is_certain() -> None:
    assert two_sided_p_value([np.nan, np.inf, 0.0], 4).tolist() == [1.0, 0.0, 1.0]


@given(st.floats(0.01, 100), st.floats(1.5, 200), st.floats(0.001, 0.2))
def test_a_mixture_of_one_is_that_one(scale: float, df: float, alpha: float) -> None:
    half, freedom = mixture_quantile(np.ones(1), np.array([scale**2]), np.array([df]), alpha)
    assert half == pytest.approx(scale * float(t_quantile(1 - alpha / 2, df)), rel=1e-3)
    assert freedom == pytest.approx(df, rel=0.1)


@pytest.mark.parametrize("variance", [(1.0, 25.0), (9.0, 0.01)])
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_a_mixture_has_the_tails_of_its_parts(variance: tuple[float, float], alpha: float) -> None:
    """The tail probability of a mixture is the weighted sum of its components' tail probabilities."""
    weights, df = np.array([0.7, 0.3]), np.array([8.0, 8.0])
    half, freedom = mixture_quantile(weights, np.array(variance), df, alpha)
    assert weights @ two_sided_p_value(half / np.sqrt(variance), df) == pytest.approx(alpha, rel=0.02)
    assert freedom < 8, "unequal scales make heavier tails"


PODS = 3


def judged(b: F64, *, gone: bool = False, same_time: bool = True, other_days: bool = False) -> Effects:
    """A function of so many samples in each cell of B, (3, 8), and none in A; `gone` has them in A."""
    whole = np.full((PODS, 8), 40.0)
    none = np.zeros_like(b)
    sides = (b, none) if gone else (none, b)
    side = even(PODS, 8)
    plan = build_design(side, side, whole, whole, same_time=same_time, other_days=other_days)
    return compute_effects(plan, *(one[None] for one in sides), *(np.array([one.sum()]) for one in sides))


def scattered(*pods: float) -> F64:
    return np.repeat(np.array(pods)[:, None], 8, 1)


UNEQUAL = scattered(3, 9, 20)
"""Pods so far apart that Student's t finds nothing."""


def test_what_no_pod_of_the_other_side_has_is_new() -> None:
    found = judged(UNEQUAL)
    assert found.direction == (Direction.NEW,)
    assert found.p[0] < 1e-4
    assert 0 < found.low[0] < found.delta[0] < found.high[0]
    assert judged(UNEQUAL, same_time=False).p[0] > 0.05


def test_what_only_the_other_side_has_is_gone() -> None:
    found = judged(UNEQUAL, gone=True)
    assert found.direction == (Direction.REMOVED,)
    assert found.low[0] < found.delta[0] < found.high[0] < 0
    assert found.relative[0] == -1
    assert -1 < found.relative_high[0] < -0.5


def test_another_hour_may_have_had_it_in_all_pods() -> None:
    for same_time, other_days in ((False, False), (True, True)):
        found = judged(UNEQUAL, same_time=same_time, other_days=other_days)
        assert found.p[0] > 1e-4


def test_what_one_pod_does_for_all_is_not_new_by_that() -> None:
    found = judged(scattered(0, 0, 30))
    assert found.p[0] > 0.05
    assert found.low[0] < 0


@pytest.mark.parametrize(
    ("seconds", "samples", "chance"),
    [
        ([10.0, 10.0], 20.0, 2 / 11**2),
        ([10.0, 10.0], MIN_SAMPLES, 2 / 6**2),
        ([10.0, 10.0], MIN_SAMPLES - 1, 1),
        ([10.0, 10.0], np.inf, 1),
        ([20.0 - 10 * MIN_POD_SHARE, 10 * MIN_POD_SHARE], 20.0, 2 / 11**2),
        ([20.5 - 10 * MIN_POD_SHARE, 9.5 * MIN_POD_SHARE], 20.0, 1),
        ([0.0, 0.0], 0.0, 1),
    ],
)
def test_the_chance_of_seeing_nothing(seconds: list[float], samples: float, chance: float) -> None:
    found = compute_zero_count_p_value(np.array([seconds]), np.array([samples]), np.ones(2), np.ones(2))
    assert found == pytest.approx(chance)


def test_one_pod_says_nothing_and_pods_that_were_not_watched_neither() -> None:
    one = np.array([[10.0]]), np.array([50.0])
    assert compute_zero_count_p_value(*one, np.ones(1), np.ones(4)) == 1
    two = np.array([[10.0, 0.0]]), np.array([50.0])
    assert compute_zero_count_p_value(*two, np.array([1.0, 0.0]), np.ones(4)) == 1
    assert (
        compute_zero_count_p_value(np.array([[10.0, 10.0]]), np.array([50.0]), np.ones(2), np.zeros(3)) == 1
    )
    some = compute_zero_count_p_value(
        np.array([[10.0, 10.0]]), np.array([50.0]), np.ones(2), np.array([1.0, 0.0])
    )
    assert some == pytest.approx(2 / 26)


@pytest.mark.parametrize(("pods", "samples"), list(product((1, 3, 10), (20.0, 500.0))))
def test_as_much_as_may_have_been_missed_shows_nothing_with_the_chance(pods: int, samples: float) -> None:
    there = np.ones(pods)
    (part,) = upper_bound_for_zero(0.025, np.array([samples]), np.ones(4), there)
    chance_of_all = (1 + samples / 4) ** -pods
    assert (1 + part * samples / 4) ** -pods == pytest.approx(max(0.025, chance_of_all))


@pytest.mark.long
def test_equal_functions_are_new_no_more_often_than_is_said() -> None:
    luck, level = np.random.default_rng(3), 1e-3
    # pods that differ as widely as is allowed for
    a, b = luck.poisson(luck.exponential(4, (2, 200_000, PODS)))
    there = np.ones(PODS)
    p = compute_zero_count_p_value(b.astype(float), b.sum(1), there, there)
    nothing = a.sum(1) == 0
    assert (nothing & (p < 1)).mean() > level  # more would be told by saying so of all
    assert 0 < (nothing & (p <= level)).mean() <= level / 2


P = st.floats(0, 1)
FEWER = settings(max_examples=40)
SMALL = st.sampled_from([0.0, 1e-6, 1e-3])


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[float]]:
    """Levels in pre-order and a p of each node."""
    levels = [0]
    for _ in range(draw(st.integers(0, 40))):
        levels.append(draw(st.integers(1, levels[-1] + 1)))
    return levels, draw(st.lists(SMALL | P, min_size=len(levels), max_size=len(levels)))


def rejected(levels: list[int], p: list[float], q: float = 0.05) -> list[bool]:
    return tree_rejections(np.array(levels, np.int32), np.array(p), q).tolist()


@given(st.lists(P, min_size=1, max_size=40))
def test_q_keeps_the_order_of_p_and_is_never_smaller(p: list[float]) -> None:
    q = benjamini_hochberg(p)
    assert (q >= np.array(p) * (1 - 1e-12)).all()
    assert (q <= 1).all()
    assert (np.diff(q[np.argsort(p, kind="stable")]) >= -1e-12).all()


@given(st.lists(P, min_size=1, max_size=40), st.floats(0.01, 0.2))
def test_q_rejects_what_the_step_up_rule_rejects(p: list[float], level: float) -> None:
    ordered = sorted(p)
    most = max([rank for rank, one in enumerate(ordered, 1) if one <= level * rank / len(p)], default=0)
    expected = [most > 0 and one <= ordered[most - 1] for one in p]
    close = np.isclose(benjamini_hochberg(p), level)
    assert [bool(one) for one in (benjamini_hochberg(p) <= level)[~close]] == list(np.array(expected)[~close])


def test_no_number_is_no_discovery() -> None:
    assert benjamini_hochberg([0.001, np.nan]).tolist() == [0.002, 1.0]


def test_a_tree_in_pre_order_has_its_parents_and_the_ends_of_its_subtrees() -> None:
    parent, end = compute_parents_and_ends(np.array([0, 1, 2, 2, 1, 2]))
    assert parent.tolist() == [-1, 0, 1, 1, 0, 4]
    assert end.tolist() == [6, 4, 3, 4, 6, 6]


def test_a_deep_change_is_found_though_all_above_it_drowns_it() -> None:
    """A chain of twenty, the total of whose upper nodes does not show what changed below."""
    levels = [*range(20), 19, 19]
    p = [0.4] * 18 + [1e-4, 1e-6, 0.8, 0.6]
    assert rejected(levels, p) == [False] * 18 + [True, True, False, False]


def test_luck_in_one_leaf_of_many_is_no_change() -> None:
    assert not any(rejected([0, *[1] * 100], [0.5, 0.01, *[0.5] * 99]))


@FEWER
@given(trees())
def test_what_is_rejected_has_a_subtree_above_it_that_something_changed_in(
    tree: tuple[list[int], list[float]],
) -> None:
    levels, p = tree
    parent = compute_parents_and_ends(np.array(levels))[0]
    found = rejected(levels, p)
    below = np.array(p, float)
    for node in range(len(levels) - 1, 0, -1):
        below[parent[node]] = min(below[parent[node]], below[node])
    for node, changed in enumerate(found):
        if changed:
            assert p[node] <= 0.05
            above = parent[node]
            while above >= 0:
                assert below[above] <= 0.05
                above = parent[above]


@FEWER
@given(trees())
def test_a_smaller_level_rejects_no_more(tree: tuple[list[int], list[float]]) -> None:
    strict, wide = rejected(*tree, 0.01), rejected(*tree, 0.05)
    assert all(not one or other for one, other in zip(strict, wide, strict=True))


@FEWER
@given(trees())
def test_a_tree_without_small_p_has_no_rejections(tree: tuple[list[int], list[float]]) -> None:
    levels, p = tree
    assert not any(rejected(levels, [0.051 + one for one in p]))


def test_q_is_the_smallest_level_that_rejects() -> None:
    """Computed by hand: the minimum of p n / rank over this rank and all later ones."""
    q = benjamini_hochberg([0.01, 0.02, 0.03, 0.04, 0.8])
    assert q.tolist() == pytest.approx([0.05, 0.05, 0.05, 0.05, 0.8])
    assert benjamini_hochberg([0.9, 0.001, 0.3]).tolist() == pytest.approx([0.9, 0.003, 0.45])


def test_nothing_is_rejected_of_nothing() -> None:
    assert rejected([], []) == []


def test_a_stack_of_twenty_thousand_frames_is_no_trouble() -> None:
    assert all(rejected(list(range(20_000)), [1e-9] * 20_000))


@pytest.mark.long
def test_equal_trees_show_a_change_no_more_often_than_the_level_says() -> None:
    luck = np.random.default_rng(3)
    levels = [0, *[1 + at % 4 for at in range(60)]]
    levels[1:] = [min(level, before + 1) for level, before in zip(levels[1:], levels, strict=False)]
    trials = 600
    share = np.mean([any(rejected(levels, luck.random(len(levels)).tolist())) for _ in range(trials)])
    assert share <= 0.05 + 4 * (0.05 * 0.95 / trials) ** 0.5


def test_all_changed_is_all_found() -> None:
    assert rejected([0, 1, 2, 1, 2, 3], [0.0] * 6) == [True] * 6
    assert rejected([0, 1, 1], [1e-9, 1e-9, 0.9]) == [True, True, False]
    assert pytest.approx(benjamini_hochberg([0.0] * 4)) == [0.0] * 4
