"""Small moves on Arrow columns that queries and compaction are made of."""

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
    # Arrow's classes cannot be subscripted when the program runs.
    Array, Column, DictionaryColumn, ListColumn = (
        pa.Array,
        pa.Array | pa.ChunkedArray,
        pa.DictionaryArray,
        pa.ListArray,
    )


def combine_chunks(column: Column) -> Array:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    joined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def dictionary_encode(column: Column) -> DictionaryColumn:
    """A column of text as codes and distinct words."""
    array = combine_chunks(column)
    return array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()


def build_dictionary_array(codes: Column, dictionary: Array) -> DictionaryColumn:
    """Codes and the words they stand for as a column of text."""
    return pa.DictionaryArray.from_arrays(combine_chunks(codes), dictionary)


def list_unique_strings(column: Column) -> list[str]:
    """The words that occur in a column, sorted."""
    text = dictionary_encode(column)
    return sorted(to_strings(text.dictionary.take(pc.unique(text.indices))))


def to_strings(column: Column) -> list[str]:
    """A column of text without nulls as a list."""
    array = combine_chunks(column)
    if isinstance(array, pa.DictionaryArray):  # many times faster than value by value
        known = to_strings(array.dictionary)
        return [known[code] for code in to_ints(array.indices)]
    return cast("list[str]", array.to_pylist())


def to_ints(column: Column) -> list[int]:
    """A column of whole numbers without nulls as a list."""
    return cast("list[int]", column.to_pylist())


def sum_ints(column: Column) -> int:
    """The sum of a column of whole numbers; 0 of nothing."""
    return cast("int", pc.sum(column).as_py() or 0)


def is_equal(column: Column, value: str | int) -> Array:
    """For each row whether it has this value."""
    return cast("Array", pc.call_function("equal", [column, pa.scalar(value)]))


def is_equal_string(column: Column, value: str) -> Array:
    """For each row whether a column of text has this word."""
    text = dictionary_encode(column)
    return is_equal(text.dictionary, value).take(text.indices)


def to_float64(column: Column) -> Array:
    """Numbers as floating point, in which any of 63 bits add up and multiply, if not to the last digit."""
    return cast("Array", pc.cast(combine_chunks(column), pa.float64(), safe=False))


def repeat_value(value: int, data_type: pa.DataType, rows: int) -> Array:
    """A column that has one value in all its rows."""
    return cast("Array", pa.repeat(cast("pa.Int64Scalar", pa.scalar(value, data_type)), rows))


def row_numbers(rows: int) -> Array:
    """0, 1, 2 and so on."""
    return combine_chunks(pc.subtract(pc.cumulative_sum(repeat_value(1, pa.int64(), rows)), pa.scalar(1)))


def add_columns(table: pa.Table, names: Sequence[str]) -> Array:
    """Columns of whole numbers added up row by row."""
    added = combine_chunks(table[names[0]])
    for name in names[1:]:
        added = pc.add(added, combine_chunks(table[name]))
    return added


def sort_table(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows in ascending order of these columns, of text or whole numbers."""
    keys = {name: _to_sortable(table[name]) for name in names}
    return table.take(pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in names]))


def _to_sortable(column: Column) -> Array:
    """Numbers as they are, words as their rank: Arrow does not sort tables by words."""
    array = combine_chunks(column)
    if not isinstance(array, pa.DictionaryArray):
        return array
    ranks = pc.sort_indices(pc.sort_indices(array.dictionary))
    return ranks.take(array.indices)


def factorize_rows(table: pa.Table) -> Array:
    """A number for each row, the same for equal rows, in the order in which they first occur."""
    number = repeat_value(0, pa.int32(), len(table))
    for name in table.column_names:
        column = combine_chunks(table[name])
        codes = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
        size = pa.scalar(max(len(codes.dictionary), 1), pa.int64())
        both = pc.add(pc.multiply(number.cast(pa.int64()), size), codes.indices)
        number = combine_chunks(both).dictionary_encode().indices
    return number


def drop_duplicates(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The first row of each key, in their order."""
    numbered = table.select(list(keys)).append_column("row", row_numbers(len(table)))
    first = numbered.group_by(list(keys), use_threads=False).aggregate([("row", "min")])
    return table if len(first) == len(table) else table.take(combine_chunks(first["row_min"]).sort())


def filter_rows(table: pa.Table, mask: Column) -> pa.Table:
    """The rows that are wanted; nothing is copied if all are."""
    return table if pc.all(mask, min_count=0).as_py() else table.filter(mask)


def concat_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of one schema below each other, words coded alike, in one piece."""
    filled = [table for table in tables if len(table)] or tables[:1]
    if len(filled) == 1:
        return filled[0]
    return pa.concat_tables(filled).unify_dictionaries().combine_chunks()


def to_float64_numpy(column: Column) -> F64:
    """A column of numbers as numpy has them."""
    return cast("F64", _to_numpy(column).astype(np.float64, copy=False))


def to_int64_numpy(column: Column) -> I64:
    """A column of whole numbers as numpy has them."""
    return cast("I64", _to_numpy(column).astype(np.int64, copy=False))


def _to_numpy(column: Column) -> NDArray[Any]:
    return combine_chunks(column).to_numpy(zero_copy_only=False)
