"""The numbers that an answer stands on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.catalog import list_services
from sidelight_collector.answers.flame import FlameGraphSide, query_flame_graph
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.answers.top_and_depth import query_depth
from sidelight_collector.query.data_basis import SideSummary
from sidelight_collector.storage.rollups.hourly_rollup import merge_intervals
from sidelight_collector.storage.rollups.pod_time import compute_union_ns
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.window import Quality, Window
from tests.collector.stored_windows import asked, question, stored, window


def side(*windows: Window, kind: ProfileType = ProfileType.WALL) -> SideSummary:
    return asked(stored(windows), lambda reading: query_depth(reading, [question()], kind))["sides"][0]


def quality(**given: object) -> Quality:
    return Quality(**{"attempts": 1000, "mode": "blocking", **given})  # type: ignore[arg-type]


def test_processes_of_one_pod_are_watched_at_the_same_time_and_count_once() -> None:
    both = side(window(at=0, process="web"), window(at=5, process="worker"))
    assert both["pod_seconds"] == 15
    assert both["pods"] == 1


def test_pods_add_up_and_equal_names_in_two_namespaces_are_two_pods() -> None:
    assert side(window(), window(pod="pod-2"))["pod_seconds"] == 20
    apart = side(window(namespace="a"), window(namespace="b"))
    assert (apart["pods"], apart["pod_seconds"]) == (2, 20)


def test_time_between_windows_is_not_watched() -> None:
    assert side(window(at=0), window(at=60))["pod_seconds"] == 20


def test_ticks_that_failed_or_were_never_made_lower_the_coverage() -> None:
    assert side(window(quality=quality(attempts=500)))["pod_seconds"] == pytest.approx(5)
    failed = quality(errors={"read": 150, "gone": 50})
    assert side(window(quality=failed))["pod_seconds"] == pytest.approx(8)


def test_a_window_that_does_not_say_its_attempts_counts_as_covered() -> None:
    assert side(window(quality=Quality()))["pod_seconds"] == 10
    half = side(window(quality=Quality()), window(at=10, quality=quality(attempts=500)))
    assert half["pod_seconds"] == pytest.approx(15)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20))))
def test_the_union_of_spans_is_the_moments_that_at_least_one_covers(some: list[tuple[int, int]]) -> None:
    spans = sorted((start, start + duration) for start, duration in some)
    moments = {moment for start, end in spans for moment in range(start, end)}
    found = list(merge_intervals(spans))
    assert [moment for start, end in found for moment in range(start, end)] == sorted(moments)
    assert all(end < start for (_, end), (start, _) in pairwise(found))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 20))),
    st.sampled_from((1, 2**56)),
)
def test_each_group_has_its_own_union_also_of_absurd_times(
    some: list[tuple[int, int, int]], unit: int
) -> None:
    spans = [(group, start * unit, (start + duration) * unit) for group, start, duration in some]
    lists = pa.list_(pa.int64())
    rows = pa.table(
        {
            "starts": pa.array([[start] for _, start, _ in spans], lists),
            "ends": pa.array([[end] for *_, end in spans], lists),
        }
    )
    groups, ns = compute_union_ns(rows, pa.array([group for group, *_ in spans], pa.int32()))
    moments: defaultdict[int, set[int]] = defaultdict(set)
    for group, start, duration in some:
        moments[group] |= set(range(start, start + duration))
    found = dict(zip(groups.tolist(), ns.tolist(), strict=True))
    assert found == {group: len(own) * unit for group, own in moments.items()}


def test_the_idle_share_is_that_of_windows_whose_sampler_can_tell() -> None:
    blind = window("main 100", quality=quality(missing_states=("idle",)))
    seeing = window("main;[idle] 30 | main 10", at=10)
    assert side(blind, seeing)["idle_share"] == 0.75
    assert side(blind)["idle_share"] is None
    assert side(blind, seeing)["missing_states"] == ["idle"]


def test_the_idle_share_is_of_time_not_of_samples() -> None:
    slow = window("main;[idle] 10", period_ns=30_000_000)
    fast = window("main 10", period_ns=10_000_000)
    assert side(slow, fast)["idle_share"] == 0.75


def test_samples_and_seconds_are_those_of_the_type_and_states_are_all() -> None:
    text = "main;[idle] 5 | main 3 | main;[gil] 2"
    for kind, samples in ((ProfileType.WALL, 10), (ProfileType.CPU, 5), (ProfileType.GIL, 2)):
        found = side(window(text), kind=kind)
        assert (found["samples"], found["seconds"]) == (samples, pytest.approx(samples / 100))
        assert found["states"] == Counts(idle=5, running=3, gil=2)._asdict()


def test_what_makes_two_windows_unlike_is_listed() -> None:
    one = quality(sampler="py-spy 0.4.3", python="3.11.7", truncated=3, target_cpu_ns=2 * 10**9)
    other = quality(mode="command", sampler="py-spy 0.4.3", python="3.13.1", truncated=4)
    found = side(window(quality=one), window(quality=other, at=10, period_ns=20_000_000))
    assert found["modes"] == ["blocking", "command"]
    assert found["samplers"] == ["py-spy 0.4.3"]
    assert found["python_versions"] == ["3.11.7", "3.13.1"]
    assert found["sampling_periods_us"] == [10_000, 20_000]
    assert (found["truncated_samples"], found["target_cpu_seconds"]) == (7, 2)


def test_absurd_claims_of_a_client_are_shown_and_break_no_answer() -> None:
    absurd = quality(target_cpu_ns=2**63 - 1, attempts=2**63 - 1)
    found = side(window(quality=absurd), window(quality=absurd, at=10))
    assert found["target_cpu_seconds"] == pytest.approx(2 * 2**63 / 10**9)
    assert found["pod_seconds"] > 20


def test_cores_are_cpu_seconds_per_pod_second() -> None:
    store = stored([window("main 500 | main;[idle] 500"), window("main 250", pod="pod-2", version="2")])
    found = asked(store, lambda reading: list_services(reading, question()))["services"][0]
    assert found["cpu_cores"] == pytest.approx(7.5 / 20)
    assert [one["cpu_cores"] for one in found["versions"]] == pytest.approx([0.5, 0.25])


def test_the_steps_of_a_timeline_are_no_shorter_than_windows() -> None:
    store = stored([window(at=at * 60, seconds=60) for at in range(3)])
    asked_for = question(start=0, end=600)
    found = asked(
        store,
        lambda reading: query_timeline(reading, asked_for, ProfileType.CPU, step_ns=None, max_steps=5000),
    )
    assert found["step_seconds"] == 60
    assert found["windows"] == [1, 1, 1] + [0] * 7


def test_numbers_that_no_64_bits_hold_together_still_add_up() -> None:
    most = 2**63 - 1
    claims = Quality(truncated=most, target_cpu_ns=most, threads=most)
    found = side(window(quality=claims), window(quality=claims))["truncated_samples"]
    assert found == pytest.approx(2 * most)


def flame_side(*windows: Window) -> FlameGraphSide:
    kind = ProfileType.CPU
    return asked(
        stored(windows),
        lambda reading: query_flame_graph(reading, [question()], kind, lines=False, nodes=None, max_nodes=9),
    )["sides"][0]


def contended(pod: str, at: float, waiting: int, **more: object) -> Window:
    counts = {"main (app.py:1)": Counts(poll=5000, gil=500, gil_wait=waiting)}
    return replace(window(pod=pod, at=at, **more), counts=counts)  # type: ignore[arg-type]


def test_gil_contention_has_an_interval_from_how_far_pods_and_times_differ() -> None:
    def measured(*waits: int) -> tuple[float, float, float]:
        pods = [contended(f"p{wait}", 10 * at, wait + at % 3) for wait in waits for at in range(20)]
        found = flame_side(*pods)["gil_contention"]
        assert found
        assert found["low"] is not None
        assert found["high"] is not None
        return found["share"], found["low"], found["high"]

    assert measured(250) == pytest.approx((0.334, 0.325, 0.343), abs=0.005)
    share, low, high = measured(230, 250, 270)
    assert share == pytest.approx(0.334, abs=0.001)
    assert 0.28 < low < 0.32 < share < 0.35 < high < 0.39
    assert measured(100, 250, 900)[1] == 0, "three pods that differ much say little about others"
    # One window of one pod shows no scatter.
    assert flame_side(contended("a", 0, 600))["gil_contention"] == {
        "share": pytest.approx(6 / 11),
        "low": None,
        "high": None,
    }


def test_gil_contention_is_missing_where_it_is_little_or_not_known() -> None:
    for windows in (
        [contended("a", 0, 50), contended("b", 0, 50)],
        [contended("a", 0, 300)],
        [contended("a", 0, 600), contended("b", 0, 600, quality=quality(missing_states=("gil_wait",)))],
    ):
        assert flame_side(*windows)["gil_contention"] is None
