"""Build the windows to ship from a session's samples, one for each kind of thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sidelight_model.counts import Counts
from sidelight_model.folded import Stack, split_stack
from sidelight_model.frames import OTHER, TRUNCATED
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window
from sidelight_sidecar.samplers.sampler import SampleBatch, add_counts
from sidelight_sidecar.samplers.task_samples import count_tasks

_MAIN_THREAD = "main"


@dataclass(frozen=True, slots=True)
class TargetLabels:
    """The labels of a pod's windows, and a process's role and pid.

    The role is main, master or worker.
    """

    labels: Labels
    role: str
    pid: int

    @property
    def pod(self) -> str:
        """The pod, with its namespace."""
        return f"{self.labels.get('namespace', '')}/{self.labels.get('pod', '')}"

    def build_labels(self, thread: str, extra_labels: Mapping[str, str]) -> Labels:
        """Build the labels of a window.

        `thread` is the kind of thread; `extra_labels` say why the window was sampled.
        """
        return Labels({**self.labels, "process": self.role, "thread": thread, **extra_labels})


@dataclass(frozen=True, slots=True)
class WindowContext:
    """How windows were sampled.

    `rate_hz` was in force. `labels` are those of a capture or a trigger. `paused_ns` is how long nothing
    was sampled just before the window. `reduction_reasons` say why that happened, or why the rate was below
    the target.
    """

    rate_hz: float
    nominal_seconds: float
    labels: Mapping[str, str] = field(default_factory=dict)
    paused_ns: int = 0
    reduction_reasons: tuple[str, ...] = ()


def build_windows(
    batch: SampleBatch, target_labels: TargetLabels, context: WindowContext, new_id: Callable[[int], str]
) -> list[Window]:
    """Build the windows of one process.

    The window of the main threads comes first, also by its id, even if they have no samples. It alone
    carries the quality that belongs to the whole process, and its asyncio tasks. `new_id` makes an id with
    the time of a start (ns).
    """
    first = "" if "" in batch.threads else _MAIN_THREAD
    kinds = [first, *sorted(kind for kind, counts in batch.threads.items() if counts and kind != first)]
    ids = sorted(new_id(batch.start_ns) for _ in kinds)
    rest = [_split_quality(batch.quality, batch.threads[kind]) for kind in kinds[1:]]
    quality = replace(
        batch.quality,
        samples=batch.quality.samples - sum(part.samples for part in rest),
        truncated=max(0, batch.quality.truncated - sum(part.truncated for part in rest)),
        other=max(0, batch.quality.other - sum(part.other for part in rest)),
    )
    period_ns = round(1e9 / context.rate_hz)
    threads = dict(batch.threads)
    if batch.tasks is not None:
        task_counts = count_tasks(batch.tasks, batch.duration_ns, period_ns, seed=batch.start_ns)
        threads[first] = add_counts(threads.get(first, {}), task_counts)
    return [
        Window(
            id=window_id,
            labels=target_labels.build_labels(kind, context.labels),
            start_ns=batch.start_ns,
            duration_ns=max(1, batch.duration_ns),
            period_ns=period_ns,
            counts=threads.get(kind, {}),
            tasks=batch.tasks.readings if batch.tasks is not None and kind == first else None,
            quality=replace(
                part,
                nominal_ns=round(context.nominal_seconds * 1e9),
                paused_ns=context.paused_ns,
                reduced=context.reduction_reasons,
                pid=target_labels.pid,
            ),
        )
        for window_id, kind, part in zip(ids, kinds, [quality, *rest], strict=True)
    ]


def _split_quality(quality: Quality, counts: Mapping[Stack, Counts]) -> Quality:
    """Return the quality of a window that is not the first of its process."""
    return replace(
        quality,
        samples=sum(count.wall for count in counts.values()),
        truncated=sum(count.wall for stack, count in counts.items() if _is_truncated(stack)),
        other=counts.get(Stack(OTHER), Counts()).wall,
        late_ns=0,
        target_cpu_ns=0,
        sampler_cpu_ns=0,
        stops=0,
        stopped_ns=0,
        longest_stop_ns=0,
    )


def _is_truncated(stack: Stack) -> bool:
    return TRUNCATED in stack and TRUNCATED in split_stack(stack)
