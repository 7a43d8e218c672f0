"""What sidecars of every earlier version sent is taken by the collector of now, over HTTP."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from tests import processes

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "formats"
SENT = sorted(GOLDEN.glob("window-*.folded"))
DAYS = "36500"
AGES = (
    *("--max-age-days", DAYS, "--retention-raw-days", DAYS),
    *("--retention-hour-days", DAYS, "--retention-day-days", DAYS, "--max-future-seconds", "3000000000"),
)
"""Whenever they were sent."""


@pytest.mark.parametrize("sent", SENT, ids=lambda path: path.stem)
def test_windows_of_earlier_sidecars_are_taken(sent: Path, tmp_path: Path) -> None:
    with processes.collector(tmp_path, str(tmp_path / "store"), *AGES) as collector:
        request = urllib.request.Request(f"{collector.url}/api/v1/windows", sent.read_bytes())
        with urllib.request.urlopen(request, timeout=30) as answer:
            accepted = json.load(answer)["accepted"]
    assert len(accepted) == sent.read_text().count('"format":')
