"""Decide whether a window has stacks, and what is wrong if not."""

from __future__ import annotations

from sidelight_model.window import Quality
from sidelight_sidecar.samplers.sampler import COMMAND_MODE, SampleBatch, SamplingError

_MAX_SILENT_NS = 5_000_000_000
_NO_STACKS_HINT = (
    "It is stopped (kill -CONT), or something else traces it (a debugger, strace or another profiler: "
    "end that one), or its threads sleep in the kernel."
)


def has_stacks(quality: Quality) -> bool:
    """Return whether a tick succeeded."""
    return quality.attempts > sum(quality.errors.values())


def find_window_problem(subject: str, batch: SampleBatch) -> SamplingError | None:
    """Return why a window of an open session has no stacks; None if it has."""
    quality = batch.quality
    if has_stacks(quality):
        return None
    if quality.attempts:
        kinds = ", ".join(f"{kind} {times}" for kind, times in sorted(quality.errors.items()))
        return SamplingError(f"{subject} gave no stacks in a whole window: {kinds}", hint=_NO_STACKS_HINT)
    if quality.mode != COMMAND_MODE and batch.duration_ns >= _MAX_SILENT_NS:
        return SamplingError(
            f"{subject} was not sampled in a whole window: the sampling thread does not answer",
            hint="Restart the sidecar if this stays: the kernel may block it while it reads a process.",
        )
    return None
