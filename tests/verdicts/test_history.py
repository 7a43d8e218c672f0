"""What ranges that came before say of how far two of them lie apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.verdicts.cells import design
from sidelight.verdicts.history import FEWEST, History
from tests.verdicts.sides import F64, even, judge, pods

HOURS = 24.0


def course(seed: int, keeps: float, count: int, size: float = 0.1, trials: int = 1) -> F64:
    """Rates that each keep so much of the last, (trials, count)."""
    luck = np.random.default_rng(seed)
    values = [luck.standard_normal(trials)]
    for _ in range(count - 1):
        values.append(keeps * values[-1] + (1 - keeps**2) ** 0.5 * luck.standard_normal(trials))
    found: F64 = np.exp(size * np.transpose(values))
    return found


def past(rates: F64, apart: float = 1.0, day: float = HOURS) -> History:
    return History(rates, np.arange(len(rates)) - float(len(rates)), apart, day)


@pytest.mark.parametrize("keeps", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("count", "apart"), [(FEWEST, 1), (48, 1), (48, 24)])
def test_two_ranges_lie_within_what_was_learnt_as_often_as_is_said(
    keeps: float, count: int, apart: int
) -> None:
    trials = 300
    rates = course(11, keeps, count + apart + 1, trials=trials)
    beyond = 0
    for row in rates:
        half, _ = past(row[:count], apart).half(0.05)
        beyond += abs(np.log(row[count + apart] / row[count])) > half
    assert 0.01 <= beyond / trials <= 0.085


def test_ranges_that_vary_more_lie_farther_apart() -> None:
    halves = [past(course(3, 0.5, 48, size)[0]).half(0.05)[0] for size in (0.02, 0.1, 0.5)]
    assert halves[1] == pytest.approx(5 * halves[0], rel=1e-6)
    assert halves[2] == pytest.approx(5 * halves[1], rel=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 500), st.floats(1e-6, 1e6))
def test_neither_the_unit_nor_when_it_was_matters(seed: int, unit: float) -> None:
    rates, starts = course(seed, 0.5, 20)[0], np.arange(20.0)
    one, other = History(rates, starts, 2.0, HOURS), History(unit * rates, starts - 1000, 2.0, HOURS)
    assert other.half(0.05) == pytest.approx(one.half(0.05), rel=1e-6)


def test_what_load_keeps_from_one_range_to_the_next_cancels() -> None:
    near, far = (past(course(4, 0.95, 96)[0], apart).half(0.05)[0] for apart in (1.0, 60.0))
    assert near < 0.7 * far


def test_a_day_that_comes_again_cancels_between_the_same_hours_and_not_between_others() -> None:
    hours = np.arange(96)
    rates = np.exp(0.4 * np.sin(2 * np.pi * hours / HOURS)) * course(6, 0.0, 96, 0.02)[0]
    same, other = (past(rates, apart).half(0.05)[0] for apart in (24.0, 12.0))
    assert same < 0.1
    assert other > 0.5


def test_ranges_that_are_missing_are_passed_over() -> None:
    rates, starts = course(7, 0.5, 96)[0], np.arange(96.0)
    kept = np.delete(starts.astype(int), [3, 4, 50])
    whole = History(rates, starts, 1.0, HOURS).half(0.05)[0]
    assert History(rates[kept], starts[kept], 1.0, HOURS).half(0.05)[0] == pytest.approx(whole, rel=0.1)


def test_ranges_of_whole_days_have_no_day_in_them() -> None:
    assert np.isfinite(past(course(8, 0.0, 30)[0], 1.0, 1.0).half(0.05)[0])


@pytest.mark.parametrize(
    ("count", "apart", "tells"),
    [(FEWEST, 1, True), (FEWEST - 1, 1, False), (FEWEST, FEWEST, True), (FEWEST, FEWEST + 1, False)],
)
def test_few_ranges_tell_nothing_nor_do_those_of_less_time_than_lies_between_the_sides(
    count: int, apart: int, tells: bool
) -> None:
    assert past(np.ones(count), apart).tells is tells


def test_ranges_that_all_took_the_same_say_that_there_is_no_difference() -> None:
    half, _ = past(np.ones(30)).half(0.05)
    assert half == pytest.approx(0, abs=1e-6)


def test_what_came_before_makes_sides_at_different_times_sure_of_themselves() -> None:
    a, b = pods(1, 6, spread=0.0), 1.1 * pods(2, 6, spread=0.0)
    load = np.linspace(0.8, 1.2, 16)
    alone = judge(a * load, b * load)[1]
    steady = judge(a * load, b * load, before=past(course(9, 0.0, 48, 0.01)[0]))[1]
    wild = judge(a * load, b * load, before=past(course(9, 0.0, 48, 0.3)[0]))[1]
    assert steady.p[0] < 0.05 < alone.p[0]
    assert wild.p[0] > 0.05
    assert steady.detectable[0] < alone.detectable[0]


def test_sides_of_the_same_time_or_of_one_block_and_too_little_history_ask_nothing_of_it() -> None:
    a, b = pods(1, 4), pods(2, 4)
    long, short = past(course(9, 0.0, 48)[0]), past(course(9, 0.0, FEWEST - 1)[0])
    assert design(even(4), even(4), a[0], b[0], same_time=True, before=long).before is None
    assert design(even(4), even(4), a[0], b[0], before=short).before is None
    assert design(even(4), even(4), a[0], b[0], before=long).before is long
    brief = [one[0].sum(1, keepdims=True) for one in (a, b)]
    assert design(even(4, 1), even(4, 1), *brief, before=long).before is None


def test_a_function_that_varies_more_than_the_whole_is_less_sure() -> None:
    load = 1 + 0.02 * np.sin(np.arange(16) / 2)
    wild = 1 + 0.8 * np.sin(np.arange(16) / 2)
    a, b = pods(1, 6, spread=0.0, quantities=3), pods(2, 6, spread=0.0, quantities=3)
    both = [np.stack([one[0] * load, one[1] * load, one[2] * wild]) for one in (a, b)]
    found = judge(*both, before=past(course(9, 0.0, 48, 0.02)[0]))[1]
    assert found.detectable[1] == pytest.approx(found.detectable[0], rel=0.3)
    assert found.detectable[2] > 3 * found.detectable[0]
