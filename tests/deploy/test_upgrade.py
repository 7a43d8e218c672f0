"""What sidecars of every earlier version sent is taken by the collector of now, over HTTP."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import running

GOLDEN = Path(__file__).resolve().parents[1] / "collector" / "golden"
SENT = sorted(GOLDEN.glob("window-*.folded"))
DAYS = "36500"
AGES = (
    *("--max-age-days", DAYS, "--retention-raw-days", DAYS),
    *("--retention-hour-days", DAYS, "--retention-day-days", DAYS, "--max-future-seconds", "3000000000"),
)
"""Whenever they were sent."""


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[running.Collector]:
    folder = tmp_path_factory.mktemp("collector")
    with running.collector(folder, str(folder / "store"), *AGES) as collector:
        yield collector


@pytest.mark.parametrize("sent", SENT, ids=lambda path: path.stem)
def test_windows_of_earlier_sidecars_are_taken(sent: Path, collector: running.Collector) -> None:
    request = urllib.request.Request(f"{collector.url}/api/v1/windows", sent.read_bytes())
    with urllib.request.urlopen(request, timeout=30) as answer:
        accepted = json.load(answer)["accepted"]
    assert len(accepted) == sent.read_text().count('"format":')
