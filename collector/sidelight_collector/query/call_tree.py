"""Call trees and costs of functions, built from summed stacks.

There are two implementations with identical results: the native kernel and the Python reference
(`sidelight_model.tree` and `sidelight_model.aggregate`). The native kernel works on the codes and
dictionaries of Arrow columns: no frame becomes a Python string before the tree is complete. Its sums have
63 bits; the reference takes over where they would overflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight_collector.arrow_ops import (
    Array,
    ListColumn,
    build_dictionary_array,
    combine_chunks,
    dictionary_encode,
    to_ints,
)
from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.query.engine.stack_text import (
    MISSING_STACK,
    StackPool,
    StackTextPool,
    StackWeights,
    iter_pool_rows,
    resolve_stacks,
)
from sidelight_collector.query.query_context import QueryContext, SegmentView
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.statistics.event_loop.stack_automaton import Automaton
from sidelight_model.aggregate import FunctionCost, rank_functions
from sidelight_model.tree import build_tree_from_rows, find_end_nodes, prune_with_mapping

F64: TypeAlias = NDArray[np.float64]
I32: TypeAlias = NDArray[np.int32]
I64: TypeAlias = NDArray[np.int64]
U8: TypeAlias = NDArray[np.uint8]
Flags: TypeAlias = NDArray[np.bool_]

PooledSide: TypeAlias = tuple[Array, StackWeights]
"""For each row the index of its stack in the pool, and the weights of the rows."""


@dataclass(frozen=True, slots=True)
class CallTree:
    """A call tree in pre-order, with escaped frames, pruned if necessary.

    See `sidelight_model.tree` for the layout. Names are numbered in the order in which nodes first use
    them: equal trees give equal responses, and names of pruned nodes are absent.

    `samples[side][node]` and `microseconds[side][node]` count the stacks that end at the node.
    `stack_nodes[stack]` is the node where a stack of the pool ends, or -1 if no side has it.
    `total_nodes` counts the nodes before pruning; `pruned_nodes` of them were merged into `(other)` nodes.
    """

    names: Sequence[str]
    level: I64
    name: I64
    samples: Sequence[I64]
    microseconds: Sequence[I64]
    stack_nodes: I64
    total_nodes: int
    pruned_nodes: int


def build_call_tree(
    context: QueryContext,
    sides: Sequence[tuple[SelectedWindows, StackWeights]],
    *,
    lines: bool,
    max_nodes: int,
    native: Any | None = NATIVE,
) -> CallTree:
    """Build the tree of these sides, of about its `max_nodes` heaviest nodes."""
    return build_tree_and_pool(context, sides, lines=lines, max_nodes=max_nodes, native=native)[0]


def build_tree_and_pool(
    context: QueryContext,
    sides: Sequence[tuple[SelectedWindows, StackWeights]],
    *,
    lines: bool,
    max_nodes: int,
    native: Any | None = NATIVE,
) -> tuple[CallTree, PooledStacks]:
    """Build the tree as `build_call_tree` does; return it with its stacks."""
    if native is not None:
        builder = NativeTreeBuilder(native, lines=lines)
        stacks = _pool_sides(context, sides, builder)
        if tree := builder.build(stacks, max_nodes):
            return tree, PooledStacks(builder, stacks)
    reference = PythonTreeBuilder(context, lines=lines)
    stacks = _pool_sides(context, sides, reference)
    return reference.build(stacks, max_nodes), PooledStacks(reference, stacks)


def pool_more_stacks(
    context: QueryContext,
    sides: Sequence[tuple[SelectedWindows, StackWeights]],
    pooled: PooledStacks,
) -> PooledStacks:
    """Pool the stacks of the same sides with other weights.

    Stacks that the pool already has are not read again.
    """
    return PooledStacks(
        pooled.builder,
        [
            (_pool_more_stacks(context, windows, weights, pooled_side, pooled.builder), weights)
            for (windows, weights), pooled_side in zip(sides, pooled.sides, strict=True)
        ],
    )


def _pool_more_stacks(
    context: QueryContext,
    windows: SelectedWindows,
    weights: StackWeights,
    pooled_side: PooledSide,
    pool: StackPool,
) -> Array:
    """Return the index of each stack in a pool that already has some of them."""
    pooled_ids, pooled_weights = pooled_side
    pooled_services = pooled_weights.service.dictionary
    if len(weights.service.dictionary) > 1 or not weights.service.dictionary.equals(pooled_services):
        return resolve_stacks(context, windows, weights.service, weights.hashes, pool)
    if weights.hashes.equals(pooled_weights.hashes):
        return pooled_ids
    stack_ids = pooled_ids.take(pc.index_in(weights.hashes, value_set=pooled_weights.hashes))
    is_new = stack_ids.is_null()
    if not pc.any(is_new).as_py():
        return stack_ids
    service = build_dictionary_array(weights.service.indices.filter(is_new), weights.service.dictionary)
    new_ids = resolve_stacks(context, windows, service, weights.hashes.filter(is_new), pool)
    return cast("Array", pc.replace_with_mask(stack_ids, is_new, new_ids))


def pool_stacks(
    context: QueryContext,
    sides: Sequence[tuple[SelectedWindows, StackWeights]],
) -> PooledStacks:
    """Pool the stacks of these sides without line numbers, and build no tree."""
    builder = (
        PythonTreeBuilder(context, lines=False) if NATIVE is None else NativeTreeBuilder(NATIVE, lines=False)
    )
    return PooledStacks(builder, _pool_sides(context, sides, builder))


def compute_costs(
    context: QueryContext,
    sides: Sequence[tuple[SelectedWindows, StackWeights]],
    *,
    lines: bool = False,
    prefix: str = "",
    native: Any | None = NATIVE,
) -> Mapping[str, Sequence[FunctionCost]]:
    """Compute the cost of each function on each side, or of each of its lines.

    Returns costs by escaped frame, in no order, of the frames that begin with `prefix`.
    """
    if native is not None:
        builder = NativeTreeBuilder(native, lines=lines)
        costs = builder.compute_costs(_pool_sides(context, sides, builder), prefix)
        if costs is not None:
            return costs
    reference = PythonTreeBuilder(context, lines=lines)
    return reference.compute_costs(_pool_sides(context, sides, reference), prefix)


def _pool_sides(
    context: QueryContext, sides: Sequence[tuple[SelectedWindows, StackWeights]], pool: StackPool
) -> list[PooledSide]:
    """Add the stacks of these sides to the pool, and return their indices."""
    pooled_sides = [
        (resolve_stacks(context, windows, weights.service, weights.hashes, pool), weights)
        for windows, weights in sides
    ]
    context.deadline.remaining()
    return pooled_sides


class TreeBuilder(StackPool, Protocol):
    """A pool of stacks that builds trees and sums from them."""

    def frame_names(self) -> Sequence[str]:
        """List the escaped frames that its stacks may have."""

    def build(self, sides: Sequence[PooledSide], max_nodes: int) -> CallTree | None:
        """Build the tree of pooled sides; None if the sums would overflow."""

    def depths(self) -> I32:
        """Return the number of frames of each stack."""

    def match_stacks(self, frame_mask: Flags) -> tuple[Flags, Flags]:
        """Return two masks of stacks: having a frame of `frame_mask`, and ending with one.

        `frame_mask` has a flag for each of `frame_names()`.
        """

    def walk_stacks(self, classes: U8, automaton: Automaton) -> tuple[U8, I32]:
        """Return the state in which an automaton leaves each stack, and its mark.

        The mark is a frame, or -1. `classes` has the class of each of `frame_names()`, and frames are places
        in them.
        """

    def sum_by_frame(self, rows: tuple[I32, I32, F64], table_rows: I32, cell_count: int) -> tuple[F64, F64]:
        """Sum weights by frame and cell; return the tables (self, total).

        `rows` are aligned arrays of the stack, the cell and the weight of each row. `table_rows` has for
        each frame its row in the tables, or a negative number for a frame without a row; rows have no gaps.
        Self sums the stacks that end with the frame; total sums the stacks that have it, each stack once.
        """


@dataclass(frozen=True, slots=True)
class PooledStacks:
    """Stacks in a pool, and for each side their indices and weights."""

    builder: TreeBuilder
    sides: Sequence[PooledSide]


class PythonTreeBuilder(StackTextPool):
    """The reference: exact for sums of any size, until the query's deadline."""

    def __init__(self, context: QueryContext, *, lines: bool) -> None:
        super().__init__(lines=lines)
        self._context = context

    def build(self, sides: Sequence[PooledSide], max_nodes: int) -> CallTree:
        """Build the tree of pooled sides."""
        full_tree = build_tree_from_rows([iter_pool_rows(self._context, self, *side) for side in sides])
        tree, dropped, new_nodes = prune_with_mapping(full_tree, max_nodes)
        stack_ids = sorted({number for stack, _ in sides for number in to_ints(pc.unique(stack))})
        stack_nodes = [-1] * len(self.stacks)
        for number, end in zip(
            stack_ids, find_end_nodes(full_tree, [self.stacks[number] for number in stack_ids]), strict=True
        ):
            stack_nodes[number] = new_nodes[end]
        codes = {code: number for number, code in enumerate(dict.fromkeys(tree.name_index))}
        return CallTree(
            [tree.names[code] for code in codes],
            np.array(tree.level, np.int64),
            np.array([codes[code] for code in tree.name_index], np.int64),
            [_to_integers(samples) for samples in tree.self_samples],
            [_to_integers(list(map(_to_microseconds, ns))) for ns in tree.self_ns],
            np.array(stack_nodes, np.int64),
            len(full_tree),
            dropped,
        )

    def compute_costs(
        self, sides: Sequence[PooledSide], prefix: str = ""
    ) -> Mapping[str, Sequence[FunctionCost]]:
        """Compute the cost of each frame that begins with `prefix` on each side."""
        costs = rank_functions([iter_pool_rows(self._context, self, *side) for side in sides])
        return {frame: cost for frame, cost in costs.items() if frame.startswith(prefix)}

    def frame_names(self) -> Sequence[str]:
        return list(dict.fromkeys(chain.from_iterable(self.stacks)))

    def depths(self) -> I32:
        return np.array([len(frames) for frames in self.stacks], np.int32)

    def match_stacks(self, frame_mask: Flags) -> tuple[Flags, Flags]:
        wanted = {name for name, is_wanted in zip(self.frame_names(), frame_mask, strict=True) if is_wanted}
        any_of = [not wanted.isdisjoint(frames) for frames in self.stacks]
        last = [bool(frames) and frames[-1] in wanted for frames in self.stacks]
        return np.array(any_of, bool), np.array(last, bool)

    def walk_stacks(self, classes: U8, automaton: Automaton) -> tuple[U8, I32]:
        code_of = {name: code for code, name in enumerate(self.frame_names())}
        return automaton.walk(([code_of[frame] for frame in frames] for frames in self.stacks), classes)

    def sum_by_frame(self, rows: tuple[I32, I32, F64], table_rows: I32, cell_count: int) -> tuple[F64, F64]:
        row_of = dict(zip(self.frame_names(), table_rows.tolist(), strict=True))
        own, total = np.zeros((2, int(table_rows.max(initial=-1)) + 1, cell_count))
        for stack, cell, weight in zip(*(column.tolist() for column in rows), strict=True):
            frames = self.stacks[stack]
            for frame in set(frames):
                if row_of[frame] >= 0:
                    total[row_of[frame], cell] += weight
            if frames and row_of[frames[-1]] >= 0:
                own[row_of[frames[-1]], cell] += weight
        return own, total


class NativeTreeBuilder:
    """The native kernel, for sums that fit 63 bits."""

    view: SegmentView = "stacks"

    def __init__(self, native: Any, *, lines: bool) -> None:
        self._pool = native.Pool(MISSING_STACK, lines=lines)

    def __len__(self) -> int:
        return len(self._pool)

    def add_stacks(self, table: pa.Table, rows: Array) -> None:
        frames = cast("ListColumn", combine_chunks(table["frames"]))
        flat = dictionary_encode(frames.values)
        offsets, text = _text_buffers(flat.dictionary)
        self._pool.take(
            _array_buffer(frames.offsets, "i"),
            _array_buffer(flat.indices, "i"),
            offsets,
            text,
            _array_buffer(rows, "i"),
        )

    def build(self, sides: Sequence[PooledSide], max_nodes: int) -> CallTree | None:
        """Build the tree of pooled sides; None if the sums would overflow."""
        fields = self._pool.draw(_side_buffers(sides), max_nodes)
        if fields is None:
            return None
        names, level, name, samples, microseconds, stack_nodes, total_nodes, pruned_nodes = fields
        return CallTree(
            names,
            np.frombuffer(level, np.int64),
            np.frombuffer(name, np.int64),
            [np.frombuffer(column, np.int64) for column in samples],
            [np.frombuffer(column, np.int64) for column in microseconds],
            np.frombuffer(stack_nodes, np.int64),
            total_nodes,
            pruned_nodes,
        )

    def compute_costs(
        self, sides: Sequence[PooledSide], prefix: str = ""
    ) -> Mapping[str, Sequence[FunctionCost]] | None:
        """Compute the cost of each frame on each side; None if the sums would overflow."""
        costs = self._pool.costs(_side_buffers(sides))
        if costs is None:
            return None
        return {
            frame: tuple(FunctionCost(*fields) for fields in side_costs)
            for frame, side_costs in costs
            if frame.startswith(prefix)
        }

    def frame_names(self) -> Sequence[str]:
        names: list[str] = self._pool.words()
        return names

    def depths(self) -> I32:
        return np.frombuffer(self._pool.depths(), np.int32)

    def match_stacks(self, frame_mask: Flags) -> tuple[Flags, Flags]:
        any_of, last = self._pool.holding(frame_mask.astype(np.uint8))
        return np.frombuffer(any_of, bool), np.frombuffer(last, bool)

    def walk_stacks(self, classes: U8, automaton: Automaton) -> tuple[U8, I32]:
        states, marked = self._pool.walk(classes, automaton.next_states, automaton.marks, automaton.start)
        return np.frombuffer(states, np.uint8), np.frombuffer(marked, np.int32)

    def sum_by_frame(self, rows: tuple[I32, I32, F64], table_rows: I32, cell_count: int) -> tuple[F64, F64]:
        own, total = self._pool.spread(rows, table_rows, cell_count)
        return np.frombuffer(own).reshape(-1, cell_count), np.frombuffer(total).reshape(-1, cell_count)


def _side_buffers(sides: Sequence[PooledSide]) -> list[tuple[memoryview, memoryview, memoryview]]:
    return [
        (
            _array_buffer(stack, "i"),
            _array_buffer(weights.samples, "q"),
            _array_buffer(weights.period_ns, "q"),
        )
        for stack, weights in sides
    ]


def _array_buffer(array: Array, code: str) -> memoryview:
    """Return the buffer of a column of numbers without nulls, without a copy."""
    numbers = array.buffers()[1]
    if numbers is None or not len(array):
        return memoryview(b"").cast(cast("Any", code))
    return memoryview(numbers).cast(cast("Any", code))[array.offset : array.offset + len(array)]


def _text_buffers(column: Array) -> tuple[memoryview, memoryview]:
    """Return the offsets and the UTF-8 bytes of a column of text, without a copy."""
    _, offsets, text = column.buffers()
    if offsets is None or not len(column):
        return memoryview(b"").cast("i"), memoryview(b"")
    bounds = memoryview(offsets).cast("i")[column.offset : column.offset + len(column) + 1]
    return bounds, memoryview(text or b"").cast("B")


def _to_integers(values: Sequence[int]) -> I64:
    """Convert to an array, of Python's integers if they need more than 63 bits."""
    return np.array(values, np.int64 if max(values, default=0) < 2**63 else object)


def _to_microseconds(ns: int) -> int:
    """Convert to microseconds; halves are rounded to the even number."""
    whole, rest = divmod(ns, 1000)
    return whole + (rest > 500 or (rest == 500 and whole % 2 == 1))
