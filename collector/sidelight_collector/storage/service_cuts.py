"""Cutting the tables of a block by service.

A query of one service then reads few rows of other services.

A block with many rows has one service, or several whose hashed names begin with the same digits. The cut
depends only on names and sizes. Blocks of one day that are merged at different times are therefore cut at
the same places, and the pieces merge with each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from sidelight_collector.arrow_ops import (
    Array,
    ListColumn,
    build_dictionary_array,
    combine_chunks,
    concat_tables,
    dictionary_encode,
    to_strings,
)
from sidelight_collector.storage.tables import SegmentTables

NAME_DIGITS: Final = 16


def hash_service(name: str) -> str:
    """Hash the name of a service: XXH3 64-bit, seed 0, as hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(name.encode())


def find_shared_digits(services: Collection[str]) -> str:
    """Return the digits with which the hashed names of these services all begin.

    They are NAME_DIGITS digits for a single service, and no more can be cut then.
    """
    hashes = [hash_service(name) for name in services]
    first, last = min(hashes, default=""), max(hashes, default="")
    differing = (at for at, (a, b) in enumerate(zip(first, last, strict=True)) if a != b)
    return first[: next(differing, len(first))]


def plan_cuts(rows_by_service: Mapping[str, int], max_shared_rows: int) -> list[list[str]]:
    """Divide services into groups of `max_shared_rows` rows at most, or of one.

    The services of a group have hashed names that begin with the same digits.
    """
    by_hash = sorted((hash_service(name), name) for name in rows_by_service)
    groups: list[list[str]] = []
    pending: list[tuple[int, Sequence[tuple[str, str]]]] = [(0, by_hash)]
    while pending:
        depth, services = pending.pop()
        names = [name for _, name in services]
        if (
            len(names) == 1
            or depth == NAME_DIGITS
            or sum(rows_by_service[name] for name in names) <= max_shared_rows
        ):
            groups.append(names)
            continue
        by_digit: dict[str, list[tuple[str, str]]] = {}
        for item in services:
            by_digit.setdefault(item[0][depth], []).append(item)
        pending += [(depth + 1, members) for members in by_digit.values()]
    return groups


def cut_by_service(tables: SegmentTables, max_shared_rows: int | None) -> Iterator[SegmentTables]:
    """Cut the tables of a block, in stored order, by service; None: do not cut."""
    if max_shared_rows is None or len(tables.samples) <= max_shared_rows:
        yield tables
        return
    parts = (tables.profiles, tables.stacks, tables.samples)
    runs = [_find_runs(part) for part in parts]
    profiles, _, samples = runs
    rows = {name: samples[name][1] if name in samples else 0 for name in profiles}
    groups = plan_cuts(rows, max_shared_rows)
    if len(groups) == 1:
        yield tables
        return
    for group in groups:
        yield SegmentTables(
            *(_take_services(part, run, sorted(group)) for part, run in zip(parts, runs, strict=True))
        )


def _find_runs(table: pa.Table) -> dict[str, tuple[int, int]]:
    """Return the first row and the number of rows of each service.

    The table is sorted by service.
    """
    encoded = dictionary_encode(table["service"])
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    lengths = np.diff(starts, append=len(codes))
    names = to_strings(encoded.dictionary.take(pa.array(codes[starts])))
    return {
        name: (int(start), int(length)) for name, start, length in zip(names, starts, lengths, strict=True)
    }


def _take_services(table: pa.Table, runs: Mapping[str, tuple[int, int]], services: Sequence[str]) -> pa.Table:
    """Return the rows of these services, without values of others in the dictionaries."""
    slices = [table.slice(*runs[name]) for name in services if name in runs]
    rows = concat_tables(slices) if slices else table.slice(0, 0)
    columns = [_drop_unused_values(combine_chunks(column)) for column in rows.columns]
    return pa.table(columns, schema=table.schema)


def _drop_unused_values(column: Array) -> Array:
    """Remove the values of a dictionary, also of lists, that no row has."""
    if pa.types.is_list(column.type) and pa.types.is_dictionary(column.type.value_type):
        lists = cast("ListColumn", column)
        offsets = pc.subtract(lists.offsets, lists.offsets[0])
        return cast("Array", pa.ListArray.from_arrays(offsets, _drop_unused_values(lists.flatten())))
    if not isinstance(column, pa.DictionaryArray):
        return column
    codes = column.indices.to_numpy(zero_copy_only=False)
    is_used = np.zeros(len(column.dictionary), bool)
    is_used[codes] = True
    new_codes = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    return build_dictionary_array(pa.array(new_codes[codes]), column.dictionary.filter(pa.array(is_used)))
