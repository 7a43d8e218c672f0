"""Sides of a comparison: cut into pods and blocks of time without loss, and measured by the CPU clock."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from sidelight_collector.arrow_ops import to_float64 as column
from sidelight_collector.comparison.answer import query_verdict
from sidelight_collector.comparison.cost_tables import (
    CostRows,
    build_function_costs,
    build_node_costs,
)
from sidelight_collector.comparison.matrix import (
    PairedObservations,
    build_observations,
    select_comparison_windows,
    sum_stacks_by_cell,
)
from sidelight_collector.comparison.model import Verdict
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.query.call_tree import build_tree_and_pool
from sidelight_collector.query.data_basis import summarize_side
from sidelight_collector.query.engine.stack_text import iter_stack_rows, weigh_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.aggregate import rank_functions
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.gates import parse_condition
from sidelight_model.tree import build_tree_from_rows, compute_totals
from sidelight_model.window import Window
from tests.collector.comparison_data import CPU, WALL, WELL, check, shop
from tests.collector.comparison_data import functions as directions
from tests.collector.stored_windows import asked, question, stored, window
from tests.collector.test_query_blocks import compacted, fleet
from tests.collector.test_resolutions import DAY_SECONDS, Collector

MANY = 10**9


def cuts(store: ObjectStore, sides: Sequence[WindowQuery], most_rows: int = MANY) -> PairedObservations:
    return asked(
        store, lambda reading: build_observations(sides, select_comparison_windows(reading, sides, most_rows))
    )


def service(
    version: str, pods: int, *, at: float = 0, minutes: int = 32, step: float = 60, seconds: float = 60
) -> list[Window]:
    return [
        window(
            f"main;work {pod + 1} | main;wait;[idle] 3",
            version=version,
            pod=f"pod-{version}-{pod}",
            at=at + minute * step,
            seconds=seconds,
        )
        for pod in range(pods)
        for minute in range(minutes)
    ]


def versions(start: float = -DAY_SECONDS, end: float = DAY_SECONDS) -> list[WindowQuery]:
    return [question(f'{{version="{one}"}}', start=start, end=end) for one in ("1", "2")]


def test_each_pod_is_a_row_and_a_range_is_cut_into_sixteen_blocks() -> None:
    found = cuts(stored([*service("1", 3), *service("2", 2, at=3600)]), versions())
    assert found.baseline.shape == (3, 16)
    assert found.comparison.shape == (2, 16)
    assert found.baseline.matrix.pods == (("pod-1-0",), ("pod-1-1",), ("pod-1-2",))
    assert found.baseline.matrix.exposure.tolist() == [[120.0] * 16] * 3
    assert (found.baseline.matrix.block_seconds, found.pairing, found.same_pods) == (120, "", False)
    assert found.baseline.sum_seconds(("running",)).tolist() == [[0.02 * (pod + 1)] * 16 for pod in range(3)]


def test_no_block_is_shorter_than_a_window() -> None:
    found = cuts(stored(service("1", 1, minutes=5)), versions())
    assert found.baseline.shape == (1, 5)


def test_more_pods_than_rows_share_them_by_their_names() -> None:
    many = cuts(stored(service("1", 40, minutes=2)), versions()).baseline
    more = cuts(stored(service("1", 60, minutes=2)), versions()).baseline
    assert many.shape[0] == more.shape[0] == 16
    assert many.pod_count == 40
    assert all(set(few) <= set(all_) for few, all_ in zip(many.matrix.pods, more.matrix.pods, strict=True))
    assert sum(map(len, more.matrix.pods)) == 60


def test_versions_that_ran_at_the_same_time_have_the_same_blocks() -> None:
    found = cuts(stored([*service("1", 2), *service("2", 1, at=120, minutes=30)]), versions())
    assert found.pairing == "time"
    assert found.baseline.shape[1] == found.comparison.shape[1] == 16
    assert found.comparison.matrix.exposure[0].tolist() == [0.0, *[120.0] * 15]


def test_the_same_hours_of_another_day_have_the_same_blocks_and_pods_that_stayed_the_same_rows() -> None:
    store = stored([*service("1", 2), *service("1", 2, at=DAY_SECONDS)])
    sides = [question(start=0, end=1920), question(start=DAY_SECONDS, end=DAY_SECONDS + 1920)]
    found = cuts(store, sides)
    assert (found.pairing, found.same_pods) == ("hours", True)
    shifted = [question(start=0, end=1920), question(start=DAY_SECONDS - 60, end=DAY_SECONDS + 1860)]
    assert cuts(store, shifted).pairing == ""


def test_sides_without_windows_have_one_empty_cell() -> None:
    found = cuts(MemoryStore(), versions())
    assert found.baseline.matrix.exposure.tolist() == [[0.0]]
    assert (found.baseline.pod_count, found.same_pods, found.pairing) == (0, False, "")


SELECTORS = [
    '{service="shop"}',
    '{service=~"a.*"}',
    '{pod="shop-1"}',
    '{thread="other"}',
    '{region="r1"}',
    '{service="nobody"}',
]
RANGES = [(-3600, 7200), (-900, 4321), (0, 3600)]


@pytest.mark.parametrize("most_rows", [0, MANY])
@pytest.mark.parametrize("blocks", [False, True])
def test_cells_add_up_to_the_side_whatever_is_chosen(most_rows: int, blocks: bool) -> None:
    store = stored(fleet())
    if blocks:
        store = compacted(store)

    def both(reading: QueryContext, sides: Sequence[WindowQuery]) -> None:
        found = build_observations(sides, select_comparison_windows(reading, sides, most_rows))
        for asked_for, own in zip(sides, (found.baseline, found.comparison), strict=True):
            whole, table = summarize_side(asked_for, own.windows, WALL), sum_stacks_by_cell(reading, own)
            assert own.matrix.total_exposure == pytest.approx(whole["pod_seconds"])
            assert own.sum_seconds(("idle", "running", "gil")).sum() == pytest.approx(whole["seconds"])
            for state, samples in whole["states"].items():
                by_cell = np.bincount(column(table["cell"]).to_numpy().astype(int), column(table[state]))
                seen = own.sum_by_cell(own.windows.table[state].to_numpy().astype(float)).ravel()
                assert by_cell.sum() == samples
                assert by_cell.tolist() == pytest.approx(seen[: len(by_cell)].tolist())

    for selector, (start, end) in product(SELECTORS, RANGES):
        sides = [question(selector, start=start, end=end), question("", start=start, end=end)]
        asked(store, lambda reading, sides=sides: both(reading, sides))  # type: ignore[misc]


def test_what_is_kept_by_the_hour_or_day_is_cut_by_it_and_pods_are_one_row() -> None:
    collector = Collector(stored(service("1", 2, minutes=12, step=3600, seconds=600)))
    for days, blocks in ((0.5, 16), (3, 12), (5, 1)):
        collector.look(days)
        own = cuts(collector.store, versions()).baseline
        assert own.has_pod_rows is (days < 1)
        assert own.shape == (2 if own.has_pod_rows else 1, blocks)
        assert own.matrix.total_exposure == 2 * 12 * 600
        rows = asked(collector.store, lambda reading, own=own: sum_stacks_by_cell(reading, own))  # type: ignore[misc]
        assert sum(rows["running"].to_pylist()) == 12 * 3
        assert set(rows["cell"].to_pylist()) == set(own.cell_ids.tolist())


def test_hours_of_one_pod_are_told_apart() -> None:
    store = compacted(stored(service("1", 1, minutes=8, step=3600, seconds=600)))
    own = cuts(store, versions(), 0).baseline
    assert (own.has_pod_rows, own.shape) == (True, (1, 8))


@pytest.mark.parametrize("native", [NATIVE, None])
@pytest.mark.parametrize("most", [10**6, 4])
def test_functions_and_nodes_took_in_all_cells_what_they_take_in_the_tree(
    most: int, native: object | None
) -> None:
    store = stored(fleet())
    sides = [question('{version="1"}', start=-3600, end=7200), question("", start=-3600, end=7200)]

    def check(reading: QueryContext) -> None:
        found = build_observations(sides, select_comparison_windows(reading, sides, MANY))
        own = (found.baseline, found.comparison)
        weights = [weigh_stacks(sum_stacks_by_cell(reading, one), WALL) for one in own]
        columns = [(one.windows, each) for one, each in zip(own, weights, strict=True)]
        tree, pooled = build_tree_and_pool(reading, columns, lines=False, max_nodes=most, native=native)
        a, b = (CostRows.build(numbers, one) for numbers, one in zip(pooled.sides, own, strict=True))
        spelled = [list(iter_stack_rows(reading, *one, lines=False)) for one in columns]
        costs, whole = rank_functions(spelled), build_tree_from_rows(spelled)
        of, known = build_function_costs(pooled, a, b, 1000), build_node_costs(tree, a, b, 1000)
        often = {name for name, both in costs.items() if sum(one.total_samples for one in both) >= 6}
        assert set(of.names) == often
        assert of.function_count == len(costs)
        for at, name in enumerate(of.names):
            one, two = costs[name]
            assert of.total_costs.samples_a[at] == one.total_samples
            assert of.total_costs.a[at].sum() == pytest.approx(one.total_ns / 1e9)
            assert of.total_costs.b[at].sum() == pytest.approx(two.total_ns / 1e9)
            assert of.self_costs.b[at].sum() == pytest.approx(two.self_ns / 1e9)
        every = known.take(np.arange(len(known.node_ids)))
        for cells, seconds, at in ((every.a, known.seconds[0], 0), (every.b, known.seconds[1], 1)):
            assert cells.sum((1, 2)) == pytest.approx(seconds)
            ns = compute_totals(whole, at, "ns")
            assert cells[0].sum() == pytest.approx(ns[0] / 1e9)
            if most > len(whole):
                assert cells.sum((1, 2)).tolist() == pytest.approx(
                    [ns[node] / 1e9 for node in known.node_ids]
                )

    asked(store, check)


def test_no_more_is_tested_than_may_be_and_the_heaviest_first() -> None:
    store = stored([window("main;a 50 | main;b 40 | main;c 30 | main;rare 5", version=one) for one in "12"])

    def few(reading: QueryContext) -> tuple[list[str], list[int]]:
        found = build_observations(versions(), select_comparison_windows(reading, versions(), MANY))
        weights = [
            weigh_stacks(sum_stacks_by_cell(reading, one), WALL) for one in (found.baseline, found.comparison)
        ]
        columns = [
            (one.windows, each) for one, each in zip((found.baseline, found.comparison), weights, strict=True)
        ]
        tree, pooled = build_tree_and_pool(reading, columns, lines=False, max_nodes=100)
        a, b = (
            CostRows.build(*one) for one in zip(pooled.sides, (found.baseline, found.comparison), strict=True)
        )
        of, known = build_function_costs(pooled, a, b, 2), build_node_costs(tree, a, b, 3)
        return sorted(of.names), [tree.name[node] for node in known.node_ids]

    assert asked(store, few) == (["a", "main"], [0, 1, 2])


TAKEN = 12.0
"""CPU seconds of a minute of a pod; `shop` samples 14 of them, as its threads wait for a CPU meanwhile."""


def clocked(version: str, taken: float = TAKEN, **how: Any) -> Iterator[Window]:
    """Pods whose clock says that they took so much a minute, give or take half a per cent.

    Their sampler does not know the wait for a CPU.
    """
    luck = random.Random(f"{version} {taken}")
    for one in shop(version, luck, **how):
        ns = round(taken * luck.gauss(1, 0.005) * 1e9)
        quality = replace(one.quality, target_cpu_ns=ns, missing_states=("cpu_wait",))
        yield replace(one, quality=quality)


def timed(taken: float = TAKEN, **second: Any) -> ObjectStore:
    return stored([*clocked("1"), *clocked("2", taken, **second)])


def measured(
    store: ObjectStore, kind: ProfileType = CPU, pick: StackFilter = NO_FILTER, more: str = "", **wanted: Any
) -> Verdict:
    sides = [question(f'{{version="{one}"{more}}}') for one in ("1", "2")]
    return asked(
        store,
        lambda reading: query_verdict(
            reading, sides, kind, stack_filter=pick, options=ComparisonOptions(**wanted), max_nodes=50_000
        ),
    )["verdict"]


def test_threads_that_wait_for_a_cpu_take_none_of_it() -> None:
    found = measured(timed(busy=1.4))
    assert found["method"]["rate_source"] == "clock"
    assert found["rate"]["baseline"] == pytest.approx(TAKEN / 60, rel=0.01)
    assert (found["direction"], found["sampling_only"]["direction"]) == ("unchanged", "increased")
    assert found["summary"].startswith("No detectable change in CPU time")
    assert check(found, "contention") == ("mismatch", "warn", "contention_differs")
    assert found["culprits"]["rows"]  # by samples, whose time includes waiting


def test_samples_that_wait_for_a_cpu_are_no_cpu_time_and_tell_how_contended_a_side_was() -> None:
    def waiting(version: str, share: float) -> Iterator[Window]:
        for one in shop(version, random.Random(version)):
            counts = {
                stack: count.plus(Counts(cpu_wait=round(share * count.cpu)))
                for stack, count in one.counts.items()
            }
            yield replace(one, counts=counts)

    store = stored([*waiting("1", 0.0), *waiting("2", 1.0)])
    plain = measured(stored([*waiting("1", 0.0), *waiting("2", 0.0)]))
    found = measured(store)
    assert found["rate"] == plain["rate"]
    assert check(found, "contention") == ("mismatch", "warn", "contention_differs")
    (text,) = [one["text"] for one in found["checks"] if one["name"] == "contention"]
    assert text.startswith("runnable threads waited for a CPU in 0 % of A's samples and 50.0 % of B's: ")
    assert measured(store, WALL)["rate"]["comparison"] > plain["rate"]["comparison"]


def test_a_change_by_the_clock_is_found_where_samples_are_too_few_and_explained_by_them() -> None:
    found = measured(timed(1.03 * TAKEN, render=1.3))
    assert found["direction"] == "increased"
    assert found["rate"]["relative_low"] < 0.03 < found["rate"]["relative_high"]  # type: ignore[operator]
    assert check(found, "contention")[0] == "match"
    assert directions(found)["render"] == "increased"
    assert [row["function"] for row in found["culprits"]["rows"]] == ["render"]
    assert found["culprits"]["share"] == pytest.approx(1, abs=0.3)  # of what was sampled


def test_what_is_only_a_part_of_the_process_is_taken_from_samples() -> None:
    main = [one for version in "12" for one in clocked(version, thread="main")]
    other = [one for version in "12" for one in clocked(version, thread="other")]
    store = stored(main, [replace(one, quality=replace(one.quality, target_cpu_ns=0)) for one in other])
    assert measured(store)["method"]["rate_source"] == "clock"
    assert measured(store, more=', thread=~".*"')["method"]["rate_source"] == "clock"
    for part in (
        measured(store, more=', thread="main"'),
        measured(store, more=', thread="other"'),
        measured(store, pick=StackFilter(function="render")),
        measured(store, WALL),
    ):
        assert part["method"]["rate_source"] == "samples"
        assert part["rate"] == part["sampling_only"]
    assert check(measured(store, more=', thread="main"'), "contention")[0] == "unknown"


def test_without_a_clock_of_every_pod_there_is_none() -> None:
    silent = [
        replace(one, quality=replace(one.quality, target_cpu_ns=0))
        if one.labels["pod"] == "shop-2-3"
        else one
        for one in clocked("2")
    ]
    found = measured(stored([*clocked("1"), *silent]))
    assert found["method"]["rate_source"] == "samples"
    assert found["rate"] == found["sampling_only"]
    assert check(found, "contention") == ("unknown", "ok", "contention_unknown")


def test_the_clock_goes_on_while_ticks_fail() -> None:
    half = replace(WELL, errors={"read": 3000})
    found = measured(timed(quality=half))
    assert found["rate"]["comparison"] == pytest.approx(found["rate"]["baseline"], rel=0.01)
    assert found["sampling_only"]["comparison"] == pytest.approx(
        2 * found["sampling_only"]["baseline"], rel=0.05
    )


def test_a_request_has_its_part_of_the_clock() -> None:
    found = measured(timed(2 * TAKEN), request_counts=(1e6, 2e6))
    assert (found["method"]["rate_source"], found["method"]["unit"]) == ("clock", "request")
    assert found["direction"] == "unchanged"
    assert found["rate"]["baseline"] == pytest.approx(6 * 32 * TAKEN / 1e6, rel=0.01)


def test_a_condition_on_cpu_time_is_by_the_clock_whatever_type_is_asked_for() -> None:
    store, conditions = timed(busy=1.4), (parse_condition("cpu>+3%"), parse_condition("function:render>+10%"))
    for kind in (CPU, WALL):
        told = measured(store, kind, conditions=conditions)["conditions"]
        assert [one["state"] for one in told] == ["pass", "regressed"]


def test_compaction_keeps_the_clock() -> None:
    store = timed(1.1 * TAKEN)
    before, after = measured(store), measured(compacted(store))
    assert after["rate"]["delta"] == pytest.approx(before["rate"]["delta"])
    assert after["method"] == before["method"]


def test_the_remedy_of_a_check_leaves_out_the_pods_that_fail_it() -> None:
    luck = random.Random(3)
    odd = replace(WELL, reader="py-spy", python="3.12.1")
    second = [
        replace(one, quality=odd) if one.labels.get("pod") == "shop-2-1" else one for one in shop("2", luck)
    ]
    store = stored([*shop("1", luck), *second])
    sides = {name: f'{{version="{version}"}}' for name, version in (("baseline", 1), ("comparison", 2))}

    def compare() -> Verdict:
        questions = [question(side) for side in sides.values()]
        return asked(
            store,
            lambda reading: query_verdict(
                reading, questions, CPU, stack_filter=NO_FILTER, options=ComparisonOptions(), max_nodes=50_000
            ),
        )["verdict"]

    failed = {one["name"]: one["remedy"] for one in compare()["checks"] if one["severity"] != "ok"}
    assert {"reader", "python"} <= set(failed)
    remedy = failed["reader"]
    assert remedy
    assert remedy == failed["python"]
    assert remedy["label"] == "Leave out shop-2-1 of B"
    sides |= remedy["parameters"]
    assert [one["name"] for one in compare()["checks"] if one["severity"] != "ok"] == []
