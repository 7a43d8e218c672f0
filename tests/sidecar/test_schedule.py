from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sidelight_sidecar.samplers.schedule import FOREVER, SampleAction, SamplingPlan, WaitAction, choose_action

seconds = st.floats(0.1, 100)


def never(slot: int) -> float:
    return 0.0


def test_continuous_windows_follow_each_other() -> None:
    step = choose_action(5.0, SamplingPlan(10), anchor=0, last_slot=None, slot_jitter=never)
    assert step == SampleAction(15.0)
    assert choose_action(15.0, SamplingPlan(10), anchor=0, last_slot=0, slot_jitter=never) == SampleAction(
        25.0
    )


def test_a_trigger_only_plan_never_samples_by_itself() -> None:
    assert choose_action(
        5.0, SamplingPlan(10, is_on_demand=True), anchor=0, last_slot=None, slot_jitter=never
    ) == WaitAction(FOREVER)


def test_a_schedule_takes_one_window_per_interval() -> None:
    plan = SamplingPlan(10, interval_seconds=60)
    assert choose_action(0, plan, anchor=0, last_slot=None, slot_jitter=never) == SampleAction(10, slot=0)
    assert choose_action(10, plan, anchor=0, last_slot=0, slot_jitter=never) == WaitAction(60)
    assert choose_action(60, plan, anchor=0, last_slot=0, slot_jitter=never) == SampleAction(70, slot=1)


def test_jitter_moves_a_window_inside_its_interval() -> None:
    plan = SamplingPlan(10, interval_seconds=60, jitter_seconds=50)
    assert choose_action(0, plan, anchor=0, last_slot=None, slot_jitter=lambda slot: 0.5) == WaitAction(25)
    assert choose_action(25, plan, anchor=0, last_slot=None, slot_jitter=lambda slot: 0.5) == SampleAction(
        35, slot=0
    )


def test_a_window_that_could_not_begin_in_time_is_left_out() -> None:
    plan = SamplingPlan(10, interval_seconds=60)
    assert choose_action(50, plan, anchor=0, last_slot=None, slot_jitter=never) == SampleAction(60, slot=0)
    assert choose_action(50.5, plan, anchor=0, last_slot=None, slot_jitter=never) == SampleAction(60, slot=0)
    assert choose_action(51.5, plan, anchor=0, last_slot=None, slot_jitter=never) == WaitAction(60)
    assert choose_action(500, plan, anchor=0, last_slot=0, slot_jitter=never) == SampleAction(510, slot=8)


def test_windows_as_long_as_the_interval_fill_every_slot_though_each_begins_a_little_late() -> None:
    plan = SamplingPlan(10, interval_seconds=10)
    assert choose_action(10.2, plan, anchor=0, last_slot=0, slot_jitter=never) == SampleAction(20, slot=1)


@given(
    window=seconds,
    extra=st.floats(0, 100),
    share=st.floats(0, 1),
    anchor=st.floats(0, 1e6),
    luck=st.lists(st.floats(0, 0.999), min_size=1, max_size=20),
    delays=st.lists(st.floats(0, 50), min_size=1, max_size=60),
)
def test_scheduled_windows_never_overlap_and_each_slot_has_at_most_one(
    window: float, extra: float, share: float, anchor: float, luck: list[float], delays: list[float]
) -> None:
    plan = SamplingPlan(window, interval_seconds=window + extra, jitter_seconds=extra * share)
    now, last = anchor, None
    taken: list[tuple[float, float, int]] = []
    for delay in delays:
        step = choose_action(
            now, plan, anchor=anchor, last_slot=last, slot_jitter=lambda slot: luck[slot % len(luck)]
        )
        if isinstance(step, SampleAction):
            taken.append((now, step.until, step.slot))
            last, now = step.slot, step.until + delay
        else:
            assert step.until > now
            now = step.until
    for (_, end, slot), (begin, _, later) in pairwise(taken):
        assert begin >= end
        assert later > slot
    for begin, end, slot in taken:
        assert begin >= anchor + slot * (window + extra) - 1e-6
        assert end <= anchor + (slot + 1) * (window + extra) + 1e-6
