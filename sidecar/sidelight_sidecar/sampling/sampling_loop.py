"""Samples one process for the length of a window, at the rate the governor allows.

A long window is sampled in parts, so that a window that costs far more than expected is noticed after a
second and ended. The parts are shipped as one window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sidelight.waiting import wait_for_event
from sidelight_sidecar.discovery.processes import ProcessKey
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead.budget import RateLimit
from sidelight_sidecar.overhead.governor import Governor
from sidelight_sidecar.samplers.sampler import (
    SampleBatch,
    Sampler,
    SamplingCost,
)
from sidelight_sidecar.sampling.session_handle import SessionHandle

_CHECK_SECONDS = 1.0
_MAX_WAIT_SECONDS = 3600.0
_FIRST_PART_SECONDS = 1.0
_PART_SECONDS = 5.0


class WindowSampler:
    """Samples windows with the session of one process.

    `is_interrupted` returns whether to stop waiting, `hands_over` whether a window that ends so keeps its
    session; `wakeup` makes it check at once.
    """

    def __init__(
        self,
        key: ProcessKey,
        session_handle: SessionHandle,
        governor: Governor,
        metrics: SidecarMetrics,
        clock: Callable[[], float],
        is_interrupted: Callable[[], bool],
        hands_over: Callable[[], bool],
        max_stacks: int,
    ) -> None:
        self._key = key
        self._session_handle = session_handle
        self._governor = governor
        self._metrics = metrics
        self._clock = clock
        self._is_interrupted = is_interrupted
        self._hands_over = hands_over
        self._max_stacks = max_stacks
        self._sampler: Sampler | None = None
        self._paused_pace: tuple[Sampler | None, float] = (None, 0.0)
        self._window_number = key.pid
        self.wakeup = asyncio.Event()
        self.rate_hz = 0.0
        self.end_reason: str | None = None
        self.is_cut_short = False

    def end_window_early(self) -> None:
        """End the wait or the window now, but not the session."""
        self.is_cut_short = True
        self.wakeup.set()

    def should_skip(self, rate_limit: RateLimit) -> bool:
        """Return whether to skip the next window; processes skip different windows."""
        self._window_number += 1
        return not rate_limit.rate_hz or self._window_number % rate_limit.window_stride != 0

    async def set_pace(self, sampler: Sampler, rate_hz: float, window_seconds: float) -> bool:
        """Sample at this rate from now on; return whether that needed an attach.

        Raises SamplingError.
        """
        if self._session_handle.is_open and not sampler.is_gapless and rate_hz != self.rate_hz:
            # The current run is a few milliseconds old, so nothing is lost.
            await self._session_handle.detach()
        needs_attach = not self._session_handle.is_open
        if needs_attach:
            await self._session_handle.attach(sampler, rate_hz, window_seconds)
        elif rate_hz != self.rate_hz:
            await self._session_handle.set_rate(rate_hz)
        self._sampler, self.rate_hz = sampler, rate_hz
        return needs_attach

    async def go_idle(self) -> None:
        """Stop sampling the process; keep the session if that costs nothing."""
        if self._session_handle.is_open and self._sampler is not None and self._sampler.is_gapless:
            await self._session_handle.set_rate(0.0)
            self.rate_hz = 0.0
        elif self._session_handle.is_open:
            await self._session_handle.detach()

    async def discard_idle_time(self) -> None:
        """Discard the time since `go_idle`, in which nothing was sampled."""
        if self._session_handle.is_open:
            await self._session_handle.take()

    async def collect(
        self,
        until: float,
        *,
        keep_session: bool,
        part_seconds: float = _PART_SECONDS,
        on_batch: Callable[[SampleBatch], None] | None = None,
    ) -> SampleBatch:
        """Return the samples until `until`, or until an interruption.

        The session ends unless `keep_session`. `on_batch` is called with each part.
        """
        batch: SampleBatch | None = None
        self.end_reason = None
        is_gapless = self._sampler is not None and self._sampler.is_gapless
        next_check = self._clock() + min(part_seconds, _FIRST_PART_SECONDS)
        self._governor.begin_window(self._key)
        while True:
            await self.wait_until(min(until, next_check) if is_gapless else until)
            self.end_reason = self._session_handle.end_reason
            is_last = not keep_session and self._clock() >= until
            is_interrupted = self._is_interrupted()
            ends_session = (
                is_last or self.end_reason is not None or (is_interrupted and not self._hands_over())
            )
            is_finished = (
                ends_session
                or is_interrupted
                or self.is_cut_short
                or self._clock() >= until
                or self._governor.must_end_window(self._key)
            )
            part = (
                await self.end_session()
                if ends_session
                else self._record_partial(await self._session_handle.take())
            )
            batch = part if batch is None else batch.plus(part, self._max_stacks)
            if on_batch is not None:
                on_batch(part)
            if is_finished or self._governor.must_end_window(self._key):
                self._governor.record_window(self._key, self._compute_cost(batch))
                self.is_cut_short = False
                return batch
            next_check = self._clock() + part_seconds

    async def hand_over(
        self, sampler: Sampler, window_seconds: float, choose_rate: Callable[[], float]
    ) -> SampleBatch:
        """Go on with another session without a gap; return the rest of the current.

        The end of that session resumes this one. Raises SamplingError, and changes nothing then.
        """
        paused_pace = self._sampler, self.rate_hz

        def choose() -> float:
            # A call that hangs may leave it at any rate: 0 lets `set_pace` set it.
            self._sampler, self.rate_hz, self._paused_pace = sampler, 0.0, paused_pace
            return choose_rate()

        batch = await self._session_handle.hand_over(sampler, window_seconds, self.rate_hz, choose)
        return self._record_partial(batch)

    async def end_session(self) -> SampleBatch:
        """End the session, resume one that was paused for it, and return the rest."""
        try:
            return self._record_partial(await self._session_handle.detach())
        finally:
            if self._session_handle.is_open:
                self._sampler, self.rate_hz = self._paused_pace

    async def wait_until(self, deadline: float) -> None:
        """Wait until the deadline, the end of the session, or an interruption."""
        while (remaining := deadline - self._clock()) > 0:
            if self._is_interrupted() or self.is_cut_short or self._session_handle.end_reason is not None:
                return
            if self._session_handle.is_open and self.rate_hz and self._governor.must_end_window(self._key):
                return
            longest = _CHECK_SECONDS if self._session_handle.is_open else _MAX_WAIT_SECONDS
            await self.sleep(min(remaining, longest))

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until woken."""
        if await wait_for_event(self.wakeup, seconds):
            self.wakeup.clear()

    def _record_partial(self, batch: SampleBatch) -> SampleBatch:
        self._governor.record_partial(self._key, batch, self._compute_cost(batch))
        return batch

    def _compute_cost(self, batch: SampleBatch) -> SamplingCost:
        return batch.compute_cost(
            self.rate_hz, stops_target=self._sampler is not None and self._sampler.stops_target
        )
