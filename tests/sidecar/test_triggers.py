"""What makes the sidecar look closer, on a clock of its own."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sidelight_sidecar.triggers import (
    CPU,
    RSS,
    THROTTLED,
    TRIGGER_NAMES,
    ContainerTriggers,
    CpuUsage,
    GrowthThreshold,
    ProcessTriggers,
    SlidingWindow,
    TriggerEvent,
    TriggerRules,
    build_trigger_labels,
    is_in_cooldown,
)

BUSY = TriggerRules(cpu_share=0.8, window_seconds=10.0, boost_seconds=30.0, cooldown_seconds=60.0)
GROWING = TriggerRules(rss_growth=GrowthThreshold(size_bytes=50 << 20), rss_growth_seconds=10.0)


def watch(
    rules: TriggerRules,
    shares: list[float],
    *,
    rss: list[int] | None = None,
    age: float = 1000.0,
    free: bool = True,
    limited: bool = False,
) -> list[tuple[int, TriggerEvent]]:
    """A process that takes these shares of a core, or bytes of memory, each second: when what fired."""
    trail, cpu, fired = ProcessTriggers(rules), 0.0, []
    for second, share in enumerate(shares):
        size = rss[second] if rss else 0
        found = trail.evaluate(
            float(second), age=age + second, cpu_seconds=cpu, rss=size, has_cpu_limit=limited, can_fire=free
        )
        fired += [(second, one) for one in found]
        cpu += share
    return fired


def seconds(fired: list[tuple[int, TriggerEvent]]) -> list[int]:
    return [second for second, _ in fired]


def test_cpu_counts_over_the_whole_time_and_says_how_much_it_was() -> None:
    assert seconds(watch(BUSY, [1.0] * 10)) == []
    ((second, fired),) = watch(BUSY, [1.0] * 60)
    assert (second, fired) == (10, TriggerEvent(CPU, "CPU 100 % of a core over 10 s"))


def test_a_moment_of_rest_or_of_work_changes_little() -> None:
    assert seconds(watch(BUSY, [1.0] * 5 + [0.0] + [1.0] * 20)) == [10]
    assert seconds(watch(BUSY, [0.1] * 20 + [1.0] * 7 + [0.1] * 20)) == []


def test_what_stays_above_fires_once_and_again_only_after_it_was_well_below() -> None:
    assert seconds(watch(BUSY, [1.0] * 500)) == [10]
    # 70 % is below the 80 % asked for, but not below four fifths of it.
    assert seconds(watch(BUSY, [1.0] * 50 + [0.7] * 50 + [1.0] * 50)) == [10]
    assert seconds(watch(BUSY, [1.0] * 50 + [0.1] * 50 + [1.0] * 50)) == [10, 108]


def test_what_is_above_while_nothing_may_fire_fires_when_it_may() -> None:
    trail, fired = ProcessTriggers(BUSY), []
    for second in range(60):
        free = second >= 40
        if trail.evaluate(
            float(second), age=1e3, cpu_seconds=float(second), rss=0, has_cpu_limit=False, can_fire=free
        ):
            fired.append(second)
    assert fired == [40]


def test_a_process_whose_container_has_a_limit_is_judged_with_it() -> None:
    assert watch(BUSY, [1.0] * 60, limited=True) == []


def grow(rules: TriggerRules, sizes: list[int], age: float = 1000.0) -> list[tuple[int, TriggerEvent]]:
    return watch(rules, [0.0] * len(sizes), rss=[size << 20 for size in sizes], age=age)


def test_growth_is_measured_from_the_least_of_the_time() -> None:
    ((second, fired),) = grow(GROWING, [100, 90, 100, 120, 141, 141, 141])
    assert second == 4
    assert fired == TriggerEvent(RSS, "RSS grew by 51 MiB (57 %) to 141 MiB within 10 s")
    assert grow(GROWING, [100 + 4 * second for second in range(100)]) == []


def test_a_process_that_goes_on_growing_fires_for_each_time_it_grew_by_as_much() -> None:
    assert seconds(grow(GROWING, [100 + 10 * second for second in range(20)])) == [6, 13]


def test_what_a_process_takes_when_it_starts_is_no_growth() -> None:
    sizes = [10 * second for second in range(10)] + [100] * 20
    assert grow(GROWING, sizes, age=0.0) == []
    assert seconds(grow(GROWING, [*sizes, 151], age=0.0)) == [30]


def test_growth_may_be_a_share_of_what_there_was() -> None:
    half = TriggerRules(rss_growth=GrowthThreshold(share=0.5), rss_growth_seconds=10.0)
    assert grow(half, [100, 110, 120, 130, 140, 150]) == []
    assert seconds(grow(half, [100, 110, 120, 130, 140, 151])) == [5]


def contain(rules: TriggerRules, spent: list[CpuUsage]) -> list[tuple[int, TriggerEvent]]:
    trail, fired = ContainerTriggers(rules), []
    for second, one in enumerate(spent):
        fired += [(second, found) for found in trail.evaluate(float(second), one, can_fire=True)]
    return fired


def test_a_container_that_grows_fires_with_its_working_set() -> None:
    trail, fired = ContainerTriggers(GROWING), []
    for second, size in enumerate([100] * 5 + [160] * 5):
        fired += trail.evaluate_memory(float(second), 60.0, size << 20, can_fire=True)
    assert fired == [TriggerEvent(RSS, "working set grew by 60 MiB (60 %) to 160 MiB within 10 s")]
    assert trail.evaluate_memory(20.0, 60.0, None, can_fire=True) == []


def test_a_containers_cpu_is_told_in_percent_of_its_limit() -> None:
    spent = [CpuUsage(0.5, cpu_seconds=0.45 * second) for second in range(60)]
    assert contain(BUSY, spent) == [(10, TriggerEvent(CPU, "CPU 90 % of the limit of 0.5 cores over 10 s"))]
    assert contain(BUSY, [CpuUsage(0.5, cpu_seconds=0.35 * second) for second in range(60)]) == []


def test_throttling_is_told_in_percent_of_the_periods() -> None:
    rules = TriggerRules(throttled_share=0.25, window_seconds=10.0)
    often = [CpuUsage(1.0, periods=10 * second, throttled_periods=3 * second) for second in range(30)]
    reason = "throttled in 30 % of its periods over 10 s, limit 1 cores"
    assert contain(rules, often) == [(10, TriggerEvent(THROTTLED, reason))]
    rarely = [CpuUsage(1.0, periods=10 * second, throttled_periods=2 * second) for second in range(30)]
    assert contain(rules, rarely) == []
    assert contain(rules, [CpuUsage(1.0)] * 30) == []


def test_a_limit_that_is_taken_away_begins_anew() -> None:
    spent = [CpuUsage(0.5, cpu_seconds=0.5 * second) for second in range(9)]
    assert contain(BUSY, [*spent, CpuUsage(None), *spent]) == []


def test_after_a_trigger_others_are_added_for_as_long_as_it_lasts_and_then_all_rest() -> None:
    assert not is_in_cooldown(BUSY, None, 5.0)
    assert [is_in_cooldown(BUSY, 100.0, now) for now in (100.0, 129.9, 130.0, 189.9, 190.0)] == [
        False, False, True, True, False,
    ]  # fmt: skip


def test_several_reasons_are_one_label_each_within_what_collectors_take() -> None:
    both = [TriggerEvent(RSS, "RSS grew"), TriggerEvent(CPU, "CPU 90 %")]
    assert build_trigger_labels(both) == {"trigger": "cpu+rss", "trigger_reason": "RSS grew; CPU 90 %"}
    long = build_trigger_labels([TriggerEvent(CPU, "x" * 300)])["trigger_reason"]
    assert len(long) == 256
    assert long.endswith("...")


@given(st.lists(st.floats(0, 2), min_size=1, max_size=200), st.floats(1, 100))
def test_a_trail_answers_with_what_was_seen_so_long_ago_and_keeps_little(
    steps: list[float], length: float
) -> None:
    trail, now = SlidingWindow(length), 0.0
    for step in steps:
        now += step
        trail.add(now, (now,))
        found = trail.find_baseline(now)
        if found is not None:
            age, (value,) = found
            assert age >= length - 1e-6
            assert abs(now - age - value) < 1e-6
        assert len(trail._points) <= 62


@given(st.lists(st.floats(0, 1), max_size=300))
def test_no_trigger_fires_twice_without_calm_between(shares: list[float]) -> None:
    fired = seconds(watch(BUSY, shares))
    for earlier, later in pairwise(fired):
        means = [sum(shares[second - 10 : second]) / 10 for second in range(earlier + 1, later)]
        assert min(means) < 0.8 * 0.8 + 1e-6


def test_it_is_looked_often_enough_for_the_shortest_time_that_is_measured() -> None:
    assert [TriggerRules(window_seconds=over).check_interval_seconds for over in (1, 10, 20, 30, 3600)] == [
        1,
        1,
        2,
        3,
        3,
    ]
    assert TriggerRules(rss_growth_seconds=5).check_interval_seconds == 1


def test_every_word_is_a_label_that_needs_no_escape() -> None:
    assert all(word.isalpha() and word.islower() for word in TRIGGER_NAMES)
