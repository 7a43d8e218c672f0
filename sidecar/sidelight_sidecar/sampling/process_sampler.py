"""The loop of one watched process.

ptrace lets one tracer near a process, so everything that samples a process goes through its one
loop: ordinary windows by the plan, what is held back for a capture between them, and captures, for
which the ordinary session pauses (its window is closed and kept). While a switch pauses sampling
nothing is attached. The loop ends when the process is gone or the sidecar stops; what was sampled
until then is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from sidelight_sidecar.boost import Boost
from sidelight_sidecar.discovery.processes import Key
from sidelight_sidecar.health import Board, Problem
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.overhead.budget import PAUSED, Allowance
from sidelight_sidecar.overhead.governor import CAPTURE, ORDINARY, Governor
from sidelight_sidecar.overhead.pause_control import Switches
from sidelight_sidecar.samplers.sampler import Sampled, Sampler, SamplingError
from sidelight_sidecar.samplers.schedule import Plan, Sample, due, slot_of
from sidelight_sidecar.sampling.capture_job import Order, Part
from sidelight_sidecar.sampling.sampling_loop import Stint
from sidelight_sidecar.sampling.session_handle import Hold
from sidelight_sidecar.shipping.ingest_response import pause
from sidelight_sidecar.triggers import SIGTERM, Fired, Rules
from sidelight_sidecar.windows.window_writer import Intake
from sidelight_sidecar.windows.windows import Source, Taking

_PROGRESS_SECONDS = 1.0
_LEAST_SECONDS = 0.1
_NO_STACKS = (
    "It is stopped (kill -CONT), or something else traces it (a debugger, strace or another profiler: "
    "end that one), or its threads sleep in the kernel."
)
_CUT_SHORT = "the process ended, or the sidecar stopped, before the capture did"
_SWITCHED_OFF = "sampling was paused before the capture ended"
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.sampling.process_sampler"
)


@dataclass(frozen=True, slots=True)
class Means:
    """What every watch works with; `clock` is monotonic seconds, `luck` a number from 0 to below 1.

    `preroll` when what is sampled between windows is held back for captures and triggers; `rate_hz` is
    that of ordinary windows, `trigger_hz` that after a trigger.
    """

    sampler: Sampler
    intake: Intake
    governor: Governor
    switches: Switches
    metrics: Metrics
    board: Board
    plan: Plan
    preroll: bool
    rate_hz: int
    triggers: Rules
    trigger_hz: int
    max_stacks: int
    retry_max: float
    clock: Callable[[], float]
    luck: Callable[[], float]


class Watch:
    """Samples one process until it is gone or `stop` is called."""

    def __init__(self, key: Key, hold: Hold, source: Source, means: Means) -> None:
        self.key = key
        self.capturing = False
        self._hold = hold
        self._source = source
        self._means = means
        self._stint = Stint(
            key, hold, means.governor, means.metrics, means.clock, lambda: self._interrupted, means.max_stacks
        )
        self._subject = f"process {key.pid}"
        self._stopping = False
        self._request: tuple[Order, Part] | None = None
        self._part: Part | None = None
        self._anchor = means.clock()
        self._last_slot: int | None = None
        self._slot_luck: dict[int, float] = {}
        self._joined = 0
        self._boost: Boost | None = None
        self._paused = 0.0
        self._why: frozenset[str] = frozenset()
        self._pauses = 0
        self._covered_since: int | None = None
        self._looked_into = False

    @property
    def role(self) -> str:
        """What the process is to its service; windows carry the role that it has when they end."""
        return self._source.role

    @role.setter
    def role(self, role: str) -> None:
        self._source = replace(self._source, role=role)

    @property
    def python(self) -> str:
        """The Python that the process runs, as far as it is known: "3.12" or nothing."""
        return self._hold.python

    @property
    def told(self) -> dict[str, object]:
        """How the process is sampled now, as JSON."""
        mode, reader = self._hold.how
        allowance = self._means.governor.allowance(self.key)
        told: dict[str, object] = {"pid": self.key.pid, "role": self.role, "mode": mode, "reader": reader}
        if self._boost is not None:
            told |= self._boost.labels
        if allowance is None or not mode:
            return told | {"rate": 0, "reduced": list(allowance.reasons) if allowance else []}
        return told | {"rate": allowance.mean_hz, "reduced": list(allowance.reasons)}

    def wake(self) -> None:
        """Have it look at the switches now."""
        self._stint.wake.set()

    def stop(self) -> None:
        """Let `run` return soon, with what was sampled kept."""
        self._stopping = True
        self._stint.wake.set()

    def capture(self, order: Order, part: Part) -> None:
        """Sample for a capture as soon as may be; `part` is told how it goes. One at a time."""
        self.capturing = True
        self._request = (order, part)
        self._stint.wake.set()

    def trigger(self, fired: Fired, *, at_once: bool = False) -> None:
        """Sample faster for a while, after a capture if one runs; `at_once`: this window says so already."""
        means = self._means
        if self._boost is None:
            self._boost = Boost(means.triggers.lasts, max(means.rate_hz, means.trigger_hz))
        self._boost.add(fired)
        if at_once:
            self._boost.until = self._boost.until or means.clock()
        elif not self._boost.begun and not self.capturing:
            self._stint.cut_short()

    def stop_capture(self, part: Part) -> None:
        """End this part of a capture now; what was sampled is kept."""
        part.stopped = True
        self._stint.wake.set()

    async def run(self) -> None:
        """Never raises but CancelledError: one process that cannot be sampled must not end the others."""
        attempt = 0
        while not self._stopping:
            try:
                await self._step()
                attempt = 0
                continue
            except SamplingError as error:
                self._report(error)
            except Exception:  # noqa: BLE001 - the root of this loop
                self._means.metrics.loop_errors.labels("watch").inc()
                _log.exception("an unexpected error while sampling", pid=self.key.pid)
            attempt += 1
            wait = pause(attempt, self._means.retry_max, self._means.luck())
            await self._stint.until(self._means.clock() + wait)
        if self._hold.held:
            await self._close()
        if self._request is not None:
            self._request[1].finish(_CUT_SHORT)
        self._means.board.clear(self._subject)
        self._means.governor.forget(self.key)
        if SIGTERM not in self._means.triggers.on:
            self._means.intake.forget(self.key)
        self._hold.forget()

    async def _step(self) -> None:
        if self._means.switches.pauses != self._pauses:
            await self._stand_aside()
        elif self._request is not None:
            await self._capture(*self._request)
        else:
            await self._ordinary()

    async def _ordinary(self) -> None:
        """Wait for the next window, or take it; raises SamplingError when it cannot be taken."""
        means, plan, now = self._means, self._means.plan, self._means.clock()
        boost = await self._boosted(now)
        rate_hz = means.rate_hz if boost is None else boost.rate_hz
        step = due(now, plan, anchor=self._anchor, last_slot=self._last_slot, luck=self._luck_of)
        if boost is not None and boost.until is not None:
            step = Sample(boost.until)
        if not isinstance(step, Sample) and not means.preroll:
            if plan.trigger_only and not self._looked_into:
                # Whether a capture would be allowed is told before somebody needs one.
                await self._pace(means.sampler, means.rate_hz)
                await self._hold.detach()
                self._looked_into = True
            await self._stint.until(step.until)
            return
        self._join(ORDINARY, rate_hz, means.sampler)
        allowance = means.governor.allowance(self.key) or Allowance(rate_hz)
        until = min(step.until, now + plan.window)
        if isinstance(step, Sample) and boost is None:
            self._passed(step.slot)
        if self._stint.sits_out(allowance):
            await self._leave_out(until, allowance)
            return
        if not self._hold.held:
            self._covered_since = None
        await self._pace(means.sampler, allowance.rate_hz)
        goes_on = plan.continuous or means.preroll or (boost is not None and until < step.until)
        sampled = await self._stint.gather(until, goes_on=goes_on)
        ended = self._stint.ended
        await self._keep(sampled, allowance, shipped=isinstance(step, Sample))
        if ended is None and not self._interrupted:
            self._judge(sampled)
        if ended is not None and ended.startswith("failed"):
            raise SamplingError(f"sampling process {self.key.pid} ended: {ended}", hint="It is tried again.")
        if ended is not None:
            # The next look at /proc tells whether the process is gone or runs another program.
            await self._stint.until(means.clock() + _PROGRESS_SECONDS)

    async def _boosted(self, now: float) -> Boost | None:
        """What a trigger asks for now; one that has come up begins, with what was held back before it."""
        boost, plan = self._boost, self._means.plan
        if boost is None:
            return None
        if boost.until is None:
            self._stint.cut = False
            boost.until = now + boost.seconds
            await self._means.intake.ship_held_back(self.key, boost.labels)
        if boost.until - now >= _LEAST_SECONDS:
            return boost
        self._boost = None
        if plan.interval is not None:
            # It took the place of the windows that were due meanwhile.
            self._last_slot = slot_of(now, plan.interval, self._anchor)
        if self._hold.held and not (plan.continuous or self._means.preroll):
            await self._close()
        return None

    async def _leave_out(self, until: float, allowance: Allowance) -> None:
        """Sample nothing until then, or until the governor says otherwise."""
        began = self._means.clock()
        if allowance.off and self._hold.held:
            await self._close()
        else:
            await self._stint.rest()
        while (now := self._means.clock()) < until and not self._interrupted:
            await self._stint.until(min(until, now + _PROGRESS_SECONDS))
            changed = self._means.governor.allowance(self.key) != allowance
            if self._hold.ended is not None or self._stint.cut or changed:
                break
        await self._stint.rested()
        self._not_sampled(began, allowance.reasons)

    async def _stand_aside(self) -> None:
        """Have nothing attached while a switch is on, however short that is."""
        began, self._pauses = self._means.clock(), self._means.switches.pauses
        if self._hold.held:
            await self._close()
        self._leave()
        if self._request is not None:
            (_, part), self._request, self.capturing = self._request, None, False
            part.finish(_SWITCHED_OFF)
        self._means.metrics.reduced_rate.labels(PAUSED).inc()
        try:
            while self._means.switches.paused and not self._stopping and self._request is None:
                await self._stint.nap(_PROGRESS_SECONDS)
        finally:
            self._means.metrics.reduced_rate.labels(PAUSED).dec()
            self._not_sampled(began, (PAUSED,))

    async def _capture(self, order: Order, part: Part) -> None:
        self._request, self._part, self._stint.cut = None, part, False
        began = self._means.clock()
        try:
            if self._hold.held:
                await self._close()
            shipped, held_since = await self._means.intake.ship_held_back(self.key, {"capture": order.id})
            part.covered(self._covered_since if held_since is None else held_since, shipped)
            self._leave()
            self._join(CAPTURE, order.rate_hz, order.sampler)
            await self._sample_for(order, part)
            part.finish(None)
        except SamplingError as error:
            part.finish(error.message, error.hint)
            self._looked_into = False
            raise
        finally:
            if self._hold.held:
                await self._hold.detach()
            self._leave()
            self.capturing, self._part = False, None
            part.finish("an unexpected error: see the sidecar's log")
            if self._means.plan.continuous:
                self._not_sampled(began, ())
                self._means.metrics.preempted_seconds.inc(self._means.clock() - began)

    async def _sample_for(self, order: Order, part: Part) -> None:
        clock, end = self._means.clock, None
        while end is None or (clock() < end and not self._interrupted and self._stint.ended is None):
            allowance = self._means.governor.allowance(self.key) or Allowance(order.rate_hz)
            part.paced(allowance.rate_hz, allowance.reasons)
            if allowance.rate_hz:
                await self._pace(order.sampler, allowance.rate_hz, min(order.seconds, order.window_seconds))
            end = clock() + order.seconds if end is None else end
            if not allowance.rate_hz:
                await self._leave_out(end, allowance)
                continue
            until = min(end, clock() + order.window_seconds)
            sampled = await self._stint.gather(
                until, goes_on=until < end, part_seconds=_PROGRESS_SECONDS, told=part.progress
            )
            taking = self._taking(allowance, order.window_seconds, {"capture": order.id})
            part.windows += await self._means.intake.keep(sampled, self._source, taking)
        if part.stopped:
            part.finish(None)
        elif clock() < end:
            paused = self._means.switches.pauses != self._pauses and not self._stopping
            part.finish(_SWITCHED_OFF if paused else _CUT_SHORT)
        elif not part.windows:
            part.finish("nothing was sampled: GET /readyz says why")

    async def _pace(self, sampler: Sampler, rate_hz: float, window_seconds: float | None = None) -> None:
        if await self._stint.pace(sampler, rate_hz, window_seconds or self._means.plan.window):
            self._mended()

    def _mended(self) -> None:
        if self._means.board.clear(self._subject):
            _log.info("the process is sampled again", pid=self.key.pid)

    async def _close(self) -> None:
        """End the session; what was sampled since the last window is kept."""
        means = self._means
        allowance = means.governor.allowance(self.key) or Allowance(means.rate_hz)
        rate_hz = self._stint.rate_hz
        sampled = await self._stint.end()
        if rate_hz and sampled.quality.attempts:
            await self._keep(sampled, replace(allowance, rate_hz=rate_hz), shipped=means.plan.continuous)

    async def _keep(self, sampled: Sampled, allowance: Allowance, *, shipped: bool) -> None:
        means = self._means
        labels = self._boost.labels if self._boost is not None and self._boost.begun else {}
        taking = self._taking(allowance, means.plan.window, labels)
        if self._covered_since is None or taking.paused_ns:
            self._covered_since = sampled.start_ns
        if shipped:
            await means.intake.keep(sampled, self._source, taking)
        else:
            await means.intake.hold_back(self.key, sampled, self._source, taking, means.clock())

    def _taking(self, allowance: Allowance, nominal_seconds: float, labels: Mapping[str, str]) -> Taking:
        reasons = tuple(sorted({*allowance.reasons, *self._why}))
        paused_ns, self._paused, self._why = round(self._paused * 1e9), 0.0, frozenset()
        return Taking(allowance.rate_hz, nominal_seconds, labels, paused_ns, reasons)

    def _not_sampled(self, since: float, reasons: tuple[str, ...]) -> None:
        """Remember, for the next window, that nothing was sampled since then."""
        elapsed = self._means.clock() - since
        self._paused += elapsed
        self._why |= set(reasons)
        for why in reasons:
            self._means.metrics.unsampled_seconds.labels(why).inc(elapsed)

    def _join(self, pool: str, rate_hz: int, sampler: Sampler) -> None:
        governor, allowance = self._means.governor, self._means.governor.allowance(self.key)
        if self._joined == rate_hz or (self._joined and allowance is not None and allowance.off):
            return
        if self._joined:
            governor.leave(self.key)
        governor.join(self.key, rate_hz, pool, stops=sampler.stops, wake=self._stint.wake.set)
        self._joined = rate_hz

    def _leave(self) -> None:
        self._means.governor.leave(self.key)
        self._joined = 0

    def _judge(self, sampled: Sampled) -> None:
        """Say so when a whole window gave no stacks though the session holds."""
        quality, subject = sampled.quality, self._subject
        failed = sum(quality.errors.values())
        if quality.attempts > failed:
            self._mended()
        elif quality.attempts:
            kinds = ", ".join(f"{kind} {times}" for kind, times in sorted(quality.errors.items()))
            self._report(
                SamplingError(f"{subject} gave no stacks in a whole window: {kinds}", hint=_NO_STACKS)
            )

    @property
    def _interrupted(self) -> bool:
        paused = self._means.switches.pauses != self._pauses
        asked = self._part is not None and self._part.stopped
        return self._stopping or self._request is not None or paused or asked

    def _luck_of(self, slot: int) -> float:
        if slot not in self._slot_luck:
            self._slot_luck = {old: luck for old, luck in self._slot_luck.items() if old >= slot - 2}
            self._slot_luck[slot] = self._means.luck()
        return self._slot_luck[slot]

    def _passed(self, slot: int) -> None:
        if self._means.plan.interval is not None:
            first = 0 if self._last_slot is None else self._last_slot + 1
            self._means.metrics.missed_windows.inc(max(0, slot - first))
            self._last_slot = slot

    def _report(self, error: SamplingError) -> None:
        self._means.metrics.attach_failures.labels(error.reason.value).inc()
        if self._means.board.report(self._subject, Problem.of(error)):
            _log.warning(
                "a process cannot be sampled",
                pid=self.key.pid,
                reason=error.reason.value,
                problem=error.message,
                hint=error.hint,
            )
