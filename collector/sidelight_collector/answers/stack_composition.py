"""The composition of stacks: packages, recurring functions and the deepest stacks.

With two sides, the deepest stacks are those that only the second side has: no sample of the first side has
their last frame on the same path.
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
from sidelight_collector.query.select.window_query import select_side_windows
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
    """Packages, aligned with the columns of the sides.

    `kind` is a value of `sidelight_model.packages.PackageKind`.
    """

    package: list[str]
    kind: list[str]


class FunctionRows(TypedDict):
    """Functions that occur more than once in a stack.

    The rows are aligned with the columns of the sides; `file` is empty for a function without a file.
    """

    function: list[str]
    file: list[str]


class DeepStack(TypedDict):
    """A stack that only the last side has.

    `frames` are indices into `names`, the root first.
    """

    depth: int
    samples: int
    frames: list[int]


class StackCompositionSide(SideSummary):
    """The columns of one side.

    `package_frames` is the mean number of frames of each package per sample. The other columns are about
    each recurring function: `recursive_samples` counts the samples whose stack has it more than once,
    `recursive_frames` is the sum of its frames in these samples, and `recursive_max` is the maximum in one
    stack.
    """

    package_frames: list[float]
    recursive_samples: list[int]
    recursive_frames: list[int]
    recursive_max: list[int]


class StackCompositionTotals(TypedDict):
    """The numbers of packages, recurring functions and stacks, without the limit."""

    packages: int
    functions: int
    stacks: int


class StackComposition(TypedDict):
    """The composition of the stacks of samples.

    `deepest` has stacks of the last side.
    """

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
    """Compute the composition, with up to `limit` packages, functions and stacks."""
    windows_by_side = select_side_windows(context, sides)
    weights_by_side = [
        apply_filter(context, windows, weigh_stacks(sum_stacks(context, windows), kind), stack_filter)
        for windows in windows_by_side
    ]
    frame_table = FrameTable()
    # The last side comes first: the other sides need to record only the paths of the last.
    last = _analyze_side(context, windows_by_side[-1], weights_by_side[-1], frame_table)
    own_paths = pc.unique(last.pool.path_hashes())
    others = [
        _analyze_side(context, windows, weights, frame_table, own_paths)
        for windows, weights in zip(windows_by_side[:-1], weights_by_side[:-1], strict=True)
    ]
    compositions = [*others, last]
    frames = [composition.mean_package_frames() for composition in compositions]
    recurrences = [composition.sum_recurring_functions() for composition in compositions]
    packages = _rank_codes(frames, lambda code: frame_table.packages[code])
    shares = [
        {code: row.samples / max(composition.samples, 1) for code, row in recurring.items()}
        for composition, recurring in zip(compositions, recurrences, strict=True)
    ]
    functions = _rank_codes(shares, lambda code: frame_table.functions[code])
    shown_packages, shown_functions = packages[:limit], functions[:limit]
    deepest, new_stacks = _find_deepest(last, [composition.pool for composition in others], limit)
    function_frames = [Frame.parse(frame_table.functions[code]) for code in shown_functions]
    names, frame_indices = _read_frames(
        context, windows_by_side[-1], last.weights, [row for row, _, _ in deepest]
    )
    no_recurrence = _Recurrence(0, 0, 0)
    return {
        "type": kind.value,
        "packages": {
            "package": [frame_table.packages[code].name for code in shown_packages],
            "kind": [frame_table.packages[code].kind.value for code in shown_packages],
        },
        "functions": {
            "function": [frame.function for frame in function_frames],
            "file": [frame.file for frame in function_frames],
        },
        "names": names,
        "deepest": [
            {"depth": depth, "samples": samples, "frames": indices}
            for (_, depth, samples), indices in zip(deepest, frame_indices, strict=True)
        ],
        "sides": [
            {
                **narrow_summary(
                    summarize_side(query, windows, kind), windows, composition.weights, stack_filter
                ),
                "package_frames": [mean.get(code, 0.0) for code in shown_packages],
                "recursive_samples": [recurring.get(code, no_recurrence).samples for code in shown_functions],
                "recursive_frames": [recurring.get(code, no_recurrence).frames for code in shown_functions],
                "recursive_max": [recurring.get(code, no_recurrence).max_frames for code in shown_functions],
            }
            for query, windows, composition, mean, recurring in zip(
                sides, windows_by_side, compositions, frames, recurrences, strict=True
            )
        ],
        "totals": {"packages": len(packages), "functions": len(functions), "stacks": new_stacks},
        "basis": build_basis(windows_by_side, kind, context.unreadable_count),
    }


def _rank_codes(sides: Sequence[Mapping[int, float]], text: Callable[[int], object]) -> list[int]:
    """Sort the codes of all sides by their largest weight on any side, heaviest first."""
    codes = {code for own in sides for code in own}
    return sorted(codes, key=lambda code: (-max(own.get(code, 0) for own in sides), str(text(code))))


class _Recurrence(NamedTuple):
    """The recurrence of a function in stacks that have it more than once.

    `samples` of these stacks, the sum of the function's `frames` in them, and the maximum in one stack.
    """

    samples: int
    frames: int
    max_frames: int


@dataclass(frozen=True, slots=True)
class _SideComposition:
    """One side: its weights, and for each weight the id of its stack in the pool."""

    weights: StackWeights
    stack_ids: Array
    pool: StackPathPool

    @property
    def samples(self) -> int:
        return sum_ints(self.weights.samples)

    def sum_by_stack(self) -> pa.Table:
        """Sum the samples by stack id."""
        counted = pa.table({"stack": self.stack_ids, "samples": self.weights.samples})
        return counted.group_by("stack").aggregate([("samples", "sum")])

    def _join_samples(self, table: pa.Table) -> tuple[pa.Table, Array]:
        """Return the rows whose stack has samples, and the samples of each row."""
        sums = self.sum_by_stack()
        at = combine_chunks(pc.index_in(table["stack"], value_set=combine_chunks(sums["stack"])))
        has_samples = at.is_valid()  # MISSING is in every pool and rarely has samples
        return table.filter(has_samples), combine_chunks(sums["samples_sum"]).take(at.filter(has_samples))

    def mean_package_frames(self) -> dict[int, float]:
        """Compute the mean number of frames of each package per sample."""
        table, samples = self._join_samples(self.pool.package_counts())
        columns = {"package": table["package"], "frames": _multiply(samples, combine_chunks(table["count"]))}
        sums = pa.table(columns).group_by("package").aggregate([("frames", "sum")])
        frames = cast("list[float]", sums["frames_sum"].to_pylist())
        return {
            code: sum_ / self.samples for code, sum_ in zip(to_ints(sums["package"]), frames, strict=True)
        }

    def sum_recurring_functions(self) -> dict[int, _Recurrence]:
        """Compute the recurrence of each function that any stack has more than once."""
        table, samples = self._join_samples(self.pool.recurring_counts())
        columns = {
            "function": table["function"],
            "samples": samples,
            "frames": _multiply(samples, combine_chunks(table["count"])),
            "max_frames": table["count"],
        }
        grouped = pa.table(columns).group_by("function")
        sums = grouped.aggregate([("samples", "sum"), ("frames", "sum"), ("max_frames", "max")])
        rows = zip(
            *(sums[name].to_pylist() for name in ("samples_sum", "frames_sum", "max_frames_max")), strict=True
        )
        return {
            code: _Recurrence(*map(int, row))
            for code, row in zip(to_ints(sums["function"]), rows, strict=True)
        }


def _multiply(samples: Array, count: Array) -> Array:
    """Multiply samples by frames; exact unless their sum could exceed 63 bits."""
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
    """Find the deepest stacks that none of the other sides has.

    Returns (row of the weights, depth, samples) for at most `limit` stacks, and the total number of such
    stacks.
    """
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
    deepest = stacks.take(order.slice(0, limit))
    columns = [to_ints(deepest[name]) for name in ("row_min", "depth", "samples_sum")]
    return list(zip(*columns, strict=True)), len(stacks)


def _read_frames(
    context: QueryContext, windows: SelectedWindows, weights: StackWeights, rows: Sequence[int]
) -> tuple[list[str], list[list[int]]]:
    """Read the stacks of some rows of the weights.

    Returns the distinct names of frames, and for each row its frames as indices into these names.
    """
    at = pa.array(rows, pa.int64())
    service = build_dictionary_array(weights.service.indices.take(at), weights.service.dictionary)
    codes: dict[str, int] = {}
    stacks = spelled(context, windows, service, weights.hashes.take(at), lines=False)
    frame_indices = [
        [codes.setdefault(unescape_frame(text), len(codes)) for text in frames] for frames in stacks
    ]
    return list(codes), frame_indices
