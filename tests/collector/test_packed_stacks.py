"""Packed stacks are the stacks, and the native kernel packs and tabulates them as the reference does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.stack_hashing import HashedWindow, PackedStacks, hash_window, pack_stacks
from sidelight_collector.storage.segments import encode_parquet
from sidelight_collector.storage.tables import build_stacks
from sidelight_model.folded import Stack
from tests.collector.stored_windows import window
from tests.model.strategies import stacks

NAMES = (
    "main",
    "main2",
    "render (a.py:3)",
    "größe",
    "",
    "a function whose name is longer than a chunk of it",
)
lists = st.lists(
    st.one_of(stacks, st.lists(st.sampled_from(NAMES), min_size=1, max_size=6).map(";".join)), max_size=12
)


@given(lists)
def test_stacks_are_packed_as_by_the_reference_and_come_back(given_stacks: list[Stack]) -> None:
    packed = pack_stacks(given_stacks)
    assert packed == pack_stacks(given_stacks, None)
    assert list(packed) == given_stacks
    assert len(packed) == len(given_stacks)


def test_stacks_that_share_frames_take_little_memory() -> None:
    deep = ";".join(f"function_{depth} (package/module.py:{depth})" for depth in range(30))
    packed = pack_stacks([Stack(f"{deep};leaf_{leaf}") for leaf in range(500)])
    assert packed.memory_bytes == sum(map(len, packed.columns)) < sum(map(len, packed)) / 6


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), lists), max_size=4))
def test_the_table_of_stacks_is_that_of_the_reference(windows: list[tuple[str, list[Stack]]]) -> None:
    rows = []
    for service, texts in sorted(windows, key=lambda one: one[0]):
        row = hash_window(window("|".join(f"{text} 1" for text in texts if is_plain(text)), service=service))
        rows.append(row)
    assert_equal_tables(rows)


def test_of_stacks_with_the_same_hash_the_last_counts() -> None:
    row = hash_window(window("main;a 1 | main;b 1"))
    row.hashes[1] = row.hashes[0]
    other = replace(row, stacks=pack_stacks([Stack("x"), Stack("y")]))
    assert_equal_tables([row])
    assert_equal_tables([row, other])
    assert build_stacks([row, other])["frames"].to_pylist() == [["y"]]


def test_damaged_columns_are_refused() -> None:
    row = hash_window(window("main;a 1"))
    with pytest.raises(ValueError, match="do not fit"):
        build_stacks([replace(row, stacks=PackedStacks(b"", b"", b"", b""))])
    with pytest.raises(ValueError, match="do not fit"):
        build_stacks([replace(row, stacks=replace(row.stacks, texts=b"\xff" * len(row.stacks.texts)))])


def is_plain(text: str) -> bool:
    return bool(text) and "|" not in text and ";;" not in f";{text};" and text == text.strip()


def assert_equal_tables(rows: list[HashedWindow]) -> None:
    assert NATIVE is not None
    table, expected = build_stacks(rows), build_stacks(rows, None)
    assert table.equals(expected)
    assert encode_parquet(table) == encode_parquet(expected)
