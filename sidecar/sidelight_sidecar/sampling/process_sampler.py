"""The sampling loop of one process.

ptrace allows one tracer per process, so everything that samples a process goes through its one loop:
scheduled windows, the pre-roll between them, and captures. A capture pauses the ordinary session without a
gap, or closes it, and keeps its window. While a switch pauses sampling, nothing is attached. The loop ends
when the process is gone or the sidecar stops, and keeps what was sampled until then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import structlog

from sidelight_sidecar.boost import Boost
from sidelight_sidecar.discovery.processes import ProcessKey
from sidelight_sidecar.health import HealthIssue
from sidelight_sidecar.overhead.budget import PAUSED, RateLimit
from sidelight_sidecar.overhead.governor import CAPTURE, ORDINARY
from sidelight_sidecar.samplers.sampler import SampleBatch, Sampler, SamplingError
from sidelight_sidecar.samplers.schedule import SampleAction, Schedule
from sidelight_sidecar.sampling.process_capture import CapturePlan, ProcessCapture
from sidelight_sidecar.sampling.sampler_context import SamplerContext
from sidelight_sidecar.sampling.sampling_loop import WindowSampler
from sidelight_sidecar.sampling.session_handle import SessionHandle
from sidelight_sidecar.sampling.window_check import find_window_problem, has_stacks
from sidelight_sidecar.shipping.ingest_response import compute_backoff
from sidelight_sidecar.triggers import SIGTERM, TriggerEvent
from sidelight_sidecar.windows.window_builder import TargetLabels, WindowContext

_PROGRESS_SECONDS = 1.0
_MIN_BOOST_SECONDS = 0.1
_ENDED_EARLY = "the process ended, or the sidecar stopped, before the capture did"
_PAUSED_EARLY = "sampling was paused before the capture ended"
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.sampling.process_sampler"
)


class ProcessSampler:
    """Samples one process until it is gone or `stop` is called."""

    def __init__(
        self,
        key: ProcessKey,
        session_handle: SessionHandle,
        target_labels: TargetLabels,
        context: SamplerContext,
    ) -> None:
        self.key = key
        self.is_capturing = False
        self._session_handle = session_handle
        self.target_labels = target_labels
        self._context = self._next_context = context
        self._window_sampler = WindowSampler(
            key,
            session_handle,
            context.governor,
            context.metrics,
            context.clock,
            lambda: self._is_interrupted,
            lambda: self._next_capture is not None,
            context.max_stacks,
        )
        self._health_subject = f"process {key.pid}"
        self._is_stopping = False
        self._pending_capture: tuple[CapturePlan, ProcessCapture] | None = None
        self._active_capture: ProcessCapture | None = None
        self._schedule = Schedule(context.plan, context.clock(), context.rng)
        self._governed_rate_hz = 0
        self._boost: Boost | None = None
        self._gap_seconds = 0.0
        self._gap_reasons: frozenset[str] = frozenset()
        self._seen_pause_count = 0
        self._gapless_since_ns: int | None = None
        self._has_checked_access = False

    @property
    def role(self) -> str:
        """The process's role in its service; a window carries the role at its end."""
        return self.target_labels.role

    @property
    def python_version(self) -> str:
        """The version of the process's Python, "3.12" or empty if unknown."""
        return self._session_handle.python_version

    @property
    def status(self) -> dict[str, object]:
        """How the process is sampled now, as JSON."""
        mode, reader = self._session_handle.mode_and_reader
        rate_limit = self._context.governor.get_rate_limit(self.key)
        fields: dict[str, object] = {"pid": self.key.pid, "role": self.role, "mode": mode, "reader": reader}
        if self._boost is not None:
            fields |= self._boost.labels
        if rate_limit is None or not mode:
            return fields | {"rate": 0, "reduced": list(rate_limit.reasons) if rate_limit else []}
        return fields | {"rate": rate_limit.mean_hz, "reduced": list(rate_limit.reasons)}

    @property
    def context(self) -> SamplerContext:
        """How the process is sampled; a new one counts from the next window on."""
        return self._next_context

    @context.setter
    def context(self, context: SamplerContext) -> None:
        self._next_context = context
        if context is not self._context:
            self.wake()

    def wake(self) -> None:
        """Let the loop check the pause switches now."""
        self._window_sampler.wakeup.set()

    def stop(self) -> None:
        """Let `run` return soon, and keep what was sampled."""
        self._is_stopping = True
        self._window_sampler.wakeup.set()

    def start_capture(self, job: CapturePlan, process_capture: ProcessCapture) -> None:
        """Start a capture as soon as possible; it reports to `process_capture`.

        Only one capture may run at a time.
        """
        self.is_capturing = True
        self._pending_capture = (job, process_capture)
        self._window_sampler.wakeup.set()

    def apply_trigger(self, event: TriggerEvent, *, immediate: bool = False) -> None:
        """Start a boost, or add the event to the current one.

        It starts after a capture if one runs. With `immediate`, it starts now, and the open window carries
        its labels.
        """
        context = self._context
        if self._boost is None:
            self._boost = Boost(
                context.trigger_rules.boost_seconds, max(context.rate_hz, context.trigger_rate_hz)
            )
        self._boost.add(event)
        if immediate:
            self._boost.until = self._boost.until or context.clock()
        elif not self._boost.has_started and not self.is_capturing:
            self._window_sampler.end_window_early()

    def stop_capture(self, process_capture: ProcessCapture) -> None:
        """End the capture on this process now, and keep its samples."""
        process_capture.is_stop_requested = True
        self._window_sampler.wakeup.set()

    async def run(self) -> None:
        """Sample until `stop`; raises nothing but CancelledError.

        A process that cannot be sampled must not end the loops of the others.
        """
        attempt = 0
        while not self._is_stopping:
            try:
                await self._run_step()
                attempt = 0
                continue
            except SamplingError as error:
                self._report_error(error)
            except Exception:  # noqa: BLE001 - the root of this loop
                self._context.metrics.loop_errors.labels("watch").inc()
                _log.exception("an unexpected error while sampling", pid=self.key.pid)
            attempt += 1
            wait = compute_backoff(attempt, self._context.max_retry_seconds, self._context.rng())
            await self._window_sampler.wait_until(self._context.clock() + wait)
        while self._session_handle.is_open:
            try:
                await self._close_session()
            except SamplingError as error:
                self._report_error(error)
        if self._pending_capture is not None:
            self._pending_capture[1].finish(_ENDED_EARLY)
        self._context.health.clear(self._health_subject)
        self._context.governor.forget(self.key)
        if SIGTERM not in self._context.trigger_rules.enabled_triggers:
            self._context.window_writer.discard(self.key)
        self._session_handle.clear_stopped()

    async def _run_step(self) -> None:
        if self._next_context is not self._context:
            await self._change_context()
        elif self._context.pause_control.pause_count != self._seen_pause_count:
            await self._wait_while_paused()
        elif self._pending_capture is not None:
            await self._run_capture(*self._pending_capture)
        else:
            await self._sample_by_plan()

    async def _change_context(self) -> None:
        """Keep what was sampled, and go on with the new context."""
        while self._session_handle.is_open:
            await self._close_session()
        self._leave_governor()
        self._context, self._has_checked_access = (context := self._next_context), False
        self._schedule = Schedule(context.plan, context.clock(), context.rng)

    async def _sample_by_plan(self) -> None:
        """Wait for the next window or sample it; raises SamplingError if that fails."""
        context, plan, now = self._context, self._context.plan, self._context.clock()
        boost = await self._update_boost(now)
        rate_hz = context.rate_hz if boost is None else boost.rate_hz
        action = self._schedule.choose(now)
        if boost is not None and boost.until is not None:
            action = SampleAction(boost.until)
        if not isinstance(action, SampleAction) and not context.keeps_preroll:
            if plan.is_on_demand and not self._has_checked_access:
                # A missing permission should be reported before somebody needs a capture.
                await self._set_pace(context.sampler, context.rate_hz)
                await self._session_handle.detach()
                self._has_checked_access = True
            await self._window_sampler.wait_until(action.until)
            return
        self._join_governor(ORDINARY, rate_hz, context.sampler)
        rate_limit = context.governor.get_rate_limit(self.key) or RateLimit(rate_hz)
        until = min(action.until, now + plan.window_seconds)
        if isinstance(action, SampleAction) and boost is None:
            context.metrics.missed_windows.inc(self._schedule.record_slot(action.slot))
        if self._window_sampler.should_skip(rate_limit):
            await self._skip_until(until, rate_limit)
            return
        if not self._session_handle.is_open:
            self._gapless_since_ns = None
        await self._set_pace(context.sampler, rate_limit.rate_hz)
        keep_session = (
            plan.is_continuous or context.keeps_preroll or (boost is not None and until < action.until)
        )
        batch = await self._window_sampler.collect(until, keep_session=keep_session)
        end_reason = self._window_sampler.end_reason
        if end_reason is None and (job := self._next_capture) is not None:
            batch = await self._hand_over(job, batch)
        await self._write_windows(batch, rate_limit, to_spool=isinstance(action, SampleAction))
        if end_reason is None and not self._is_interrupted:
            self._check_window(batch)
        if end_reason is not None and end_reason.startswith("failed"):
            raise SamplingError(
                f"sampling process {self.key.pid} ended: {end_reason}", hint="It is tried again."
            )
        if end_reason is not None:
            # The next scan of /proc shows whether the process is gone or runs another program.
            await self._window_sampler.wait_until(context.clock() + _PROGRESS_SECONDS)

    async def _update_boost(self, now: float) -> Boost | None:
        """Return the current boost; start a pending one and end an old one.

        At its start the pre-roll is released.
        """
        boost, plan = self._boost, self._context.plan
        if boost is None:
            return None
        if boost.until is None:
            self._window_sampler.is_cut_short = False
            boost.until = now + boost.seconds
            await self._context.window_writer.release(self.key, boost.labels)
        if boost.until - now >= _MIN_BOOST_SECONDS:
            return boost
        self._boost = None
        # The boost replaced the windows that were due during it.
        self._schedule.skip_until(now)
        if self._session_handle.is_open and not (plan.is_continuous or self._context.keeps_preroll):
            await self._close_session()
        return None

    async def _skip_until(self, until: float, rate_limit: RateLimit) -> None:
        """Sample nothing until `until`, or until the governor changes the rate limit."""
        started_at = self._context.clock()
        if rate_limit.is_suspended and self._session_handle.is_open:
            await self._close_session()
        else:
            await self._window_sampler.go_idle()
        while (now := self._context.clock()) < until and not self._is_interrupted:
            await self._window_sampler.wait_until(min(until, now + _PROGRESS_SECONDS))
            has_changed = self._context.governor.get_rate_limit(self.key) != rate_limit
            if (
                self._session_handle.end_reason is not None
                or self._window_sampler.is_cut_short
                or has_changed
            ):
                break
        await self._window_sampler.discard_idle_time()
        self._record_gap(started_at, rate_limit.reasons)

    async def _wait_while_paused(self) -> None:
        """Detach and wait while a switch is on, however short the pause is."""
        started_at, self._seen_pause_count = self._context.clock(), self._context.pause_control.pause_count
        while self._session_handle.is_open:
            await self._close_session()
        self._leave_governor()
        if self._pending_capture is not None:
            (_, part), self._pending_capture, self.is_capturing = self._pending_capture, None, False
            part.finish(_PAUSED_EARLY)
        self._context.metrics.reduced_rate.labels(PAUSED).inc()
        try:
            while (
                self._context.pause_control.is_paused
                and not self._is_stopping
                and self._pending_capture is None
            ):
                await self._window_sampler.sleep(_PROGRESS_SECONDS)
        finally:
            self._context.metrics.reduced_rate.labels(PAUSED).dec()
            self._record_gap(started_at, (PAUSED,))

    async def _run_capture(self, job: CapturePlan, process_capture: ProcessCapture) -> None:
        self._pending_capture, self._active_capture, self._window_sampler.is_cut_short = (
            None,
            process_capture,
            False,
        )
        started_at, is_handed_over = self._context.clock(), self._session_handle.is_handed_over
        try:
            if self._session_handle.is_open and not is_handed_over:
                await self._close_session()
            preroll_windows, preroll_since_ns = await self._context.window_writer.release(
                self.key, {"capture": job.id}
            )
            process_capture.record_preroll(
                self._gapless_since_ns if preroll_since_ns is None else preroll_since_ns, preroll_windows
            )
            self._join_capture(job)
            await self._sample_capture(job, process_capture)
            process_capture.finish(None)
        except SamplingError as error:
            process_capture.finish(error.message, error.hint)
            self._has_checked_access = False
            raise
        finally:
            if self._session_handle.is_open and self._session_handle.is_handed_over == is_handed_over:
                await self._window_sampler.end_session()
            self._leave_governor()
            self.is_capturing, self._active_capture = False, None
            process_capture.finish("an unexpected error: see the sidecar's log")
            if self._context.plan.is_continuous:
                self._record_gap(started_at, ())
                self._context.metrics.preempted_seconds.inc(self._context.clock() - started_at)

    async def _hand_over(self, job: CapturePlan, batch: SampleBatch) -> SampleBatch:
        """Go on with a capture's session; return the ordinary window to its end.

        If that fails, the capture closes the ordinary session, and fails by itself.
        """
        try:
            rest = await self._window_sampler.hand_over(
                job.sampler, min(job.seconds, job.window_seconds), lambda: self._join_capture(job)
            )
        except SamplingError:
            return batch
        return batch.plus(rest, self._context.max_stacks)

    def _join_capture(self, job: CapturePlan) -> float:
        """Move the process to the budget of captures; return its rate there."""
        self._leave_governor()
        self._join_governor(CAPTURE, job.rate_hz, job.sampler)
        return (self._context.governor.get_rate_limit(self.key) or RateLimit(job.rate_hz)).rate_hz

    @property
    def _next_capture(self) -> CapturePlan | None:
        """The capture to which the ordinary session can be handed over, if one is pending."""
        context = self._context
        is_paused = context.pause_control.pause_count != self._seen_pause_count
        is_kept = context.plan.is_continuous or context.keeps_preroll
        if self._pending_capture is None or self._is_stopping or is_paused or not is_kept:
            return None
        job = self._pending_capture[0]
        return job if context.sampler.is_gapless and job.sampler.is_gapless else None

    async def _sample_capture(self, job: CapturePlan, process_capture: ProcessCapture) -> None:
        clock, end = self._context.clock, None
        while end is None or (
            clock() < end and not self._is_interrupted and self._window_sampler.end_reason is None
        ):
            rate_limit = self._context.governor.get_rate_limit(self.key) or RateLimit(job.rate_hz)
            process_capture.record_rate(rate_limit.rate_hz, rate_limit.reasons)
            if rate_limit.rate_hz:
                await self._set_pace(job.sampler, rate_limit.rate_hz, min(job.seconds, job.window_seconds))
            end = clock() + job.seconds if end is None else end
            if not rate_limit.rate_hz:
                await self._skip_until(end, rate_limit)
                continue
            until = min(end, clock() + job.window_seconds)
            batch = await self._window_sampler.collect(
                until,
                keep_session=until < end,
                part_seconds=_PROGRESS_SECONDS,
                on_batch=process_capture.record_batch,
            )
            context = self._make_window_context(rate_limit, job.window_seconds, {"capture": job.id})
            process_capture.windows += await self._context.window_writer.write(
                batch, self.target_labels, context
            )
        if process_capture.is_stop_requested:
            process_capture.finish(None)
        elif clock() < end:
            is_paused = (
                self._context.pause_control.pause_count != self._seen_pause_count and not self._is_stopping
            )
            process_capture.finish(_PAUSED_EARLY if is_paused else _ENDED_EARLY)
        elif not process_capture.windows:
            process_capture.finish("nothing was sampled: GET /readyz says why")

    async def _set_pace(self, sampler: Sampler, rate_hz: float, window_seconds: float | None = None) -> None:
        if await self._window_sampler.set_pace(
            sampler, rate_hz, window_seconds or self._context.plan.window_seconds
        ):
            self._report_recovery()

    def _report_recovery(self) -> None:
        if self._context.health.clear(self._health_subject):
            _log.info("the process is sampled again", pid=self.key.pid)

    async def _close_session(self) -> None:
        """End the session, and keep what was sampled since the last window."""
        context = self._context
        rate_limit = context.governor.get_rate_limit(self.key) or RateLimit(context.rate_hz)
        rate_hz = self._window_sampler.rate_hz
        batch = await self._window_sampler.end_session()
        if rate_hz and batch.quality.attempts:
            await self._write_windows(
                batch, replace(rate_limit, rate_hz=rate_hz), to_spool=context.plan.is_continuous
            )

    async def _write_windows(self, batch: SampleBatch, rate_limit: RateLimit, *, to_spool: bool) -> None:
        context = self._context
        labels = self._boost.labels if self._boost is not None and self._boost.has_started else {}
        window_context = self._make_window_context(rate_limit, context.plan.window_seconds, labels)
        if self._gapless_since_ns is None or window_context.paused_ns:
            self._gapless_since_ns = batch.start_ns
        if to_spool:
            await context.window_writer.write(batch, self.target_labels, window_context)
        else:
            await context.window_writer.buffer(
                self.key, batch, self.target_labels, window_context, context.clock()
            )

    def _make_window_context(
        self, rate_limit: RateLimit, nominal_seconds: float, labels: Mapping[str, str]
    ) -> WindowContext:
        reasons = tuple(sorted({*rate_limit.reasons, *self._gap_reasons}))
        paused_ns, self._gap_seconds, self._gap_reasons = round(self._gap_seconds * 1e9), 0.0, frozenset()
        return WindowContext(rate_limit.rate_hz, nominal_seconds, labels, paused_ns, reasons)

    def _record_gap(self, since: float, reasons: tuple[str, ...]) -> None:
        """Record that nothing was sampled since `since`, for the next window."""
        elapsed = self._context.clock() - since
        self._gap_seconds += elapsed
        self._gap_reasons |= set(reasons)
        for reason in reasons:
            self._context.metrics.unsampled_seconds.labels(reason).inc(elapsed)

    def _join_governor(self, pool: str, rate_hz: int, sampler: Sampler) -> None:
        governor, rate_limit = self._context.governor, self._context.governor.get_rate_limit(self.key)
        if self._governed_rate_hz == rate_hz or (
            self._governed_rate_hz and rate_limit is not None and rate_limit.is_suspended
        ):
            return
        if self._governed_rate_hz:
            governor.remove(self.key)
        governor.add(
            self.key,
            rate_hz,
            pool,
            pod=self.target_labels.pod,
            pod_cpu_share=self._context.pod_cpu_share if pool == ORDINARY else math.inf,
            stops_target=sampler.stops_target,
            wake=self._window_sampler.wakeup.set,
        )
        self._governed_rate_hz = rate_hz

    def _leave_governor(self) -> None:
        self._context.governor.remove(self.key)
        self._governed_rate_hz = 0

    def _check_window(self, batch: SampleBatch) -> None:
        """Report a whole window without stacks although the session holds."""
        if has_stacks(batch.quality):
            self._report_recovery()
        elif problem := find_window_problem(self._health_subject, batch):
            self._report_error(problem)

    @property
    def _is_interrupted(self) -> bool:
        is_paused = self._context.pause_control.pause_count != self._seen_pause_count
        is_stop_requested = self._active_capture is not None and self._active_capture.is_stop_requested
        return self._is_stopping or self._pending_capture is not None or is_paused or is_stop_requested

    def _report_error(self, error: SamplingError) -> None:
        self._context.metrics.attach_failures.labels(error.reason.value).inc()
        if self._context.health.report(self._health_subject, HealthIssue.from_error(error)):
            _log.warning(
                "a process cannot be sampled",
                pid=self.key.pid,
                reason=error.reason.value,
                problem=error.message,
                hint=error.hint,
            )
