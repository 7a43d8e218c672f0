"""What stacks are made of: frames of each package, functions that recur, and the deepest stacks.

With two sides, the deepest of those that only the second has: no sample of the first went through their last
frame, by that path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    build_dictionary_array,
    combine_chunks,
    row_numbers,
    sum_ints,
    to_float64,
    to_ints,
)
from sidelight_collector.query.data_basis import DataBasis, SideSummary, build_basis, summarize_side
from sidelight_collector.query.engine.stack_text import StackWeights, resolve_stacks, weigh_stacks
from sidelight_collector.query.engine.stack_text import read_stacks as spelled
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import (
    select_side_windows,
)
from sidelight_collector.query.stack_filter import StackFilter, apply_filter, narrow_summary
from sidelight_collector.query.stack_paths import FrameTable, StackPathPool
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_collector.storage.tables import MAX_INT
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, unescape_frame


class PackageRows(TypedDict):
    """Packages, aligned with the columns of sides; `kind` as sidelight_model.packages has it."""

    package: list[str]
    kind: list[str]


class FunctionRows(TypedDict):
    """Functions that occur more than once in a stack, aligned with the columns of sides."""

    function: list[str]
    file: list[str]


class DeepStack(TypedDict):
    """A stack of the last side that no other has: frames as indices into `names`, root first."""

    depth: int
    samples: int
    frames: list[int]


class StackCompositionSide(SideSummary):
    """One side's columns.

    `package_frames`: frames of each package in the mean of samples. Of each function that recurs:
    `recursive_samples` in whose stacks it is more than once, `recursive_frames` that it has in them together,
    and `recursive_max` in one.
    """

    package_frames: list[float]
    recursive_samples: list[int]
    recursive_frames: list[int]
    recursive_max: list[int]


class StackCompositionTotals(TypedDict):
    """How many there are in all."""

    packages: int
    functions: int
    stacks: int


class StackComposition(TypedDict):
    """What the stacks of samples are made of; `deepest` are of the last side."""

    type: str
    packages: PackageRows
    functions: FunctionRows
    names: list[str]
    deepest: list[DeepStack]
    sides: list[StackCompositionSide]
    totals: StackCompositionTotals
    basis: DataBasis


def query_stack_composition(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    stack_filter: StackFilter,
    limit: int,
) -> StackComposition:
    """Packages, functions and stacks, no more than `limit` of each."""
    chosen = select_side_windows(context, sides)
    weighed = [
        apply_filter(context, windows, weigh_stacks(sum_stacks(context, windows), kind), stack_filter)
        for windows in chosen
    ]
    frame_table = FrameTable()
    # The last side first: of the paths of the other only those are kept that it has.
    last = _analyze_side(context, chosen[-1], weighed[-1], frame_table)
    own_paths = pc.unique(last.pool.path_hashes())
    others = [
        _analyze_side(context, windows, weights, frame_table, own_paths)
        for windows, weights in zip(chosen[:-1], weighed[:-1], strict=True)
    ]
    each = [*others, last]
    frames = [one.mean_package_frames() for one in each]
    recurring = [one.sum_recurring_functions() for one in each]
    package = _rank_codes(frames, lambda code: frame_table.packages[code])
    shares = [
        {code: row.samples / max(one.samples, 1) for code, row in own.items()}
        for one, own in zip(each, recurring, strict=True)
    ]
    function = _rank_codes(shares, lambda code: frame_table.functions[code])
    deepest, new = _find_deepest(last, [one.pool for one in others], limit)
    shown = [Frame.parse(frame_table.functions[code]) for code in function[:limit]]
    names, numbered = _read_frames(context, chosen[-1], last.weights, [row for row, _, _ in deepest])
    none = _Recurrence(0, 0, 0)
    return {
        "type": kind.value,
        "packages": {
            "package": [frame_table.packages[code].name for code in package[:limit]],
            "kind": [frame_table.packages[code].kind.value for code in package[:limit]],
        },
        "functions": {
            "function": [frame.function for frame in shown],
            "file": [frame.file for frame in shown],
        },
        "names": names,
        "deepest": [
            {"depth": depth, "samples": samples, "frames": own}
            for (_, depth, samples), own in zip(deepest, numbered, strict=True)
        ],
        "sides": [
            {
                **narrow_summary(summarize_side(question, windows, kind), one.weights, stack_filter),
                "package_frames": [mean.get(code, 0.0) for code in package[:limit]],
                "recursive_samples": [own.get(code, none).samples for code in function[:limit]],
                "recursive_frames": [own.get(code, none).frames for code in function[:limit]],
                "recursive_max": [own.get(code, none).max_frames for code in function[:limit]],
            }
            for question, windows, one, mean, own in zip(sides, chosen, each, frames, recurring, strict=True)
        ],
        "totals": {"packages": len(package), "functions": len(function), "stacks": new},
        "basis": build_basis(chosen, kind, context.unreadable_count),
    }


def _rank_codes(sides: Sequence[Mapping[int, float]], text: Callable[[int], object]) -> list[int]:
    """All codes of these sides, the one that weighs most on any first."""
    codes = {code for own in sides for code in own}
    return sorted(codes, key=lambda code: (-max(own.get(code, 0) for own in sides), str(text(code))))


class _Recurrence(NamedTuple):
    """Samples in whose stacks a function is more than once, its frames in them, and most in one."""

    samples: int
    frames: int
    max_frames: int


@dataclass(frozen=True, slots=True)
class _SideComposition:
    """One side: its weights, the number of the stack of each, and the samples of each number."""

    weights: StackWeights
    stack_ids: Array
    pool: StackPathPool

    @property
    def samples(self) -> int:
        return sum_ints(self.weights.samples)

    def sum_by_stack(self) -> pa.Table:
        """Samples by the number of their stack."""
        counted = pa.table({"stack": self.stack_ids, "samples": self.weights.samples})
        return counted.group_by("stack").aggregate([("samples", "sum")])

    def _join_samples(self, table: pa.Table) -> tuple[pa.Table, Array]:
        """Rows of stacks, and the samples of each."""
        own = self.sum_by_stack()
        at = combine_chunks(pc.index_in(table["stack"], value_set=combine_chunks(own["stack"])))
        has = at.is_valid()  # MISSING is in every pool, and rarely weighs anything
        return table.filter(has), combine_chunks(own["samples_sum"]).take(at.filter(has))

    def mean_package_frames(self) -> dict[int, float]:
        """Frames of each package in the mean of samples."""
        table, samples = self._join_samples(self.pool.package_counts())
        columns = {"package": table["package"], "frames": _multiply(samples, combine_chunks(table["count"]))}
        sums = pa.table(columns).group_by("package").aggregate([("frames", "sum")])
        frames = cast("list[float]", sums["frames_sum"].to_pylist())
        return {
            code: sum_ / self.samples for code, sum_ in zip(to_ints(sums["package"]), frames, strict=True)
        }

    def sum_recurring_functions(self) -> dict[int, _Recurrence]:
        """Functions that any stack has more than once."""
        table, samples = self._join_samples(self.pool.recurring_counts())
        columns = {
            "function": table["function"],
            "samples": samples,
            "frames": _multiply(samples, combine_chunks(table["count"])),
            "most": table["count"],
        }
        added = pa.table(columns).group_by("function")
        sums = added.aggregate([("samples", "sum"), ("frames", "sum"), ("most", "max")])
        rows = zip(
            *(sums[name].to_pylist() for name in ("samples_sum", "frames_sum", "most_max")), strict=True
        )
        return {
            code: _Recurrence(*map(int, row))
            for code, row in zip(to_ints(sums["function"]), rows, strict=True)
        }


def _multiply(samples: Array, count: Array) -> Array:
    """Samples times frames: exact, unless all of them together could be beyond 63 bits."""
    if sum_ints(samples) * cast("int", pc.max(count).as_py() or 0) < MAX_INT:
        return pc.multiply(samples, count)
    return pc.multiply(to_float64(samples), to_float64(count))


def _analyze_side(
    context: QueryContext,
    windows: SelectedWindows,
    weights: StackWeights,
    frame_table: FrameTable,
    wanted_paths: Array | None = None,
) -> _SideComposition:
    pool = StackPathPool(context, frame_table, wanted_paths)
    return _SideComposition(
        weights, resolve_stacks(context, windows, weights.service, weights.hashes, pool), pool
    )


def _find_deepest(
    last: _SideComposition, others: Sequence[StackPathPool], limit: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Of the deepest stacks a row of the weights, their depth and samples, and how many are new in all."""
    rows = pa.table(
        {
            "path": last.pool.path_hashes().take(last.stack_ids),
            "depth": last.pool.depths().take(last.stack_ids),
            "row": row_numbers(len(last.stack_ids)),
            "samples": last.weights.samples,
        }
    )
    for other in others:
        rows = rows.filter(pc.invert(pc.is_in(rows["path"], value_set=other.common_paths())))
    stacks = rows.group_by(["path", "depth"]).aggregate([("row", "min"), ("samples", "sum")])
    order = pc.sort_indices(
        stacks, sort_keys=[("depth", "descending"), ("samples_sum", "descending"), ("path", "ascending")]
    )
    first = stacks.take(order.slice(0, limit))
    columns = [to_ints(first[name]) for name in ("row_min", "depth", "samples_sum")]
    return list(zip(*columns, strict=True)), len(stacks)


def _read_frames(
    context: QueryContext, windows: SelectedWindows, weights: StackWeights, rows: Sequence[int]
) -> tuple[list[str], list[list[int]]]:
    """The distinct names of frames, and for each row of the weights its frames as indices of them."""
    at = pa.array(rows, pa.int64())
    service = build_dictionary_array(weights.service.indices.take(at), weights.service.dictionary)
    codes: dict[str, int] = {}
    found = spelled(context, windows, service, weights.hashes.take(at), lines=False)
    numbered = [[codes.setdefault(unescape_frame(text), len(codes)) for text in frames] for frames in found]
    return list(codes), numbered
