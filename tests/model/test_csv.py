"""Functions as CSV: whatever they are called, a table of texts and numbers."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.aggregate import FunctionCost
from sidelight_model.export_formats.csv_export import quote_cell, write_csv
from sidelight_model.export_formats.provenance import Provenance, SideProvenance
from sidelight_model.frames import escape_frame

SIDE = SideProvenance("{}", 0, 60 * 10**9, 10, 1, 1, 0.1, 60.0)
LATER = SideProvenance("{}", 0, 60 * 10**9, 10, 1, 1, 0.1, 30.0)
ONE, TWO = (Provenance("=title", "cpu", "sidelight", sides) for sides in ([SIDE], [SIDE, LATER]))
BEGINNINGS = "=+-@\t\r\n"


def read(written: bytes, separator: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(written.decode(), newline=""), delimiter=separator))


def test_a_function_is_a_row_with_samples_and_seconds() -> None:
    cost = FunctionCost(self_samples=3, total_samples=7, self_ns=30_000_000, total_ns=70_000_001)
    assert read(write_csv([("work (b.py)", [cost])], ONE, with_comments=False)) == [
        ["function", "file", "self_samples", "total_samples", "self_seconds", "total_seconds"],
        ["work", "b.py", "3", "7", "0.03", "0.070000001"],
    ]


def test_two_sides_stand_side_by_side_with_their_rates_and_differences() -> None:
    a, b = FunctionCost(6, 6, 60 * 10**9, 60 * 10**9), FunctionCost(6, 12, 60 * 10**9, 120 * 10**9)
    heading, row = read(write_csv([("work (b.py)", [a, b])], TWO, with_comments=False))
    told = dict(zip(heading, row, strict=True))
    assert (told["a_self_seconds"], told["b_total_seconds"]) == ("60", "120")
    assert (told["a_self_rate"], told["b_self_rate"], told["self_rate_difference"]) == ("1", "2", "1")
    assert told["total_rate_difference"] == "3"


def test_a_side_that_was_not_watched_has_no_rate() -> None:
    unwatched = SideProvenance("{}", 0, 1, 0, 0, 0, 0.0, 0.0)
    about = Provenance("", "cpu", "", [SIDE, unwatched])
    heading, row = read(
        write_csv([("f", [FunctionCost(1, 1, 1, 1), FunctionCost()])], about, with_comments=False)
    )
    told = dict(zip(heading, row, strict=True))
    assert (told["b_self_rate"], told["self_rate_difference"]) == ("", "")


def test_a_table_can_say_what_it_stands_on() -> None:
    rows = read(write_csv([], ONE, with_comments=True))
    assert rows[0] == ["# =title"]
    assert any("10 samples of 1 pod in 1 window" in row[0] for row in rows)
    assert all(row[0].startswith("#") for row in rows[:-1])


@pytest.mark.parametrize(
    "name", ['=cmd|"/C calc"!A0', "+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", " =1", "a;=1", "\uff1d1", 'a",=1']
)
def test_no_name_is_a_formula(name: str) -> None:
    written = write_csv([(escape_frame(name), [FunctionCost()])], ONE, with_comments=False)
    for separator in ",;\t":
        for row in read(written, separator):
            for text in row:
                assert not text.lstrip(" ").startswith(tuple(BEGINNINGS))


@given(st.text(alphabet=st.sampled_from("=+-@;,|\t\r\n\"' abc"), max_size=12))
def test_no_cell_begins_a_formula_whatever_parts_cells(text: str) -> None:
    for separator in ",;\t|":
        for row in read(f"{quote_cell(text)},1\r\n".encode(), separator):
            for found in row:
                assert not found.lstrip(" ").startswith(tuple(BEGINNINGS)), (text, found)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_name_that_is_no_formula_stays_as_it_is(text: str) -> None:
    if not set(text) & set("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"):
        assert read(f"{quote_cell(text)},1\r\n".encode())[0] == [text, "1"]
