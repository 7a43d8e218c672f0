from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidelight_cli.local.timeline_export import TimelineBuilder
from sidelight_model.counts import ProfileType
from tests.cli.local.fake_engine import FakeTimeline

STACKS = ["main (a.py:1);work (b.py:7)", "main (a.py:1);wait (c.py:9)"]


def shown(
    lanes: TimelineBuilder, kind: ProfileType = ProfileType.WALL, *, lines: bool = True
) -> dict[str, list[object]]:
    return {
        lane.name: [(at, stack.rpartition(";")[2] if stack else None) for at, stack in lane.samples]
        for lane in lanes.build_timelines(1000, kind, by_line=lines, by_process=False)
    }


def timeline(*samples: tuple[int, int, int, int], start: int = 1000, dropped: int = 0) -> FakeTimeline:
    return FakeTimeline(start, ["MainThread", "pool"], STACKS, samples, dropped)


def test_a_thread_is_a_lane_with_its_samples_in_time() -> None:
    lanes = TimelineBuilder()
    lanes.add(7, "p", timeline((0, 0, 0, 2), (0, 1, 1, 0), (10, 0, 1, 0)))
    assert shown(lanes) == {
        "MainThread": [(0, "work (b.py:7)"), (10, "wait (c.py:9)")],
        "pool": [(0, "wait (c.py:9)")],
    }
    assert shown(lanes, lines=False)["pool"] == [(0, "wait (c.py)")]


def test_what_is_not_of_the_type_asked_for_is_blank_and_a_blank_lane_is_left_out() -> None:
    lanes = TimelineBuilder()
    lanes.add(7, "p", timeline((0, 0, 0, 1), (0, 1, 1, 0), (10, 0, 1, 0), (20, 0, 0, 2)))
    assert shown(lanes, ProfileType.CPU) == {
        "MainThread": [(0, "work (b.py:7)"), (10, None), (20, "work (b.py:7)")]
    }
    assert shown(lanes, ProfileType.GIL) == {"MainThread": [(0, None), (10, None), (20, "work (b.py:7)")]}


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-9, 9)), min_size=1, max_size=12))
def test_timelines_that_overlap_are_counted_once_however_their_clocks_differ(
    steps: list[tuple[int, int]],
) -> None:
    """Each is the last six samples so far, as a session's ring gives them."""
    samples = [(10 * at, 0, 0, 2) for at in range(sum(new for new, _ in steps))]
    whole, piecemeal = TimelineBuilder(), TimelineBuilder()
    whole.add(7, "p", timeline(*samples))
    upto = 0
    for number, (new, wrong) in enumerate(steps):
        upto += new
        first = max(0, upto - 6)
        held = [(at - 10 * first, *what) for at, *what in samples[first:upto]]
        piecemeal.add(
            7, "p", timeline(*held, start=1000 + 10 * first + (wrong if number else 0), dropped=first)
        )  # type: ignore[arg-type]
    assert shown(piecemeal) == shown(whole)
    assert piecemeal.dropped_samples == 0


def test_samples_that_a_session_had_no_room_for_are_counted() -> None:
    lanes = TimelineBuilder()
    lanes.add(7, "p", timeline((0, 0, 0, 2), (10, 0, 0, 2)))
    lanes.add(7, "p", timeline((0, 0, 0, 2), start=1090, dropped=8))
    assert [at for at, _ in shown(lanes)["MainThread"]] == [0, 10, 90]  # type: ignore[misc]
    assert lanes.dropped_samples == 6


def test_two_sessions_do_not_hide_each_other() -> None:
    lanes = TimelineBuilder()
    lanes.add(7, "p", timeline((0, 0, 0, 2)))
    lanes.add(8, "q", timeline((0, 0, 0, 2)))
    names = [
        lane.name for lane in lanes.build_timelines(1000, ProfileType.WALL, by_line=True, by_process=True)
    ]
    assert names == ["p · MainThread", "q · MainThread"]


def test_two_threads_of_one_name_have_a_lane_each() -> None:
    lanes = TimelineBuilder()
    lanes.add(7, "p", timeline((0, 1, 0, 2), (0, 1, 1, 0), (10, 1, 0, 2)))
    assert shown(lanes) == {
        "pool": [(0, "work (b.py:7)"), (10, "work (b.py:7)")],
        "pool (2)": [(0, "wait (c.py:9)")],
    }


def test_beyond_the_bound_samples_are_counted_and_not_kept() -> None:
    lanes = TimelineBuilder(max_samples=2)
    lanes.add(7, "p", timeline(*((at, 0, 0, 2) for at in range(5))))
    lanes.add(7, "p", timeline(*((at, 0, 0, 2) for at in range(7))))
    assert len(shown(lanes)["MainThread"]) == 2
    assert lanes.dropped_samples == 5
