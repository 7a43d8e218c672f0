"""The benchmark of verdicts: what it draws is what it says, and its page keeps what is around the tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.verdicts.days import CUTS, KNOWN, Pairs
from bench.verdicts.drawn import PODS, drawn
from bench.verdicts.page import BEGIN, END, Table, write
from bench.verdicts.real import DAY
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
    a, b, _ = draw(world, np.random.default_rng(1))
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


def test_drawn_days_have_load_that_comes_and_goes_and_a_function_that_does_not_follow_it() -> None:
    grid = drawn("feed", 4, 1)
    whole, own, total = (
        grid.samples[0],
        grid.samples[1 : 1 + grid.functions],
        grid.samples[1 + grid.functions :],
    )
    assert whole.shape == grid.watched.shape == (PODS, 4 * DAY)
    assert (own.sum(0) == whole).all()
    assert (total == own).all()
    assert grid.clock.sum() / 1e6 == pytest.approx(whole.sum() / 100, rel=0.02)
    night, evening = (own[..., at::DAY].sum((1, 2)) for at in (0, DAY // 2))
    assert evening[:-1].sum() > 2 * night[:-1].sum()
    steady = own[-1].reshape(PODS, 4, DAY).sum((0, 1))
    assert steady.std() / steady.mean() < 0.5


@pytest.mark.parametrize("cut", ["apart", "same hours of another day"])
def test_sides_of_days_lie_as_far_apart_as_is_told_and_have_enough_before_them(cut: str) -> None:
    grid, luck = drawn("shop", 8, 1), np.random.default_rng(3)
    pairs = Pairs(CUTS[cut], 3, 9)
    days = list(pairs.days(grid))
    assert days
    for day in days:
        a, b, before = pairs.drawn(grid, luck, day)
        assert a.watched.shape == b.watched.shape == (3, 9)
        assert len(before.rates) >= 0.9 * KNOWN, "but for those in which samples and clock lie far apart"
        (one,), (two,) = before.sides
        assert {one, two} == {0.0, pairs.later / 9}


def test_tables_go_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(page, "python -m bench.verdicts", [Table("Title", ["a", "b"], [["1", "2"]])])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "| 1 | 2 |" in text
    assert "old" not in text
