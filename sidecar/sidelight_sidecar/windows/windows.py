"""From what a session sampled to the windows that are shipped: one for each kind of thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sidelight_model.counts import Counts
from sidelight_model.folded import Stack, split
from sidelight_model.frames import OTHER, TRUNCATED
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window
from sidelight_sidecar.samplers.sampler import Sampled

_FIRST = "main"


@dataclass(frozen=True, slots=True)
class Source:
    """Who was sampled: the sidecar's labels, the process's role (main, master or worker) and pid."""

    labels: Labels
    role: str
    pid: int

    def labelled(self, thread: str, also: Mapping[str, str]) -> Labels:
        """The labels of a window; `thread` is the kind of thread, `also` says why it was taken."""
        return Labels({**self.labels, "process": self.role, "thread": thread, **also})


@dataclass(frozen=True, slots=True)
class Taking:
    """How windows were asked for.

    `rate_hz` was in force; `labels` are those of a capture or a trigger; `paused_ns` is how long nothing was
    sampled just before them, and `reduced` why that, or the rate, was less than asked.
    """

    rate_hz: float
    nominal_seconds: float
    labels: Mapping[str, str] = field(default_factory=dict)
    paused_ns: int = 0
    reduced: tuple[str, ...] = ()


def windows_of(sampled: Sampled, source: Source, taking: Taking, new_id: Callable[[], str]) -> list[Window]:
    """The windows of one process: main threads first, whether or not they were seen, and so by their ids.

    What is the process's as a whole stands in the first alone.
    """
    first = "" if "" in sampled.threads else _FIRST
    kinds = [first, *sorted(kind for kind, counts in sampled.threads.items() if counts and kind != first)]
    ids = sorted(new_id() for _ in kinds)
    rest = [_part(sampled.quality, sampled.threads[kind]) for kind in kinds[1:]]
    quality = replace(
        sampled.quality,
        samples=sampled.quality.samples - sum(part.samples for part in rest),
        truncated=max(0, sampled.quality.truncated - sum(part.truncated for part in rest)),
        other=max(0, sampled.quality.other - sum(part.other for part in rest)),
    )
    return [
        Window(
            id=window_id,
            labels=source.labelled(kind, taking.labels),
            start_ns=sampled.start_ns,
            duration_ns=max(1, sampled.duration_ns),
            period_ns=round(1e9 / taking.rate_hz),
            counts=sampled.threads.get(kind, {}),
            quality=replace(
                part,
                nominal_ns=round(taking.nominal_seconds * 1e9),
                paused_ns=taking.paused_ns,
                reduced=taking.reduced,
                pid=source.pid,
            ),
        )
        for window_id, kind, part in zip(ids, kinds, [quality, *rest], strict=True)
    ]


def _part(quality: Quality, counts: Mapping[Stack, Counts]) -> Quality:
    """The ledger of a window that is not its process's first."""
    return replace(
        quality,
        samples=sum(count.wall for count in counts.values()),
        truncated=sum(count.wall for stack, count in counts.items() if _clipped(stack)),
        other=counts.get(Stack(OTHER), Counts()).wall,
        late_ns=0,
        target_cpu_ns=0,
        sampler_cpu_ns=0,
        stops=0,
        stopped_ns=0,
        longest_stop_ns=0,
    )


def _clipped(stack: Stack) -> bool:
    return TRUNCATED in stack and TRUNCATED in split(stack)
