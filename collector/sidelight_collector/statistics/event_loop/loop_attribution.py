"""Attribute the time of an event loop to the functions that block it.

A thread belongs to a loop if its stacks pass through a loop that this module recognises. The loop is idle
only where it waits for work itself (in its selector or its hub). A callback keeps the loop busy even where
it takes no CPU, as in `time.sleep` or in a query without `await`, because every other callback waits for
it. The *blocker* is the application's first function below the frame that runs callbacks. In an awaited
chain that is the outermost coroutine. If no application code follows, the blocker is the first of the other
frames.

These stacks were recorded on CPython 3.11 (earlier versions have the same without class names):

    asyncio  … run_forever (asyncio/base_events.py);_run_once;Handle._run (asyncio/events.py);BLOCKER
             … _run_once;EpollSelector.select (selectors.py)     waits
    uvloop   … Runner.run (asyncio/runners.py);BLOCKER           no part of the loop is Python
             … Runner.run (asyncio/runners.py)                   waits, or is in its own C code
    tornado  as asyncio
    anyio    as the loop that it runs on
    trio     … run (trio/_core/_run.py);unrolled_run (trio/_core/_run.py);BLOCKER
             … run (trio/_core/_run.py);EpollIOManager.get_events (trio/_core/_io_epoll.py)     waits
    gevent   Hub.run (gevent/hub.py)                             waits
             BLOCKER                                             greenlets have stacks of their own

Greenlets do not name their loop. In a profile with a hub, every stack that does not begin as a thread does
belongs to a greenlet. A uvloop that is run by `loop.run_until_complete` alone leaves no frame and is not
recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.event_loop.loop_frames import (
    LoopFrame,
    LoopFrameRole,
    classify_loop_frame,
)

I64 = NDArray[np.int64]

OUTSIDE_LOOP: Final = -2
LOOP_WAITING: Final = -1


@dataclass(frozen=True, slots=True)
class LoopAttribution:
    """The role of each node's self time for an event loop.

    `blockers` are frames (escaped, without lines). `blocker_ids` holds for each node of a tree the index of
    its blocker, `LOOP_WAITING` where the loop waits, or `OUTSIDE_LOOP`.
    """

    blocker_ids: I64
    blockers: tuple[str, ...]

    @property
    def has_loop(self) -> bool:
        """Whether the tree contains an event loop."""
        return bool((self.blocker_ids != OUTSIDE_LOOP).any())


def attribute_loop_time(names: Sequence[str], level: Sequence[int], name: Sequence[int]) -> LoopAttribution:
    """Attribute each node of a pre-order tree to an event loop.

    The role of a node follows from its own frame and the frames above it.
    """
    words = [classify_loop_frame(text) for text in names]
    hub = any(words[code].role is LoopFrameRole.HUB for code in set(name))
    steps = _Steps(words)
    state_ids = [0] * len(level)
    # The state of the latest node of each level.
    path = [0] * (max(level, default=0) + 1)
    for node in range(1, len(level)):
        depth = level[node]
        state_ids[node] = path[depth] = steps[path[depth - 1], name[node], hub and depth == 1]
    # Blockers are numbered in the order in which nodes have them.
    codes: dict[str, int] = {}
    roles = {number: _assign_role(steps.states[number], codes) for number in dict.fromkeys(state_ids)}
    return LoopAttribution(np.array([roles[number] for number in state_ids], np.int64), tuple(codes))


class _StackPosition(Enum):
    """A position in a stack relative to an event loop.

    `IN_CALLBACK` is below the frame that runs callbacks, while the blocker is not settled yet.
    """

    OUTSIDE = auto()
    STARTER = auto()
    STARTING = auto()
    LOOP = auto()
    WAITING = auto()
    RUNNER = auto()
    IN_CALLBACK = auto()
    IN_BLOCKER = auto()


class _PathState(NamedTuple):
    """The position of a frame in its stack, and the blocker there, if any."""

    position: _StackPosition
    blocker: str = ""


def _assign_role(state: _PathState, codes: dict[str, int]) -> int:
    """Return the number of the state's blocker, LOOP_WAITING or OUTSIDE_LOOP."""
    if state.blocker:
        return codes.setdefault(state.blocker, len(codes))
    is_waiting = state.position in (_StackPosition.WAITING, _StackPosition.STARTER)
    return LOOP_WAITING if is_waiting else OUTSIDE_LOOP


class _Steps(dict[tuple[int, int, bool], int]):
    """The state one frame below another state, each step computed once.

    Keys are (state, frame, whether the frame is the root of a greenlet). `states` are those on the paths of a
    tree by number; state 0 is outside.
    """

    def __init__(self, words: Sequence[LoopFrame]) -> None:
        super().__init__()
        self._words = words
        self.states = [_PathState(_StackPosition.OUTSIDE)]
        self._numbers = {self.states[0]: 0}

    def __missing__(self, step: tuple[int, int, bool]) -> int:
        number, code, is_greenlet_root = step
        state = _descend(self.states[number], self._words[code], is_greenlet_root=is_greenlet_root)
        below = self[step] = self._numbers.setdefault(state, len(self.states))
        if below == len(self.states):
            self.states.append(state)
        return below


def _descend(state: _PathState, frame: LoopFrame, *, is_greenlet_root: bool) -> _PathState:
    """Return the state one frame further down the stack.

    `is_greenlet_root`: the frame is the first of a stack in a profile with a hub.
    """
    if state.position is _StackPosition.IN_BLOCKER:
        return state
    if frame.role is LoopFrameRole.HUB:
        return _PathState(_StackPosition.WAITING)
    if frame.role is LoopFrameRole.LOOP:
        return _PathState(_StackPosition.LOOP, frame.text)
    match state.position:
        case _StackPosition.OUTSIDE:
            if is_greenlet_root and frame.role is not LoopFrameRole.THREAD:
                return _enter_callback(frame)
            return _PathState(_StackPosition.STARTER) if frame.role is LoopFrameRole.STARTER else state
        case _StackPosition.STARTER | _StackPosition.STARTING:
            if frame.role in (LoopFrameRole.STARTER, LoopFrameRole.STARTING):
                return _PathState(
                    _StackPosition.STARTER if frame.role is LoopFrameRole.STARTER else _StackPosition.STARTING
                )
            # A loop in Python is the next frame. A loop in C called any other frame below a starter.
            return _enter_callback(frame) if state.position is _StackPosition.STARTER else state
        case _StackPosition.LOOP if frame.role is LoopFrameRole.SELECTOR:
            return _PathState(_StackPosition.WAITING)
        case _StackPosition.LOOP if frame.role is LoopFrameRole.RUNNER:
            return _PathState(_StackPosition.RUNNER, frame.text)
        case _StackPosition.WAITING | _StackPosition.IN_CALLBACK:
            return (
                _PathState(_StackPosition.IN_BLOCKER, frame.text)
                if frame.role is LoopFrameRole.APPLICATION
                else state
            )
        case _StackPosition.RUNNER:
            return _enter_callback(frame)
    return state


def _enter_callback(frame: LoopFrame) -> _PathState:
    return _PathState(
        _StackPosition.IN_BLOCKER if frame.role is LoopFrameRole.APPLICATION else _StackPosition.IN_CALLBACK,
        frame.text,
    )
