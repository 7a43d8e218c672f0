"""The parts of the native extension `sidelight_native` that these commands use.

`native/sidelight_native.pyi` describes the complete interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from sidelight.open_files import raise_open_file_limit
from sidelight_model.errors import Reason
from sidelight_sidecar.samplers import native_sampler
from sidelight_sidecar.samplers.sampler import SamplingError
from sidelight_sidecar.samplers.timed_samples import TimelineBuffer


class EngineBatch(Protocol):
    """The samples of a period of `duration_ns` nanoseconds."""

    @property
    def counts(self) -> Sequence[tuple[str, str, int, int, int]]:
        """Samples as (thread, stack, samples in each state)."""

    @property
    def duration_ns(self) -> int: ...
    @property
    def attempts(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def errors(self) -> Mapping[str, int]: ...
    @property
    def late_ns(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def truncated(self) -> int: ...
    @property
    def other(self) -> int: ...
    @property
    def stops(self) -> int: ...
    @property
    def stopped_ns(self) -> int: ...
    @property
    def longest_stop_ns(self) -> int: ...
    @property
    def sampler_cpu_ns(self) -> int: ...


class EngineSession(Protocol):
    """The sampling of one process."""

    @property
    def pid(self) -> int: ...
    @property
    def mode(self) -> str: ...
    @property
    def reader(self) -> str: ...
    @property
    def python(self) -> str: ...
    @property
    def names_problem(self) -> str | None: ...
    @property
    def ended(self) -> str | None: ...
    def take(self) -> EngineBatch: ...
    def stop(self) -> EngineBatch: ...
    def set_rate(self, rate_hz: float) -> None: ...
    def timeline(self, seconds: float | None = None) -> TimelineBuffer: ...


_MAX_STOP_US = 20_000
"""Maximum duration of a stop, ten times that of a sidecar: the user watches and sees the longest stop."""


class SamplingEngine(Protocol):
    """One thread that samples any number of processes."""

    @property
    def cpu_ns(self) -> int: ...
    def attach(
        self,
        pid: int,
        *,
        rate_hz: float,
        mode: str = "auto",
        max_depth: int = 1024,
        thread_names: bool = False,
        timed: int = 0,
        tasks_hz: float = 0.0,
    ) -> EngineSession: ...
    def close(self) -> None: ...


def create_engine() -> SamplingEngine:
    """Create an engine.

    Raises SamplingError (`sampler_missing`) if the extension is not installed.
    """
    module = native_sampler.load_extension()
    if module is None:
        raise SamplingError(
            "the sampler, the extension sidelight_native, is not installed for this Python",
            reason=Reason.SAMPLER_MISSING,
            hint="Install its wheel beside sidelight's (make native builds it), or use py-spy itself.",
        )
    raise_open_file_limit()
    return cast("SamplingEngine", module.Engine(max_stop_us=_MAX_STOP_US))
