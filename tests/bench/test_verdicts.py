"""The benchmark of comparisons: it draws what it says, and writes all of its tables to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.verdicts import tables
from bench.verdicts.page import Table, write
from bench.verdicts.real import GROWING, WAITING, draw_loads, load_grid
from bench.verdicts.tables import Plan, record, simulate
from bench.verdicts.trials import compare, sum_blocks
from bench.verdicts.worlds import World, draw_program, draw_sides
from sidelight_collector.statistics.basis import Basis

QUIET = World(pods=(20, 20), load=0.0, own=0.0, drift=0.0, function_spread=0.0, samples=2000.0)


def test_blocks_keep_all_that_windows_had() -> None:
    windows = np.arange(120.0).reshape(2, 60)
    assert sum_blocks(windows).shape == (2, 16)
    assert sum_blocks(windows).sum() == windows.sum()
    assert sum_blocks(windows[:, :5]).shape == (2, 5)


@pytest.mark.parametrize("basis", tables.BASES)
def test_a_planted_change_is_drawn_and_found(basis: Basis) -> None:
    rng = np.random.default_rng(1)
    program = draw_program(rng, 200, 40)
    own = program.sum_by_function(program.weight)[0]
    planted = int(np.argsort(own)[-2])
    factors = np.ones(40)
    factors[planted] = 2.0
    a, b = draw_sides(QUIET, program, factors, basis, rng)
    assert b.samples[1 + planted].sum() / a.samples[1 + planted].sum() == pytest.approx(2, rel=0.1)
    result = compare(a, b, basis, tables.OPTIONS)
    assert result.selected[result.own.is_changed].tolist() == [planted]
    assert result.changed_paths.any()


def test_load_and_background_work_are_drawn() -> None:
    rng = np.random.default_rng(2)
    program = draw_program(rng, 200, 40)
    for background, ratio in ((0.0, 3.0), (1.0, 1.0)):
        world = replace(QUIET, load_ratio=3.0, background=background)
        a, b = draw_sides(world, program, np.ones(40), Basis.COMPOSITION, rng)
        assert b.samples[0].sum() / a.samples[0].sum() == pytest.approx(ratio, rel=0.05)


def test_a_function_counts_once_per_stack_and_its_nodes_add_up() -> None:
    program = draw_program(np.random.default_rng(2), 80, 5)
    alone, total = program.sum_by_function(program.weight)
    assert alone.sum() == pytest.approx(1)
    assert program.sum_subtrees(program.weight)[0] == pytest.approx(1)
    assert (total <= 1 + 1e-9).all()
    assert (total >= alone - 1e-12).all()


def test_a_tally_counts_what_is_planted_and_what_is_not() -> None:
    counted = simulate(QUIET, Basis.COMPOSITION, Plan(2, 3.0), 3)
    assert (counted.comparisons, counted.planted, counted.detected) == (3, 6, 6)
    assert counted.any_changed == 0
    assert simulate(QUIET, Basis.CONCURRENT, Plan(), 3).detected == 0


def test_recordings_are_compared_without_requests_that_grow_and_functions_that_wait() -> None:
    names = load_grid("feed", with_waits=False).names
    for with_waits in (True, False):
        grid = load_grid("feed", with_waits=with_waits)
        own = grid.samples[1 : 1 + len(names)].sum((1, 2))
        assert sum(own[at] for at, name in enumerate(names) if name in GROWING) == 0
        waiting = sum(own[at] for at, name in enumerate(names) if name.startswith(WAITING))
        assert (waiting > 0) == with_waits
    assert record("shop", 3, Basis.PER_REQUEST, Plan(1, 3.0), 2).planted == 2


@pytest.mark.parametrize("name", ["feed", "shop"])
def test_recordings_have_times_whose_loads_differ_by_a_factor_of_three(name: str) -> None:
    grid, rng = load_grid(name, with_waits=False), np.random.default_rng(1)
    per_request = draw_loads(grid, 12, Basis.PER_REQUEST, np.random.default_rng(1))
    over_time = draw_loads(grid, 12, Basis.COMPOSITION, rng)
    rates = [of.exposure.sum() / at.exposure.sum() for of, at in zip(per_request, over_time, strict=True)]
    assert max(rates) / min(rates) == pytest.approx(3, rel=0.25)


def test_work_that_does_not_follow_load_is_called_changed_unless_load_is_equal() -> None:
    plan = Plan()
    tripled, equal = (replace(QUIET, load_ratio=ratio, background=0.2) for ratio in (3.0, 1.0))
    for basis in (Basis.COMPOSITION, Basis.PER_REQUEST):
        assert simulate(tripled, basis, plan, 2).any_changed == 2
    assert simulate(equal, Basis.COMPOSITION, plan, 2).any_changed == 0


def test_a_note_follows_its_table() -> None:
    assert Table("One", ["a"], [["1"]], "Read it so.").text().endswith("| 1 |\n\nRead it so.\n")


def test_tables_replace_what_the_file_of_results_had(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("old\n")
    written = [Table(title, ["a", "b"], [["1", "2"]]) for title in ("One", "Two")]
    write(page, "python -m bench.verdicts", "On Monday.", written)
    lines = "\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    assert page.read_text() == (
        "# Tests of comparisons: results\n\n`python -m bench.verdicts` wrote this file in one run.\n\n"
        "On Monday.\n\n"
        f"## One{lines}\n## Two{lines}"
    )
