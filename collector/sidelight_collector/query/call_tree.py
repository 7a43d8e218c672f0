"""What stacks add up to, natively or by the reference, with one result: the tree that is drawn, and costs.

The reference is `sidelight_model.tree` and `sums`. The native kernel works on the codes and words of Arrow's
columns: no frame becomes a text before the tree is done. It adds up in 63 bits, and leaves to the reference
what does not fit.
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
from sidelight_collector.query.windows import (
    SelectedWindows,
)
from sidelight_model.aggregate import FunctionCost, rank_functions
from sidelight_model.tree import build_tree_from_rows, find_end_nodes, prune_with_mapping

F64: TypeAlias = NDArray[np.float64]
I32: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

PooledSide: TypeAlias = tuple[Array, StackWeights]
"""The number of the stack of each row, and its weights."""


@dataclass(frozen=True, slots=True)
class CallTree:
    """A call tree in pre-order (see `sidelight_model.tree`), frames escaped, pruned if it had to be.

    Names are numbered as nodes use them: equal trees give equal answers, and pruned names are left out.
    `samples[side][node]` and `microseconds[side][node]` are what ended exactly there; `stack_nodes` is
    where each stack of the pool ends, -1 if no side has it. Of `total_nodes` nodes there were,
    `pruned_nodes` became part of an `(other)`.
    """

    names: Sequence[str]
    level: Sequence[int]
    name: Sequence[int]
    samples: Sequence[Sequence[int]]
    microseconds: Sequence[Sequence[int]]
    stack_nodes: Sequence[int]
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
    """The tree of these sides, of about its `max_nodes` heaviest nodes."""
    return build_tree_and_pool(context, sides, lines=lines, max_nodes=max_nodes, native=native)[0]


def build_tree_and_pool(
    context: QueryContext,
    sides: Sequence[tuple[SelectedWindows, StackWeights]],
    *,
    lines: bool,
    max_nodes: int,
    native: Any | None = NATIVE,
) -> tuple[CallTree, PooledStacks]:
    """The same, and the stacks that it was drawn from."""
    if native is not None:
        builder = NativeTreeBuilder(native, lines=lines)
        stacks = _pool_sides(context, sides, builder)
        if tree := builder.build(stacks, max_nodes):
            return tree, PooledStacks(builder, stacks)
    reference = PythonTreeBuilder(context, lines=lines)
    stacks = _pool_sides(context, sides, reference)
    return reference.build(stacks, max_nodes), PooledStacks(reference, stacks)


def rebuild_tree(
    context: QueryContext,
    sides: Sequence[tuple[SelectedWindows, StackWeights]],
    pooled: PooledStacks,
    *,
    max_nodes: int,
) -> tuple[CallTree, PooledStacks]:
    """The same of other weights on the same sides: stacks that the pool has are not read again."""
    stacks = [
        (_pool_more_stacks(context, windows, weights, known, pooled.builder), weights)
        for (windows, weights), known in zip(sides, pooled.sides, strict=True)
    ]
    if tree := pooled.builder.build(stacks, max_nodes):
        return tree, PooledStacks(pooled.builder, stacks)
    return build_tree_and_pool(context, sides, lines=False, max_nodes=max_nodes, native=None)


def _pool_more_stacks(
    context: QueryContext,
    windows: SelectedWindows,
    weights: StackWeights,
    pooled_side: PooledSide,
    pool: StackPool,
) -> Array:
    """The numbers of stacks of which the pool has some already."""
    numbered, of = pooled_side
    if len(weights.service.dictionary) > 1 or not weights.service.dictionary.equals(of.service.dictionary):
        return resolve_stacks(context, windows, weights.service, weights.hashes, pool)
    found = numbered.take(pc.index_in(weights.hashes, value_set=of.hashes))
    new = found.is_null()
    if not pc.any(new).as_py():
        return found
    here = build_dictionary_array(weights.service.indices.filter(new), weights.service.dictionary)
    read = resolve_stacks(context, windows, here, weights.hashes.filter(new), pool)
    return cast("Array", pc.replace_with_mask(found, new, read))


def pool_stacks(
    context: QueryContext,
    sides: Sequence[tuple[SelectedWindows, StackWeights]],
    *,
    native: Any | None = NATIVE,
) -> PooledStacks:
    """The stacks of these sides, lines folded away, and no tree of them."""
    builder = (
        PythonTreeBuilder(context, lines=False) if native is None else NativeTreeBuilder(native, lines=False)
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
    """What each function (or each of its lines) cost on each of these sides; frames escaped, in no order.

    Only those that begin with `prefix`.
    """
    if native is not None:
        builder = NativeTreeBuilder(native, lines=lines)
        found = builder.compute_costs(_pool_sides(context, sides, builder), prefix)
        if found is not None:
            return found
    reference = PythonTreeBuilder(context, lines=lines)
    return reference.compute_costs(_pool_sides(context, sides, reference), prefix)


def _pool_sides(
    context: QueryContext, sides: Sequence[tuple[SelectedWindows, StackWeights]], pool: StackPool
) -> list[PooledSide]:
    """These sides as the numbers that their stacks have in the pool, where they now are."""
    numbered = [
        (resolve_stacks(context, windows, weights.service, weights.hashes, pool), weights)
        for windows, weights in sides
    ]
    context.deadline.remaining()
    return numbered


class TreeBuilder(StackPool, Protocol):
    """A pool that tells what its stacks are made of; `frame_names` are the frames that they may have,
    escaped.
    """

    def frame_names(self) -> Sequence[str]: ...

    def build(self, sides: Sequence[PooledSide], max_nodes: int) -> CallTree | None:
        """The tree of sides whose stacks it has; None if they are too heavy."""

    def depths(self) -> I32:
        """The frames of each stack."""

    def match_stacks(self, frame_mask: Flags) -> tuple[Flags, Flags]:
        """For each stack whether it has any of the words that are wanted, and whether it ends with one."""

    def sum_by_frame(self, rows: tuple[I32, I32, F64], table_rows: I32, cell_count: int) -> tuple[F64, F64]:
        """What words weigh in each cell, from rows of a stack's number, a cell and a weight.

        The tables have a row for each word that has a `table_rows` of 0 or more, those without a gap. The
        first has the stacks that end with the word, the second those that have it, each stack once.
        """


@dataclass(frozen=True, slots=True)
class PooledStacks:
    """Stacks in a pool, and for each side their numbers with what they weigh."""

    builder: TreeBuilder
    sides: Sequence[PooledSide]


class PythonTreeBuilder(StackTextPool):
    """Draws and adds up anything, until the query's time is up."""

    def __init__(self, context: QueryContext, *, lines: bool) -> None:
        super().__init__(lines=lines)
        self._context = context

    def build(self, sides: Sequence[PooledSide], max_nodes: int) -> CallTree:
        """The tree of sides."""
        full_tree = build_tree_from_rows([iter_pool_rows(self._context, self, *side) for side in sides])
        tree, dropped, new_nodes = prune_with_mapping(full_tree, max_nodes)
        stack_ids = sorted({number for stack, _ in sides for number in to_ints(pc.unique(stack))})
        node = [-1] * len(self.stacks)
        for number, end in zip(
            stack_ids, find_end_nodes(full_tree, [self.stacks[number] for number in stack_ids]), strict=True
        ):
            node[number] = new_nodes[end]
        codes = {code: number for number, code in enumerate(dict.fromkeys(tree.name_index))}
        return CallTree(
            [tree.names[code] for code in codes],
            tree.level,
            [codes[code] for code in tree.name_index],
            tree.self_samples,
            [list(map(_to_microseconds, ns)) for ns in tree.self_ns],
            node,
            len(full_tree),
            dropped,
        )

    def compute_costs(
        self, sides: Sequence[PooledSide], prefix: str = ""
    ) -> Mapping[str, Sequence[FunctionCost]]:
        """What frames cost on sides."""
        found = rank_functions([iter_pool_rows(self._context, self, *side) for side in sides])
        return {text: own for text, own in found.items() if text.startswith(prefix)}

    def frame_names(self) -> Sequence[str]:
        return list(dict.fromkeys(chain.from_iterable(self.stacks)))

    def depths(self) -> I32:
        return np.array([len(frames) for frames in self.stacks], np.int32)

    def match_stacks(self, frame_mask: Flags) -> tuple[Flags, Flags]:
        texts = {word for word, is_wanted in zip(self.frame_names(), frame_mask, strict=True) if is_wanted}
        any_of = [not texts.isdisjoint(frames) for frames in self.stacks]
        last = [bool(frames) and frames[-1] in texts for frames in self.stacks]
        return np.array(any_of, bool), np.array(last, bool)

    def sum_by_frame(self, rows: tuple[I32, I32, F64], table_rows: I32, cell_count: int) -> tuple[F64, F64]:
        at = dict(zip(self.frame_names(), table_rows.tolist(), strict=True))
        own, whole = np.zeros((2, int(table_rows.max(initial=-1)) + 1, cell_count))
        for stack, cell, weight in zip(*(column.tolist() for column in rows), strict=True):
            frames = self.stacks[stack]
            for word in set(frames):
                if at[word] >= 0:
                    whole[at[word], cell] += weight
            if frames and at[frames[-1]] >= 0:
                own[at[frames[-1]], cell] += weight
        return own, whole


class NativeTreeBuilder:
    """Draws and adds up what fits 63 bits, with the extension."""

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
        """The tree of sides; None if they are too heavy."""
        found = self._pool.draw(_side_buffers(sides), max_nodes)
        return None if found is None else CallTree(*found)

    def compute_costs(
        self, sides: Sequence[PooledSide], prefix: str = ""
    ) -> Mapping[str, Sequence[FunctionCost]] | None:
        """What frames cost on sides; None if they are too heavy."""
        found = self._pool.costs(_side_buffers(sides))
        if found is None:
            return None
        return {
            text: tuple(FunctionCost(*one) for one in own) for text, own in found if text.startswith(prefix)
        }

    def frame_names(self) -> Sequence[str]:
        found: list[str] = self._pool.words()
        return found

    def depths(self) -> I32:
        return np.frombuffer(self._pool.depths(), np.int32)

    def match_stacks(self, frame_mask: Flags) -> tuple[Flags, Flags]:
        any_of, last = self._pool.holding(frame_mask.astype(np.uint8))
        return np.frombuffer(any_of, bool), np.frombuffer(last, bool)

    def sum_by_frame(self, rows: tuple[I32, I32, F64], table_rows: I32, cell_count: int) -> tuple[F64, F64]:
        own, whole = self._pool.spread(rows, table_rows, cell_count)
        return np.frombuffer(own).reshape(-1, cell_count), np.frombuffer(whole).reshape(-1, cell_count)


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
    """The numbers of a column without nulls, where they lie."""
    numbers = array.buffers()[1]
    if numbers is None or not len(array):
        return memoryview(b"").cast(cast("Any", code))
    return memoryview(numbers).cast(cast("Any", code))[array.offset : array.offset + len(array)]


def _text_buffers(column: Array) -> tuple[memoryview, memoryview]:
    """A column of text as where each begins and ends, and the text of all."""
    _, offsets, text = column.buffers()
    if offsets is None or not len(column):
        return memoryview(b"").cast("i"), memoryview(b"")
    bounds = memoryview(offsets).cast("i")[column.offset : column.offset + len(column) + 1]
    return bounds, memoryview(text or b"").cast("B")


def _to_microseconds(ns: int) -> int:
    """Rounded, halves to the even one."""
    whole, rest = divmod(ns, 1000)
    return whole + (rest > 500 or (rest == 500 and whole % 2 == 1))
