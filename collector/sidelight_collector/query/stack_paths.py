"""Stacks taken apart where they lie, some thousand at a time, by Arrow: what they are made of, their paths.

Frames count without their lines. Call paths are compared by a hash that each step down adds to, so that those
of all frames of a table come from one running sum:

    hash(f0 f1 … fn) = sum of xxh3(fi) * BASE^i, modulo 2^64
"""

from __future__ import annotations

from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from sidelight_collector.arrow_ops import Array, Lists, Words, one, row_numbers, strings, words
from sidelight_collector.query.engine.stack_text import MISSING
from sidelight_collector.query.query_context import Reading, View
from sidelight_model.frames import unescape, without_line
from sidelight_model.packages import Package, package_of

BASE: Final = 0x9E3779B97F4A7C15
STACKS_AT_ONCE: Final = 16_384
_MASK: Final = 2**64 - 1


class Known:
    """Functions (`function (file)`, unescaped) and packages, numbered as they come."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.packages: list[Package] = []
        self._function: dict[str, tuple[int, int, int]] = {}
        self._package: dict[Package, int] = {}

    def of(self, frame: str) -> tuple[int, int, int]:
        """The numbers of a frame's function and package, and the function's hash."""
        text = unescape(without_line(frame))
        if (found := self._function.get(text)) is None:
            package = package_of(text)
            if package not in self._package:
                self._package[package] = len(self.packages)
                self.packages.append(package)
            hashed = xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
            found = self._function[text] = len(self.functions), self._package[package], hashed
            self.functions.append(text)
        return found


class Taken:
    """Stacks taken apart where they lie; of `wanted` paths those are kept that any of the stacks has."""

    view: View = "stacks"

    def __init__(self, reading: Reading, known: Known, wanted: Array | None) -> None:
        self._reading = reading
        self._known = known
        self._wanted = wanted
        self._length = 0
        self._power = 1
        self._powers: list[int] = []
        self._packages = [_counts("package")]
        self._recurring = [_counts("function")]
        self._hashes: list[Array] = []
        self._depths: list[Array] = []
        self._paths: list[Array] = []
        kind = pa.list_(pa.dictionary(pa.int32(), pa.string()))
        missing = cast("Lists", pa.array([[MISSING]], cast("Any", kind)))
        self._dissect(missing, self._words(words(missing.flatten())))

    def __len__(self) -> int:
        return self._length

    def take(self, table: pa.Table, rows: Array) -> None:
        frames = one(table["frames"])
        coded = self._words(words(cast("Lists", frames).values))
        for start in range(0, len(rows), STACKS_AT_ONCE):
            self._reading.deadline.remaining()
            self._dissect(cast("Lists", frames.take(rows.slice(start, STACKS_AT_ONCE))), coded)

    def packages(self) -> pa.Table:
        """How many frames of a package a stack has."""
        return pa.concat_tables(self._packages)

    def recurring(self) -> pa.Table:
        """How many frames of a function a stack has, where it has more than one."""
        return pa.concat_tables(self._recurring)

    def hashes(self) -> Array:
        """The hash of the path of each stack."""
        return one(pa.chunked_array(self._hashes))

    def depths(self) -> Array:
        return one(pa.chunked_array(self._depths))

    def paths(self) -> Array:
        """Those of the wanted paths that stacks here have, as their own or on the way down."""
        return pc.unique(one(pa.chunked_array(self._paths, pa.uint64())))

    def _words(self, flat: Words) -> tuple[Array, Array, Array]:
        numbers = [self._known.of(text) for text in strings(flat.dictionary)]
        functions, packages, hashes = zip(*numbers, strict=True) if numbers else ((), (), ())
        return pa.array(functions, pa.int32()), pa.array(packages, pa.int32()), pa.array(hashes, pa.uint64())

    def _dissect(self, frames: Lists, coded: tuple[Array, Array, Array]) -> None:
        functions, packages, hashes = coded
        code = words(frames.flatten()).indices
        parent = one(pc.list_parent_indices(frames))
        length = one(frames.value_lengths())
        end = one(pc.cumulative_sum(length.cast(pa.int64())))
        start = one(pc.subtract(end, length))
        stack = pc.add(parent, pa.scalar(self._length)).cast(pa.int32())
        self._packages.append(_counted("package", stack, packages.take(code)))
        again = _counted("function", stack, functions.take(code))
        self._recurring.append(again.filter(pc.greater(again["count"], pa.scalar(1))))
        position = one(pc.subtract(row_numbers(len(code)), start.take(parent)))
        powers = self._powers_to(cast("int", pc.max(length).as_py() or 0))
        step = pc.multiply(hashes.take(code), powers.take(position))
        # The sum before the first frame of a stack is taken off that at each of its frames.
        running = one(pc.cumulative_sum(step))
        before = pc.subtract(running, step)
        paths = one(pc.subtract(running, before.take(start).take(parent)))
        self._hashes.append(paths.take(pc.subtract(end, pa.scalar(1))))
        self._depths.append(length)
        if self._wanted is not None:
            self._paths.append(pc.unique(paths.filter(pc.is_in(paths, value_set=self._wanted))))
        self._length += len(frames)

    def _powers_to(self, depth: int) -> Array:
        while len(self._powers) < depth:
            self._powers.append(self._power)
            self._power = self._power * BASE & _MASK
        return pa.array(self._powers[:depth], pa.uint64())


def _counts(name: str) -> pa.Table:
    return pa.schema([("stack", pa.int32()), (name, pa.int32()), ("count", pa.int64())]).empty_table()


def _counted(name: str, stack: Array, codes: Array) -> pa.Table:
    """How often each stack has each code."""
    rows = pa.table({"stack": stack, name: codes}).group_by(["stack", name]).aggregate([([], "count_all")])
    return rows.rename_columns(["stack", name, "count"])
