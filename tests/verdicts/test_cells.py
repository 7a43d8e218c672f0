"""Sides in cells, and how two are compared."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.verdicts.cells import ROWS, design, residuals, row_of, spent
from tests.verdicts.sides import even, pods, side


@given(st.floats(0.001, 0.5), st.integers(1, 1000))
def test_looks_never_spend_more_than_the_level(alpha: float, looks: int) -> None:
    spends = list(accumulate(spent(alpha, look) for look in range(1, looks + 1)))
    assert spends[-1] <= alpha
    assert spent(alpha, 0) == alpha


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
