"""Windows that lie in more than one place: 20 bytes of each window of a day are kept and looked through."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import integers, one, ordered
from sidelight_collector.doctor.object_reader import Contents
from sidelight_collector.storage.segments import SegmentRef


@dataclass(frozen=True, slots=True)
class Twice:
    """Windows with one id in two places, or twice in one: how many, one of them, and how many are not alike.

    `example` is the hash of an id.
    """

    first: SegmentRef
    second: SegmentRef
    windows: int
    differ: int
    example: int


@dataclass(slots=True)
class Ids:
    """The windows of a day, and where each lies."""

    _refs: list[SegmentRef] = field(default_factory=list)
    _ids: array[int] = field(default_factory=lambda: array("Q"))
    _digests: array[int] = field(default_factory=lambda: array("Q"))
    _places: array[int] = field(default_factory=lambda: array("I"))

    def add(self, found: Contents) -> None:
        """Take the windows of one segment or block."""
        self._ids.extend(found.ids)
        self._digests.extend(found.digests)
        self._places.extend(array("I", [len(self._refs)]) * len(found.ids))
        self._refs.append(found.ref)

    def twice(self) -> list[Twice]:
        """Pairs of places that have windows in common."""
        pairs: dict[tuple[int, int], list[int]] = {}
        for _, rows in groupby(self._again(), key=lambda row: row[0]):
            for one_, other in combinations(rows, 2):
                pair = pairs.setdefault((one_[1], other[1]), [0, 0, one_[0]])
                pair[0] += 1
                pair[1] += one_[2] != other[2]
        return [
            Twice(self._refs[first], self._refs[second], *told) for (first, second), told in pairs.items()
        ]

    def _again(self) -> Iterable[tuple[int, int, int]]:
        """(id, place, digest) of each that is there more than once, in this order."""
        ids = _column("Q", self._ids)
        counted: Any = pc.value_counts(ids)
        often = counted.field("values").filter(pc.greater(counted.field("counts"), pa.scalar(1)))
        if not len(often):
            return iter(())
        columns = {"id": ids, "place": _column("I", self._places), "digest": _column("Q", self._digests)}
        rows = ordered(pa.table(columns).filter(pc.is_in(ids, value_set=often)), ["id", "place"])
        return _rows(rows)


def _rows(table: pa.Table) -> Iterator[tuple[int, int, int]]:
    yield from zip(*(integers(one(column)) for column in table.columns), strict=True)


def _column(code: str, numbers: array[int]) -> Any:
    kind = {"Q": pa.uint64(), "I": pa.uint32()}[code]
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])
