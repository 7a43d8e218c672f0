from __future__ import annotations

from sidelight_cli.local.local_recording import Recording, Roots
from sidelight_cli.local.sampling.process_set import Taken
from sidelight_model.counts import Counts
from sidelight_model.folded import split
from sidelight_model.frames import OTHER
from tests.cli.local.faking import FakeTimeline, batch, proc


def test_what_is_taken_adds_up_by_stack_and_state() -> None:
    recording = Recording(100, Roots())
    recording.add(Taken(proc(7), batch("a;b 1 2 3 | c 0 0 1", stops=2)))
    recording.add(Taken(proc(7), batch("a;b 0 0 4", stops=3)))
    recording.add(Taken(proc(8), batch("c 1 0 0")))
    assert recording.counts == {"a;b": Counts(1, 2, 7), "c": Counts(1, 0, 1)}
    assert recording.profile().times_ns["c"] == Counts(10_000_000, 0, 10_000_000)
    assert (recording.processes, recording.ledger().samples, recording.ledger().stops) == (2, 12, 5)


def test_roots_keep_processes_and_threads_apart_and_their_names_in_one_frame() -> None:
    recording = Recording(100, Roots(processes=True, threads=True))
    hostile = proc(7, 1, "title; of\nmany parts")
    recording.add(Taken(hostile, batch("a 0 0 1", thread="worker;1")))
    (stack,) = recording.counts
    assert split(stack) == ["process 7 title%3B of%0Amany parts", "thread worker%3B1", "a"]


def test_without_roots_threads_and_processes_are_added_up() -> None:
    recording = Recording(100, Roots())
    recording.add(Taken(proc(7), batch("a 0 0 1", thread="main")))
    recording.add(Taken(proc(8), batch("a 0 0 1", thread="other")))
    assert recording.counts == {"a": Counts(0, 0, 2)}


def test_beyond_the_bound_stacks_are_one_and_counted() -> None:
    recording = Recording(100, Roots(), most_stacks=2)
    recording.add(Taken(proc(7), batch("a 0 0 1 | b 0 0 1 | c 0 0 5 | d 1 1 0 | a 0 0 1")))
    assert recording.counts == {"a": Counts(0, 0, 2), "b": Counts(0, 0, 1), OTHER: Counts(1, 1, 5)}
    assert recording.ledger().other == 7


def test_what_one_recording_counted_can_be_added_to_another() -> None:
    first, later = Recording(100, Roots()), Recording(100, Roots())
    first.add(Taken(proc(7), batch("a 0 0 1", threads=2)))
    later.add(Taken(proc(7), batch("a 0 0 1 | b 0 1 0", threads=3)))
    first.absorb(later)
    assert first.counts == {"a": Counts(0, 0, 2), "b": Counts(0, 1, 0)}
    assert (first.ledger().threads, first.ledger().samples) == (3, 3)


def test_times_are_kept_where_a_timeline_came_with_the_counts() -> None:
    recording = Recording(100, Roots())
    recording.add(Taken(proc(7), batch("a 0 0 1"), FakeTimeline(5, ["main"], ["a"], [(0, 0, 0, 2)])))
    (lane,) = recording.lanes.lanes(0, "wall", lines=True, processes=True)  # type: ignore[arg-type]
    assert lane.name == "process 7 python3 app.py · main"
