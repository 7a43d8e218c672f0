"""How the sides of a comparison were sampled: what the checks read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.remedies import ObservedRange
from sidelight_model.counts import ProfileType

MIN_COVERAGE: Final = 0.9
"""Below this coverage the missed samples may differ from the recorded ones."""


@dataclass(frozen=True, slots=True)
class SamplingSummary:
    """How one side was sampled; None means not reported.

    `truncated_share` and `coverage` are shares. `thread_kinds` are the kinds of threads that its windows
    distinguish. Three fields are rates per pod-second: `cpu_rate` is the CPU time of its processes by the
    kernel's clock, `sampled_cpu_rate` the CPU time by the samples of all their threads, and `request_rate`
    the number of requests. `cpu_wait_share` is the part of the samples without idle ones in which threads
    waited for a CPU, if all samplers tell. `start_seconds` and `end_seconds` are Unix seconds.
    """

    windows: int
    pods: int
    pod_seconds: float
    modes: Sequence[str]
    periods_us: Sequence[float]
    samplers: Sequence[str]
    readers: Sequence[str]
    python_versions: Sequence[str]
    missing_states: Sequence[str]
    thread_kinds: Sequence[str]
    truncated_share: float
    coverage: float | None
    cpu_rate: float | None
    sampled_cpu_rate: float | None
    cpu_wait_share: float | None
    request_rate: float | None
    start_seconds: float
    end_seconds: float

    @property
    def observed_range(self) -> ObservedRange:
        return ObservedRange(self.start_seconds, self.end_seconds)


@dataclass(frozen=True, slots=True)
class PodSampling:
    """How one pod was sampled, as far as a pod can differ from the others of its side."""

    pod: str
    modes: Sequence[str]
    samplers: Sequence[str]
    readers: Sequence[str]
    python_versions: Sequence[str]
    missing_states: Sequence[str]
    coverage: float | None
    cpu_wait_share: float | None


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is compared, and how.

    `kind` is the profile type. `pairing` says how columns of the sides belong together (`time`, `hours` or
    empty).
    """

    kind: ProfileType
    pairing: str
    has_pod_rows: bool
    basis: Basis
    has_lines: bool = False
    min_coverage: float = MIN_COVERAGE
    missing_requests_reason: str = ""
    """Why request counts are missing that should be available."""


def list_minor_versions(python_versions: Sequence[str]) -> set[str]:
    """Return the versions of Python without their patch releases."""
    return {".".join(version.split(".")[:2]) for version in python_versions}
