"""The quality of sampling, shown with every recording and every table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sidelight_cli.local.sampling.sampling_engine import EngineBatch


@dataclass(frozen=True, slots=True)
class SamplingQuality:
    """The quality of one or several processes, summed over batches.

    Durations are in nanoseconds.

    watched_ns: observed process time (two processes for a second are two seconds)
    attempts: ticks tried, including failed ones
    errors: failed ticks by kind
    late_ns: time of skipped or delayed ticks
    stops, stopped_ns, longest_stop_ns: how often and how long the target's threads were stopped for samples
    other: samples counted as `(other)` because there were too many different stacks
    truncated: samples whose stack was cut
    """

    watched_ns: int = 0
    attempts: int = 0
    samples: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    late_ns: int = 0
    threads: int = 0
    truncated: int = 0
    other: int = 0
    stops: int = 0
    stopped_ns: int = 0
    longest_stop_ns: int = 0
    sampler_cpu_ns: int = 0

    @classmethod
    def from_batch(cls, batch: EngineBatch) -> SamplingQuality:
        return cls(
            watched_ns=batch.duration_ns,
            attempts=batch.attempts,
            samples=batch.samples,
            errors=dict(batch.errors),
            late_ns=batch.late_ns,
            threads=batch.threads,
            truncated=batch.truncated,
            other=batch.other,
            stops=batch.stops,
            stopped_ns=batch.stopped_ns,
            longest_stop_ns=batch.longest_stop_ns,
            sampler_cpu_ns=batch.sampler_cpu_ns,
        )

    def append(self, later: SamplingQuality) -> SamplingQuality:
        """Combine with a later part of the same process."""
        return self._combine(later, threads=max(self.threads, later.threads))

    def merge(self, other: SamplingQuality) -> SamplingQuality:
        """Combine with the quality of another process."""
        return self._combine(other, threads=self.threads + other.threads)

    def _combine(self, other: SamplingQuality, *, threads: int) -> SamplingQuality:
        kinds = sorted({*self.errors, *other.errors})
        return SamplingQuality(
            watched_ns=self.watched_ns + other.watched_ns,
            attempts=self.attempts + other.attempts,
            samples=self.samples + other.samples,
            errors={kind: self.errors.get(kind, 0) + other.errors.get(kind, 0) for kind in kinds},
            late_ns=self.late_ns + other.late_ns,
            threads=threads,
            truncated=self.truncated + other.truncated,
            other=self.other + other.other,
            stops=self.stops + other.stops,
            stopped_ns=self.stopped_ns + other.stopped_ns,
            longest_stop_ns=max(self.longest_stop_ns, other.longest_stop_ns),
            sampler_cpu_ns=self.sampler_cpu_ns + other.sampler_cpu_ns,
        )

    @property
    def failed_ticks(self) -> int:
        """Number of ticks that failed and have no stacks."""
        return sum(self.errors.values())

    @property
    def rate_hz(self) -> float:
        """Attempted ticks per second and process."""
        return self.attempts / (self.watched_ns / 1e9) if self.watched_ns else 0.0

    @property
    def stopped_share(self) -> float:
        """The share of the observed time in which the target was stopped for samples."""
        return self.stopped_ns / self.watched_ns if self.watched_ns else 0.0

    def format_errors(self) -> str:
        """Format the failed ticks: `no errors`, or `3 errors (1 moved, 2 read)`."""
        if not self.failed_ticks:
            return "no errors"
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.errors.items() if count)
        return f"{self.failed_ticks:,} error{'' if self.failed_ticks == 1 else 's'} ({kinds})"


def merge_qualities(qualities: Iterable[SamplingQuality]) -> SamplingQuality:
    """Combine the qualities of several processes."""
    total = SamplingQuality()
    for quality in qualities:
        total = total.merge(quality)
    return total


def format_percent(share: float) -> str:
    """Format a share as a percentage, with more digits for small shares."""
    if 0 < share < 0.0001:
        return "<0.01 %"
    return f"{100 * share:.2f} %" if share < 0.0995 else f"{100 * share:.1f} %"
