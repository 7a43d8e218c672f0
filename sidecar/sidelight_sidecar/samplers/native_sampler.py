"""The sampler of the extension `sidelight_native`, which only this module imports."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sidelight_model.counts import Counts
from sidelight_model.errors import Reason
from sidelight_model.folded import Stack
from sidelight_model.window import Quality
from sidelight_sidecar.descriptors import (
    OUT_OF_DESCRIPTORS_HINT,
    explain_out_of_descriptors,
    is_out_of_descriptors,
)
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.samplers.sampler import SampleBatch, SamplingError
from sidelight_sidecar.samplers.task_samples import read_task_samples
from sidelight_sidecar.samplers.timed_samples import TimedSamples, encode_timed_samples

DenialExplainer = Callable[[int], SamplingError]


class NativeSampler:
    """Samples with the extension: attaches once, without gaps between windows.

    It distinguishes all states, where the kernel has the figures for `cpu_wait`, and shows the system calls
    of the target for `gil_wait`, `lock`, `poll`, `io` and `sleep`.
    """

    is_gapless = True
    missing_states: tuple[str, ...] = ()
    """Those of the last process that it was attached to."""

    def __init__(
        self,
        engine: Any,
        version: str,
        mode: str,
        *,
        max_depth: int,
        explain_denial: DenialExplainer,
        max_timed_samples: int = 0,
        can_stop: bool = True,
        tasks_hz: float = 0.0,
    ) -> None:
        """Create a sampler for one mode.

        `max_timed_samples`: keep individual samples, at most this many between two takes.

        `tasks_hz`: list the asyncio tasks this often a second; 0 for never.

        Unless it `can_stop` threads, it refuses to attach: it could read only threads that wait, which
        would give a profile of waiting.
        """
        self._engine = engine
        self.mode = mode
        self.stops_target = mode != "nonblocking"
        self._max_depth = max_depth
        self._max_timed_samples = max_timed_samples
        self.has_timestamps = max_timed_samples > 0
        self._explain_denial = explain_denial
        self._can_stop = can_stop
        self._tasks_hz = tasks_hz
        self.name = f"sidelight {version}"

    def attach(self, proc: Proc, *, rate_hz: float, window_seconds: float) -> NativeSession:
        if self.stops_target and not self._can_stop:
            raise self._explain_denial(proc.pid)
        timed_options = {"timed": self._max_timed_samples, "timed_names": True} if self.has_timestamps else {}
        try:
            session = self._engine.attach(
                proc.pid,
                rate_hz=rate_hz,
                mode=self.mode,
                max_depth=self._max_depth,
                tasks_hz=self._tasks_hz,
                **timed_options,
            )
        except ProcessLookupError as error:
            raise SamplingError(f"process {proc.pid} is gone", reason=Reason.PID_GONE) from error
        except PermissionError as error:
            raise self._explain_denial(proc.pid) from error
        except ValueError as error:
            raise SamplingError(
                f"process {proc.pid} cannot be read as Python: {error}",
                reason=Reason.NOT_PYTHON,
                hint="CPython 2.7 and 3.3 to 3.15 can be read. Of free-threaded builds, only 3.13 can.",
            ) from error
        except MemoryError as error:
            raise SamplingError(
                f"attaching exceeded its limits: {error}",
                reason=Reason.ATTACH_LIMIT,
                hint="The sidecar retries. Attaching may take 10 seconds and 48 MiB.",
            ) from error
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and is_out_of_descriptors(error):
                raise SamplingError(
                    f"process {proc.pid} cannot be read: {explain_out_of_descriptors(error)}",
                    reason=Reason.OUT_OF_DESCRIPTORS,
                    hint=OUT_OF_DESCRIPTORS_HINT,
                ) from error
            raise SamplingError(
                f"process {proc.pid} cannot be sampled: {error}", hint="It is tried again."
            ) from error
        self.missing_states = tuple(session.missing_states)
        return NativeSession(session, self.name, has_timestamps=self.has_timestamps)


class NativeSession:
    """A session of the extension."""

    def __init__(self, session: Any, sampler: str, *, has_timestamps: bool = False) -> None:
        self._session = session
        self._sampler = sampler
        self._has_timestamps = has_timestamps
        self._timed_samples_read = self._samples_taken = 0
        self._period_ns = round(1e9 / session.rate_hz) if session.rate_hz else 0
        self.mode: str = session.mode
        self.reader: str = session.reader
        self._missing_states = tuple(session.missing_states)
        self.names_problem: str = session.names_problem or ""
        """Why thread names cannot be read, if they were asked for."""
        # The cost of attaching must not count as the cost of a tick.
        attach_batch = self._convert_batch(session.take())
        self._attach_batch: SampleBatch | None = replace(
            attach_batch, attach_cpu_ns=attach_batch.quality.sampler_cpu_ns
        )

    @property
    def end_reason(self) -> str | None:
        end_reason: str | None = self._session.ended
        return end_reason

    def set_rate(self, rate_hz: float) -> None:
        if rate_hz != self._session.rate_hz:
            self._session.set_rate(rate_hz)
            # At rate 0 nothing is sampled: what is read then was taken at the previous rate.
            self._period_ns = round(1e9 / rate_hz) if rate_hz else self._period_ns

    def take(self) -> SampleBatch:
        return self._add_attach_batch(self._session.take())

    def stop(self) -> SampleBatch:
        return self._add_attach_batch(self._session.stop())

    def _add_attach_batch(self, batch: Any) -> SampleBatch:
        attach_batch, self._attach_batch = self._attach_batch, None
        sample_batch = self._convert_batch(batch)
        if attach_batch is not None:
            sample_batch = attach_batch.plus(sample_batch)
        return (
            replace(sample_batch, timed_samples=self._read_timed_samples())
            if self._has_timestamps
            else sample_batch
        )

    def _read_timed_samples(self) -> TimedSamples:
        """Return the samples of the batches since the last call.

        A tick after the last batch is left for the next one.
        """
        timeline = self._session.timeline(after=self._timed_samples_read)
        new = self._samples_taken - self._timed_samples_read
        dropped = min(max(0, timeline.dropped - self._timed_samples_read), new)
        self._timed_samples_read = self._samples_taken
        return encode_timed_samples(timeline, self._period_ns, dropped=dropped, limit=new - dropped)

    def _convert_batch(self, batch: Any) -> SampleBatch:
        self._samples_taken += batch.samples
        threads: dict[str, dict[Stack, Counts]] = {}
        for kind, stack, *states in batch.counts:
            threads.setdefault(kind, {})[Stack(stack)] = Counts(*states)
        return SampleBatch(
            threads=threads,
            start_ns=batch.start_ns,
            duration_ns=batch.duration_ns,
            quality=Quality(
                attempts=batch.attempts,
                samples=batch.samples,
                errors=dict(batch.errors),
                late_ns=batch.late_ns,
                mode=self.mode,
                sampler=self._sampler,
                python=batch.python,
                threads=batch.threads,
                truncated=batch.truncated,
                missing_states=self._missing_states,
                target_cpu_ns=batch.target_cpu_ns,
                sampler_cpu_ns=batch.sampler_cpu_ns,
                stops=batch.stops,
                stopped_ns=batch.stopped_ns,
                longest_stop_ns=batch.longest_stop_ns,
                other=batch.other,
                reader=self.reader,
            ),
            stops_over_limit=batch.stops_over_limit,
            tasks=read_task_samples(batch),
        )


def load_extension() -> Any | None:
    """Return the extension, or None if it is not built for this Python."""
    try:
        return importlib.import_module("sidelight_native")
    except ImportError:
        return None
