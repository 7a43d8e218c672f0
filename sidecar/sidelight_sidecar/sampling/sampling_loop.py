"""Samples one process for the length of a window, at the pace the governor allows.

A long window is taken in parts, so that one that costs far more than was foreseen is noticed after
a second and ended; the parts are shipped as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sidelight_sidecar.discovery.processes import Key
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.overhead.budget import (
    Allowance,
)
from sidelight_sidecar.overhead.governor import Governor
from sidelight_sidecar.samplers.sampler import (
    Sampled,
    Sampler,
    Used,
)
from sidelight_sidecar.sampling.session_handle import Hold

_LOOK_SECONDS = 1.0
_LONGEST_WAIT = 3600.0
_FIRST_PART = 1.0
_PART = 5.0


class Stint:
    """The session of one process, paced; `interrupted` says when to stop waiting, as `wake` does."""

    def __init__(
        self,
        key: Key,
        hold: Hold,
        governor: Governor,
        metrics: Metrics,
        clock: Callable[[], float],
        interrupted: Callable[[], bool],
        max_stacks: int,
    ) -> None:
        self._key = key
        self._hold = hold
        self._governor = governor
        self._metrics = metrics
        self._clock = clock
        self._interrupted = interrupted
        self._max_stacks = max_stacks
        self._sampler: Sampler | None = None
        self._turn = key.pid
        self.wake = asyncio.Event()
        self.rate_hz = 0.0
        self.ended: str | None = None
        self.cut = False

    def cut_short(self) -> None:
        """End the wait or the window now, but not the session: something else is to be sampled."""
        self.cut = True
        self.wake.set()

    def sits_out(self, allowance: Allowance) -> bool:
        """Whether the next window is one of those that are left out; different ones for each process."""
        self._turn += 1
        return not allowance.rate_hz or self._turn % allowance.every != 0

    async def pace(self, sampler: Sampler, rate_hz: float, window_seconds: float) -> bool:
        """Sample at this rate from now on; true when it was attached to for that. Raises SamplingError."""
        if self._hold.held and not sampler.gapless and rate_hz != self.rate_hz:
            # What is running is a few milliseconds old.
            await self._hold.detach()
        attaches = not self._hold.held
        if attaches:
            await self._hold.attach(sampler, rate_hz, window_seconds)
        elif rate_hz != self.rate_hz:
            await self._hold.set_rate(rate_hz)
        self._sampler, self.rate_hz = sampler, rate_hz
        return attaches

    async def rest(self) -> None:
        """Leave the process in peace, with the session kept where that costs nothing."""
        if self._hold.held and self._sampler is not None and self._sampler.gapless:
            await self._hold.set_rate(0.0)
            self.rate_hz = 0.0
        elif self._hold.held:
            await self._hold.detach()

    async def rested(self) -> None:
        """Throw away the time of a rest, in which nothing was looked at."""
        if self._hold.held:
            await self._hold.take()

    async def gather(
        self,
        until: float,
        *,
        goes_on: bool,
        part_seconds: float = _PART,
        told: Callable[[Sampled], None] | None = None,
    ) -> Sampled:
        """What is sampled until then, or until something comes up; the session ends unless it `goes_on`.

        `told` is called with each part.
        """
        gathered: Sampled | None = None
        self.ended = None
        gapless = self._sampler is not None and self._sampler.gapless
        look = self._clock() + min(part_seconds, _FIRST_PART)
        self._governor.begin(self._key)
        while True:
            await self.until(min(until, look) if gapless else until)
            self.ended = self._hold.ended
            stops = not goes_on and self._clock() >= until
            ends = stops or self.ended is not None or self._interrupted()
            over = ends or self.cut or self._clock() >= until or self._governor.hurries(self._key)
            part = await self.end() if ends else self._part(await self._hold.take())
            gathered = part if gathered is None else gathered.plus(part, self._max_stacks)
            if told is not None:
                told(part)
            if over or self._governor.hurries(self._key):
                self._governor.settle(self._key, self._used(gathered))
                self.cut = False
                return gathered
            look = self._clock() + part_seconds

    async def end(self) -> Sampled:
        """End the session; what was left."""
        return self._part(await self._hold.detach())

    async def until(self, deadline: float) -> None:
        """Wait, but no longer than the session samples and nothing else is to be done."""
        while (left := deadline - self._clock()) > 0:
            if self._interrupted() or self.cut or self._hold.ended is not None:
                return
            if self._hold.held and self.rate_hz and self._governor.hurries(self._key):
                return
            await self.nap(min(left, _LOOK_SECONDS if self._hold.held else _LONGEST_WAIT))

    async def nap(self, seconds: float) -> None:
        """Wait so long, or until woken."""
        try:
            async with asyncio.timeout(seconds):
                await self.wake.wait()
            self.wake.clear()
        except TimeoutError:
            return

    def _part(self, sampled: Sampled) -> Sampled:
        self._governor.look(self._key, sampled, self._used(sampled))
        return sampled

    def _used(self, sampled: Sampled) -> Used:
        return sampled.used(self.rate_hz, stops=self._sampler is not None and self._sampler.stops)
