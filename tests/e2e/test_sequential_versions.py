"""Versions that run one after the other at different load: real processes, sampled and compared by shares."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.e2e.planted_changes import SERVICE, document, loaded, planted, sampled
from tests.processes import Collector, collector, eventually, sidelight

pytestmark = pytest.mark.long

PODS = 3
REQUESTS = {"heavy": 50.0, "heavy_half_more": 100.0, "heavy_equal": 100.0}
"""Requests a second of each version, of all its pods together."""
SAMPLES = 12_000
"""Of each version, on a CPU."""
RUN_SECONDS = 300


def cpu_samples(served: Collector, version: str) -> int:
    query = quote(f'{{service="{SERVICE}", version="{version}"}}')
    return int(served.get(f"/api/v1/flamegraph?query={query}&type=cpu&nodes=1")["sides"][0]["samples"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector with the three versions, each of which ran alone until there were enough samples."""
    folder = tmp_path_factory.mktemp("sequential")
    with collector(folder, str(folder / "store")) as one:
        for version in REQUESTS:
            run_version(folder, one, version)
        yield one


def run_version(folder: Path, served: Collector, version: str) -> None:
    """Run the pods of a version at its load until all are sampled, and often enough."""
    start = time.time()

    def is_sampled() -> bool:
        pods_seen = sampled(served, started, start)
        return len(pods_seen) == PODS and cpu_samples(served, version) >= SAMPLES

    with (
        planted(folder / version, served, {version: PODS}, seconds=RUN_SECONDS, rate=500) as started,
        loaded(started, REQUESTS[version]),
    ):
        eventually(f"{version} is sampled", is_sampled, RUN_SECONDS - 60)


def compared(served: Collector, version: str) -> dict[str, Any]:
    """What the command says of a version after `heavy`; it chooses the times."""
    sides = ("--baseline", "version:heavy", "--comparison", f"version:{version}")
    argv = ("--collector", served.url, *sides, "--json", "-", f'{{service="{SERVICE}"}}')
    done = subprocess.run(
        sidelight("compare", *argv), capture_output=True, text=True, timeout=60, check=False
    )
    return document(done)


def changed(told: dict[str, Any]) -> list[str]:
    """The functions whose own time takes another share."""
    words = ("increased", "decreased", "new", "removed")
    return [one["function"] for one in told["rows"] if one["self"]["direction"] in words]


def test_a_function_that_takes_half_more_is_found_at_twice_the_load_and_only_it(served: Collector) -> None:
    told = compared(served, "heavy_half_more")
    assert told["verdict"]["basis"] == "composition"
    assert told["verdict"]["direction"] == "not_judged"
    assert changed(told) == ["price"]
    (price,) = (one for one in told["rows"] if one["function"] == "price")
    # 54 turns instead of 36, of 138 instead of 120: 30 % becomes 39 %.
    assert price["self"]["relative_low"] < 0.3 < price["self"]["relative_high"]
    assert told["verdict"]["culprits"]["rows"][0]["function"] == "price"


def test_at_twice_the_load_an_equal_version_has_no_changed_function(served: Collector) -> None:
    told = compared(served, "heavy_equal")
    assert told["verdict"]["basis"] == "composition"
    assert changed(told) == []
    assert told["verdict"]["culprits"]["rows"] == []
