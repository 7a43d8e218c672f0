"""Whatever goes wrong with the store: what was acknowledged counts once, no answer is wrong in silence."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from sidelight_collector.storage.backends.memory import MemoryStore
from tests.collector.simulation import World, played

RUNS = int(os.environ.get("SIDELIGHT_TEST_FAULT_RUNS", "1000"))
FIRST = 60
"""So many are played each time; the others take minutes."""
BATCHES = 10
ONE = os.environ.get("SIDELIGHT_TEST_FAULT_SEED")
SEEDS = [range(FIRST), *(range(FIRST + batch, RUNS, BATCHES) for batch in range(BATCHES))]


PLAYED = [
    pytest.param(seeds, marks=[pytest.mark.long] if at else [], id=str(at)) for at, seeds in enumerate(SEEDS)
]


@pytest.mark.parametrize("seeds", PLAYED if ONE is None else [[int(ONE)]])
def test_whatever_goes_wrong_what_was_acknowledged_counts_once(seeds: Sequence[int]) -> None:
    for seed in seeds:
        played(World(seed, MemoryStore()))
