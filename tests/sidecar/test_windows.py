"""From what a session sampled to windows by kind of thread."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.counts import Counts
from sidelight_model.folded import Stack
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window
from sidelight_sidecar.samplers.sampler import SampleBatch, add_threads
from sidelight_sidecar.windows.window_builder import TargetLabels, WindowContext, build_windows
from tests.sidecar.windows import make_id

SOURCE = TargetLabels(Labels({"service": "shop"}), "worker", 7)
QUALITY = Quality(
    attempts=10, samples=17, errors={"read": 1}, late_ns=5, mode="gil", threads=3, truncated=6,
    target_cpu_ns=100, sampler_cpu_ns=10, stops=9, stopped_ns=90, longest_stop_ns=20, other=5, reader="own",
)  # fmt: skip


def counts(**stacks: int) -> Mapping[Stack, Counts]:
    return {Stack(name): Counts(gil=count) for name, count in stacks.items()}


def windows(threads: Mapping[str, Mapping[Stack, Counts]], quality: Quality = QUALITY) -> list[Window]:
    taking = WindowContext(50.0, 10.0, {"capture": "c_1"}, 3, ("cpu",))
    return build_windows(SampleBatch(threads, 1000, 99, quality), SOURCE, taking, make_id)


def test_a_process_with_more_threads_becomes_two_windows_of_one_span_in_the_order_of_their_ids() -> None:
    other = {Stack("pool;(truncated);x"): Counts(idle=4), Stack("(other)"): Counts(gil=2)}
    main, rest = windows({"other": other, "main": {Stack("a"): Counts(gil=11)}})
    assert main.id < rest.id
    for window in (main, rest):
        assert (window.start_ns, window.duration_ns, window.period_ns) == (1000, 99, 20_000_000)
        assert window.labels["process"] == "worker"
        assert window.labels["capture"] == "c_1"
        quality = window.quality
        assert (quality.attempts, quality.errors, quality.pid) == (10, {"read": 1}, 7)
        assert (quality.paused_ns, quality.reduced, quality.reader) == (3, ("cpu",), "own")
    assert (main.labels["thread"], rest.labels["thread"]) == ("main", "other")
    assert (main.quality.samples, main.quality.truncated, main.quality.other) == (11, 2, 3)
    assert (rest.quality.samples, rest.quality.truncated, rest.quality.other) == (6, 4, 2)


def test_what_is_the_whole_process_stands_in_its_first_window_alone() -> None:
    main, rest = windows({"main": counts(a=11), "other": counts(b=6)})
    names = (
        "late_ns", "target_cpu_ns", "sampler_cpu_ns", "stops", "stopped_ns", "longest_stop_ns",
    )  # fmt: skip
    for name in names:
        assert getattr(main.quality, name) == getattr(QUALITY, name)
        assert getattr(rest.quality, name) == 0


def test_the_main_thread_has_its_window_also_when_it_was_not_seen() -> None:
    assert [window.labels["thread"] for window in windows({})] == ["main"]
    assert [window.labels["thread"] for window in windows({"other": counts(b=1)})] == ["main", "other"]
    assert [window.labels["thread"] for window in windows({"main": counts(a=1), "other": {}})] == ["main"]


def test_a_sampler_that_does_not_tell_threads_apart_gives_one_window_without_the_label() -> None:
    (window,) = windows({"": counts(a=17)})
    assert "thread" not in window.labels


stacks = st.dictionaries(
    st.sampled_from([Stack(name) for name in ("a", "b", "c;d", "(other)")]), st.integers(1, 9)
)
threads = st.dictionaries(
    st.sampled_from(["main", "other"]),
    stacks.map(lambda found: {stack: Counts(idle=count) for stack, count in found.items()}),
)


def total(of: Mapping[str, Mapping[Stack, Counts]]) -> int:
    return sum(count.wall for counts in of.values() for count in counts.values())


@given(threads, threads, st.integers(0, 6))
def test_parts_of_a_window_add_up_and_new_stacks_above_the_bound_are_counted_as_other(
    one: dict[str, dict[Stack, Counts]], later: dict[str, dict[Stack, Counts]], most: int
) -> None:
    both, folded = add_threads(one, later, most)
    assert total(both) == total(one) + total(later)
    real = {(kind, stack) for kind, counts in both.items() for stack in counts if stack != "(other)"}
    before = {(kind, stack) for kind, counts in one.items() for stack in counts if stack != "(other)"}
    assert len(real) <= max(most, len(before))
    assert before <= real
    unbounded, none = add_threads(one, later)
    assert none == 0
    assert folded == total(both) - sum(
        count.wall for kind, counts in both.items() for stack, count in counts.items() if stack != "(other)"
    ) - sum(counts.get(Stack("(other)"), Counts()).wall for counts in unbounded.values())
