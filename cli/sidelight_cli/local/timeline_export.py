"""Samples with their times, thread by thread, for the formats that show time from left to right."""

from __future__ import annotations

from array import array
from collections.abc import Hashable

from sidelight_cli.local.sampling.sampling_engine import Timeline
from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.speedscope import Lane
from sidelight_model.folded import Stack, join, split
from sidelight_model.frames import without_line

MOST_SAMPLES = 2_000_000
_SHOWN = {ProfileType.WALL: (0, 1, 2), ProfileType.CPU: (1, 2), ProfileType.GIL: (2,)}


class _Row:
    """The samples of one thread: times, stacks and states side by side, 13 bytes each."""

    __slots__ = ("at", "stack", "state")

    def __init__(self) -> None:
        self.at = array("q")
        self.stack = array("I")
        self.state = array("B")


class Lanes:
    """Gathers what timelines give; what did not fit, here or in a session, is counted (`left_out`)."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self._most = most
        self._held = 0
        self._stacks: dict[str, int] = {}
        self._rows: dict[tuple[str, str, int], _Row] = {}
        self._seen: dict[Hashable, tuple[int, int]] = {}
        self.left_out = 0

    def add(self, key: Hashable, process: str, timeline: Timeline) -> None:
        """Add what is new in a session's timeline, which holds the last samples of all it ever took.

        What is new is known by counting. Its times are taken from the sample before, for each timeline reads
        the clocks anew and may place the same sample a little earlier or later.
        """
        samples = timeline.samples
        ever = timeline.dropped + len(samples)
        seen, latest = self._seen.get(key, (0, 0))
        fresh = min(ever - seen, len(samples))
        self.left_out += ever - seen - fresh
        if fresh <= 0:
            return
        known = len(samples) - fresh - 1
        zero = latest - samples[known][0] if known >= 0 and seen else timeline.start_ns
        codes = [self._stacks.setdefault(stack, len(self._stacks)) for stack in timeline.stacks]
        tick, twins = -1, dict[int, int]()
        for offset, thread, stack, state in samples[-fresh:]:
            if self._held >= self._most:
                self.left_out += 1
                continue
            if offset != tick:
                tick, twins = offset, {}
            # Two threads may bear one name: the second one seen at a tick has a row of its own.
            twin = twins[thread] = twins.get(thread, 0) + 1
            row = self._rows.setdefault((process, timeline.threads[thread], twin), _Row())
            row.at.append(zero + offset)
            row.stack.append(codes[stack])
            row.state.append(state)
            self._held += 1
        self._seen[key] = (ever, zero + samples[-1][0])

    def lanes(self, start_ns: int, kind: ProfileType, *, lines: bool, processes: bool) -> list[Lane]:
        """A lane for each thread that has something to show, the one with most of it first."""
        stacks = [Stack(text) if lines else _plain(text) for text in self._stacks]
        shown = _SHOWN[kind]
        found: list[tuple[int, Lane]] = []
        for (process, thread, twin), row in self._rows.items():
            name = thread if twin == 1 else f"{thread} ({twin})"
            moments = [
                (max(0, at - start_ns), stacks[stack] if state in shown else None)
                for at, stack, state in zip(row.at, row.stack, row.state, strict=True)
            ]
            if much := sum(stack is not None for _, stack in moments):
                found.append((much, Lane(f"{process} · {name}" if processes else name, moments)))
        return [lane for _, lane in sorted(found, key=lambda one: (-one[0], one[1].name))]


def _plain(stack: str) -> Stack:
    return join(without_line(frame) for frame in split(Stack(stack)))
