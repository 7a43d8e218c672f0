"""A capture as it was asked for, and how it goes on each process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sidelight_model.capture_protocol import MAX_TOP_FUNCTIONS, ProcessReport, TopFunction
from sidelight_model.frames import unescape, without_line
from sidelight_sidecar.samplers.sampler import Sampled, Sampler
from sidelight_sidecar.windows.timeline_recording import Recording

_MOST_FUNCTIONS, _LEFT_FUNCTIONS = 2000, 20
_MOST_NAME = 300


@dataclass(frozen=True, slots=True)
class Order:
    """Sample for `seconds` at `rate_hz`, in windows of `window_seconds` that carry the id."""

    id: str
    seconds: float
    rate_hz: int
    window_seconds: float
    sampler: Sampler


@dataclass(slots=True)
class Part:
    """One process's part in a capture; `changed` is called whenever it gets on.

    `recording` takes its samples one by one. `stopped` asks it to end now, with what it has.
    """

    pid: int
    changed: Callable[[], None]
    role: str = ""
    recording: Recording | None = None
    selfs: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    windows: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    rate_hz: float = 0.0
    reduced: tuple[str, ...] = ()
    covered_since_ns: int | None = None
    preroll_windows: int = 0
    problem: str | None = None
    hint: str = ""
    finished: bool = False
    stopped: bool = False

    def progress(self, sampled: Sampled) -> None:
        self.samples += sampled.quality.samples
        for kind, times in sampled.quality.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + times
        if self.recording is not None and sampled.moments is not None:
            self.recording.add(sampled.moments)
        for counts in sampled.threads.values():
            for stack, count in counts.items():
                if busy := count.running + count.gil:
                    self.selfs[without_line(stack.rpartition(";")[2])] += busy
        if len(self.selfs) > _MOST_FUNCTIONS:
            # Those that go were seen least: they are not among the first few.
            self.selfs = Counter(dict(self.selfs.most_common(_MOST_FUNCTIONS // 2)))
        self.changed()

    def paced(self, rate_hz: float, reduced: tuple[str, ...]) -> None:
        """At which rate it is sampled now, and why not at the one that was asked for."""
        self.rate_hz, self.reduced = rate_hz, reduced

    def covered(self, since_ns: int | None, preroll_windows: int) -> None:
        """Since when windows of this process cover the time before the capture without a gap."""
        self.covered_since_ns, self.preroll_windows = since_ns, preroll_windows

    def finish(self, problem: str | None, hint: str = "") -> None:
        """The first call counts."""
        if not self.finished:
            self.finished = True
            self.problem, self.hint = problem, hint
            # Captures are remembered long after they have ended.
            self.selfs = Counter(dict(self.selfs.most_common(_LEFT_FUNCTIONS)))
            self.changed()

    def report(self) -> ProcessReport:
        """How it goes, for who asked for the capture."""
        return ProcessReport(
            self.pid,
            self.samples,
            self.windows,
            dict(self.errors),
            self.finished,
            self.rate_hz,
            self.reduced,
            self.preroll_windows,
            None if self.covered_since_ns is None else _iso(self.covered_since_ns),
            self.problem or "",
        )


def top(parts: Sequence[Part], most: int = MAX_TOP_FUNCTIONS) -> tuple[TopFunction, ...]:
    """The functions that ran most: samples at the top of a stack, idle ones left out."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.selfs)
    first = sorted(total.items(), key=lambda one: (-one[1], one[0]))[:most]
    return tuple(TopFunction(unescape(name)[:_MOST_NAME], samples) for name, samples in first)


def _iso(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="milliseconds")
