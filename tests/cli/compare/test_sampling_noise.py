"""The statistics of two single recordings, against what chance does."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.change import compute_q_values
from sidelight_model.recordings.sampling_noise import (
    MIN_FUNCTIONS,
    NO_SHIFT,
    CommonShift,
    Estimate,
    SignificanceLevel,
    compute_effect,
    estimate_common_shift,
    estimate_mean,
    estimate_quantile,
    estimate_rate,
    estimate_share,
)

LEVEL = SignificanceLevel(0.05, 0, 0.05)
ROUNDS = 2000
HISTOGRAMS = st.dictionaries(st.integers(1, 60), st.integers(1, 500), min_size=1, max_size=30)


def held(found: list[bool]) -> float:
    return sum(found) / len(found)


def test_shares_have_the_interval_of_two_proportions() -> None:
    """80 and 120 of 400: Wald's interval and test of a difference of proportions, computed by hand."""
    found = compute_effect(estimate_share(80, 400), estimate_share(120, 400), LEVEL)
    error = (0.2 * 0.8 / 400 + 0.3 * 0.7 / 400) ** 0.5  # 0.030414
    assert (found["low"], found["high"]) == pytest.approx((0.1 - 1.959964 * error, 0.1 + 1.959964 * error))
    assert found["p"] == pytest.approx(0.001009, rel=1e-3)  # z = 3.28798
    assert found["direction"] == "increased"


def test_rates_have_the_interval_of_a_ratio_of_poisson_counts() -> None:
    """200 and 250 samples in 10 s: the logarithm of the ratio has the variance 1/200 + 1/250."""
    found = compute_effect(estimate_rate(200, 10), estimate_rate(250, 10), LEVEL)
    assert (found["baseline"], found["comparison"], found["relative"]) == pytest.approx((20, 25, 0.25))
    assert found["relative_low"] == pytest.approx(0.037906, abs=1e-5)  # 1.25 exp(-1.959964 * 0.094868) - 1
    assert found["relative_high"] == pytest.approx(0.505431, abs=1e-5)
    assert (found["low"], found["high"]) == pytest.approx((5 - 4.157719, 5 + 4.157719), abs=1e-5)


def test_the_detectable_change_is_found_with_a_power_of_80_percent() -> None:
    """Of normal estimates: (1.959964 + 0.841621) standard errors of two shares of 20 % in 1,000."""
    found = compute_effect(estimate_share(200, 1000), estimate_share(200, 1000), LEVEL)
    error = (2 * 0.2 * 0.8 / 1000) ** 0.5
    assert found["min_detectable_effect"] == pytest.approx((1.959964 + 0.841621) * error / 0.2, rel=1e-6)


def test_a_quantile_has_the_standard_error_of_its_rank() -> None:
    """Of the values 1 to 100 the 50th: ranks 50 - 5 and 50 + 5, half of which apart is 5."""
    found = estimate_quantile(dict.fromkeys(range(1, 101), 1), 0.5)
    assert (found.value, found.variance) == (50, 25)
    assert estimate_quantile({7: 400}, 0.95).variance == 0


@pytest.mark.long
def test_intervals_of_shares_hold_the_truth_as_often_as_they_say() -> None:
    luck = random.Random(7)
    inside, outside = [], []
    for _ in range(ROUNDS):
        a, b = (sum(luck.random() < 0.2 for _ in range(400)) for _ in range(2))
        found = compute_effect(estimate_share(a, 400), estimate_share(b, 400), LEVEL)
        inside.append(found["low"] <= 0 <= found["high"])
        outside.append(found["direction"] in ("increased", "decreased", "new", "removed"))
    assert 0.93 <= held(inside) <= 0.97
    assert held(outside) <= 0.06


@pytest.mark.long
def test_intervals_of_rates_hold_the_true_ratio_as_often_as_they_say() -> None:
    luck = random.Random(8)
    inside = []
    for _ in range(ROUNDS):
        a, b = (_arrivals(luck, of) for of in (200, 250))
        found = compute_effect(estimate_rate(a, 10), estimate_rate(b, 10), LEVEL)
        inside.append(found["relative_low"] <= 0.25 <= found["relative_high"])
    assert 0.93 <= held(inside) <= 0.97


def _arrivals(luck: random.Random, mean: float) -> int:
    """A Poisson number: how often something came that comes `mean` times on the average."""
    came, at = 0, luck.expovariate(mean)
    while at < 1:
        came, at = came + 1, at + luck.expovariate(mean)
    return came


@pytest.mark.long
def test_a_change_as_large_as_the_detectable_one_is_found_four_times_of_five() -> None:
    luck = random.Random(9)
    whole, part = 1000, 0.2
    detectable = compute_effect(estimate_share(200, whole), estimate_share(200, whole), LEVEL)[
        "min_detectable_effect"
    ]
    found = []
    for _ in range(600):
        a, b = (sum(luck.random() < of for _ in range(whole)) for of in (part, part * (1 + detectable)))
        found.append(
            compute_effect(estimate_share(a, whole), estimate_share(b, whole), LEVEL)["direction"]
            == "increased"
        )
    assert 0.72 <= held(found) <= 0.88


@pytest.mark.long
def test_intervals_of_quantiles_hold_the_truth() -> None:
    luck = random.Random(10)
    inside = []
    for _ in range(500):
        sides = [Counter(round(luck.gauss(300, 60)) for _ in range(600)) for _ in range(2)]
        found = compute_effect(estimate_quantile(sides[0], 0.95), estimate_quantile(sides[1], 0.95), LEVEL)
        inside.append(found["low"] <= 0 <= found["high"])
    assert 0.90 <= held(inside) <= 0.99


@given(HISTOGRAMS)
def test_a_mean_and_quantiles_lie_within_what_was_counted(histogram: dict[int, int]) -> None:
    for found in (
        estimate_mean(histogram),
        *(estimate_quantile(histogram, part) for part in (0.5, 0.95, 0.99)),
    ):
        assert min(histogram) - 1e-9 <= found.value <= max(histogram) + 1e-9
        assert found.variance >= 0
    spread = [value for value, count in sorted(histogram.items()) for _ in range(count)]
    assert estimate_quantile(histogram, 0.5).value == spread[-(-len(spread) // 2) - 1]


@given(st.lists(st.floats(0, 1), max_size=40))
def test_q_is_at_least_p_and_keeps_its_order(chances: list[float]) -> None:
    found = compute_q_values(chances)
    assert all(p <= q + 1e-12 <= 1 + 1e-9 for p, q in zip(chances, found, strict=True))
    order = sorted(range(len(chances)), key=lambda at: chances[at])
    assert [found[at] for at in order] == sorted(found)


def test_q_is_that_of_a_published_example() -> None:
    """Benjamini & Hochberg 1995, section 3.2: fifteen p of which four are found at 5 %."""
    chances = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    chances += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert [q <= 0.05 for q in compute_q_values(chances)] == [True] * 4 + [False] * 11


@pytest.mark.parametrize(("look", "spent"), [(0, 0.1), (1, 0.05), (2, 0.1 / 6), (9, 0.1 / 90)])
def test_looks_spend_less_and_less(look: int, spent: float) -> None:
    assert SignificanceLevel(0.1, look, 0.05).spent_alpha == pytest.approx(spent)


def test_all_looks_together_spend_alpha() -> None:
    assert sum(SignificanceLevel(0.1, look, 0.05).spent_alpha for look in range(1, 10_000)) == pytest.approx(
        0.1, rel=1e-3
    )


@given(st.integers(0, 500), st.integers(0, 500), st.integers(500, 5000))
def test_what_is_outside_noise_has_an_interval_without_zero(a: int, b: int, whole: int) -> None:
    found = compute_effect(estimate_share(a, whole), estimate_share(b, whole), LEVEL)
    outside = found["direction"] in ("increased", "decreased", "new", "removed")
    assert outside is not (found["low"] <= 0 <= found["high"])
    assert outside is (found["p"] < LEVEL.spent_alpha) or found["p"] == pytest.approx(LEVEL.spent_alpha)
    if found["direction"] in ("new", "removed"):
        assert not (a and b)
    assert (found["relative"] is None) is (a == 0)


def test_nothing_on_both_sides_is_the_same() -> None:
    assert compute_effect(Estimate(0, 1e-9), Estimate(0, 1e-9), LEVEL)["direction"] == "unchanged"


SMALL = 0.002


@pytest.mark.parametrize(
    ("delta", "direction"),
    [
        (0.0099, "minor"),
        (0.0101, "increased"),
        (-0.0099, "minor"),
        (-0.0101, "decreased"),
        (0.0, "unchanged"),
    ],
)
def test_a_change_below_the_smallest_relevant_size_is_minor(delta: float, direction: str) -> None:
    exact = 1e-12
    effect = compute_effect(Estimate(0.1, exact), Estimate(0.1 + delta, exact), LEVEL, min_relevant=0.01)
    assert effect["direction"] == direction


def test_new_and_removed_functions_may_be_minor_too() -> None:
    some, nothing = Estimate(SMALL, 1e-12), Estimate(0.0, 1e-12)
    for pair in ((some, nothing), (nothing, some)):
        assert compute_effect(*pair, LEVEL, min_relevant=0.01)["direction"] == "minor"
    assert compute_effect(nothing, some, LEVEL, min_relevant=SMALL)["direction"] == "new"


def shares(counts: list[int]) -> list[Estimate]:
    return [estimate_share(count, sum(counts)) for count in counts]


def test_the_shares_of_unchanged_functions_shrink_together() -> None:
    """A doubled function of 300 in 3,000 leaves each of the others ln(3000/3300) smaller."""
    a, b = [300, *[270] * 10], [600, *[270] * 10]
    common = estimate_common_shift(list(zip(shares(a), shares(b), strict=True)))
    assert common.shift == pytest.approx(-0.09531, abs=1e-5)
    assert common.variance == 0
    effects = [compute_effect(*pair, LEVEL, common=common) for pair in zip(shares(a), shares(b), strict=True)]
    assert effects[0]["direction"] == "increased"
    assert all(effect["p"] == pytest.approx(1.0) for effect in effects[1:])
    assert all(effect["low"] < 0 < effect["high"] for effect in effects[1:])


def test_a_change_must_differ_from_zero_and_from_the_common_shift() -> None:
    a, b = Estimate(0.10, 1e-6), Estimate(0.12, 1e-6)
    alone = compute_effect(a, b, LEVEL)
    for shift, is_changed in ((0.0, True), (0.19, False), (0.3, False), (-0.3, True)):
        effect = compute_effect(a, b, LEVEL, common=CommonShift(shift))
        assert (effect["direction"] == "increased") is is_changed
        assert effect["p"] >= alone["p"]
        assert effect["low"] <= alone["low"] <= alone["high"] <= effect["high"]
        assert effect["relative_low"] <= alone["relative_low"]


def test_the_variance_between_runs_is_found_where_counting_does_not_explain_it() -> None:
    generator = random.Random(3)
    for sd in (0.0, 0.2):
        pairs = []
        for _ in range(400):
            ratio = generator.gauss(0.05, math.sqrt(sd**2 + 2 / 1000))
            pairs.append((Estimate(1.0, 1 / 1000), Estimate(math.exp(ratio), math.exp(2 * ratio) / 1000)))
        common = estimate_common_shift(pairs)
        assert common.shift == pytest.approx(0.05, abs=0.03)
        assert math.sqrt(common.variance) == pytest.approx(sd, abs=0.03)


def test_a_share_of_everything_does_not_vary_between_runs() -> None:
    common = CommonShift(0.0, 0.04, math.inf)
    widths = []
    for share in (0.01, 0.5, 1.0):
        effect = compute_effect(Estimate(share, 1e-9), Estimate(share, 1e-9), LEVEL, common=common)
        widths.append((effect["high"] - effect["low"]) / share)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == pytest.approx(2 * LEVEL.z_score * 0.2 * 0.99, rel=1e-3)
    assert widths[2] < 0.001


@pytest.mark.parametrize(("df", "critical"), [(3, 3.182446), (5, 2.570582), (10, 2.228139), (100, 1.983972)])
def test_a_variance_from_few_functions_has_the_tails_of_students_t(df: float, critical: float) -> None:
    """Two-sided 5 % points of Student's t (Abramowitz and Stegun, table 26.10)."""
    common = CommonShift(0.0, 0.04, df)
    point = 0.001 * 0.2 * (1 - 0.001)  # a share of 0.1 %, whose counting noise is nil
    for factor, is_changed in ((0.985, False), (1.015, True)):
        b = Estimate(0.001 + factor * critical * point / (1 - factor * critical * 0.1), 0.0)
        effect = compute_effect(Estimate(0.001, 0.0), b, LEVEL, common=common)
        assert (effect["direction"] == "increased") is is_changed
        assert (effect["p"] < 0.05) is is_changed
        assert (effect["low"] > 0) is is_changed


def test_few_functions_show_no_shift() -> None:
    pair = (Estimate(0.1, 1e-6), Estimate(0.2, 1e-6))
    assert estimate_common_shift([pair] * (MIN_FUNCTIONS - 1)) == NO_SHIFT
    assert estimate_common_shift([pair] * MIN_FUNCTIONS).shift == pytest.approx(math.log(2))
