"""A capture as it was asked for, and how it goes on each process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sidelight.sidecar.sampler import Sampled, Sampler


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
    """One process's part in a capture; `changed` is called whenever it gets on."""

    pid: int
    changed: Callable[[], None]
    samples: int = 0
    windows: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    rate_hz: float = 0.0
    reduced: tuple[str, ...] = ()
    covered_since_ns: int | None = None
    preroll_windows: int = 0
    problem: str | None = None
    finished: bool = False

    def progress(self, sampled: Sampled) -> None:
        self.samples += sampled.quality.samples
        for kind, times in sampled.quality.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + times
        self.changed()

    def paced(self, rate_hz: float, reduced: tuple[str, ...]) -> None:
        """At which rate it is sampled now, and why not at the one that was asked for."""
        self.rate_hz, self.reduced = rate_hz, reduced

    def covered(self, since_ns: int | None, preroll_windows: int) -> None:
        """Since when windows of this process cover the time before the capture without a gap."""
        self.covered_since_ns, self.preroll_windows = since_ns, preroll_windows

    def finish(self, problem: str | None) -> None:
        """The first call counts."""
        if not self.finished:
            self.finished = True
            self.problem = problem
            self.changed()

    def told(self) -> dict[str, object]:
        """As JSON."""
        told: dict[str, object] = {"pid": self.pid, "samples": self.samples, "windows": self.windows}
        told |= {"errors": dict(self.errors), "finished": self.finished, "rate": self.rate_hz}
        told |= {"reduced": list(self.reduced), "preroll_windows": self.preroll_windows}
        told["covered_since"] = None if self.covered_since_ns is None else _iso(self.covered_since_ns)
        return told | ({"problem": self.problem} if self.problem else {})


def _iso(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="milliseconds")
