"""Windows of two versions of a shop that end now, shipped to a real collector."""

from __future__ import annotations

import random
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from ulid import ULID

from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window, encode_windows

SECOND_NS = 10**9
STABLE, CANARY = "7d4b9c6f5d", "5f6c8d9b7c"
"""The pod template hashes of version 1 and of version 2."""
OLD = {"json_loads (codec.py:3)": 100, "query (db.py:9)": 500}
NEW = {"json_loads (codec.py:3)": 160, "query (db.py:9)": 500}
_numbers = count(1)


def ship(
    url: str, version: str, stacks: Mapping[str, int], *, pods: int = 3, minutes: Sequence[int] = range(1, 31)
) -> None:
    """Send a window of each of these minutes (1 is the last) and each pod; counts scatter as samples do."""
    sent = encode_windows(_windows(version, stacks, pods, minutes))
    request = urllib.request.Request(f"{url}/api/v1/windows", sent, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answered:
        assert answered.status == 200


def _windows(version: str, stacks: Mapping[str, int], pods: int, minutes: Sequence[int]) -> Iterator[Window]:
    luck, now = random.Random(version), time.time_ns()
    name = f"shop-{STABLE if version == '1' else CANARY}"
    for pod in range(pods):
        for back in minutes:
            lines = [
                f"serve (a.py:1);{stack} {max(1, round(luck.gauss(mean, mean**0.5)))}"
                for stack, mean in stacks.items()
            ]
            lines.append(f"serve (a.py:1);wait (a.py:5);[idle] {round(luck.gauss(5000, 70))}")
            start_ns = now - (back + 1) * 60 * SECOND_NS
            yield Window(
                id=f"{str(ULID.from_timestamp(start_ns // 10**6))[:10]}{next(_numbers):016d}",
                labels=Labels({"service": "shop", "version": version, "pod": f"{name}-{pod}x2bq"}),
                start_ns=start_ns,
                duration_ns=60 * SECOND_NS,
                period_ns=SECOND_NS // 100,
                counts=parse_folded("\n".join(lines)),
                quality=Quality(attempts=6000, mode="gil", sampler="py-spy 0.4.3"),
            )
