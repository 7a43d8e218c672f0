"""What sidecars of every earlier version sent is taken by the collector of now, over HTTP."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from ulid import ULID

from tests import processes

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "formats"
SENT = sorted(GOLDEN.glob("window-*.folded"))
DAYS = "36500"
AGES = (
    *("--max-age-days", DAYS, "--retention-raw-days", DAYS),
    *("--retention-hour-days", DAYS, "--retention-day-days", DAYS, "--max-future-seconds", "3000000000"),
)
"""Whenever they were sent."""


def give_timely_ids(body: bytes) -> bytes:
    """Give the windows of a file ids of the day of their start, which those of sidecars always have."""
    lines = body.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if line.startswith(b"# {"):
            header = json.loads(line[1:])
            header["id"] = str(ULID.from_timestamp(header["start_ns"] // 10**6))[:10] + header["id"][10:]
            lines[at] = f"# {json.dumps(header)}\n".encode()
    return b"".join(lines)


@pytest.mark.parametrize("sent", SENT, ids=lambda path: path.stem)
def test_windows_of_earlier_sidecars_are_taken(sent: Path, tmp_path: Path) -> None:
    with processes.collector(tmp_path, str(tmp_path / "store"), *AGES) as collector:
        request = urllib.request.Request(
            f"{collector.url}/api/v1/windows", give_timely_ids(sent.read_bytes())
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            accepted = json.load(answer)["accepted"]
    assert len(accepted) == sent.read_text().count('"format":')
