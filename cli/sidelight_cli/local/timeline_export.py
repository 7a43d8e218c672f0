"""Samples in time order by thread, for formats with a time axis."""

from __future__ import annotations

from array import array
from collections.abc import Hashable

from sidelight_model.counts import STATES, STATES_BY_TYPE, ProfileType
from sidelight_model.export_formats.speedscope import ThreadTimeline
from sidelight_model.folded import Stack, join_frames, split_stack
from sidelight_model.frames import strip_line_number
from sidelight_sidecar.samplers.timed_samples import TimelineBuffer

MAX_SAMPLES = 2_000_000


class _TimelineSamples:
    """The samples of one thread as parallel arrays, 13 bytes per sample.

    `at` holds Unix times in nanoseconds, `stack` indexes of stacks, `state` indexes of STATES.
    """

    __slots__ = ("at", "stack", "state")

    def __init__(self) -> None:
        self.at = array("q")
        self.stack = array("I")
        self.state = array("B")


class TimelineBuilder:
    """Collects the samples of several sessions in time order.

    `dropped_samples` counts the samples that did not fit here or into a session's own buffer.
    """

    def __init__(self, max_samples: int = MAX_SAMPLES) -> None:
        self._max_samples = max_samples
        self._sample_count = 0
        self._stacks: dict[str, int] = {}
        self._threads: dict[tuple[str, str, int], _TimelineSamples] = {}
        self._positions: dict[Hashable, tuple[int, int]] = {}
        self.dropped_samples = 0

    def add(self, key: Hashable, process: str, timeline: TimelineBuffer) -> None:
        """Add the new samples of a session's timeline; `key` identifies the session.

        A timeline holds the session's last samples. The new ones are found by counting all samples of the
        session so far. Their times continue from the last sample added before, because each timeline reads
        the clocks anew and may place the same sample slightly earlier or later.
        """
        samples = timeline.samples
        total_samples = timeline.dropped + len(samples)
        added_count, latest = self._positions.get(key, (0, 0))
        new_count = min(total_samples - added_count, len(samples))
        self.dropped_samples += total_samples - added_count - new_count
        if new_count <= 0:
            return
        last_known_index = len(samples) - new_count - 1
        start_ns = (
            latest - samples[last_known_index][0]
            if last_known_index >= 0 and added_count
            else timeline.start_ns
        )
        codes = [self._stacks.setdefault(stack, len(self._stacks)) for stack in timeline.stacks]
        tick, twins = -1, dict[int, int]()
        for offset, thread, stack, state in samples[-new_count:]:
            if self._sample_count >= self._max_samples:
                self.dropped_samples += 1
                continue
            if offset != tick:
                tick, twins = offset, {}
            # Threads can share a name: the second thread of that name in a tick gets its own row.
            twin = twins[thread] = twins.get(thread, 0) + 1
            row = self._threads.setdefault((process, timeline.threads[thread], twin), _TimelineSamples())
            row.at.append(start_ns + offset)
            row.stack.append(codes[stack])
            row.state.append(state)
            self._sample_count += 1
        self._positions[key] = (total_samples, start_ns + samples[-1][0])

    def build_timelines(
        self, start_ns: int, profile_type: ProfileType, *, by_line: bool, by_process: bool
    ) -> list[ThreadTimeline]:
        """Return a timeline for each thread with samples of `profile_type`.

        Threads with the most such samples come first. Times start at `start_ns` (Unix time). Without
        `by_line`, frames have no line numbers. With `by_process`, names start with the process.
        """
        stacks = [Stack(text) if by_line else _strip_lines(text) for text in self._stacks]
        shown = [STATES.index(state) for state in STATES_BY_TYPE[profile_type]]
        timelines: list[tuple[int, ThreadTimeline]] = []
        for (process, thread, twin), row in self._threads.items():
            name = thread if twin == 1 else f"{thread} ({twin})"
            moments = [
                (max(0, at - start_ns), stacks[stack] if state in shown else None)
                for at, stack, state in zip(row.at, row.stack, row.state, strict=True)
            ]
            if count := sum(stack is not None for _, stack in moments):
                timelines.append(
                    (count, ThreadTimeline(f"{process} · {name}" if by_process else name, moments))
                )
        return [lane for _, lane in sorted(timelines, key=lambda item: (-item[0], item[1].name))]


def _strip_lines(stack: str) -> Stack:
    return join_frames(strip_line_number(frame) for frame in split_stack(Stack(stack)))
