"""Sidecars for tests of captures: they speak the protocol over HTTP and sample nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import zstandard
from ulid import ULID

from tests.collector.conftest import Answer, Running

JSON = {"Content-Type": "application/json"}


class Sidecar:
    """A sidecar that asks one collector; what it was told to begin and to end is in `orders` and `stops`."""

    def __init__(self, collector: Running, pod: str = "p-1", service: str = "shop", **shown: object) -> None:
        self.collector = collector
        self.agent = str(ULID())
        self.labels = {"service": service, "version": "2", "namespace": "", "pod": pod}
        self.shown = {"ready": True, "modes": ["auto", "gil"], "max_seconds": 600, "max_rate": 1000, **shown}
        self.orders: list[dict[str, Any]] = []
        self.stops: list[str] = []

    async def ask(self, *reports: dict[str, object], hold: float = 0.0) -> Answer:
        """Ask for orders, at most `hold` seconds, and report."""
        body = {"v": 1, "agent": self.agent, "labels": self.labels, "sampler": "native"}
        body |= {
            "sidelight_version": "0.1.0",
            "timeout_seconds": hold,
            "reports": list(reports),
            **self.shown,
        }
        answer = await self.collector.ask("POST", "/api/v1/agents/poll", json.dumps(body).encode(), JSON)
        if answer.status == 200:
            self.orders += answer.json["capture_jobs"]
            self.stops += answer.json["stop_captures"]
        return answer

    async def told(self, capture: str, state: str, **more: object) -> Answer:
        """Ask with a report of one capture."""
        return await self.ask({"capture": capture, "state": state, "seconds": 2.0, **more})

    async def ship(self, capture: str, windows: int = 1) -> None:
        """Send windows of a capture, as a sidecar does while it samples."""
        for _ in range(windows):
            start_ns = time.time_ns() - 10**9
            header = {
                "format": 1,
                "id": str(ULID.from_timestamp(start_ns // 10**6)),
                "labels": {**{k: v for k, v in self.labels.items() if v}, "capture": capture},
                "start_ns": start_ns,
                "duration_ns": 10**9,
                "period_ns": 10**7,
            }
            answer = await self.collector.post(f"# {json.dumps(header)}\nmain;total 3\n".encode())
            assert answer.status == 200, answer.body

    async def record(
        self, capture: str, pid: int = 12, changes: Mapping[str, object] = MappingProxyType({})
    ) -> Answer:
        """Send what a process did in the order of time."""
        raw = recording(capture, self.agent, self.labels, pid)
        body = zstandard.compress(json.dumps({**raw, **changes}).encode())
        path = f"/api/v1/captures/{capture}/recordings/{self.agent}-{pid}"
        return await self.collector.ask("PUT", path, body, {**JSON, "Content-Encoding": "zstd"})


def recording(capture: str, agent: str, labels: dict[str, str], pid: int) -> dict[str, Any]:
    """One thread that waits, runs for two samples, is not seen for a while, and runs again."""
    return {
        "v": 1,
        "capture": capture,
        "agent": agent,
        "labels": labels,
        "pid": pid,
        "start_ns": 1_795_253_400 * 10**9,
        "period_us": 10_000,
        "dropped": 0,
        "frames": ["main (app.py:1)", "total (cart.py:10)"],
        "stacks": [[0], [0, 1]],
        "threads": [
            {
                "name": "MainThread",
                "at_us": [0, 10_000, 20_000, 100_000],
                "stack": [0, 1, 1, 1],
                "state": [0, 1, 1, 2],
            }
        ],
    }


async def started(collector: Running, **wish: object) -> dict[str, Any]:
    """A capture requested by a person."""
    answer = await wished(collector, **wish)
    assert answer.status == 201, answer.body
    assert answer.headers["location"].endswith(f"/api/v1/captures/{answer.json['id']}")
    return dict(answer.json)


async def wished(collector: Running, **wish: object) -> Answer:
    """The answer to one who asks for a capture."""
    body = json.dumps({"service": "shop", "seconds": 2, **wish}).encode()
    return await collector.ask("POST", "/api/v1/captures", body, JSON)


async def capture(collector: Running, capture_id: str) -> dict[str, Any]:
    """A capture as it is now."""
    answer = await collector.ask("GET", f"/api/v1/captures/{capture_id}")
    assert answer.status == 200, answer.body
    return dict(answer.json)


async def until(what: str, check: Callable[[], Awaitable[Any]], seconds: float = 120.0) -> Any:
    """Wait until `check` gives something true."""
    async with asyncio.timeout(seconds):
        while not (found := await check()):
            await asyncio.sleep(0.02)
    assert found, what
    return found


async def state(collector: Running, capture_id: str, *wanted: str) -> dict[str, Any]:
    """A capture once it is in one of these states."""

    async def check() -> dict[str, Any] | None:
        found = await capture(collector, capture_id)
        return found if found["state"] in wanted else None

    return dict(await until(f"{capture_id} is {wanted}", check))
