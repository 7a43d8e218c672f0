"""The benchmark of verdicts: what it draws is what it says, and its page keeps what is around the tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.verdicts.page import BEGIN, END, Table, write
from bench.verdicts.trees import by_function, program, sums_below
from bench.verdicts.trials import cells, compared
from bench.verdicts.worlds import World, draw


def test_blocks_keep_all_that_windows_had() -> None:
    windows = np.arange(120.0).reshape(2, 60)
    assert cells(windows).shape == (2, 16)
    assert cells(windows).sum() == windows.sum()
    assert cells(windows[:, :5]).shape == (2, 5)


def test_a_planted_change_is_in_what_is_drawn() -> None:
    world = World(pods_a=30, pods_b=30, load=0.0, samples=2000.0, change=0.25)
    a, b = draw(world, np.random.default_rng(1))
    assert b.samples.sum() / a.samples.sum() == pytest.approx(1.25, rel=0.02)
    _, found = compared(a, b, **world.how)
    assert found.p[0] < 0.01


def test_a_function_counts_once_per_stack_and_its_nodes_add_up() -> None:
    code = program(np.random.default_rng(2), 80, 5)
    alone, total = by_function(code, code.weight, 5)
    assert alone.sum() == pytest.approx(1)
    assert sums_below(code, code.weight)[0] == pytest.approx(1)
    assert (total <= 1 + 1e-9).all()
    assert (total >= alone - 1e-12).all()


def test_tables_go_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(page, "python -m bench.verdicts", [Table("Title", ["a", "b"], [["1", "2"]])])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "| 1 | 2 |" in text
    assert "old" not in text
