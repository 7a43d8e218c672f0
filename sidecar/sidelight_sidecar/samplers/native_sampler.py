"""The extension `sidelight_native` behind the sampler's seam: the only module that imports it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sidelight_model.counts import Counts
from sidelight_model.errors import Reason
from sidelight_model.folded import Stack
from sidelight_model.window import Quality
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.samplers.sampler import Sampled, SamplingError
from sidelight_sidecar.samplers.timed_samples import Moments, packed

Explain = Callable[[int], SamplingError]


class NativeSampler:
    """Samples with the extension: attached once, no gap between windows, all three states."""

    gapless = True
    missing_states: tuple[str, ...] = ()

    def __init__(
        self,
        engine: Any,
        version: str,
        mode: str,
        *,
        max_depth: int,
        explain: Explain,
        most_timed: int = 0,
        may_stop: bool = True,
    ) -> None:
        """`most_timed`: keep samples one by one, this many between two takes.

        Unless it `may_stop` threads, nothing is attached to: what could be read without, of threads that
        wait, would be a profile of waiting.
        """
        self._engine = engine
        self.mode = mode
        self.stops = mode != "nonblocking"
        self._max_depth = max_depth
        self._most_timed = most_timed
        self.timed = most_timed > 0
        self._explain = explain
        self._may_stop = may_stop
        self.name = f"sidelight {version}"

    def attach(self, proc: Proc, *, rate_hz: float, window_seconds: float) -> NativeSession:
        if self.stops and not self._may_stop:
            raise self._explain(proc.pid)
        one_by_one = {"timed": self._most_timed, "timed_names": True} if self.timed else {}
        try:
            session = self._engine.attach(
                proc.pid, rate_hz=rate_hz, mode=self.mode, max_depth=self._max_depth, **one_by_one
            )
        except ProcessLookupError as error:
            raise SamplingError(f"process {proc.pid} is gone", reason=Reason.PID_GONE) from error
        except PermissionError as error:
            raise self._explain(proc.pid) from error
        except ValueError as error:
            raise SamplingError(
                f"process {proc.pid} cannot be read as Python: {error}",
                reason=Reason.NOT_PYTHON,
                hint="CPython 2.7 and 3.3 to 3.15 can be read, but not free-threaded builds.",
            ) from error
        except (OSError, RuntimeError) as error:
            raise SamplingError(
                f"process {proc.pid} cannot be sampled: {error}", hint="It is tried again."
            ) from error
        return NativeSession(session, self.name, timed=self.timed)


class NativeSession:
    """A session of the extension."""

    def __init__(self, session: Any, sampler: str, *, timed: bool = False) -> None:
        self._session = session
        self._sampler = sampler
        self._timed = timed
        self._told = 0
        self._period_ns = round(1e9 / session.rate_hz) if session.rate_hz else 0
        self.mode: str = session.mode
        self.reader: str = session.reader
        # What attaching took is told apart from what a tick takes.
        begun = self._sampled(session.take())
        self._begun: Sampled | None = replace(begun, attach_cpu_ns=begun.quality.sampler_cpu_ns)

    @property
    def ended(self) -> str | None:
        ended: str | None = self._session.ended
        return ended

    def set_rate(self, rate_hz: float) -> None:
        if rate_hz != self._session.rate_hz:
            self._session.set_rate(rate_hz)

    def take(self) -> Sampled:
        return self._next(self._session.take())

    def stop(self) -> Sampled:
        return self._next(self._session.stop())

    def _next(self, batch: Any) -> Sampled:
        begun, self._begun = self._begun, None
        sampled = self._sampled(batch)
        if begun is not None:
            sampled = begun.plus(sampled)
        return replace(sampled, moments=self._moments()) if self._timed else sampled

    def _moments(self) -> Moments:
        """The samples that were not told yet."""
        timeline = self._session.timeline(after=self._told)
        missed = max(0, timeline.dropped - self._told)
        self._told += missed + len(timeline.samples)
        # At rate 0 nothing is taken: what is told then was taken before.
        self._period_ns = round(1e9 / self._session.rate_hz) if self._session.rate_hz else self._period_ns
        return packed(timeline, self._period_ns, missed=missed)

    def _sampled(self, batch: Any) -> Sampled:
        threads: dict[str, dict[Stack, Counts]] = {}
        for kind, stack, idle, running, gil in batch.counts:
            threads.setdefault(kind, {})[Stack(stack)] = Counts(idle, running, gil)
        return Sampled(
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
                target_cpu_ns=batch.target_cpu_ns,
                sampler_cpu_ns=batch.sampler_cpu_ns,
                stops=batch.stops,
                stopped_ns=batch.stopped_ns,
                longest_stop_ns=batch.longest_stop_ns,
                other=batch.other,
                reader=self.reader,
            ),
        )


def load() -> Any | None:
    """The extension, or None where it is not built for this Python."""
    try:
        return importlib.import_module("sidelight_native")
    except ImportError:
        return None
