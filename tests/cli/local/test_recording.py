from __future__ import annotations

from sidelight_cli.local.local_recording import LocalRecording, RootFrames
from sidelight_cli.local.sampling.process_set import ProcessBatch
from sidelight_model.counts import Counts
from sidelight_model.folded import split_stack
from sidelight_model.frames import OTHER
from tests.cli.local.fake_engine import FakeTimeline, batch, proc


def test_what_is_taken_adds_up_by_stack_and_state() -> None:
    recording = LocalRecording(100, RootFrames())
    recording.add(ProcessBatch(proc(7), batch("a;b 1 2 3 | c 0 0 1", stops=2)))
    recording.add(ProcessBatch(proc(7), batch("a;b 0 0 4", stops=3)))
    recording.add(ProcessBatch(proc(8), batch("c 1 0 0")))
    assert recording.counts == {"a;b": Counts(1, 2, 7), "c": Counts(1, 0, 1)}
    assert recording.build_profile().times_ns["c"] == Counts(10_000_000, 0, 10_000_000)
    assert (
        recording.process_count,
        recording.compute_quality().samples,
        recording.compute_quality().stops,
    ) == (2, 12, 5)


def test_roots_keep_processes_and_threads_apart_and_their_names_in_one_frame() -> None:
    recording = LocalRecording(100, RootFrames(processes=True, threads=True))
    hostile = proc(7, 1, "title; of\nmany parts")
    recording.add(ProcessBatch(hostile, batch("a 0 0 1", thread="worker;1")))
    (stack,) = recording.counts
    assert split_stack(stack) == ["process 7 title%3B of\\nmany parts", "thread worker%3B1", "a"]


def test_without_roots_threads_and_processes_are_added_up() -> None:
    recording = LocalRecording(100, RootFrames())
    recording.add(ProcessBatch(proc(7), batch("a 0 0 1", thread="main")))
    recording.add(ProcessBatch(proc(8), batch("a 0 0 1", thread="other")))
    assert recording.counts == {"a": Counts(0, 0, 2)}


def test_beyond_the_bound_stacks_are_one_and_counted() -> None:
    recording = LocalRecording(100, RootFrames(), most_stacks=2)
    recording.add(ProcessBatch(proc(7), batch("a 0 0 1 | b 0 0 1 | c 0 0 5 | d 1 1 0 | a 0 0 1")))
    assert recording.counts == {"a": Counts(0, 0, 2), "b": Counts(0, 0, 1), OTHER: Counts(1, 1, 5)}
    assert recording.compute_quality().other == 7


def test_what_one_recording_counted_can_be_added_to_another() -> None:
    first, later = LocalRecording(100, RootFrames()), LocalRecording(100, RootFrames())
    first.add(ProcessBatch(proc(7), batch("a 0 0 1", threads=2)))
    later.add(ProcessBatch(proc(7), batch("a 0 0 1 | b 0 1 0", threads=3)))
    first.merge(later)
    assert first.counts == {"a": Counts(0, 0, 2), "b": Counts(0, 1, 0)}
    assert (first.compute_quality().threads, first.compute_quality().samples) == (3, 3)


def test_times_are_kept_where_a_timeline_came_with_the_counts() -> None:
    recording = LocalRecording(100, RootFrames())
    recording.add(ProcessBatch(proc(7), batch("a 0 0 1"), FakeTimeline(5, ["main"], ["a"], [(0, 0, 0, 2)])))
    (lane,) = recording.timelines.build_timelines(0, "wall", by_line=True, by_process=True)  # type: ignore[arg-type]
    assert lane.name == "process 7 python3 app.py · main"
