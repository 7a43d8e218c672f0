"""The native kernel draws the tree that the reference draws, to the last node and name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.query.call_tree import (
    CallTree,
    NativeTreeBuilder,
    PooledSide,
    PythonTreeBuilder,
    TreeBuilder,
    build_call_tree,
    compute_costs,
)
from sidelight_collector.query.engine.stack_text import MISSING_STACK, StackPool, StackWeights, weigh_stacks
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import Deadline, QueryContext
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.statistics.event_loop.stack_automaton import MAX_CLASSES, Automaton
from sidelight_collector.storage.tables import STACKS
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window
from tests.collector.stored_windows import asked, question, stored, window
from tests.model.strategies import frames, texts

MOST = 2**63 - 1

words = st.one_of(
    st.sampled_from(
        ["a (a.py:1)", "a (a.py:2)", "a (a.py)", "f:3)", ":)", "total", "(other)", MISSING_STACK]
    ),
    st.sampled_from(["main", "handle", "query"]),
    frames,
    texts.map(lambda text: f"{text}:7)"),
)
stacks = st.lists(words, max_size=6)
tables = st.lists(st.lists(stacks, min_size=1, max_size=8), max_size=3)
sizes = st.one_of(st.integers(0, 9), st.sampled_from([500, 1500, 2**31, 2**53, 2**53 + 1, 2**62, MOST]))
periods = st.sampled_from([0, 1, 500, 10_000_000, 10_101_010, 2**40, MOST])
rows = st.lists(st.tuples(st.integers(0, 24), sizes, periods), max_size=12)


@dataclass(frozen=True, slots=True)
class Case:
    """Tables of stacks, and sides as (number of a stack, samples, period)."""

    tables: Sequence[Sequence[Sequence[str]]]
    sides: Sequence[Sequence[tuple[int, int, int]]]
    most: int
    lines: bool = False


def stack_table(rows: Sequence[Sequence[str]], skipped: int) -> pa.Table:
    """A table as it is read, of which the first rows are sliced away."""
    columns = {"service": [""] * len(rows), "h": [0] * len(rows), "depth": [0] * len(rows), "frames": rows}
    return pa.table({name: list(column) for name, column in columns.items()}, schema=STACKS).slice(skipped)


def weights(rows: Sequence[tuple[int, int, int]]) -> StackWeights:
    count = len(rows)
    service = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([""]))
    samples, period_ns = (pa.array([row[at] for row in rows], pa.int64()) for at in (1, 2))
    return StackWeights(service, pa.array([0] * count, pa.uint64()), samples, period_ns)


def put(pool: StackPool, case: Case) -> list[PooledSide]:
    """The stacks of a case into a pool, and its sides as they are there."""
    for number, stacks in enumerate(case.tables):
        table = stack_table([["skipped"]] * number + [list(stack) for stack in stacks], number)
        pool.add_stacks(table, pa.array([*range(len(table))][::-1], pa.int32()))
        pool.add_stacks(table, pa.array([0, 0], pa.int32()))
    return [
        (pa.array([row[0] % len(pool) for row in side], pa.int32()), weights(side)) for side in case.sides
    ]


def canvases(case: Case) -> tuple[NativeTreeBuilder, PythonTreeBuilder]:
    reading = asked(stored(), lambda reading: reading)
    reading.deadline = Deadline(600)
    return NativeTreeBuilder(NATIVE, lines=case.lines), PythonTreeBuilder(reading, lines=case.lines)


def fits(case: Case) -> bool:
    return all(
        sum(row[1] for row in side) <= MOST and sum(row[1] * row[2] for row in side) <= MOST
        for side in case.sides
    )


def some_frames(tables: list[list[list[str]]]) -> list[list[list[str]]]:
    return [[stack or ["main"] for stack in stacks] for stacks in tables]


DEEP = ["f"] * 20_000
TIES = [["a"], ["b"], ["c"], ["a", "x"], ["b", "x"]]


@given(
    st.builds(Case, tables, st.lists(rows, min_size=1, max_size=3), st.integers(1, 12), st.booleans()),
)
@example(Case([[DEEP, DEEP[1:], [*DEEP, "g"]]], [[(1, 3, 1), (2, 4, 1), (3, 5, 2)]], 10**6))
@example(Case([[DEEP, DEEP[1:], [*DEEP, "g"]]], [[(1, 3, 1), (2, 4, 1), (3, 5, 2)]], 9))
@example(Case([TIES], [[(at, 1, 1) for at in range(7)]], 4))
@example(Case([TIES], [[(at, 1, 1) for at in range(7)], [(3, 1, 1)]], 4))
@example(Case([TIES], [[(at, 2**53 + at, 1) for at in range(7)]], 3))
@example(Case([TIES], [[(at, 2**59 - at, 1) for at in range(7)], [(at, 3**36, 1) for at in range(7)]], 3))
@example(Case([TIES], [[(at, 1, 0) for at in range(7)]], 3))
@example(Case([TIES], [[], []], 1))
@example(Case([], [[(0, 7, 7)]], 5))
@example(Case([[[]]], [[(1, 7, 7)]], 5))
@example(Case([TIES], [[(1, MOST, 1)]], 5))
@example(Case([TIES], [[(1, MOST, 1), (2, 1, 0)]], 5))
@example(Case([TIES], [[(1, 1, 1)], [(1, 2**32, 2**31)]], 5))
def test_any_stacks_make_the_tree_of_the_reference_unless_they_are_too_heavy(case: Case) -> None:
    kernel, reference = canvases(case)
    tree = kernel.build(put(kernel, case), case.most)
    whole = reference.build(put(reference, case), case.most)
    assert walked(kernel) == walked(reference)
    assert summed(kernel) == summed(reference)
    if fits(case):
        assert tree is not None
        assert listed(tree) == listed(whole)
    else:
        assert tree is None


@given(
    st.builds(
        Case, tables.map(some_frames), st.lists(rows, min_size=1, max_size=3), st.just(1), st.booleans()
    )
)
@example(Case([TIES], [[(1, MOST, 1), (2, 1, 0)], [(3, 4, 5)]], 1))
@example(Case([[["f", "g", "f"], ["f"]]], [[(1, 3, 10), (2, 4, 10)], [(0, 1, 1)]], 1))
def test_any_stacks_cost_what_they_do_by_the_reference_unless_they_are_too_heavy(case: Case) -> None:
    kernel, reference = canvases(case)
    found = kernel.compute_costs(put(kernel, case))
    if fits(case):
        assert found == reference.compute_costs(put(reference, case))
    else:
        assert found is None


def walked(pool: TreeBuilder) -> list[tuple[int, str]]:
    """Where an automaton of three states and classes leaves each stack, and the frame that it marked."""
    luck, names = np.random.default_rng(3), pool.frame_names()
    next_states, marks = luck.integers(0, 3, (2, 3, MAX_CLASSES), np.uint8)
    classes = np.array([len(name) % 3 for name in names], np.uint8)
    states, marked = pool.walk_stacks(classes, Automaton(next_states, marks, 1))
    texts = [names[at] if at >= 0 else "" for at in marked.tolist()]
    return list(zip(states.tolist(), texts, strict=True))


def summed(pool: TreeBuilder) -> dict[str, list[list[float]]]:
    """What each frame costs in four cells, self and total."""
    luck, names = np.random.default_rng(4), pool.frame_names()
    stacks, cells, weights = (luck.integers(0, most, 50) for most in (len(pool), 4, 9))
    rows = (stacks.astype(np.int32), cells.astype(np.int32), weights.astype(float))
    own, total = pool.sum_by_frame(rows, np.arange(len(names), dtype=np.int32), 4)
    return {name: [own[at].tolist(), total[at].tolist()] for at, name in enumerate(names) if total[at].any()}


def listed(tree: CallTree) -> dict[str, Any]:
    """A tree with lists instead of arrays, which compare as a whole."""
    fields = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
    sides = {name: [side.tolist() for side in fields[name]] for name in ("samples", "microseconds")}
    columns = {name: fields[name].tolist() for name in ("level", "name", "stack_nodes")}
    return {**fields, **sides, **columns}


def both(reading: QueryContext, *selectors: str, lines: bool = False, most: int = 10**6) -> list[CallTree]:
    chosen = [select_windows(reading, question(selector)) for selector in selectors]
    sides = [(one, weigh_stacks(sum_stacks(reading, one), ProfileType.WALL)) for one in chosen]
    for begin in ("", "main", "a (a"):
        found = [
            compute_costs(reading, sides, lines=lines, prefix=begin, native=native)
            for native in (NATIVE, None)
        ]
        assert found[0] == found[1]
    return [
        build_call_tree(reading, sides, lines=lines, max_nodes=most, native=native)
        for native in (NATIVE, None)
    ]


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("most", [1, 3, 100])
def test_a_comparison_over_services_and_segments_is_drawn_alike(lines: bool, most: int) -> None:
    store = stored(
        [window("main;a (a.py:1) 6 | main;b (b.py:2);[idle] 2", service="shop", version="1")],
        [window("main;a (a.py:1) 1 | main;a (a.py:3) 5", service="shop", version="2", period_ns=10_101_010)],
        [window("main;a (a.py:1) 4 | other;(other) 1 | größe%3B 9", service="ads", version="2")],
    )
    selectors = ('{version="1"}', '{version="2"}')
    native, reference = asked(store, lambda reading: both(reading, *selectors, lines=lines, most=most))
    assert listed(native) == listed(reference)
    assert [sum(side) for side in native.samples] == [8, 20]


def heavy(count: int, windows: int) -> list[Window]:
    return [window(f"main;work {count} | main 3", period_ns=10**9, at=at) for at in range(windows)]


def test_what_does_not_fit_the_kernel_is_drawn_by_the_reference() -> None:
    store = stored(heavy(99_999_997, 200))
    native, reference = asked(store, lambda reading: both(reading, "{}"))
    assert listed(native) == listed(reference)
    assert sum(native.microseconds[0]) == 200 * 100_000_000 * 10**6 > 2**63 / 1000


def test_a_stack_that_no_table_holds_is_drawn_as_missing() -> None:
    store = stored([window("main;work 3 | main;rest 4")])
    fewer = stored([window("main;work 3")])
    (key, other) = (
        next(entry.key for entry in one.list("v1/") if entry.key.endswith("stacks.parquet"))
        for one in (store, fewer)
    )
    store.put(key, fewer.get(other))
    native, reference = asked(store, lambda reading: both(reading, "{}"))
    assert listed(native) == listed(reference)
    assert native.names == ["total", MISSING_STACK, "main", "work"]
    assert [side.tolist() for side in native.samples] == [[0, 4, 0, 3]]


def test_columns_that_do_not_fit_each_other_are_refused_and_nothing_is_read_beyond_them() -> None:
    assert NATIVE is not None
    offsets, codes, ends, rows = (
        memoryview(pa.array(numbers, pa.int32()).buffers()[1] or b"").cast("i")[: len(numbers)]
        for numbers in ([0, 2, 3], [0, 1, 1], [0, 1, 2], [0, 1])
    )
    NATIVE.Pool("", lines=True).take(offsets, codes, ends, b"ab", rows)
    for wrong in (
        (offsets, codes[:2], ends, b"ab", rows),
        (offsets, codes, ends[:2], b"ab", rows),
        (offsets, codes, ends, b"a", rows),
        (offsets, codes, ends, b"a\xff", rows),
        (offsets[:2], codes, ends, b"ab", rows),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            NATIVE.Pool("", lines=True).take(*wrong)
    with pytest.raises((BufferError, ValueError)):
        NATIVE.Pool("", lines=True).take(offsets[::2], codes, ends, b"ab", rows)
    with pytest.raises(BufferError):
        NATIVE.Pool("", lines=True).take(offsets.cast("B"), codes, ends, b"ab", rows)
