"""Packages, recursion and call paths of stacks, computed by Arrow in batches.

Frames are compared without line numbers. Call paths are compared by a hash that grows by one term per
frame, so that one running sum gives the hashes of all paths of a table:

    hash(f0 f1 … fn) = sum of xxh3(fi) * BASE^i, modulo 2^64
"""

from __future__ import annotations

from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from sidelight_collector.arrow_ops import (
    Array,
    DictionaryColumn,
    ListColumn,
    combine_chunks,
    dictionary_encode,
    row_numbers,
    to_strings,
)
from sidelight_collector.query.engine.stack_text import MISSING_STACK
from sidelight_collector.query.query_context import QueryContext, SegmentView
from sidelight_model.frames import strip_line_number, unescape_frame
from sidelight_model.packages import Package, classify_frame

HASH_BASE: Final = 0x9E3779B97F4A7C15
MAX_BATCH_STACKS: Final = 16_384
_UINT64_MASK: Final = 2**64 - 1


class FrameTable:
    """Functions (`function (file)`, unescaped) and packages, in order of occurrence."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.packages: list[Package] = []
        self._ids_by_function: dict[str, tuple[int, int, int]] = {}
        self._ids_by_package: dict[Package, int] = {}

    def resolve(self, frame: str) -> tuple[int, int, int]:
        """Return of a frame the function's number, the package's, and the function's hash."""
        text = unescape_frame(strip_line_number(frame))
        if (ids := self._ids_by_function.get(text)) is None:
            package = classify_frame(text)
            if package not in self._ids_by_package:
                self._ids_by_package[package] = len(self.packages)
                self.packages.append(package)
            hashed = xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
            ids = self._ids_by_function[text] = len(self.functions), self._ids_by_package[package], hashed
            self.functions.append(text)
        return ids


class StackPathPool:
    """A pool that keeps packages, recursion, depths and call paths, but no frames.

    `wanted_paths` are hashes of call paths; `common_paths` returns those that occur in the pool.
    """

    view: SegmentView = "stacks"

    def __init__(self, context: QueryContext, frame_table: FrameTable, wanted_paths: Array | None) -> None:
        self._context = context
        self._frame_table = frame_table
        self._wanted_paths = wanted_paths
        self._length = 0
        self._next_power = 1
        self._powers: list[int] = []
        self._packages = [_empty_counts("package")]
        self._recurring = [_empty_counts("function")]
        self._hashes: list[Array] = []
        self._depths: list[Array] = []
        self._paths: list[Array] = []
        kind = pa.list_(pa.dictionary(pa.int32(), pa.string()))
        missing = cast("ListColumn", pa.array([[MISSING_STACK]], cast("Any", kind)))
        self._add_batch(missing, self._resolve_frames(dictionary_encode(missing.flatten())))

    def __len__(self) -> int:
        return self._length

    def add_stacks(self, table: pa.Table, rows: Array) -> None:
        frames = combine_chunks(table["frames"])
        frame_ids = self._resolve_frames(dictionary_encode(cast("ListColumn", frames).values))
        for start in range(0, len(rows), MAX_BATCH_STACKS):
            self._context.deadline.remaining()
            self._add_batch(cast("ListColumn", frames.take(rows.slice(start, MAX_BATCH_STACKS))), frame_ids)

    def package_counts(self) -> pa.Table:
        """Count the frames of each package in each stack."""
        return pa.concat_tables(self._packages)

    def recurring_counts(self) -> pa.Table:
        """Count the frames of each function in each stack, where there is more than one."""
        return pa.concat_tables(self._recurring)

    def path_hashes(self) -> Array:
        """Return the hash of the whole path of each stack."""
        return combine_chunks(pa.chunked_array(self._hashes))

    def depths(self) -> Array:
        return combine_chunks(pa.chunked_array(self._depths))

    def common_paths(self) -> Array:
        """Return the wanted paths that stacks of the pool begin with."""
        return pc.unique(combine_chunks(pa.chunked_array(self._paths, pa.uint64())))

    def _resolve_frames(self, flat: DictionaryColumn) -> tuple[Array, Array, Array]:
        numbers = [self._frame_table.resolve(text) for text in to_strings(flat.dictionary)]
        functions, packages, hashes = zip(*numbers, strict=True) if numbers else ((), (), ())
        return pa.array(functions, pa.int32()), pa.array(packages, pa.int32()), pa.array(hashes, pa.uint64())

    def _add_batch(self, frames: ListColumn, frame_ids: tuple[Array, Array, Array]) -> None:
        functions, packages, hashes = frame_ids
        code = dictionary_encode(frames.flatten()).indices
        parent = combine_chunks(pc.list_parent_indices(frames))
        length = combine_chunks(frames.value_lengths())
        end = combine_chunks(pc.cumulative_sum(length.cast(pa.int64())))
        start = combine_chunks(pc.subtract(end, length))
        stack = pc.add(parent, pa.scalar(self._length)).cast(pa.int32())
        self._packages.append(_count_codes("package", stack, packages.take(code)))
        again = _count_codes("function", stack, functions.take(code))
        self._recurring.append(again.filter(pc.greater(again["count"], pa.scalar(1))))
        position = combine_chunks(pc.subtract(row_numbers(len(code)), start.take(parent)))
        powers = self._get_powers(cast("int", pc.max(length).as_py() or 0))
        step = pc.multiply(hashes.take(code), powers.take(position))
        # The hash of a path is the running sum minus the sum before the first frame of its stack.
        running = combine_chunks(pc.cumulative_sum(step))
        before = pc.subtract(running, step)
        paths = combine_chunks(pc.subtract(running, before.take(start).take(parent)))
        self._hashes.append(paths.take(pc.subtract(end, pa.scalar(1))))
        self._depths.append(length)
        if self._wanted_paths is not None:
            self._paths.append(pc.unique(paths.filter(pc.is_in(paths, value_set=self._wanted_paths))))
        self._length += len(frames)

    def _get_powers(self, depth: int) -> Array:
        while len(self._powers) < depth:
            self._powers.append(self._next_power)
            self._next_power = self._next_power * HASH_BASE & _UINT64_MASK
        return pa.array(self._powers[:depth], pa.uint64())


def _empty_counts(name: str) -> pa.Table:
    return pa.schema([("stack", pa.int32()), (name, pa.int32()), ("count", pa.int64())]).empty_table()


def _count_codes(name: str, stack: Array, codes: Array) -> pa.Table:
    """Count the occurrences of each code in each stack."""
    rows = pa.table({"stack": stack, name: codes}).group_by(["stack", name]).aggregate([([], "count_all")])
    return rows.rename_columns(["stack", name, "count"])
