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

from sidelight_collector.arrow_ops import Array, coded, floats, integers, one, row_numbers, total
from sidelight_collector.query.data_basis import Basis, SideNumbers, basis, side
from sidelight_collector.query.engine.stack_text import Weights, numbers, weigh
from sidelight_collector.query.engine.stack_text import stacks as spelled
from sidelight_collector.query.engine.window_sums import sums
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.window_query import (
    choose_all,
)
from sidelight_collector.query.stack_filter import Pick, narrowed, picked
from sidelight_collector.query.stack_paths import Known, Taken
from sidelight_collector.query.windows import (
    Question,
    Windows,
)
from sidelight_collector.storage.tables import MAX_INT
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, unescape


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


class AnatomySide(SideNumbers):
    """One side's columns.

    `package_frames`: frames of each package in the mean of samples. Of each function that recurs:
    `recursive_samples` in whose stacks it is more than once, `recursive_frames` that it has in them together,
    and `recursive_max` in one.
    """

    package_frames: list[float]
    recursive_samples: list[int]
    recursive_frames: list[int]
    recursive_max: list[int]


class Found(TypedDict):
    """How many there are in all."""

    packages: int
    functions: int
    stacks: int


class Anatomy(TypedDict):
    """What the stacks of samples are made of; `deepest` are of the last side."""

    type: str
    packages: PackageRows
    functions: FunctionRows
    names: list[str]
    deepest: list[DeepStack]
    sides: list[AnatomySide]
    totals: Found
    basis: Basis


def anatomy(
    reading: Reading, sides: Sequence[Question], kind: ProfileType, *, pick: Pick, limit: int
) -> Anatomy:
    """Packages, functions and stacks, no more than `limit` of each."""
    chosen = choose_all(reading, sides)
    weighed = [picked(reading, windows, weigh(sums(reading, windows), kind), pick) for windows in chosen]
    known = Known()
    # The last side first: of the paths of the other only those are kept that it has.
    last = _dissected(reading, chosen[-1], weighed[-1], known)
    has = pc.unique(last.pool.hashes())
    others = [
        _dissected(reading, windows, weights, known, has)
        for windows, weights in zip(chosen[:-1], weighed[:-1], strict=True)
    ]
    each = [*others, last]
    frames = [one.package_frames() for one in each]
    recurring = [one.recurring() for one in each]
    package = _heaviest(frames, lambda code: known.packages[code])
    shares = [
        {code: row.samples / max(one.samples, 1) for code, row in own.items()}
        for one, own in zip(each, recurring, strict=True)
    ]
    function = _heaviest(shares, lambda code: known.functions[code])
    deepest, new = _deepest(last, [one.pool for one in others], limit)
    shown = [Frame.parse(known.functions[code]) for code in function[:limit]]
    names, numbered = _spelled(reading, chosen[-1], last.weights, [row for row, _, _ in deepest])
    none = _Recurring(0, 0, 0)
    return {
        "type": kind.value,
        "packages": {
            "package": [known.packages[code].name for code in package[:limit]],
            "kind": [known.packages[code].kind.value for code in package[:limit]],
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
                **narrowed(side(question, windows, kind), one.weights, pick),
                "package_frames": [mean.get(code, 0.0) for code in package[:limit]],
                "recursive_samples": [own.get(code, none).samples for code in function[:limit]],
                "recursive_frames": [own.get(code, none).frames for code in function[:limit]],
                "recursive_max": [own.get(code, none).most for code in function[:limit]],
            }
            for question, windows, one, mean, own in zip(sides, chosen, each, frames, recurring, strict=True)
        ],
        "totals": {"packages": len(package), "functions": len(function), "stacks": new},
        "basis": basis(chosen, kind, reading.unreadable),
    }


def _heaviest(sides: Sequence[Mapping[int, float]], text: Callable[[int], object]) -> list[int]:
    """All codes of these sides, the one that weighs most on any first."""
    codes = {code for own in sides for code in own}
    return sorted(codes, key=lambda code: (-max(own.get(code, 0) for own in sides), str(text(code))))


class _Recurring(NamedTuple):
    """Samples in whose stacks a function is more than once, its frames in them, and most in one."""

    samples: int
    frames: int
    most: int


@dataclass(frozen=True, slots=True)
class _Dissected:
    """One side: its weights, the number of the stack of each, and the samples of each number."""

    weights: Weights
    stack: Array
    pool: Taken

    @property
    def samples(self) -> int:
        return total(self.weights.samples)

    def by_stack(self) -> pa.Table:
        """Samples by the number of their stack."""
        counted = pa.table({"stack": self.stack, "samples": self.weights.samples})
        return counted.group_by("stack").aggregate([("samples", "sum")])

    def _weighed(self, table: pa.Table) -> tuple[pa.Table, Array]:
        """Rows of stacks, and the samples of each."""
        own = self.by_stack()
        at = one(pc.index_in(table["stack"], value_set=one(own["stack"])))
        has = at.is_valid()  # MISSING is in every pool, and rarely weighs anything
        return table.filter(has), one(own["samples_sum"]).take(at.filter(has))

    def package_frames(self) -> dict[int, float]:
        """Frames of each package in the mean of samples."""
        table, samples = self._weighed(self.pool.packages())
        columns = {"package": table["package"], "frames": _times(samples, one(table["count"]))}
        sums = pa.table(columns).group_by("package").aggregate([("frames", "sum")])
        frames = cast("list[float]", sums["frames_sum"].to_pylist())
        return {
            code: sum_ / self.samples for code, sum_ in zip(integers(sums["package"]), frames, strict=True)
        }

    def recurring(self) -> dict[int, _Recurring]:
        """Functions that any stack has more than once."""
        table, samples = self._weighed(self.pool.recurring())
        columns = {
            "function": table["function"],
            "samples": samples,
            "frames": _times(samples, one(table["count"])),
            "most": table["count"],
        }
        added = pa.table(columns).group_by("function")
        sums = added.aggregate([("samples", "sum"), ("frames", "sum"), ("most", "max")])
        rows = zip(
            *(sums[name].to_pylist() for name in ("samples_sum", "frames_sum", "most_max")), strict=True
        )
        return {
            code: _Recurring(*map(int, row))
            for code, row in zip(integers(sums["function"]), rows, strict=True)
        }


def _times(samples: Array, count: Array) -> Array:
    """Samples times frames: exact, unless all of them together could be beyond 63 bits."""
    if total(samples) * cast("int", pc.max(count).as_py() or 0) < MAX_INT:
        return pc.multiply(samples, count)
    return pc.multiply(floats(samples), floats(count))


def _dissected(
    reading: Reading, windows: Windows, weights: Weights, known: Known, wanted: Array | None = None
) -> _Dissected:
    pool = Taken(reading, known, wanted)
    return _Dissected(weights, numbers(reading, windows, weights.service, weights.h, pool), pool)


def _deepest(last: _Dissected, others: Sequence[Taken], limit: int) -> tuple[list[tuple[int, int, int]], int]:
    """Of the deepest stacks a row of the weights, their depth and samples, and how many are new in all."""
    rows = pa.table(
        {
            "path": last.pool.hashes().take(last.stack),
            "depth": last.pool.depths().take(last.stack),
            "row": row_numbers(len(last.stack)),
            "samples": last.weights.samples,
        }
    )
    for other in others:
        rows = rows.filter(pc.invert(pc.is_in(rows["path"], value_set=other.paths())))
    stacks = rows.group_by(["path", "depth"]).aggregate([("row", "min"), ("samples", "sum")])
    order = pc.sort_indices(
        stacks, sort_keys=[("depth", "descending"), ("samples_sum", "descending"), ("path", "ascending")]
    )
    first = stacks.take(order.slice(0, limit))
    columns = [integers(first[name]) for name in ("row_min", "depth", "samples_sum")]
    return list(zip(*columns, strict=True)), len(stacks)


def _spelled(
    reading: Reading, windows: Windows, weights: Weights, rows: Sequence[int]
) -> tuple[list[str], list[list[int]]]:
    """The distinct names of frames, and for each row of the weights its frames as indices of them."""
    at = pa.array(rows, pa.int64())
    service = coded(weights.service.indices.take(at), weights.service.dictionary)
    codes: dict[str, int] = {}
    found = spelled(reading, windows, service, weights.h.take(at), lines=False)
    numbered = [[codes.setdefault(unescape(text), len(codes)) for text in frames] for frames in found]
    return list(codes), numbered
