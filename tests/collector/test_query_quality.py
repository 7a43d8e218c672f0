"""How well was watched, and processes that are shipped as a window for each kind of thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.catalog import list_services
from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.answers.top_and_depth import query_depth
from sidelight_collector.query.data_basis import SideSummary
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from sidelight_model.window import Quality, Window
from tests.collector.stored_windows import SECOND_NS, asked, few_examples, question, stored, window

WALL = ProfileType.WALL
MAIN = "main (app.py:1);[gil] 300 | main (app.py:1);[idle] 700"
OTHER = "run (pool.py:3) 50 | run (pool.py:3);[idle] 1950"
BOTH = f"{MAIN} | {OTHER}"
TICKS = {"attempts": 1000, "mode": "gil", "sampler": "sidelight 0.1.0", "reader": "own"}
WHOLE = {
    "target_cpu_ns": 3_500_000_000,
    "stops": 300,
    "stopped_ns": 30_000_000,
    "longest_stop_ns": 900_000,
    "paused_ns": 2 * SECOND_NS,
}


def quality(**given: object) -> Quality:
    return Quality(**{**TICKS, **given})  # type: ignore[arg-type]


def by_thread(*, at: float = 0, seconds: float = 10, **given: object) -> list[Window]:
    """A process as the sidecar ships it: two windows, of which the first has what is the process's."""
    labels = {name: str(value) for name, value in given.items() if name in ("pod", "process", "version")}
    told = {name: value for name, value in given.items() if name not in labels}
    return [
        window(MAIN, at=at, seconds=seconds, thread="main", quality=quality(**WHOLE | told), **labels),
        window(OTHER, at=at, seconds=seconds, thread="other", quality=quality(**told), **labels),
    ]


def side(windows: Sequence[Window], selector: str = "", kind: ProfileType = WALL) -> SideSummary:
    return asked(stored(windows), lambda reading: query_depth(reading, [question(selector)], kind))["sides"][
        0
    ]


def test_coverage_is_the_share_of_time_in_which_ticks_gave_stacks() -> None:
    half = window("main 1", quality=quality(attempts=600, errors={"moved": 90, "slow": 10}))
    whole = window("main 1", at=10, quality=quality(attempts=1003))
    found = side([half, whole])["quality"]
    assert found["coverage"] == pytest.approx((5 + 10.03) / 20)
    assert found["failed_share"] == pytest.approx(100 / 1603)
    assert found["errors"] == {"moved": 90, "slow": 10}


def test_coverage_is_at_most_1_and_null_where_no_window_tells() -> None:
    assert side([window(quality=quality(attempts=1010))])["quality"]["coverage"] == 1
    silent = side([window(quality=Quality())])["quality"]
    assert (silent["coverage"], silent["failed_share"], silent["stopped_share"]) == (None, None, None)
    half_told = side([window(quality=Quality()), window(at=10, quality=quality(attempts=500))])["quality"]
    assert half_told["coverage"] == 0.5


def test_the_time_lost_is_a_share_of_the_time_of_processes() -> None:
    busy = window(
        "main 1", process="web", quality=quality(stops=400, stopped_ns=80_000_000, longest_stop_ns=5)
    )
    quiet = window("main 1", process="worker", quality=quality(stops=0))
    found = side([busy, quiet])["quality"]
    assert found["stopped_share"] == pytest.approx(0.08 / 20)
    assert (found["stops"], found["stopped_seconds"]) == (400, pytest.approx(0.08))
    assert found["longest_stop_seconds"] == pytest.approx(5e-9)


def test_a_sampler_that_stops_and_does_not_count_it_says_nothing_of_the_time_lost() -> None:
    command = window("main 1", quality=quality(mode="command", sampler="py-spy 0.4.3"))
    blocking = window("main 1", at=10, quality=quality(mode="blocking"))
    assert side([command, blocking])["quality"]["stopped_share"] is None
    counted = window("main 1", at=20, quality=quality(mode="blocking", stops=9, stopped_ns=10**8))
    assert side([command, blocking, counted])["quality"]["stopped_share"] == pytest.approx(0.01)
    assert side([window("main 1", quality=quality(mode="nonblocking"))])["quality"]["stopped_share"] == 0


def test_what_lowered_the_rate_what_was_left_out_and_what_read_are_said() -> None:
    found = side(
        [
            window("(other) 4", quality=quality(other=4, reduced=("cpu", "cgroup"), paused_ns=SECOND_NS)),
            window("main 1", at=10, quality=quality(other=3, reduced=("paused",), reader="py-spy")),
        ]
    )["quality"]
    assert found["reduced"] == ["cgroup", "cpu", "paused"]
    assert found["readers"] == ["own", "py-spy"]
    assert (found["other_samples"], found["preempted_seconds"]) == (7, 1)


def test_the_timeline_marks_the_time_in_which_triggers_raised_the_rate() -> None:
    store = stored(
        [
            *(window(at=at) for at in (0, 60)),
            *(window(at=at, trigger="cpu", trigger_reason="CPU 99 %") for at in (10, 20)),
            window(at=20, pod="pod-2", trigger="cpu"),
            window(at=40, pod="pod-2", trigger="cpu"),
            window(at=20, pod="pod-3", trigger="cpu+rss"),
        ]
    )
    step = 10 * SECOND_NS
    timeline = asked(
        store,
        lambda reading: query_timeline(reading, question(start=0, end=70), WALL, step_ns=step, max_steps=100),
    )
    start = timeline["start"][0]
    boosts = [
        (one["trigger"], one["started"] - start, one["ended"] - start, one["pods"])
        for one in timeline["boosts"]
    ]
    assert boosts == [("cpu", 10, 30, 2), ("cpu+rss", 20, 30, 1), ("cpu", 40, 50, 1)]


def test_a_process_shipped_by_thread_is_watched_once() -> None:
    split, whole = side(by_thread()), side([window(BOTH, quality=quality(**WHOLE))])
    assert (split.pop("windows"), whole.pop("windows")) == (2, 1)
    assert split == whole
    assert (split["pod_seconds"], split["target_cpu_seconds"]) == (10, 3.5)


def test_stops_are_not_diluted_where_the_windows_of_a_process_were_added_up_over_other_spans() -> None:
    main, other = by_thread()
    longer = replace(other, duration_ns=20 * SECOND_NS, quality=quality(attempts=2000))
    assert side([main, longer])["quality"]["stopped_share"] == pytest.approx(0.003)
    assert side([longer])["quality"]["stopped_share"] is None


def test_the_windows_of_a_process_may_come_in_any_order() -> None:
    main, other = by_thread()
    turned = [replace(main, id=other.id), replace(other, id=main.id)]
    assert side(turned)["quality"] == side([main, other])["quality"]
    idle = [replace(one, quality=quality()) for one in turned]
    assert side(idle)["quality"]["stopped_share"] == 0


def test_a_process_shipped_by_thread_weighs_no_more_in_its_pods_coverage_than_another() -> None:
    failing = {"errors": {"read": 500}}
    other = window(MAIN, process="web", quality=quality(**WHOLE))
    split = [*by_thread(process="worker", **failing), other]
    whole = [window(BOTH, process="worker", quality=quality(**WHOLE | failing)), other]
    assert side(split)["pod_seconds"] == side(whole)["pod_seconds"] == pytest.approx(7.5)
    assert side(split)["quality"] == side(whole)["quality"]
    assert side(split)["quality"]["errors"] == {"read": 500}


processes = st.builds(
    lambda pod, at, attempts, failed, pid: {
        "pod": f"pod-{pod}",
        "at": float(at),
        "attempts": attempts,
        "errors": {"read": min(failed, attempts)} if failed else {},
        "pid": pid,
    },
    st.integers(1, 2),
    st.integers(0, 3).map(lambda turn: turn * 7),
    st.integers(0, 1000),
    st.integers(0, 300),
    st.integers(1, 3),
)


@few_examples
@given(st.lists(processes, min_size=1, max_size=5, unique_by=lambda one: (one["pod"], one["at"], one["pid"])))
def test_rates_are_the_same_however_processes_are_shipped(some: list[dict[str, object]]) -> None:
    split = [part for one in some for part in by_thread(**one)]  # type: ignore[arg-type]
    whole = [
        replace(pair[0], counts=window(BOTH).counts) for pair in zip(split[::2], split[1::2], strict=True)
    ]
    whole = [replace(one, labels=window(pod=one.labels["pod"]).labels) for one in whole]

    def numbers(windows: list[Window]) -> tuple[object, ...]:
        def answer(reading: QueryContext) -> tuple[object, ...]:
            cost = list_services(reading, question())["services"][0]
            steps = query_timeline(
                reading, question(start=0, end=60), ProfileType.CPU, step_ns=10**10, max_steps=100
            )
            drawn = query_flame_graph(
                reading, [question()], ProfileType.CPU, lines=False, nodes=None, max_nodes=100
            )
            columns = ("seconds", "pod_seconds", "samples", "pods", "coverage", "stopped_share", "quality")
            return (
                cost["cpu_cores"],
                cost["pods"],
                [steps[name] for name in columns],  # type: ignore[literal-required]
                {name: value for name, value in drawn["sides"][0].items() if name != "windows"},
            )

        return asked(stored(windows), answer)

    assert numbers(split) == numbers(whole)


def test_asking_for_one_kind_of_thread_picks_samples_and_not_time() -> None:
    windows = [*by_thread(), window(MAIN, pod="pod-2", thread="main", quality=quality(**WHOLE))]
    rates = {}
    for selector in ('thread="main"', 'thread="other"', 'thread=~"main|other"'):
        found = side(windows, selector)
        assert (found["pods"], found["pod_seconds"]) == (2, 20)
        assert (found["target_cpu_seconds"], found["quality"]["stops"]) == (7, 600)
        rates[selector] = found["seconds"] / found["pod_seconds"]
    assert rates['thread="main"'] + rates['thread="other"'] == pytest.approx(rates['thread=~"main|other"'])
    cost = asked(stored(windows), lambda reading: list_services(reading, question('thread="other"')))[
        "services"
    ][0]
    assert (cost["windows"], cost["cpu_cores"]) == (1, pytest.approx(0.5 / 20))
    steps = asked(
        stored(windows),
        lambda reading: query_timeline(
            reading, question('thread="other"', start=0, end=10), WALL, step_ns=10 * SECOND_NS, max_steps=9
        ),
    )
    assert (steps["pod_seconds"], steps["pods"], steps["windows"]) == ([20], [2], [1])


def test_a_process_not_shipped_by_thread_was_not_watched_for_one_kind_of_thread() -> None:
    unknown = window(BOTH, pod="pod-2", quality=quality(**WHOLE))
    assert side([*by_thread(), unknown], 'thread="main"')["pod_seconds"] == 10
    assert side([*by_thread(), unknown], 'thread!="main"')["pod_seconds"] == 20
    assert side([unknown], 'thread="main"')["pod_seconds"] == 0


def test_a_window_sent_twice_counts_once_also_by_thread() -> None:
    main, other = by_thread()
    twice = stored([main, other], [other], [main])
    found = asked(twice, lambda reading: query_depth(reading, [question()], WALL))["sides"][0]
    assert (found["windows"], found["samples"], found["pod_seconds"]) == (2, 3000, 10)


def test_both_sides_of_a_comparison_by_thread_stand_on_the_same_time() -> None:
    def answer(reading: QueryContext) -> tuple[list[SideSummary], dict[str, object]]:
        sides = [question('thread="main"'), question('thread="other"')]
        found = query_flame_graph(reading, sides, WALL, lines=False, nodes=None, max_nodes=100)
        return list(found["sides"]), dict(found["basis"])

    sides, basis = asked(stored(by_thread()), answer)
    assert [one["pod_seconds"] for one in sides] == [10, 10]
    assert basis.items() >= {"windows": 2, "pods": 1, "samples": 3000, "unreadable_segments": 0}.items()


def test_segments_written_without_these_columns_are_added_to_those_with_them(tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "golden" / "formats"
    for name in ("store-1", "store-1-stops"):
        copytree(golden / name, tmp_path / "store", dirs_exist_ok=True)
    store: ObjectStore = DirectoryStore(tmp_path / "store")
    begin = 1_795_254_000 * 10**9

    def answer(selector: str) -> SideSummary:
        of = WindowQuery(parse_re2_selector(selector), begin - SECOND_NS, begin + 60 * SECOND_NS)
        return asked(store, lambda reading: query_depth(reading, [of], WALL))["sides"][0]

    both = answer('service="shop"')
    assert (both["windows"], both["modes"]) == (3, ["blocking", "gil"])
    assert both["quality"]["stopped_share"] == pytest.approx(0.0378 / 10)
    assert both["quality"]["reduced"] == ["cgroup", "cpu"]
    assert answer('service="shop", thread=""')["samples"] == 1000
    assert answer('service="shop", thread="other"')["samples"] == 3984


def test_absurd_claims_break_no_answer() -> None:
    most = 2**63 - 1
    absurd = quality(attempts=most, errors={"read": most}, stops=most, stopped_ns=most, longest_stop_ns=most)
    found = side([window(quality=absurd, thread="main"), window(quality=absurd, at=10)])["quality"]
    assert (found["failed_share"], found["stopped_share"], found["coverage"]) == (1, 1, 0)
    assert (found["stops"], found["errors"]) == (pytest.approx(2 * most), {"read": 2 * most})
