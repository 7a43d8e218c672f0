"""A capture's parameters, and its progress on each process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sidelight_model.capture_protocol import MAX_TOP_FUNCTIONS, ProcessReport, TopFunction
from sidelight_model.frames import strip_line_number, unescape_frame
from sidelight_sidecar.samplers.sampler import SampleBatch, Sampler
from sidelight_sidecar.windows.timeline_recording import TimelineRecording

_MAX_FUNCTIONS, _FINAL_FUNCTIONS = 2000, 20
_MAX_NAME_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """A capture with the id `id`.

    It samples for `seconds` at `rate_hz`, in windows of `window_seconds` that carry the id.
    """

    id: str
    seconds: float
    rate_hz: int
    window_seconds: float
    sampler: Sampler


@dataclass(slots=True)
class ProcessCapture:
    """The progress of a capture on one process.

    `on_change` is called whenever there is progress. `recording` collects individual samples.
    `is_stop_requested` ends the capture early and keeps its samples.
    """

    pid: int
    on_change: Callable[[], None]
    role: str = ""
    recording: TimelineRecording | None = None
    self_samples: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    windows: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    rate_hz: float = 0.0
    reduction_reasons: tuple[str, ...] = ()
    covered_since_ns: int | None = None
    preroll_windows: int = 0
    problem: str | None = None
    hint: str = ""
    is_finished: bool = False
    is_stop_requested: bool = False

    def record_batch(self, batch: SampleBatch) -> None:
        self.samples += batch.quality.samples
        for kind, times in batch.quality.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + times
        if self.recording is not None and batch.timed_samples is not None:
            self.recording.add(batch.timed_samples)
        for counts in batch.threads.values():
            for stack, count in counts.items():
                if count.cpu:
                    self.self_samples[strip_line_number(stack.rpartition(";")[2])] += count.cpu
        if len(self.self_samples) > _MAX_FUNCTIONS:
            # Functions with the fewest samples are not among the top functions.
            self.self_samples = Counter(dict(self.self_samples.most_common(_MAX_FUNCTIONS // 2)))
        self.on_change()

    def record_rate(self, rate_hz: float, reduction_reasons: tuple[str, ...]) -> None:
        """Record the current rate, and why it is below the requested rate."""
        self.rate_hz, self.reduction_reasons = rate_hz, reduction_reasons

    def record_preroll(self, since_ns: int | None, preroll_windows: int) -> None:
        """Record the time and number of windows from before the capture.

        Since `since_ns`, windows of this process cover the time up to the capture without a gap.
        """
        self.covered_since_ns, self.preroll_windows = since_ns, preroll_windows

    def finish(self, problem: str | None, hint: str = "") -> None:
        """Mark the capture of this process as ended; only the first call counts."""
        if not self.is_finished:
            self.is_finished = True
            self.problem, self.hint = problem, hint
            # Ended captures stay in memory for long.
            self.self_samples = Counter(dict(self.self_samples.most_common(_FINAL_FUNCTIONS)))
            self.on_change()

    def build_report(self) -> ProcessReport:
        """Build the progress report of this process."""
        return ProcessReport(
            self.pid,
            self.samples,
            self.windows,
            dict(self.errors),
            self.is_finished,
            self.rate_hz,
            self.reduction_reasons,
            self.preroll_windows,
            None if self.covered_since_ns is None else _format_iso_time(self.covered_since_ns),
            self.problem or "",
        )


def list_top_functions(process_captures: Sequence[ProcessCapture]) -> tuple[TopFunction, ...]:
    """Return the functions with the most self samples; idle samples do not count."""
    total: Counter[str] = Counter()
    for part in process_captures:
        total.update(part.self_samples)
    top = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:MAX_TOP_FUNCTIONS]
    return tuple(TopFunction(unescape_frame(name)[:_MAX_NAME_CHARACTERS], samples) for name, samples in top)


def _format_iso_time(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="milliseconds")
