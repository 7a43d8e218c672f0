"""The interface of samplers: from a process and a duration to counts and quality.

A Sampler attaches to a process and returns a Session. A Session returns a SampleBatch of everything since
the last take. There are two implementations: the extension `sidelight_native`, which is attached once, and
the `py-spy record` command, which runs once per window. Every call here may block: call it in a thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

from sidelight_model.counts import ZERO, Counts
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.folded import Stack
from sidelight_model.frames import OTHER
from sidelight_model.window import Quality
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.samplers.task_samples import TaskSamples, add_tasks
from sidelight_sidecar.samplers.timed_samples import TimedSamples

COMMAND_MODE = "command"
_OTHER = Stack(OTHER)
_MAX_STACK_CHARACTERS = 16 << 20
"""Most characters of the stacks of a merged batch: a program chooses the names of its functions."""


class SamplingError(SidelightError):
    """A process cannot be sampled.

    `reason` is pid_gone, ptrace_denied, not_python, unsupported_python, sampler_missing, attach_limit or
    sampler_failed.
    """

    reason = Reason.SAMPLER_FAILED
    lacks: str = ""
    """With ptrace_denied, the missing permission: a word of `permissions.MissingPermission`."""


CountsByThread = Mapping[str, Mapping[Stack, Counts]]
"""Counts by kind of thread: "main" and "other", or "" if the sampler does not distinguish them."""


@dataclass(frozen=True, slots=True)
class SamplingCost:
    """The cost of sampling a process for `seconds` at `rate_hz`; times in seconds."""

    seconds: float
    rate_hz: float
    ticks: int
    cpu_seconds: float
    stopped_seconds: float


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """The samples of a session from `start_ns` (Unix time) for `duration_ns`.

    `attach_cpu_ns` is the part of the sampler's CPU time that attaching took. `stops_over_limit` are stops
    that lasted longer than `--max-stop-ms`. `timed_samples` are the individual samples of a session that
    keeps them; a merged batch has none. `tasks` is None if no event loop was seen.
    """

    threads: CountsByThread
    start_ns: int
    duration_ns: int
    quality: Quality
    attach_cpu_ns: int = 0
    stops_over_limit: int = 0
    timed_samples: TimedSamples | None = None
    tasks: TaskSamples | None = None

    @property
    def counts(self) -> Mapping[Stack, Counts]:
        """The counts of all threads."""
        return reduce(add_counts, self.threads.values(), {})

    @property
    def is_empty(self) -> bool:
        """Whether nothing was attempted."""
        quality = self.quality
        was_attempted = quality.attempts or quality.errors or any(self.threads.values())
        return not was_attempted and not self.duration_ns

    def plus(self, later: SampleBatch, max_stacks: int | None = None) -> SampleBatch:
        """Return the sum of this batch and the one that followed it without a gap.

        Durations are added, because the clock may have been set in between. New stacks above `max_stacks`
        are counted under `(other)`.
        """
        threads, folded = add_threads(self.threads, later.threads, max_stacks)
        quality = add_quality(self.quality, later.quality)
        return SampleBatch(
            threads,
            self.start_ns,
            self.duration_ns + later.duration_ns,
            replace(quality, other=quality.other + folded),
            self.attach_cpu_ns + later.attach_cpu_ns,
            self.stops_over_limit + later.stops_over_limit,
            tasks=add_tasks(self.tasks, later.tasks, max_stacks),
        )

    def compute_cost(self, rate_hz: float, *, stops_target: bool) -> SamplingCost:
        """Return the cost of sampling at this rate.

        `stops_target` says whether this way of sampling makes threads stand still. A command that stops
        threads does not report for how long; its CPU time is used instead, nearly all of which passes while
        they are stopped.
        """
        quality = self.quality
        cpu_ns = max(0, quality.sampler_cpu_ns - self.attach_cpu_ns)
        stopped_ns = quality.stopped_ns if quality.mode != COMMAND_MODE else cpu_ns * stops_target
        ticks = quality.attempts if quality.mode != COMMAND_MODE else round(rate_hz * self.duration_ns / 1e9)
        return SamplingCost(self.duration_ns / 1e9, rate_hz, ticks, cpu_ns / 1e9, stopped_ns / 1e9)


class Session(Protocol):
    """The sampling of one process."""

    @property
    def end_reason(self) -> str | None:
        """None while it samples, else why it ended: "exited", "exec" or "failed: …"."""

    @property
    def mode(self) -> str:
        """How this process is sampled: `gil`, `blocking`, `nonblocking` or `command`."""

    @property
    def reader(self) -> str:
        """What reads its stacks: `own` or `py-spy`."""

    def set_rate(self, rate_hz: float) -> None:
        """Change the rate: at once if the sampler is gapless, else from the next take on.

        At rate 0 a gapless session does nothing at all.
        """

    def take(self) -> SampleBatch:
        """Return the samples since the last take, and continue.

        If sampling has ended, `end_reason` says why.
        """

    def stop(self) -> SampleBatch:
        """End sampling and return the rest; never raises for a process that is gone."""


class Sampler(Protocol):
    """A way of reading stacks."""

    @property
    def name(self) -> str:
        """The sampler and its version, as stored with each window: "py-spy 0.4.3"."""

    @property
    def is_gapless(self) -> bool:
        """Whether `take` leaves no gap, so that it may be called every second."""

    @property
    def mode(self) -> str:
        """The requested mode: `auto`, `gil`, `blocking`, `nonblocking` or `command`."""

    @property
    def stops_target(self) -> bool:
        """Whether it makes threads of the target stand still."""

    @property
    def has_timestamps(self) -> bool:
        """Whether it also returns individual samples with timestamps."""

    @property
    def missing_states(self) -> tuple[str, ...]:
        """States that it does not see, or cannot distinguish from running."""

    def attach(self, proc: Proc, *, rate_hz: float, window_seconds: float) -> Session:
        """Start to sample a process; windows will be about `window_seconds` long.

        Raises SamplingError.
        """


def add_counts(first: Mapping[Stack, Counts], second: Mapping[Stack, Counts]) -> dict[Stack, Counts]:
    total = dict(first)
    for stack, counts in second.items():
        total[stack] = total.get(stack, ZERO).plus(counts)
    return total


def add_threads(
    earlier: CountsByThread, later: CountsByThread, max_stacks: int | None = None
) -> tuple[CountsByThread, int]:
    """Add counts, thread by thread, with at most `max_stacks` distinct stacks.

    With that limit, the length of their texts is limited as well.

    The second value is the number of samples of `later` that were folded into `(other)`.
    """
    total = {kind: dict(counts) for kind, counts in earlier.items()}
    room = characters_left = math.inf
    if max_stacks is not None:
        room = max_stacks - sum(map(len, total.values()))
        characters_left = _MAX_STACK_CHARACTERS - sum(len(s) for counts in total.values() for s in counts)
    folded_samples = 0
    for kind, later_counts in later.items():
        counts = total.setdefault(kind, {})
        for stack, count in later_counts.items():
            existing = counts.get(stack)
            if existing is None and stack != OTHER:
                if room <= 0 or len(stack) > characters_left:
                    folded_samples += count.wall
                    counts[_OTHER] = counts.get(_OTHER, ZERO).plus(count)
                    continue
                room -= 1
                characters_left -= len(stack)
            counts[stack] = count if existing is None else existing.plus(count)
    return total, folded_samples


def add_quality(first: Quality, second: Quality) -> Quality:
    """Add the quality of two windows of one process that were sampled the same way."""
    errors = {
        kind: first.errors.get(kind, 0) + second.errors.get(kind, 0)
        for kind in sorted({*first.errors, *second.errors})
    }
    return replace(
        first,
        attempts=first.attempts + second.attempts,
        samples=first.samples + second.samples,
        errors=errors,
        late_ns=first.late_ns + second.late_ns,
        nominal_ns=first.nominal_ns + second.nominal_ns,
        threads=max(first.threads, second.threads),
        truncated=first.truncated + second.truncated,
        target_cpu_ns=first.target_cpu_ns + second.target_cpu_ns,
        sampler_cpu_ns=first.sampler_cpu_ns + second.sampler_cpu_ns,
        paused_ns=first.paused_ns + second.paused_ns,
        missing_states=tuple(dict.fromkeys((*first.missing_states, *second.missing_states))),
        stops=first.stops + second.stops,
        stopped_ns=first.stopped_ns + second.stopped_ns,
        longest_stop_ns=max(first.longest_stop_ns, second.longest_stop_ns),
        other=first.other + second.other,
        reduced=tuple(sorted({*first.reduced, *second.reduced})),
    )
