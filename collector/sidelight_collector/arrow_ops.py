"""Operations on Arrow columns, for queries and compaction."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

if TYPE_CHECKING:
    Array: TypeAlias = pa.Array[Any]
    Column: TypeAlias = pa.Array[Any] | pa.ChunkedArray[Any]
    DictionaryColumn: TypeAlias = pa.DictionaryArray[Any, Any]
    ListColumn: TypeAlias = pa.ListArray[Any]
else:
    # The classes of Arrow cannot be subscripted at runtime.
    Array, Column, DictionaryColumn, ListColumn = (
        pa.Array,
        pa.Array | pa.ChunkedArray,
        pa.DictionaryArray,
        pa.ListArray,
    )


def combine_chunks(column: Column) -> Array:
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    joined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def dictionary_encode(column: Column) -> DictionaryColumn:
    """Return a column as a dictionary array: indices into distinct values."""
    array = combine_chunks(column)
    return array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()


def build_dictionary_array(codes: Column, dictionary: Array) -> DictionaryColumn:
    """Build a dictionary array from indices and a dictionary."""
    return pa.DictionaryArray.from_arrays(combine_chunks(codes), dictionary)


def list_unique_strings(column: Column) -> list[str]:
    """List the distinct strings that occur in a column, sorted."""
    text = dictionary_encode(column)
    return sorted(to_strings(text.dictionary.take(pc.unique(text.indices))))


def to_strings(column: Column) -> list[str]:
    """Return a column of strings without nulls as a list."""
    array = combine_chunks(column)
    if isinstance(array, pa.DictionaryArray):  # many times faster than `to_pylist`
        values = to_strings(array.dictionary)
        return [values[code] for code in to_ints(array.indices)]
    return cast("list[str]", array.to_pylist())


def to_ints(column: Column) -> list[int]:
    """Return a column of integers without nulls as a list."""
    return cast("list[int]", column.to_pylist())


def sum_ints(column: Column) -> int:
    """Sum a column of integers; 0 if it is empty."""
    return cast("int", pc.sum(column).as_py() or 0)


def is_equal(column: Column, value: str | int) -> Array:
    """Return a mask of the rows that have this value."""
    return cast("Array", pc.call_function("equal", [column, pa.scalar(value)]))


def is_equal_string(column: Column, value: str) -> Array:
    """Return a mask of the rows of a column of strings that have this value."""
    text = dictionary_encode(column)
    return is_equal(text.dictionary, value).take(text.indices)


def to_float64(column: Column) -> Array:
    """Convert numbers to floating point, so that sums and products cannot overflow.

    Integers above 2 ** 53 are rounded.
    """
    return cast("Array", pc.cast(combine_chunks(column), pa.float64(), safe=False))


def repeat_value(value: int, data_type: pa.DataType, rows: int) -> Array:
    """Build a column with the same value in every row."""
    return cast("Array", pa.repeat(cast("pa.Int64Scalar", pa.scalar(value, data_type)), rows))


def row_numbers(rows: int) -> Array:
    """Return the row numbers from 0."""
    return combine_chunks(pc.subtract(pc.cumulative_sum(repeat_value(1, pa.int64(), rows)), pa.scalar(1)))


def add_columns(table: pa.Table, names: Sequence[str]) -> Array:
    """Add columns of integers row by row."""
    added: Column = table[names[0]]
    for name in names[1:]:
        added = pc.add(added, table[name])
    return combine_chunks(added)


def sort_table(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Sort rows in ascending order of these columns, of strings or integers."""
    return table.take(_compute_order(_build_sort_keys(table, names)))


def sort_unique(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Sort rows as `sort_table` does, and keep the first of each key."""
    keys = _build_sort_keys(table, names)
    order = _compute_order(keys).to_numpy()
    is_first = np.zeros(len(order), bool)
    is_first[:1] = True
    for key in keys.columns:
        ordered = _to_numpy(key)[order]
        is_first[1:] |= ordered[1:] != ordered[:-1]
    return table.take(pa.array(order[is_first]))


def _build_sort_keys(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return pa.table({name: _to_sortable(table[name]) for name in names})


def _compute_order(keys: pa.Table) -> Array:
    return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])


def _to_sortable(column: Column) -> Array:
    """Replace strings by ranks, because Arrow does not sort by dictionary columns."""
    array = combine_chunks(column)
    if not isinstance(array, pa.DictionaryArray):
        return array
    ranks = pc.sort_indices(pc.sort_indices(array.dictionary))
    return ranks.take(array.indices)


def factorize_rows(table: pa.Table) -> Array:
    """Number rows so that equal rows have equal numbers, in order of occurrence."""
    number = repeat_value(0, pa.int32(), len(table))
    for name in table.column_names:
        column = combine_chunks(table[name])
        codes = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
        if len(codes.dictionary) == 1 and not codes.null_count:
            continue  # the same value in all rows
        size = pa.scalar(max(len(codes.dictionary), 1), pa.int64())
        combined = pc.add(pc.multiply(number.cast(pa.int64()), size), codes.indices)
        number = combine_chunks(combined).dictionary_encode().indices
    return number


def drop_duplicates(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Keep the first row of each key, in order."""
    numbered = table.select(list(keys)).append_column("row", row_numbers(len(table)))
    first = numbered.group_by(list(keys), use_threads=False).aggregate([("row", "min")])
    return table if len(first) == len(table) else table.take(combine_chunks(first["row_min"]).sort())


def filter_rows(table: pa.Table, mask: Column) -> pa.Table:
    """Keep the rows of a mask; the table is not copied if these are all rows."""
    return table if pc.all(mask, min_count=0).as_py() else table.filter(mask)


def concat_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables of one schema, with unified dictionaries, in one chunk."""
    filled = [table for table in tables if len(table)] or tables[:1]
    if len(filled) == 1:
        return filled[0]
    return pa.concat_tables(filled).unify_dictionaries().combine_chunks()


def to_float64_numpy(column: Column) -> F64:
    """Convert a column of numbers to a numpy array of float64."""
    return cast("F64", _to_numpy(column).astype(np.float64, copy=False))


def to_int64_numpy(column: Column) -> I64:
    """Convert a column of integers to a numpy array of int64."""
    return cast("I64", _to_numpy(column).astype(np.int64, copy=False))


def _to_numpy(column: Column) -> NDArray[Any]:
    return combine_chunks(column).to_numpy(zero_copy_only=False)
