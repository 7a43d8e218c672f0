"""Blocking calls of the sampler for one process, in threads, with a timeout.

A thread cannot be ended. A process whose call hangs gets no other call until that one returns, so it never
occupies more than one thread.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import structlog

from sidelight_model.errors import Reason
from sidelight_sidecar.descriptors import (
    OUT_OF_DESCRIPTORS_HINT,
    explain_out_of_descriptors,
    is_out_of_descriptors,
)
from sidelight_sidecar.samplers.sampler import SamplingError

T = TypeVar("T")

CALL_TIMEOUT_SECONDS = 60.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.sampling.sampler_calls")


class SamplerCalls:
    """The calls for one process."""

    def __init__(self, pid: int, timeout_seconds: float = CALL_TIMEOUT_SECONDS) -> None:
        self._pid = pid
        self.timeout_seconds = timeout_seconds
        self._hanging_call: asyncio.Future[Any] | None = None

    async def run(self, call: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Return the result of `call`.

        Raises SamplingError if it takes longer than the timeout. `undo` then gets the late result, in a
        thread. Raises SamplingError as well while an earlier call hangs.
        """
        if self._hanging_call is not None:
            raise SamplingError(
                f"an earlier call of the sampler for process {self._pid} has not returned",
                hint="The sidecar's log has its stack. Restart the sidecar if this lasts.",
            )
        thread_ids: list[int] = []

        def run_call() -> T:
            thread_ids.append(threading.get_ident())
            return call()

        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(None, run_call)
        done, _ = await asyncio.wait({future}, timeout=self.timeout_seconds)
        if done:
            try:
                return future.result()
            except OSError as error:
                if not is_out_of_descriptors(error):
                    raise
                raise SamplingError(
                    explain_out_of_descriptors(error),
                    reason=Reason.OUT_OF_DESCRIPTORS,
                    hint=OUT_OF_DESCRIPTORS_HINT,
                ) from error

        def clear(late: asyncio.Future[T]) -> None:
            self._hanging_call = None
            if not late.cancelled() and late.exception() is None and undo is not None:
                loop.run_in_executor(None, undo, late.result())

        future.add_done_callback(clear)
        self._hanging_call = future
        _log.error("a call of the sampler hangs", pid=self._pid, stack=_format_stack(thread_ids))
        raise SamplingError(
            f"the sampler did not answer within {self.timeout_seconds:g} seconds",
            hint="The sidecar's log has the stack of the call. It is tried again once the call returns.",
        )

    def run_later(self, call: Callable[[], object]) -> None:
        """Run a call in a thread, once the one that hangs has returned."""
        if self._hanging_call is not None:
            loop = asyncio.get_running_loop()
            self._hanging_call.add_done_callback(lambda _: loop.run_in_executor(None, call))


def _format_stack(thread_ids: list[int]) -> str:
    """Return the Python stack of the thread; a call that waits for a thread has none."""
    frame = sys._current_frames().get(thread_ids[0]) if thread_ids else None
    return "".join(traceback.format_stack(frame)) if frame else "no thread was free"
