"""Captures: sampling on request for a given time.

A process takes part in at most one capture at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sidelight_model.errors import Reason, SidelightError
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead.pause_control import PauseControl
from sidelight_sidecar.samplers.sampler import Sampler
from sidelight_sidecar.sampling.process_capture import CapturePlan, ProcessCapture
from sidelight_sidecar.sampling.process_watcher import SampledProcesses
from sidelight_sidecar.sampling_settings import CAPTURE_MODES
from sidelight_sidecar.windows.timeline_recording import RecordingBudget

_MAX_REMEMBERED = 100
_TIMED_SECONDS, _MIN_TIMED_SAMPLES, _MAX_TIMED_SAMPLES = 200, 2000, 100_000
"""Bounds of the timed samples that a session keeps between two takes.

The first is in seconds of one thread's samples. Samples are taken every second, so there is room for a
hundred threads even if a take is one second late."""
_REQUEST_FIELDS = ("seconds", "rate", "mode", "pids")


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """Limits and defaults of a capture request."""

    max_seconds: float
    max_rate: int
    window_seconds: float
    default_seconds: float
    default_rate: int
    default_mode: str


@dataclass(frozen=True, slots=True)
class CaptureParameters:
    """A checked request for a capture; no pids means every watched process."""

    seconds: float
    rate: int
    mode: str
    pids: tuple[int, ...] = ()


class LocalCapture:
    """A capture that runs or has ended."""

    def __init__(self, capture_id: str, parameters: CaptureParameters, started_at: float) -> None:
        self.id = capture_id
        self.parameters = parameters
        self.started_at = started_at
        self.ended_at: float | None = None
        self.process_captures: list[ProcessCapture] = []
        self.is_stopped = False
        self.has_timeline = False
        self.done = asyncio.Event()

    def elapsed_seconds(self, now: float) -> float:
        """Return the seconds from its start to `now` or to its end."""
        return round((now if self.ended_at is None else self.ended_at) - self.started_at, 3)

    def to_json(self, now: float) -> dict[str, object]:
        """Return its state as JSON."""
        return {
            "id": self.id,
            "state": "running" if self.ended_at is None else "done",
            "elapsed_seconds": self.elapsed_seconds(now),
            "seconds": self.parameters.seconds,
            "rate": self.parameters.rate,
            "mode": self.parameters.mode,
            "samples": sum(part.samples for part in self.process_captures),
            "windows": sum(part.windows for part in self.process_captures),
            "processes": [part.build_report().to_json() for part in self.process_captures],
        }


class CaptureRegistry:
    """Starts captures and remembers the last hundred."""

    def __init__(
        self,
        processes: SampledProcesses,
        pause_control: PauseControl,
        limits: CaptureLimits,
        get_sampler: Callable[[str, int], Sampler],
        recording_budget: RecordingBudget,
        metrics: SidecarMetrics,
        new_id: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._processes = processes
        self._pause_control = pause_control
        self.limits = limits
        self._get_sampler = get_sampler
        self._recording_budget = recording_budget
        self._metrics = metrics
        self._new_id = new_id
        self.clock = clock
        self._captures: dict[str, LocalCapture] = {}

    def get(self, capture_id: str) -> LocalCapture:
        """Return a capture by its id; raises SidelightError (`not_found`)."""
        if capture_id not in self._captures:
            raise SidelightError(
                f"there is no capture {capture_id[:64]!r}",
                reason=Reason.NOT_FOUND,
                hint=f"The last {_MAX_REMEMBERED} captures since this sidecar started are remembered.",
            )
        return self._captures[capture_id]

    async def start(
        self, parameters: CaptureParameters, capture_id: str = "", *, with_timeline: bool = False
    ) -> LocalCapture:
        """Start a capture with the id `capture_id`, or with a new one.

        `with_timeline`: each process gets a timeline recording if the sampler supports it
        (`max_timed_samples`). The caller closes the recordings.

        Raises SidelightError: `nothing_to_watch`, `pid_gone` for a pid that is not watched,
        `capture_running` when one of its processes is in another capture, `sampler_missing`, `paused`.
        """
        if self._pause_control.is_paused:
            raise self._pause_control.make_paused_error()
        max_timed_samples = (
            min(max(parameters.rate * _TIMED_SECONDS, _MIN_TIMED_SAMPLES), _MAX_TIMED_SAMPLES)
            if with_timeline
            else 0
        )
        sampler = await asyncio.to_thread(self._get_sampler, parameters.mode, max_timed_samples)
        process_samplers = [
            process_sampler
            for process_sampler in self._processes.process_samplers
            if not parameters.pids or process_sampler.key.pid in parameters.pids
        ]
        missing = sorted(set(parameters.pids) - {watch.key.pid for watch in process_samplers})
        if missing:
            raise SidelightError(
                f"process {missing[0]} is not watched",
                reason=Reason.PID_GONE,
                hint="GET /readyz names those that are.",
            )
        if not process_samplers:
            raise SidelightError(
                "no process is watched now", reason=Reason.NOTHING_TO_WATCH, hint="GET /readyz says why."
            )
        busy = [watch.key.pid for watch in process_samplers if watch.is_capturing]
        if busy:
            raise SidelightError(
                f"a capture runs on process {busy[0]} already",
                reason=Reason.CAPTURE_RUNNING,
                hint="Wait for its end, or name other processes in pids.",
            )
        capture = LocalCapture(capture_id or f"c_{self._new_id()}", parameters, self.clock())
        capture.has_timeline = sampler.has_timestamps
        capture.process_captures = [
            ProcessCapture(
                watch.key.pid,
                lambda: self._check_finished(capture),
                watch.role,
                self._recording_budget.open_recording() if capture.has_timeline else None,
            )
            for watch in process_samplers
        ]
        self._remember(capture)
        plan = CapturePlan(
            capture.id, parameters.seconds, parameters.rate, self.limits.window_seconds, sampler
        )
        self._processes.start_capture(
            plan, list(zip(process_samplers, capture.process_captures, strict=True))
        )
        return capture

    def stop(self, capture: LocalCapture) -> None:
        """End a capture now and keep its samples."""
        capture.is_stopped = capture.is_stopped or capture.ended_at is None
        for watch in self._processes.process_samplers:
            for part in capture.process_captures:
                if part.pid == watch.key.pid and not part.is_finished:
                    watch.stop_capture(part)

    def _check_finished(self, capture: LocalCapture) -> None:
        if capture.ended_at is None and all(part.is_finished for part in capture.process_captures):
            capture.ended_at = self.clock()
            outcome = "failed" if all(part.problem for part in capture.process_captures) else "done"
            self._metrics.captures.labels(outcome).inc()
            capture.done.set()

    def _remember(self, capture: LocalCapture) -> None:
        self._captures[capture.id] = capture
        finished = [key for key, old in self._captures.items() if old.ended_at is not None]
        for key in finished[: max(0, len(self._captures) - _MAX_REMEMBERED)]:
            del self._captures[key]


def parse_capture_parameters(raw: object, limits: CaptureLimits) -> CaptureParameters:
    """Parse the body of a capture request; raises SidelightError (`bad_parameter`)."""
    if not isinstance(raw, Mapping):
        raise _make_parameter_error("the body is not a JSON object")
    unknown = sorted(str(name) for name in raw if name not in _REQUEST_FIELDS)
    if unknown:
        raise _make_parameter_error(f"there is no field {unknown[0][:64]!r}")
    seconds = _parse_number(raw, "seconds", limits.default_seconds, limits.max_seconds)
    rate = _parse_number(raw, "rate", limits.default_rate, limits.max_rate)
    if rate != int(rate) or rate < 1:
        raise _make_parameter_error("rate is not a whole number of samples per second")
    mode = raw.get("mode", limits.default_mode)
    if mode not in CAPTURE_MODES:
        raise _make_parameter_error(f"mode {str(mode)[:64]!r} is not one of {', '.join(CAPTURE_MODES)}")
    pids = raw.get("pids", [])
    if not isinstance(pids, list) or not all(type(pid) is int and pid > 0 for pid in pids):
        raise _make_parameter_error("pids is not a list of process ids")
    return CaptureParameters(seconds, int(rate), mode, tuple(pids))


def _parse_number(raw: Mapping[object, object], name: str, default: float, maximum: float) -> float:
    value = raw.get(name, default)
    # math.isfinite would convert a large int to float, and fail.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise _make_parameter_error(f"{name} is not a number")
    if not 0 < value <= maximum:
        raise _make_parameter_error(f"{name} must be above 0 and at most {maximum:g}")
    return value


def _make_parameter_error(problem: str) -> SidelightError:
    return SidelightError(
        problem,
        reason=Reason.BAD_PARAMETER,
        hint='A capture is {"seconds": 30, "rate": 100, "mode": "auto"}; "pids": [N] chooses processes.',
    )
