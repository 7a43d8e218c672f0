"""Finds windows that are stored more than once.

The search holds 20 bytes in memory for each window of a day.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import combine_chunks, sort_table, to_ints
from sidelight_collector.doctor.object_reader import TableContents
from sidelight_collector.storage.segments import SegmentRef


@dataclass(frozen=True, slots=True)
class DuplicateWindows:
    """Windows with the same ids in two segments or blocks, or twice in one.

    `windows` is their number, and `conflicting` how many of them differ in content. `example_hash` is the
    hash of one of the ids, as `hash_window_id` computes it.
    """

    first: SegmentRef
    second: SegmentRef
    windows: int
    conflicting: int
    example_hash: int


@dataclass(slots=True)
class WindowIdIndex:
    """The windows of a day, each with its segment or block."""

    _refs: list[SegmentRef] = field(default_factory=list)
    _ids: array[int] = field(default_factory=lambda: array("Q"))
    _digests: array[int] = field(default_factory=lambda: array("Q"))
    _ref_indexes: array[int] = field(default_factory=lambda: array("I"))

    def add(self, contents: TableContents) -> None:
        """Add the windows of one segment or block."""
        self._ids.extend(contents.id_hashes)
        self._digests.extend(contents.digests)
        self._ref_indexes.extend(array("I", [len(self._refs)]) * len(contents.id_hashes))
        self._refs.append(contents.ref)

    def find_duplicates(self) -> list[DuplicateWindows]:
        """Return the pairs of segments or blocks that have windows in common."""
        pairs: dict[tuple[int, int], list[int]] = {}
        for _, rows in groupby(self._iter_repeated(), key=lambda row: row[0]):
            for first_row, second_row in combinations(rows, 2):
                counts = pairs.setdefault((first_row[1], second_row[1]), [0, 0, first_row[0]])
                counts[0] += 1
                counts[1] += first_row[2] != second_row[2]
        return [
            DuplicateWindows(self._refs[first], self._refs[second], *counts)
            for (first, second), counts in pairs.items()
        ]

    def _iter_repeated(self) -> Iterable[tuple[int, int, int]]:
        """Iterate over windows stored more than once, as sorted (id, place, digest)."""
        ids = _to_arrow("Q", self._ids)
        value_counts: Any = pc.value_counts(ids)
        repeated = value_counts.field("values").filter(pc.greater(value_counts.field("counts"), pa.scalar(1)))
        if not len(repeated):
            return iter(())
        columns = {
            "id": ids,
            "place": _to_arrow("I", self._ref_indexes),
            "digest": _to_arrow("Q", self._digests),
        }
        rows = sort_table(pa.table(columns).filter(pc.is_in(ids, value_set=repeated)), ["id", "place"])
        return _iter_rows(rows)


def _iter_rows(table: pa.Table) -> Iterator[tuple[int, int, int]]:
    yield from zip(*(to_ints(combine_chunks(column)) for column in table.columns), strict=True)


def _to_arrow(code: str, numbers: array[int]) -> Any:
    kind = {"Q": pa.uint64(), "I": pa.uint32()}[code]
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])
