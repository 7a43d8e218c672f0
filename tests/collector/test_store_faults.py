"""Whatever goes wrong with the store: what was acknowledged counts once, no answer is wrong in silence."""

from __future__ import annotations

import os

import pytest

from sidelight.collector.store.memory import MemoryStore
from tests.collector.simulation import World, played

RUNS = int(os.environ.get("SIDELIGHT_TEST_FAULT_RUNS", "1000"))
BATCHES = 10
ONE = os.environ.get("SIDELIGHT_TEST_FAULT_SEED")


@pytest.mark.parametrize("batch", range(BATCHES) if ONE is None else [int(ONE)])
def test_whatever_goes_wrong_what_was_acknowledged_counts_once(batch: int) -> None:
    seeds = range(batch, RUNS, BATCHES) if ONE is None else [int(ONE)]
    for seed in seeds:
        played(World(seed, MemoryStore()))
