"""The recording so far: samples by stack, samples in time order, and quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidelight_cli.local.sampling.process_set import ProcessBatch
from sidelight_cli.local.sampling.quality import SamplingQuality, merge_qualities
from sidelight_cli.local.timeline_export import TimelineBuilder
from sidelight_model.counts import ZERO, Counts
from sidelight_model.folded import Stack
from sidelight_model.frames import OTHER, escape_frame
from sidelight_model.profile import Profile
from sidelight_sidecar.discovery.process_description import describe_process
from sidelight_sidecar.discovery.processes import Proc, ProcessKey
from sidelight_sidecar.samplers.task_samples import count_tasks, read_task_samples

MAX_STACKS = 500_000


@dataclass(frozen=True, slots=True)
class RootFrames:
    """The root frames to add to every stack, so that threads and processes stay apart."""

    processes: bool = False
    threads: bool = False

    def prepend_to(self, proc: Proc, thread: str, stack: str) -> Stack:
        if self.threads:
            stack = f"{escape_frame('thread ' + thread)};{stack}"
        if self.processes:
            stack = f"{escape_frame(format_process_name(proc))};{stack}"
        return Stack(stack)


def format_process_name(proc: Proc) -> str:
    """Format a process with its pid: `process 4711 python app.py`."""
    return f"process {proc.pid} {describe_process(proc)}"


class LocalRecording:
    """Sums up the batches of a process set.

    Beyond `most_stacks` different stacks, samples of new stacks are counted as `(other)`.
    """

    def __init__(self, rate_hz: float, roots: RootFrames, *, most_stacks: int = MAX_STACKS) -> None:
        self._period_ns = round(1e9 / rate_hz)
        self._roots = roots
        self._max_stacks = most_stacks
        self._counts: dict[Stack, Counts] = {}
        self._qualities: dict[ProcessKey, SamplingQuality] = {}
        self._other_samples = 0
        self._task_batches = 0
        self.timelines = TimelineBuilder()

    @property
    def period_ns(self) -> int:
        return self._period_ns

    @property
    def process_count(self) -> int:
        """Number of processes with at least one batch."""
        return len(self._qualities)

    def add(self, process_batch: ProcessBatch) -> None:
        for thread, stack, *states in process_batch.batch.counts:
            self._add_counts(self._roots.prepend_to(process_batch.proc, thread, stack), Counts(*states))
        batch, tasks = process_batch.batch, read_task_samples(process_batch.batch)
        if tasks is not None:
            seed = self._task_batches = self._task_batches + 1
            task_counts = count_tasks(tasks, batch.duration_ns, self._period_ns, seed)
            for stack, counts in task_counts.items():
                self._add_counts(self._roots.prepend_to(process_batch.proc, "asyncio", stack), counts)
        previous = self._qualities.get(process_batch.proc.key, SamplingQuality())
        self._qualities[process_batch.proc.key] = previous.append(
            SamplingQuality.from_batch(process_batch.batch)
        )
        if process_batch.timeline is not None:
            self.timelines.add(
                process_batch.session_number, format_process_name(process_batch.proc), process_batch.timeline
            )

    def merge(self, other: LocalRecording) -> None:
        """Add the counts and quality of a later recording, without its timelines."""
        for stack, counts in other._counts.items():
            self._add_counts(stack, counts)
        for key, quality in other._qualities.items():
            self._qualities[key] = self._qualities.get(key, SamplingQuality()).append(quality)
        self._other_samples += other._other_samples

    @property
    def counts(self) -> Mapping[Stack, Counts]:
        return self._counts

    def build_profile(self) -> Profile:
        """Build a profile of the counts and their times; a sample counts as one period."""
        times = {stack: counts.times(self._period_ns) for stack, counts in self._counts.items()}
        return Profile(dict(self._counts), times)

    def compute_quality(self) -> SamplingQuality:
        """Return the quality of all processes together."""
        return merge_qualities([*self._qualities.values(), SamplingQuality(other=self._other_samples)])

    def _add_counts(self, stack: Stack, counts: Counts) -> None:
        if stack not in self._counts and len(self._counts) >= self._max_stacks and stack != OTHER:
            stack = Stack(OTHER)
            self._other_samples += counts.wall
        self._counts[stack] = self._counts.get(stack, ZERO).plus(counts)
