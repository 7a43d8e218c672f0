"""The design of a comparison: rows of pods, blocks of time, and the level that an analysis spends."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_collector.statistics.inference.design import (
    MAX_ROWS,
    assign_row,
    build_design,
)
from sidelight_model.change import spend_alpha
from tests.statistics.sides import even, side


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
        build_design(even(3), b, **how)  # type: ignore[arg-type]
