"""Significance: Student's t, the chance of seeing nothing of a function, and families of tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.statistics.inference.fdr import benjamini_hochberg
from sidelight_collector.statistics.inference.student_t import (
    t_quantile,
    two_sided_p_value,
)
from sidelight_collector.statistics.preorder import compute_parents_and_ends

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
    assert two_sided_p_value(at, 1) == pytest.approx(1 - 2 * np.arctan(abs(at)) / np.pi, rel=1e-9)
    assert two_sided_p_value(at, 2) == pytest.approx(1 - abs(at) / np.sqrt(2 + at * at), rel=1e-9)


@given(st.floats(1e-9, 1 - 1e-9), st.lists(st.floats(0.7, 1e6), min_size=1, max_size=5))
def test_a_quantile_is_exceeded_as_often_as_it_says(p: float, df: list[float]) -> None:
    assert two_sided_p_value(t_quantile(p, df), df) == pytest.approx(2 * min(p, 1 - p), rel=1e-6)


@given(st.floats(0, 1e6), st.floats(1, 1e6))
def test_what_is_farther_is_less_likely(t: float, df: float) -> None:
    assert two_sided_p_value(t * 1.01 + 0.01, df) <= two_sided_p_value(t, df) <= 1


@given(st.floats(0.1, 50), st.floats(1, 1e5))
def test_more_degrees_of_freedom_have_lighter_tails(t: float, df: float) -> None:
    if t > 1.2:
        assert two_sided_p_value(t, df * 1.5) <= two_sided_p_value(t, df)


def test_no_number_is_no_evidence_and_infinity_is_certain() -> None:
    assert two_sided_p_value([np.nan, np.inf, 0.0], 4).tolist() == [1.0, 0.0, 1.0]


P = st.floats(0, 1)


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


@given(st.lists(st.integers(0, 8), max_size=60))
def test_parents_and_ends_are_those_of_a_walk_over_the_tree(steps: list[int]) -> None:
    levels: list[int] = []
    for step in steps:
        levels.append(max(levels[-1] + 1 - step, 0) if levels else 0)
    parents, ends = [-1] * len(levels), [len(levels)] * len(levels)
    path: list[int] = []
    for node, level in enumerate(levels):
        for ended in path[level:]:
            ends[ended] = node
        del path[level:]
        parents[node] = path[-1] if path else -1
        path.append(node)
    found = compute_parents_and_ends(np.array(levels, np.int64))
    assert [column.tolist() for column in found] == [parents, ends]


def test_q_is_the_smallest_level_that_rejects() -> None:
    """Computed by hand: the minimum of p n / rank over this rank and all later ones."""
    q = benjamini_hochberg([0.01, 0.02, 0.03, 0.04, 0.8])
    assert q.tolist() == pytest.approx([0.05, 0.05, 0.05, 0.05, 0.8])
    assert benjamini_hochberg([0.9, 0.001, 0.3]).tolist() == pytest.approx([0.9, 0.003, 0.45])


def test_all_changed_is_all_found() -> None:
    assert pytest.approx(benjamini_hochberg([0.0] * 4)) == [0.0] * 4
