"""Three collectors and two compactors that are killed and upgraded: nothing lost, nothing double."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.collectors import LEASES, Parameters, run

SHORT = Parameters(seconds=0, sidecars=10, interval=4, services=3, bodies=8, pause=0, lease=4)


@pytest.mark.long
def test_kills_and_an_upgrade_lose_and_double_nothing_and_leases_move(tmp_path: Path) -> None:
    outcome = run(SHORT, tmp_path, say=lambda _: None)
    assert outcome.wrong == []
    assert outcome.proof.acknowledged == outcome.proof.stored == outcome.shipped > 0
    # A run that could break the laws
    assert outcome.kills >= 2
    assert outcome.asked > outcome.repeated > 0
    assert {name for name, holders in outcome.holders.items() if len(set(holders)) > 1} == set(LEASES)
    assert all(answers["accepted"] > 0 for answers in outcome.answers)
