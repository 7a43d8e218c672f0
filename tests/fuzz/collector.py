"""A collector with data, for the API to be tried on."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aiohttp import ClientSession
from ulid import ULID

from tests.collector.conftest import Running
from tests.collector.fake_sidecars import Sidecar, started, state, until
from tests.collector.processes import Process
from tests.fuzz.api_fuzzer import ApiUnderTest

OPTIONS = (
    *("--flush-seconds", "0", "--capture-poll-timeout-seconds", "0.05", "--query-timeout-seconds", "120"),
    *("--capture-max-running", "100000", "--capture-max-running-per-namespace", "100000"),
    *("--workers", "1"),
)
"""Settings without which a case would wait, or be refused because of the cases before it."""


async def fill(collector: Running) -> Mapping[str, Mapping[str, str]]:
    """Add windows of two versions, and a capture with a recording; return the ids by part of a path."""
    for version in ("1", "2"):
        start_ns = time.time_ns() - 60 * 10**9
        header = {
            "format": 1,
            "id": str(ULID.from_timestamp(start_ns // 10**6)),
            "labels": {"service": "shop", "version": version, "namespace": "", "pod": f"p-{version}"},
            "start_ns": start_ns,
            "duration_ns": 10**9,
            "period_ns": 10**7,
        }
        text = f"# {json.dumps(header)}\nmain (a.py:1);f (a.py:2) 7\nmain (a.py:1);[idle] 3\n"
        assert (await collector.post(text.encode())).status == 200
    sidecar = Sidecar(collector)
    await sidecar.ask()
    made = await started(collector, seconds=1)

    async def is_assigned() -> bool:
        await sidecar.ask()
        return bool(sidecar.orders)

    await until("the capture is assigned", is_assigned)
    stored = await sidecar.record(made["id"])
    assert stored.status == 201, stored.body
    await sidecar.ship(made["id"])
    await sidecar.told(made["id"], "done", samples=3, windows=1)
    await state(collector, made["id"], "ready")
    return {"captures": {"id": made["id"], "name": stored.json["name"]}}


@contextmanager
def running_collector() -> Iterator[ApiUnderTest]:
    """A collector as a process, with data."""
    with tempfile.TemporaryDirectory(prefix="sidelight-fuzz-") as folder:
        process = Process(Path(folder), str(Path(folder) / "store"), *OPTIONS)
        try:
            port = process.port()

            async def begin() -> Mapping[str, Mapping[str, str]]:
                async with ClientSession() as session:
                    return await fill(Running(port, asyncio.Event(), session))

            ids = asyncio.run(begin())

            def measure() -> int:
                pages = Path(f"/proc/{process.process.pid}/statm").read_text().split()[1]
                return int(pages) * os.sysconf("SC_PAGE_SIZE")

            yield ApiUnderTest(f"http://127.0.0.1:{port}", ids, measure)
        finally:
            process.kill()
