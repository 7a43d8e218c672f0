"""The short form of fuzzing the HTTP API: requests generated from its OpenAPI document (see tests/fuzz)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sidelight_collector.storage.backends.memory import MemoryStore
from tests.collector.conftest import Serve
from tests.fuzz.api_fuzzer import ApiUnderTest, fuzz_api, list_operations
from tests.fuzz.collector import fill

CASES = 2
"""Cases of each operation: a valid and an invalid request, on average."""


async def test_every_operation_of_the_api_answers_generated_requests(serving: Serve, tmp_path: Path) -> None:
    async with serving(MemoryStore(), capture_poll_timeout_seconds=0.05, capture_max_running=10_000) as here:
        api = ApiUnderTest(f"http://127.0.0.1:{here.port}", await fill(here))
        inputs = CASES * len(list_operations())
        summary = await asyncio.to_thread(fuzz_api, api, 1, inputs, 300, tmp_path, at_once=CASES)
        assert not summary.failures, summary.failures[0]
        assert summary.inputs > inputs / 2
