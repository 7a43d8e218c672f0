"""What would do to see a change: more time, more pods, or neither, and how much of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sidelight_collector.statistics.inference.design import Design, SideMatrix, build_design
from sidelight_collector.statistics.inference.effect_size import Effects, compute_effects
from sidelight_collector.statistics.inference.power import MAX_PODS, SampleSizeAdvice, advise_sample_size
from tests.statistics.sides import even, judge, judged_on, pods


def lacking(found: tuple[Design, Effects]) -> SampleSizeAdvice | None:
    return advise_sample_size(found[1], found[0])


def enough(lack: SampleSizeAdvice | None) -> SampleSizeAdvice:
    assert lack is not None
    return lack


def brief(count: int, samples: float = np.inf, seed: int = 1) -> tuple[Design, Effects]:
    """A side of one stretch of time, a minute."""
    one = even(count, 1)
    a, b = (pods(seed + at, count)[:, :, :1] for at in range(2))
    plan = build_design(one, one)
    return plan, compute_effects(plan, a, b, np.array([samples]), np.array([samples]))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_one_stretch_of_time_tells_no_more_than_that_another_is_needed(count: int) -> None:
    assert lacking(brief(count)) == SampleSizeAdvice(2.0, None, is_too_brief=True)


def test_few_samples_in_a_short_time_need_as_much_more_as_counting_them_says() -> None:
    few, many = (enough(lacking(brief(1, samples=count))) for count in (200.0, 800.0))
    assert few.is_too_brief
    assert many.is_too_brief
    assert few.minutes is not None
    assert many.minutes is not None
    # about 2 (2.9 / 5 %)^2 samples of each side, and one more of each than were seen
    assert few.minutes == pytest.approx(2 * (2.9 / 0.05) ** 2 / 200, rel=0.1)
    assert few.minutes == pytest.approx(4 * many.minutes, rel=0.01)


def test_a_single_pod_in_one_stretch_lacks_time_even_where_its_numbers_have_no_noise() -> None:
    plan, found = brief(1)
    assert found.min_detectable_effect[0] <= plan.min_effect
    assert enough(advise_sample_size(found, plan)).is_too_brief


def test_of_what_was_not_watched_nothing_lacks() -> None:
    one, none = even(2), SideMatrix(np.zeros((2, 16)), (("a",), ("b",)), 60.0)
    plan, found = judged_on(one, none, pods(1, 2), np.zeros((1, 2, 16)))
    assert advise_sample_size(found, plan) is None


def test_load_is_said_to_be_what_blurs_unless_both_had_it() -> None:
    load = np.exp(np.sin(np.arange(16) / 2))
    a, b = pods(1, 4, spread=0.0) * load, pods(2, 4, spread=0.0) * load[::-1]
    assert enough(lacking(judge(a, b))).is_transient
    assert enough(lacking(judge(a, b, same_time=True, other_days=True))).is_transient
    assert not enough(lacking(judge(a, b, same_time=True))).is_transient


def test_pods_that_differ_are_told_by_how_much_and_how_many_would_do() -> None:
    differ = np.resize([1.2, 0.8], 8)[None, :, None]
    a, b = (pods(seed, 8, spread=0.0, passing=0.01) * differ for seed in (1, 2))
    lack = enough(lacking(judge(a, b, same_time=True)))
    assert lack.minutes is None
    assert lack.pod_variation == pytest.approx(0.2 * (8 / 7) ** 0.5, rel=0.05)
    # 2.929 standard errors (16 rows a side, 30 degrees), of 20 % in one pod of each side
    assert lack.pods == pytest.approx(2 * (2.929 * 0.214 * 1.05 / 0.05) ** 2, rel=0.03)


def test_pods_that_differ_too_much_have_no_number() -> None:
    differ = np.resize([1.9, 0.1], 8)[None, :, None]
    a, b = (pods(seed, 8, spread=0.0, passing=0.01) * differ for seed in (1, 2))
    lack = enough(lacking(judge(a, b, same_time=True)))
    assert (lack.minutes, lack.pods) == (None, None)
    assert lack.pod_variation == pytest.approx(0.96, rel=0.05)


def test_the_last_number_of_pods_that_is_told() -> None:
    """Of pods that differ ever more the number grows up to the most, and then there is none."""
    differ = np.resize([1.0, -1.0], 8)[None, :, None]
    numbers = []
    for spread in np.linspace(0.32, 0.36, 23):
        a, b = (pods(seed, 8, spread=0.0, passing=0.001) * (1 + spread * differ) for seed in (1, 2))
        numbers.append(enough(lacking(judge(a, b, same_time=True))).pods)
    told = [number for number in numbers if number is not None]
    assert told == sorted(told)
    assert 900 < told[-1] <= MAX_PODS
    assert numbers == told + [None] * (len(numbers) - len(told))
    assert len(told) < len(numbers)


def test_a_few_pods_compared_with_many_are_the_ones_that_are_lacking() -> None:
    """A canary of one pod needs more of itself, not more than there are of the others."""
    differ = np.resize([1.03, 0.97], 12)[None, :, None]
    a, b = pods(1, 12, spread=0.0, passing=0.001) * differ, pods(2, 2, spread=0.0, passing=0.001)
    b = b * differ[:, :2]
    lack = enough(lacking(judge(a, b, same_time=True)))
    assert lack.pods is not None
    assert 2 < lack.pods < 12


def test_pods_that_share_a_row_are_counted_one_by_one() -> None:
    differ = np.resize([1.2, 0.8], 8)[None, :, None]
    a, b = (pods(seed, 8, spread=0.0, passing=0.01) * differ for seed in (1, 2))
    each = enough(lacking(judge(a, b, same_time=True)))
    shared = replace(even(8), pods=tuple((f"pod-{row}", f"pod-{row + 8}") for row in range(8)))
    many = enough(lacking(judged_on(shared, shared, a, b, same_time=True)))
    assert each.pods is not None
    assert many.pods is not None
    assert many.pods == pytest.approx(2 * each.pods, rel=0.01)
    assert many.pod_variation == pytest.approx(each.pod_variation * 2**0.5, rel=0.01)


def test_pods_are_told_beside_time_where_time_alone_takes_long_and_they_would_do() -> None:
    """What passes in each pod by itself averages out over pods and over time: more than a day is long."""

    def canary(count: int, block: float) -> SampleSizeAdvice:
        one = replace(even(count), block_seconds=block)
        a, b = (pods(seed, count, spread=0.0, passing=0.3) for seed in (1, 2))
        return enough(lacking(judged_on(one, one, a, b, same_time=True)))

    short, long, alone = canary(6, 60.0), canary(6, 3600.0), canary(1, 3600.0)
    assert short.minutes is not None
    assert long.minutes == pytest.approx(60 * short.minutes)
    assert (short.minutes - 16 < 1440, long.minutes - 16 * 60 > 1440) == (True, True)
    assert short.pods is None
    assert long.pods is not None
    assert long.pods > 6
    assert alone.pods is None  # of one pod nobody knows how far pods differ
