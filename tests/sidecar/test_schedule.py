from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sidelight_sidecar.samplers.schedule import FOREVER, Plan, Sample, Wait, due

seconds = st.floats(0.1, 100)


def never(slot: int) -> float:
    return 0.0


def test_continuous_windows_follow_each_other() -> None:
    step = due(5.0, Plan(10), anchor=0, last_slot=None, luck=never)
    assert step == Sample(15.0)
    assert due(15.0, Plan(10), anchor=0, last_slot=0, luck=never) == Sample(25.0)


def test_a_trigger_only_plan_never_samples_by_itself() -> None:
    assert due(5.0, Plan(10, trigger_only=True), anchor=0, last_slot=None, luck=never) == Wait(FOREVER)


def test_a_schedule_takes_one_window_per_interval() -> None:
    plan = Plan(10, interval=60)
    assert due(0, plan, anchor=0, last_slot=None, luck=never) == Sample(10, slot=0)
    assert due(10, plan, anchor=0, last_slot=0, luck=never) == Wait(60)
    assert due(60, plan, anchor=0, last_slot=0, luck=never) == Sample(70, slot=1)


def test_jitter_moves_a_window_inside_its_interval() -> None:
    plan = Plan(10, interval=60, jitter=50)
    assert due(0, plan, anchor=0, last_slot=None, luck=lambda slot: 0.5) == Wait(25)
    assert due(25, plan, anchor=0, last_slot=None, luck=lambda slot: 0.5) == Sample(35, slot=0)


def test_a_window_that_could_not_begin_in_time_is_left_out() -> None:
    plan = Plan(10, interval=60)
    assert due(50, plan, anchor=0, last_slot=None, luck=never) == Sample(60, slot=0)
    assert due(50.5, plan, anchor=0, last_slot=None, luck=never) == Sample(60, slot=0)
    assert due(51.5, plan, anchor=0, last_slot=None, luck=never) == Wait(60)
    assert due(500, plan, anchor=0, last_slot=0, luck=never) == Sample(510, slot=8)


def test_windows_as_long_as_the_interval_fill_every_slot_though_each_begins_a_little_late() -> None:
    plan = Plan(10, interval=10)
    assert due(10.2, plan, anchor=0, last_slot=0, luck=never) == Sample(20, slot=1)


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
    plan = Plan(window, interval=window + extra, jitter=extra * share)
    now, last = anchor, None
    taken: list[tuple[float, float, int]] = []
    for delay in delays:
        step = due(now, plan, anchor=anchor, last_slot=last, luck=lambda slot: luck[slot % len(luck)])
        if isinstance(step, Sample):
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
