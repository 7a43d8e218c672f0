"""The command of mutation testing: its defects apply, and the simulation finds one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.__main__ import ROOT, apply_mutant, copy_sources, run_simulation
from tests.mutation.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_defect_changes_one_place_and_is_valid_python(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    assert mutant.new != mutant.old
    compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")


def test_there_are_twenty_of_distinct_names() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) == 20


def test_the_simulation_finds_a_defect_in_a_copy_of_the_sources(tmp_path: Path) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "merge-samples")
    root = copy_sources(tmp_path / "copy")
    apply_mutant(mutant, root)
    assert run_simulation(root, 300)["problem"]
    with pytest.raises(ValueError, match="merge-samples"):
        apply_mutant(mutant, root)
