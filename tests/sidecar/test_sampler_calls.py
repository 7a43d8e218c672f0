"""A call of the sampler that hangs takes one thread, and the sidecar tells where it hangs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from sidelight_sidecar.samplers.sampler import SamplingError
from sidelight_sidecar.sampling.sampler_calls import SamplerCalls

PROMPT, SHORT = 600.0, 0.5


async def test_a_call_returns_its_result_and_its_error() -> None:
    calls = SamplerCalls(4711, PROMPT)
    assert await calls.run(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        await calls.run(lambda: 1 // 0)


async def test_a_process_whose_call_hangs_takes_no_other_thread_until_it_returns() -> None:
    loop, calls, release, late = asyncio.get_running_loop(), SamplerCalls(4711, SHORT), threading.Event(), []
    undone = asyncio.Event()

    def hang_in_attach() -> str:
        release.wait()
        return "a session"

    def undo(result: str) -> None:
        late.append(result)
        loop.call_soon_threadsafe(undone.set)

    with capture_logs() as logged, pytest.raises(SamplingError, match=r"did not answer within 0\.5 seconds"):
        await calls.run(hang_in_attach, undo)
    assert [event["event"] for event in logged] == ["a call of the sampler hangs"]
    assert "hang_in_attach" in logged[0]["stack"]
    called: list[str] = []
    for _ in range(3):
        with pytest.raises(SamplingError, match="an earlier call of the sampler for process 4711"):
            await calls.run(lambda: called.append("again"))
    calls.run_later(lambda: called.append("later"))
    assert called == []
    release.set()
    await undone.wait()
    assert late == ["a session"]
    calls.timeout_seconds = PROMPT
    assert await calls.run(lambda: 42) == 42


async def test_a_call_that_finds_no_free_thread_is_told_apart_from_one_that_hangs() -> None:
    release = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        busy = asyncio.create_task(SamplerCalls(1, PROMPT).run(release.wait))
        await asyncio.sleep(0)
        with capture_logs() as logged, pytest.raises(SamplingError):
            await SamplerCalls(2, SHORT).run(lambda: None)
        assert [event["stack"] for event in logged] == ["no thread was free"]
        release.set()
        await busy
