"""Versions that run one after the other at different load: real processes, sampled and compared by shares."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.e2e.planted_changes import SERVICE, Edits, document, loaded, planted, sampled
from tests.processes import Collector, eventually, sidelight

PODS: Final = 3
REQUESTS: Final[Mapping[str, float]] = {"base": 50.0, "half_more": 100.0, "equal": 100.0}
"""Requests a second of each version, of all its pods together."""
VERSIONS: Final[Mapping[str, Edits]] = {
    "base": (),
    "half_more": (("OFFERS * 3:\n        total", "OFFERS * 4 + OFFERS[:150]:\n        total"),),
    "equal": (),
}
"""`half_more` takes half more time in PLANTED_FUNCTION."""
PLANTED_FUNCTION: Final = "price_offers"
PROGRAM: Final = Path(__file__).parent / "targets" / "catalog.py"
SAMPLES: Final = 12_000
"""Of each version at least, on a CPU."""
SECONDS: Final = 180.0
"""Of each version at least, so that it has several blocks of time."""
CONNECTIONS: Final = 4
"""To each pod, so that a busy machine answers as many requests."""
RUN_SECONDS: Final = 900


def run_version(folder: Path, served: Collector, version: str) -> float:
    """Run a version's pods at its load until all are sampled long enough; return the requests a second."""
    start = time.time()

    def is_sampled() -> bool:
        if time.time() < start + SECONDS:
            return False
        pods_seen = sampled(served, started, start)
        return len(pods_seen) == PODS and cpu_samples(served, version) >= SAMPLES

    pods = planted(
        folder / version,
        served,
        {version: PODS},
        seconds=RUN_SECONDS,
        rate=500,
        program=PROGRAM,
        versions=VERSIONS,
    )
    with pods as started, ExitStack() as stack:
        begun, rate = time.monotonic(), REQUESTS[version] / CONNECTIONS
        loads = [stack.enter_context(loaded(started, rate, seed)) for seed in range(CONNECTIONS)]
        eventually(f"{version} is sampled", is_sampled, RUN_SECONDS - 60)
        return sum(load.rounds for load in loads) * PODS / (time.monotonic() - begun)


def cpu_samples(served: Collector, version: str) -> int:
    query = quote(f'{{service="{SERVICE}", version="{version}"}}')
    return int(served.get(f"/api/v1/flamegraph?query={query}&type=cpu&nodes=1")["sides"][0]["samples"])


def compared(served: Collector, version: str) -> dict[str, Any]:
    """What the command says of a version after `base`; it chooses the times."""
    sides = ("--baseline", "version:base", "--comparison", f"version:{version}")
    argv = ("--collector", served.url, *sides, "--json", "-", f'{{service="{SERVICE}"}}')
    done = subprocess.run(
        sidelight("compare", *argv), capture_output=True, text=True, timeout=60, check=False
    )
    return document(done)


def changed(told: Mapping[str, Any]) -> list[str]:
    """The functions whose own time takes another share."""
    words = ("increased", "decreased", "new", "removed")
    return [one["function"] for one in told["rows"] if one["self"]["direction"] in words]
