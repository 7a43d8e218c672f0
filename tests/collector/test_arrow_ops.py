"""Operations on Arrow tables."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.arrow_ops import drop_duplicates, sort_table, sort_unique

NAMES = pa.dictionary(pa.int32(), pa.string())


@given(st.lists(st.tuples(st.sampled_from("zäab"), st.integers(0, 2**64 - 1) | st.integers(0, 3))))
def test_sorted_and_unique_is_unique_and_sorted(rows: list[tuple[str, int]]) -> None:
    table = pa.table(
        {
            "name": pa.array([name for name, _ in rows], NAMES),
            "number": pa.array([number for _, number in rows], pa.uint64()),
            "at": pa.array(range(len(rows)), pa.int64()),
        }
    )
    both = ["name", "number"]
    assert sort_unique(table, both).to_pylist() == sort_table(drop_duplicates(table, both), both).to_pylist()
