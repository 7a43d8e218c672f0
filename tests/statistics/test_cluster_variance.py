"""Effects: facts that hold whatever the numbers, and how often they are right where luck is known."""

from __future__ import annotations

import math
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_collector.statistics.inference.design import (
    build_design,
)
from sidelight_collector.statistics.inference.effect_size import (
    assign_directions,
    compute_effects,
    count_agreeing_rows,
)
from sidelight_collector.statistics.inference.empirical_null import EmpiricalNull
from sidelight_collector.statistics.inference.power import advise_sample_size
from sidelight_collector.statistics.inference.residuals import BATCH_QUANTITIES
from sidelight_collector.statistics.inference.sample_shares import estimate_share
from sidelight_model.change import Direction
from tests.statistics.sides import F64, even, judge, judged_on, pods, side

SEEDS = st.integers(0, 10_000)
PODS = st.integers(1, 6)
PAIRED = st.sampled_from([{}, {"same_time": True}, {"same_time": True, "other_days": True}])


@settings(max_examples=25)
@given(SEEDS, PODS, PODS, PAIRED, st.floats(1e-3, 1e3))
def test_seconds_of_another_unit_make_the_same_relative_change(
    seed: int, few: int, many: int, how: dict[str, bool], unit: float
) -> None:
    a, b = pods(seed, few), pods(seed + 1, many)
    one, two = judge(a, b, **how)[1], judge(a * unit, b * unit, **how)[1]
    for name in ("relative", "relative_low", "relative_high", "p", "min_detectable_effect", "df"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=1e-6, abs=1e-9), name
    assert two.low == pytest.approx(one.low * unit, rel=1e-6, abs=1e-9 * unit)


@settings(max_examples=25)
@given(SEEDS, st.integers(2, 6), PAIRED)
def test_the_order_of_pods_does_not_matter(seed: int, count: int, how: dict[str, bool]) -> None:
    a, b = pods(seed, count), pods(seed + 1, count + 1)
    turned = judge(a[:, ::-1], np.roll(b, 1, axis=1), **how)[1]
    assert turned.p == pytest.approx(judge(a, b, **how)[1].p, rel=1e-6)


def test_pods_that_never_vary_in_time_are_judged_by_students_t() -> None:
    """Two samples of four pods; by hand: the mean of both variances times (1/4 + 1/4), with 6 degrees."""
    a, b = (
        np.repeat(60 * np.array(rates)[None, :, None], 16, axis=2)
        for rates in ((0.9, 1.0, 1.1, 1.2), (1.3, 1.5, 1.1, 1.7))
    )
    found = judge(a, b, same_time=True)[1]
    assert (found.baseline[0], found.comparison[0], found.delta[0], found.df[0]) == pytest.approx(
        (1.05, 1.4, 0.35, 6)
    )
    assert found.variance[0] == pytest.approx((0.05 / 3 + 0.2 / 3) / 2 * (1 / 4 + 1 / 4))
    half = 2.446912 * sqrt(0.0208333)  # the 97.5 % point of 6 degrees
    assert (found.low[0], found.high[0]) == pytest.approx((0.35 - half, 0.35 + half), abs=1e-5)
    assert found.p[0] == pytest.approx(0.0515206, abs=1e-5)  # t = 2.424871


@settings(max_examples=25)
@given(SEEDS, PODS, PODS, PAIRED)
def test_swapped_sides_have_the_opposite_interval(
    seed: int, few: int, many: int, how: dict[str, bool]
) -> None:
    a, b = pods(seed, few), pods(seed + 1, many)
    one, other = judge(a, b, **how)[1], judge(b, a, **how)[1]
    assert other.delta == pytest.approx(-one.delta)
    assert other.p == pytest.approx(one.p, rel=1e-6)
    assert (other.low[0], other.high[0]) == pytest.approx((-one.high[0], -one.low[0]), rel=1e-6)


@pytest.mark.parametrize(
    "count", [BATCH_QUANTITIES - 1, BATCH_QUANTITIES, BATCH_QUANTITIES + 1, 2 * BATCH_QUANTITIES + 1]
)
def test_many_quantities_are_judged_as_each_would_be(count: int) -> None:
    a, b = pods(1, 3, quantities=count), pods(2, 3, quantities=count)
    none = np.full(count, np.inf)
    plan, found = judge(a, b, same_time=True)
    for at in (0, min(BATCH_QUANTITIES, count) - 1, count - 1):
        one = slice(at, at + 1)
        alone = compute_effects(plan, a[one], b[one], none[one], none[one])
        for name in ("baseline", "comparison", "low", "high", "p", "variance", "min_detectable_effect"):
            assert getattr(found, name)[at] == pytest.approx(getattr(alone, name)[0], rel=1e-9), name


@settings(max_examples=25)
@given(SEEDS, PODS, PAIRED)
def test_a_side_compared_with_itself_did_not_change(seed: int, count: int, how: dict[str, bool]) -> None:
    a = pods(seed, count, quantities=3)
    found = judge(a, a, **how)[1]
    assert found.delta.tolist() == [0.0] * 3
    assert found.p.tolist() == [1.0] * 3
    assert set(found.direction) <= {Direction.UNCHANGED, Direction.INCONCLUSIVE}
    assert (found.low <= 0).all()
    assert (found.high >= 0).all()


@settings(max_examples=25)
@given(SEEDS, PODS, PODS, PAIRED, st.floats(-0.5, 1.0))
def test_both_intervals_hold_nothing_changed_exactly_where_the_test_does_not_reject(
    seed: int, few: int, many: int, how: dict[str, bool], change: float
) -> None:
    plan, found = judge(pods(seed, few), pods(seed + 1, many) * (1 + change), **how)
    rejects = bool(found.p[0] <= plan.alpha)
    assert rejects == (not found.low[0] <= 0 <= found.high[0])
    assert rejects == (not found.relative_low[0] <= 0 <= found.relative_high[0])
    assert found.relative_low[0] <= found.relative[0] <= found.relative_high[0]
    assert (found.direction[0] in (Direction.INCREASED, Direction.DECREASED)) == rejects


@settings(max_examples=25)
@given(SEEDS, PODS, PODS, PAIRED)
def test_what_is_surer_has_the_wider_interval(seed: int, few: int, many: int, how: dict[str, bool]) -> None:
    a, b = pods(seed, few), pods(seed + 1, many)
    usual, surer = (judge(a, b, alpha=alpha, **how)[1] for alpha in (0.05, 0.01))
    assert surer.low[0] <= usual.low[0] * (1 + 1e-9)
    assert surer.high[0] >= usual.high[0] * (1 - 1e-9)
    assert surer.relative_high[0] >= usual.relative_high[0] * (1 - 1e-9)


@settings(max_examples=25)
@given(SEEDS, st.integers(2, 6))
def test_load_that_both_sides_had_at_the_same_time_cancels(seed: int, count: int) -> None:
    a, b = pods(seed, count, spread=0.0), pods(seed + 1, count, spread=0.0)
    load = np.exp(np.sin(np.arange(16) / 3))
    together = judge(a * load, b * load, same_time=True)[1]
    apart = judge(a * load, b * load)[1]
    assert together.variance[0] < apart.variance[0]
    assert together.min_detectable_effect[0] < 0.5 * apart.min_detectable_effect[0]


@settings(max_examples=25)
@given(SEEDS)
def test_differences_of_pods_cancel_where_they_are_the_same_pods(seed: int) -> None:
    differ = np.array([0.5, 0.8, 1.0, 2.0])[None, :, None]
    a, b = pods(seed, 4, spread=0.0) * differ, pods(seed + 1, 4, spread=0.0) * differ
    same, others = judge(a, b, same_pods=True)[1], judge(a, b)[1]
    assert same.lasting_variance[0] < 0.1 * others.lasting_variance[0]
    assert same.variance[0] < others.variance[0]


def test_a_canary_of_one_pod_is_held_to_the_differences_of_the_pods_it_is_compared_with() -> None:
    alike, unlike = (pods(5, 8, spread=spread) for spread in (0.0, 0.3))
    alone = pods(6, 1, spread=0.0)
    assert (
        judge(unlike, alone, same_time=True)[1].lasting_variance[0]
        > 10 * judge(alike, alone, same_time=True)[1].lasting_variance[0]
    )


def test_two_cells_alone_are_told_apart_by_their_samples_only() -> None:
    """Two local files: one row, one block each."""
    one = even(1, 1)
    a, b = np.array([[[6.0]]]), np.array([[[9.0]]])
    plan = build_design(one, one)
    many = compute_effects(plan, a, b, np.array([600.0]), np.array([900.0]))
    few = compute_effects(plan, a, b, np.array([6.0]), np.array([9.0]))
    assert many.direction == (Direction.INCREASED,)
    assert few.direction == (Direction.INCONCLUSIVE,)
    # each side's (n + 1) samples, as variances of rates per second
    assert many.variance[0] == pytest.approx((601 * 0.01**2 + 901 * 0.01**2) / 60**2)


def test_what_is_new_or_gone_says_so_and_has_no_ratio_where_a_is_nothing() -> None:
    nothing, some = np.zeros((1, 4, 16)), pods(1, 4)
    whole = np.full((1, 4, 16), 50.0)
    new = judge(np.concatenate([whole, nothing]), np.concatenate([whole, some]))[1]
    gone = judge(np.concatenate([whole, some]), np.concatenate([whole, nothing]))[1]
    assert new.direction[1] is Direction.NEW
    assert gone.direction[1] is Direction.REMOVED
    assert np.isnan([new.relative[1], new.relative_low[1], new.relative_high[1]]).all()
    assert gone.relative[1] == -1


def test_a_few_samples_that_are_new_are_no_change() -> None:
    none = np.zeros((2, 16))
    three = none.copy()
    three[0, 3] = 0.03
    two = even(2)
    plan = build_design(two, two)
    found = compute_effects(plan, none[None], three[None], np.array([0.0]), np.array([3.0]))
    assert found.direction == (Direction.INCONCLUSIVE,)


def test_of_a_side_that_was_not_watched_nothing_follows() -> None:
    found = judged_on(side(np.zeros((2, 16))), even(2), np.zeros((1, 2, 16)), pods(1, 2))[1]
    assert found.direction == (Direction.NO_DATA,)
    assert found.p.tolist() == [1.0]


def test_rows_and_blocks_that_were_not_watched_change_nothing() -> None:
    a, b = pods(1, 3), pods(2, 3)
    plain = judge(a, b)[1]
    padded = np.concatenate([a, np.zeros((1, 2, 16))], axis=1)
    watched = np.concatenate([even(3).exposure, np.zeros((2, 16))])
    found = judged_on(side(watched), even(3), padded, b)[1]
    assert found.p == pytest.approx(plain.p)
    assert found.df == pytest.approx(plain.df)


def test_a_change_must_exceed_the_variance_between_periods_and_the_common_shift() -> None:
    a, b = pods(1, 6), 1.2 * pods(2, 6)
    plan, plain = judge(a, b)
    none = np.full(1, np.inf)
    spread, shift = EmpiricalNull(variance=0.2**2, df=50.0), EmpiricalNull(shift=math.log(1.2), df=50.0)
    wide, shifted = (compute_effects(replace(plan, null=null), a, b, none, none) for null in (spread, shift))
    assert plain.direction == (Direction.INCREASED,)
    assert (wide.direction, shifted.direction) == ((Direction.INCONCLUSIVE,),) * 2
    assert wide.variance[0] == pytest.approx(plain.variance[0] + (0.2 * 22) ** 2 / 60**2, rel=0.05)
    assert wide.relative_low[0] < 0 < wide.relative[0]
    # The interval reaches from 0, as the shift alone would have it, to the whole change.
    assert shifted.relative_low[0] < 0 < 0.2 < shifted.relative_high[0]


def test_a_change_below_the_smallest_relevant_size_is_minor() -> None:
    a, b = pods(1, 6), 1.2 * pods(2, 6)
    plan, found = judge(a, b)
    delta = float(found.delta[0])
    for least, direction in ((delta * 0.99, Direction.INCREASED), (delta * 1.01, Direction.MINOR)):
        assert assign_directions(found, replace(plan, min_relevant=least), np.array([True])).direction == (
            direction,
        )


def test_a_family_may_tell_less_than_each_test_alone() -> None:
    plan, found = judge(pods(1, 8), 1.5 * pods(2, 8))
    assert found.direction == (Direction.INCREASED,)
    assert assign_directions(found, plan, np.array([False])).direction[0] in (
        Direction.UNCHANGED,
        Direction.INCONCLUSIVE,
    )


def test_pods_agree_where_they_lie_on_the_side_of_the_change() -> None:
    a = np.full((1, 2, 16), 10.0)
    b = np.full((1, 3, 16), 14.0)
    b[0, 2] = 9.0
    plan, found = judge(a, b)
    agree, of = count_agreeing_rows(found, plan, b)
    assert agree.tolist() == [2]
    assert of == 3


def test_what_lacks_is_time_where_load_passes_and_pods_where_they_differ() -> None:
    plan, found = judge(
        pods(1, 6, spread=0.0, passing=0.5), pods(2, 6, spread=0.0, passing=0.5), same_time=True
    )
    lacking = advise_sample_size(found, plan)
    assert lacking is not None
    assert lacking.pods is None
    assert lacking.minutes is not None
    assert lacking.minutes > 16
    plan, found = judge(
        pods(1, 3, spread=0.2, passing=0.01), pods(2, 3, spread=0.2, passing=0.01), same_time=True
    )
    lacking = advise_sample_size(found, plan)
    assert lacking is not None
    assert lacking.minutes is None
    assert lacking.pods is not None
    assert lacking.pods > 10
    plan, found = judge(pods(1, 12, spread=0.001, passing=0.01), pods(2, 12, spread=0.001, passing=0.01))
    assert advise_sample_size(found, plan) is None


def _equal(seed: int, trials: int, count: int) -> tuple[F64, F64]:
    """Many comparisons of equal sides at once, as quantities of one."""
    return pods(seed, count, quantities=trials), pods(seed + 1, count, quantities=trials)


@pytest.mark.long
def test_equal_pods_are_told_apart_no_more_often_than_the_level_says() -> None:
    trials = 4000
    a, b = _equal(7, trials, 5)
    found = judge(a, b, same_time=True)[1]
    share = float((found.p <= 0.05).mean())
    # four standard errors of a share of 5 %
    assert share <= 0.05 + 4 * sqrt(0.05 * 0.95 / trials)
    assert share >= 0.02


@pytest.mark.long
def test_intervals_hold_a_change_that_was_planted() -> None:
    trials = 4000
    a, b = _equal(9, trials, 6)
    found = judge(a, 1.2 * b, same_time=True)[1]
    held = float(((found.relative_low <= 0.2) & (found.relative_high >= 0.2)).mean())
    assert 0.93 - 4 * sqrt(0.95 * 0.05 / trials) <= held <= 0.98


@pytest.mark.long
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("count", [2, 4])
def test_intervals_of_few_pods_hold_the_truth_whether_or_not_pods_differ(count: int, spread: float) -> None:
    trials = 6000
    a, b = (pods(seed, count, spread=spread, quantities=trials) for seed in (21, 22))
    found = judge(a, b, same_time=True)[1]
    held = float((found.p > 0.05).mean())
    assert 0.945 <= held <= 0.975


@pytest.mark.long
def test_a_change_as_large_as_is_called_detectable_is_found_in_four_of_five() -> None:
    trials = 6000
    for count in (2, 4, 8):
        a, b = (pods(seed, count, spread=0.05, quantities=trials) for seed in (31, 32))
        aim = float(np.median(judge(a, b, same_time=True)[1].min_detectable_effect))
        found = judge(a, (1 + aim) * b, same_time=True)[1]
        assert 0.74 <= float((found.p <= 0.05).mean()) <= 0.86


@settings(max_examples=25)
@given(SEEDS, st.integers(2, 6), st.floats(0.5, 5))
def test_load_that_both_sides_had_cancels_where_one_of_them_takes_more(
    seed: int, count: int, change: float
) -> None:
    a, b = pods(seed, count, spread=0.0), pods(seed + 1, count, spread=0.0)
    storm = np.where(np.arange(16) == 5, 30.0, 1.0)
    together = judge(a * storm, (1 + change) * b * storm, same_time=True, other_days=True)[1]
    apart = judge(a * storm, (1 + change) * b * storm)[1]
    # Of 2,000 draws the largest p together was 0.085, the smallest apart 0.2, their largest ratio 0.22.
    assert together.p[0] < apart.p[0] / 2


@pytest.mark.long
@pytest.mark.parametrize("spread", [0.0, 0.01, 0.03])
def test_pods_that_happen_to_lie_near_each_other_make_no_surer_findings(spread: float) -> None:
    trials, level = 20_000, 0.0025
    a, b = (pods(seed, 4, spread=spread, quantities=trials) for seed in (41, 42))
    share = float((judge(a, b, same_time=True)[1].p <= level).mean())
    # twice what the level says, and four standard errors
    assert share <= 2 * level + 4 * sqrt(level / trials)


def test_the_variance_is_no_less_than_that_of_counting() -> None:
    alike = np.full((1, 2, 16), 20.0)
    jitter = np.random.default_rng(1).normal(0, 1e-6, (1, 2, 16))
    a, b = alike * (1 + jitter), alike * (1 - jitter)
    plan = build_design(even(2), even(2), same_time=True)
    found = compute_effects(plan, a, b, *[np.array([99.0])] * 2)
    assert sqrt(found.variance[0]) == pytest.approx(sqrt(2 * 100) / 99 * found.baseline[0])


def test_few_samples_of_one_side_are_no_more_certain_than_both_sides_together() -> None:
    """None of eight expected samples: by itself none would seem to scatter by one."""
    many, few = even(10), even(1)
    plan = build_design(many, few, same_time=True)
    a = np.full((1, 10, 16), 0.05)
    found = compute_effects(plan, a, np.zeros((1, 1, 16)), np.array([80.0]), np.array([0.0]))
    each = 0.1 * 80 / 80
    expected = (80 + 0) / 11 * each**2 / 960**2
    assert found.counting_variance_b[0] == pytest.approx(expected + (each / 960) ** 2, rel=1e-6)
    assert found.p[0] > 0.01


def test_what_few_samples_say_of_two_pods_is_found_and_no_surer_than_two_pods_are() -> None:
    a, b = (pods(seed, 2, spread=0.0, passing=0.01) for seed in (1, 2))
    plan = build_design(even(2), even(2), same_time=True)
    found = compute_effects(plan, a, 1.6 * b, np.array([150.0]), np.array([240.0]))
    # by samples alone: a normal distribution's 4.5 standard errors
    assert 1e-3 < found.p[0] <= 0.05


@pytest.mark.parametrize(("rows", "blocks"), [(1, 16), (4, 16), (3, 1)])
def test_the_interval_of_a_share_holds_it_in_19_of_20_cases(rows: int, blocks: int) -> None:
    """Pods differ by 3 points, and so do times within a pod."""
    luck = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        of_pod = luck.normal(0.38, 0.03 if rows > 1 else 0, (rows, 1))
        samples = luck.poisson(200, (rows, blocks))
        part = luck.binomial(samples, of_pod + luck.normal(0, 0.03, (rows, blocks)))
        found = estimate_share(side(samples.astype(float)), part.astype(float), float(samples.sum()))
        held += (found.low or 0) <= 0.38 <= (found.high or 0)
    assert held >= 0.93 * 400
