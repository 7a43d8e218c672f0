"""What ranges that came before say of how far two of them lie apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.stacks.changes import Direction
from sidelight.verdicts.cells import design
from sidelight.verdicts.history import FEWEST, History, _conditioned, _lags, _Loads, crowded
from sidelight.verdicts.spread import effects
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
    """Of A at 0, after so many ranges."""
    return History(rates, np.arange(len(rates)) - float(len(rates)), (np.zeros(1), np.array([apart])), day)


def half(of: History) -> float:
    return of.foretold(0.05).half


def swinging(count: int, size: float = 0.4) -> F64:
    """Rates of so many hours that follow the day, up to two percent."""
    swing: F64 = np.exp(size * np.sin(2 * np.pi * np.arange(count) / HOURS))
    return swing * course(6, 0.0, count, 0.02)[0]


@pytest.mark.long
@pytest.mark.parametrize("keeps", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("count", "apart"), [(FEWEST, 1), (48, 1), (48, 24)])
def test_two_ranges_lie_within_what_was_learnt_as_often_as_is_said(
    keeps: float, count: int, apart: int
) -> None:
    trials = 300
    rates = course(11, keeps, count + apart + 1, trials=trials)
    beyond = 0
    for row in rates:
        told = past(row[:count], apart).foretold(0.05)
        beyond += abs(np.log(row[count + apart] / row[count]) - told.log) > told.half
    assert 0.01 <= beyond / trials <= 0.085


def test_ranges_that_vary_more_lie_farther_apart() -> None:
    halves = [half(past(course(3, 0.5, 48, size)[0])) for size in (0.02, 0.1, 0.5)]
    assert halves[1] == pytest.approx(5 * halves[0], rel=1e-6)
    assert halves[2] == pytest.approx(5 * halves[1], rel=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 500), st.floats(1e-6, 1e6))
def test_neither_the_unit_nor_when_it_was_matters(seed: int, unit: float) -> None:
    rates, starts = course(seed, 0.5, 20)[0], np.arange(20.0)
    sides = np.array([20.0]), np.array([22.0])
    one = History(rates, starts, sides, HOURS).foretold(0.05)
    other = History(unit * rates, starts - 1000, (sides[0] - 1000, sides[1] - 1000), HOURS).foretold(0.05)
    assert (other.half, other.df) == pytest.approx((one.half, one.df), rel=1e-6)
    assert other.log == pytest.approx(one.log, abs=1e-9)


def test_what_load_keeps_from_one_range_to_the_next_cancels() -> None:
    courses = course(4, 0.95, 96, trials=4)
    near, far = (np.mean([half(past(one, apart)) for one in courses]) for apart in (1.0, 60.0))
    assert near < 0.5 * far


def test_load_that_came_to_vary_more_is_judged_by_how_it_varies_now_and_one_that_varies_less_is_not() -> None:
    steady = np.log(course(2, 0.3, 72, trials=12))
    grew = np.geomspace(0.5, 2.0, 72)
    alike, more, less = (
        np.mean([half(past(np.exp(size * one), 24.0)) for one in steady])
        for size in (np.ones(72), grew, grew[::-1])
    )
    mean = np.sqrt(np.mean(grew**2))
    assert more > 1.1 * mean * alike
    assert less == pytest.approx(mean * alike, rel=0.12)


def test_a_day_that_swings_alike_is_not_taken_to_swing_farther_where_the_rest_varies_more() -> None:
    """What may have grown is not the day's: of the day is foretold what it was."""
    luck = np.random.default_rng(3)
    hours = np.arange(72.0)
    swing = 0.4 * np.sin(2 * np.pi * hours / HOURS)
    rates = np.exp(swing + np.geomspace(0.01, 0.08, 72) * luck.standard_normal(72))
    assert past(rates, 6.0).foretold(0.05).log == pytest.approx(0.4, abs=0.06)


def test_ranges_between_the_sides_make_what_is_expected_of_the_later_one_surer() -> None:
    """A at 0 and B at 24 of load that changes slowly; B lies where the range before it does."""
    courses = np.log(course(5, 0.95, 97, trials=4))
    starts, sides = np.arange(-72.0, 24.0), (np.zeros(1), np.array([24.0]))
    told, rest, off = starts < 0, (starts < 0) | (starts >= 1), []
    for one in courses:
        before, between = (
            History(np.exp(one[:-1][known]), starts[known], sides, HOURS).foretold(0.05)
            for known in (told, rest)
        )
        assert between.half < 0.6 * before.half
        really = one[-1] - one[72]
        off.append([abs(really - each.log) for each in (before, between)])
    assert np.mean(off, 0)[1] < 0.6 * np.mean(off, 0)[0]


@pytest.mark.parametrize("hour", [0, 9])
def test_the_day_tells_what_to_expect_of_another_hour_and_nothing_of_the_same(hour: int) -> None:
    told = {apart: past(swinging(96 + hour), float(apart)).foretold(0.05) for apart in (1, 12, 24)}
    for apart, of in told.items():
        rises = 0.4 * np.sin(2 * np.pi * (hour + apart) / HOURS) - 0.4 * np.sin(2 * np.pi * hour / HOURS)
        assert of.log == pytest.approx(rises, abs=0.05)
        assert of.half < 0.15


def test_a_course_that_never_came_again_tells_less_of_the_next_hours() -> None:
    known, unknown = half(past(swinging(72), 6.0)), half(past(swinging(18), 6.0))
    assert known < 0.15
    assert unknown > 3 * known


def test_sides_that_change_places_are_expected_to_differ_the_other_way() -> None:
    one = past(swinging(80), 5.0)
    told, turned = one.foretold(0.05), replace(one, sides=one.sides[::-1]).foretold(0.05)
    assert turned.log == pytest.approx(-told.log)
    assert (turned.half, turned.df) == pytest.approx((told.half, told.df))
    assert abs(told.log) > 0.3


def test_without_a_direction_the_interval_allows_for_what_is_expected() -> None:
    one = past(swinging(80), 5.0)
    told, both = one.foretold(0.05), replace(one, directed=False).foretold(0.05)
    assert both.log == 0
    assert both.half == pytest.approx(abs(told.log) + told.half, rel=0.1)


def test_of_a_side_that_is_a_whole_day_and_an_hour_the_hour_is_expected_to_lie_off_the_mean() -> None:
    day, rates = np.arange(0.0, 24.0), swinging(96)
    for hour in (24.0, 30.0, 42.0):
        told = History(rates, np.arange(-96.0, 0.0), (day, np.array([hour])), HOURS).foretold(0.05)
        # the mean of a day is as large as that of its logarithms, but for a few percent
        assert told.log == pytest.approx(0.4 * np.sin(2 * np.pi * hour / HOURS), abs=0.06)
    alone = half(past(course(5, 0.0, 96)[0], 30.0))
    longer = History(course(5, 0.0, 96)[0], np.arange(-96.0, 0.0), (day, np.array([30.0])), HOURS)
    assert half(longer) < 0.85 * alone, "a mean of many ranges is surer than one of them"


def test_what_is_expected_is_the_best_linear_prediction() -> None:
    """With one load alone it is what kriging with an unknown mean solves for: weights that add up to 0."""
    luck = np.random.default_rng(2)
    logs, starts = luck.normal(0, 0.1, 12), np.arange(-12.0, 0.0)
    loads = _Loads(np.array([3.0]), np.array([0.3]), np.array([0.5]), HOURS)
    inside = loads.shared(_lags(starts, starts))
    sides = [loads.shared(_lags(starts, np.array([at])))[0, :, 0] for at in (0.0, 5.0)]
    found = _conditioned(inside, logs - logs.mean(), (sides[1] - sides[0])[None])
    system = np.block([[inside[0], np.ones((12, 1))], [np.ones((1, 12)), np.zeros((1, 1))]])
    weights = np.linalg.solve(system, np.append(sides[1] - sides[0], 0.0))[:12]
    assert weights.sum() == pytest.approx(0, abs=1e-12)
    assert found.mean[0] == pytest.approx(weights @ logs)
    left = weights @ inside[0] @ weights - 2 * weights @ (sides[1] - sides[0])
    assert -found.told[0] == pytest.approx(left)


def test_sides_that_meet_still_have_what_is_each_ones_own() -> None:
    rates = course(9, 0.0, 48)[0]
    sides = np.array([0.0, 1.0]), np.array([0.5])
    assert half(History(rates, np.arange(-48.0, 0.0), sides, HOURS)) > 0.1


def test_ranges_that_are_missing_are_passed_over() -> None:
    rates, starts = course(7, 0.5, 96)[0], np.arange(96.0)
    kept = np.delete(starts.astype(int), [3, 4, 50])
    whole = History(rates, starts, (np.array([96.0]), np.array([97.0])), HOURS)
    without = replace(whole, rates=rates[kept], starts=starts[kept])
    assert half(without) == pytest.approx(half(whole), rel=0.1)


def test_ranges_of_whole_days_have_no_day_in_them() -> None:
    assert np.isfinite(half(past(course(8, 0.0, 30)[0], 1.0, 1.0)))


@pytest.mark.parametrize(
    ("count", "apart", "tells"),
    [(FEWEST, 1, True), (FEWEST - 1, 1, False), (FEWEST, FEWEST, True), (FEWEST, FEWEST + 1, False)],
)
def test_few_ranges_tell_nothing_nor_do_those_of_less_time_than_lies_between_the_sides(
    count: int, apart: int, tells: bool
) -> None:
    assert past(np.ones(count), apart).tells is tells


def test_what_is_between_the_sides_does_not_stand_in_for_what_was_before_both() -> None:
    """How a day differs from the next, ranges of one day do not say."""
    sides = np.zeros(1), np.array([24.0])
    for first, tells in ((-24.0, True), (-23.0, False)):
        starts = np.append(np.arange(first, 0.0), np.arange(1.0, 24.0))
        assert History(np.ones(len(starts)), starts, sides, HOURS).tells is tells


def test_ranges_that_all_took_the_same_say_that_there_is_no_difference() -> None:
    told = past(np.ones(30)).foretold(0.05)
    assert (told.log, told.half) == pytest.approx((0, 0), abs=1e-6)


def test_what_came_before_makes_sides_at_different_times_sure_of_themselves() -> None:
    a, b = pods(1, 6, spread=0.0), 1.1 * pods(2, 6, spread=0.0)
    load = np.linspace(0.8, 1.2, 16)
    alone = judge(a * load, b * load)[1]
    steady = judge(a * load, b * load, before=past(course(9, 0.0, 48, 0.01)[0]))[1]
    wild = judge(a * load, b * load, before=past(course(9, 0.0, 48, 0.3)[0]))[1]
    assert steady.p[0] < 0.05 < alone.p[0]
    assert wild.p[0] > 0.05
    assert steady.detectable[0] < alone.detectable[0]


def test_what_load_makes_of_another_hour_is_no_change_and_what_is_beyond_it_is() -> None:
    before = past(swinging(80), 5.0)
    times = float(np.exp(before.foretold(0.05).log))
    assert times < 0.7
    a, b = pods(1, 6, spread=0.0), pods(2, 6, spread=0.0)
    equal, alone = judge(a, times * b, before=before)[1], judge(a, times * b)[1]
    assert alone.p[0] < 0.05
    assert equal.p[0] > 0.05
    assert equal.expected == pytest.approx(times, rel=0.05)
    assert equal.a[0] == pytest.approx(alone.a[0] * equal.expected)
    more = judge(a, 1.5 * times * b, before=before)[1]
    assert (more.p[0], more.direction) == (pytest.approx(0, abs=0.05), (Direction.MORE,))
    assert more.relative[0] == pytest.approx(0.5, abs=0.1)
    assert more.relative_low[0] < 0.5 < more.relative_high[0]


@pytest.mark.parametrize("together", [{}, {"same_time": True, "other_days": True}])
@pytest.mark.parametrize("times", [0.2, 0.7, 1.0, 1.4, 5.0])
def test_sides_that_change_places_have_intervals_that_turn_over(
    together: dict[str, bool], times: float
) -> None:
    """As many times as busy, or that part of it, is as far from nothing."""
    before = past(course(9, 0.0, 48, 0.4)[0])
    a, b = pods(1, 5), times * pods(2, 5)
    one = judge(a, b, before=before, **together)[1]
    other = judge(b, a, before=replace(before, sides=before.sides[::-1]), **together)[1]
    assert one.p == pytest.approx(other.p)
    assert 1 + one.relative_low == pytest.approx(1 / (1 + other.relative_high))
    assert 1 + one.relative_high == pytest.approx(1 / (1 + other.relative_low))
    assert one.detectable == pytest.approx(other.detectable)
    assert np.isfinite(one.detectable).all()
    held = bool(one.relative_low[0] <= 0 <= one.relative_high[0])
    assert held == bool(one.low[0] <= 0 <= one.high[0]) == bool(one.p[0] > 0.05)
    assert one.low[0] < one.delta[0] < one.high[0] < one.b[0]


def test_ranges_whose_samples_and_clock_lie_unusually_far_apart_are_crowded() -> None:
    clock = course(5, 0.5, 60, 0.4)[0]
    sampled = 1.2 * clock * course(6, 0.0, 60, 0.1)[0]
    assert crowded(sampled, clock).sum() <= 1, "however much load varies"
    sampled[[7, 30]] *= 2, 0.5
    assert np.flatnonzero(crowded(sampled, clock)).tolist() == [7, 30]
    assert np.flatnonzero(crowded(3 * sampled, clock)).tolist() == [7, 30], "samples may always be more"


@pytest.mark.parametrize(("more", "is_so"), [(0.049, False), (0.051, True)])
def test_waiting_that_differs_by_less_than_five_percent_is_not_unusual(more: float, is_so: bool) -> None:
    sampled = np.ones(30)
    sampled[4] = np.exp(more)
    assert crowded(sampled, np.ones(30))[4] == is_so


def test_without_a_clock_or_samples_nothing_is_known_to_be_crowded() -> None:
    assert not crowded(np.array([1.0, 2.0, 9.0]), np.zeros(3)).any()
    assert not crowded(np.zeros(3), np.ones(3)).any()
    assert not crowded(np.zeros(0), np.zeros(0)).any()
    told = crowded(np.array([1.0, 1.0, 1.0, 0.0, 3.0]), np.array([1.0, 1.0, 1.0, 1.0, 0.0]))
    assert not told.any()


def test_sides_and_a_past_that_never_vary_are_the_same_or_surely_not() -> None:
    steady = np.ones((1, 1, 16))
    before = past(np.ones(48))
    assert judge(steady, steady, before=before)[1].p[0] == 1
    assert judge(steady, 2 * steady, before=before)[1].p[0] < 1e-6
    functions = np.ones((3, 1, 16))
    found = effects(design(even(1), even(1), functions[0], functions[0], before=past(course(9, 0.0, 48)[0])),
                    functions, functions, *[np.full(3, 100.0)] * 2, akin=True)  # fmt: skip
    assert np.isfinite([found.p, found.low, found.high, found.detectable]).all()


def test_what_one_side_does_not_have_is_judged_in_seconds() -> None:
    a, b = pods(1, 5, quantities=3), pods(2, 5, quantities=3)
    a[1], b[2] = 0, 0
    found = judge(a, b, before=past(course(9, 0.0, 48, 0.05)[0]))[1]
    assert found.direction == (Direction.UNCLEAR, Direction.NEW, Direction.GONE)
    assert np.isfinite([found.low, found.high]).all()


def test_a_function_that_does_not_follow_load_is_not_told_to_have_changed_and_one_that_did_is() -> None:
    before = past(swinging(80), 5.0)
    times = float(np.exp(before.foretold(0.05).log))
    a, b = (pods(seed, 6, spread=0.0, passing=0.005, quantities=4) for seed in (1, 2))
    b *= np.array([times, times, 1.0, 3 * times])[:, None, None]
    plan = design(even(6), even(6), a[0], b[0], before=before)
    none = np.full(4, np.inf)
    found = effects(plan, a, b, none, none, family=True)
    assert found.relative[2] == pytest.approx(1 / times - 1, rel=0.1)
    assert (found.p > 0.04).tolist() == [True, True, True, False]
    assert (effects(plan, a, b, none, none).p[:3] > 0.04).tolist() == [True, True, False], "the whole follows"


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
