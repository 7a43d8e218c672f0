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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.event_loop.loop_frames import (
    LoopFrame,
    LoopFrameRole,
    classify_loop_frame,
)
from sidelight_collector.statistics.event_loop.stack_automaton import (
    CLEAR_MARK,
    KEEP_MARK,
    MARK_FRAME,
    MAX_CLASSES,
    Automaton,
)

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

OUTSIDE_LOOP: Final = -2
LOOP_WAITING: Final = -1


@dataclass(frozen=True, slots=True)
class LoopAttribution:
    """The role of each stack's time for an event loop.

    `blockers` are frames (escaped, without lines). `blocker_ids` holds for each stack the index of its
    blocker, `LOOP_WAITING` where the loop waits, or `OUTSIDE_LOOP`.
    """

    blocker_ids: I64
    blockers: tuple[str, ...]

    @property
    def has_loop(self) -> bool:
        """Whether any stack belongs to an event loop."""
        return bool((self.blocker_ids != OUTSIDE_LOOP).any())


def attribute_loop_time(
    names: Sequence[str], walk_stacks: Callable[[U8, Automaton], tuple[U8, I32]]
) -> LoopAttribution:
    """Attribute each stack to an event loop.

    `walk_stacks` walks an automaton down the stacks, whose frames are indices of `names` (see `Automaton`).
    """
    frames = [classify_loop_frame(text) for text in names]
    roles = np.array([frame.role.value for frame in frames], np.uint8)
    has_hub = LoopFrameRole.HUB.value in roles
    start = _StackPosition.GREENLET_ROOT if has_hub else _StackPosition.OUTSIDE
    positions, marked = walk_stacks(roles, Automaton(_NEXT_POSITIONS, _MARKS, start.value))
    blockers = sorted({frames[at].text for at in np.unique(marked[marked >= 0]).tolist()})
    number = {text: at for at, text in enumerate(blockers)}
    # The last is that of stacks without a mark.
    numbers = np.array([*(number.get(frame.text, OUTSIDE_LOOP) for frame in frames), OUTSIDE_LOOP], np.int64)
    is_waiting = np.isin(positions, (_StackPosition.WAITING.value, _StackPosition.STARTER.value))
    return LoopAttribution(
        np.where((marked < 0) & is_waiting, LOOP_WAITING, numbers[marked]), tuple(blockers)
    )


class _StackPosition(Enum):
    """A position in a stack relative to an event loop.

    `IN_CALLBACK` is below the frame that runs callbacks, while the blocker is not settled yet.
    `GREENLET_ROOT` is where a stack begins in a profile with a hub.
    """

    OUTSIDE = auto()
    STARTER = auto()
    STARTING = auto()
    LOOP = auto()
    WAITING = auto()
    RUNNER = auto()
    IN_CALLBACK = auto()
    IN_BLOCKER = auto()
    GREENLET_ROOT = auto()


class _PathState(NamedTuple):
    """The position of a frame in its stack, and the blocker there, if any."""

    position: _StackPosition
    blocker: str = ""


def _descend(state: _PathState, frame: LoopFrame) -> _PathState:
    """Return the state one frame further down the stack."""
    if state.position is _StackPosition.IN_BLOCKER:
        return state
    if frame.role is LoopFrameRole.HUB:
        return _PathState(_StackPosition.WAITING)
    if frame.role is LoopFrameRole.LOOP:
        return _PathState(_StackPosition.LOOP, frame.text)
    match state.position:
        case _StackPosition.GREENLET_ROOT if frame.role is not LoopFrameRole.THREAD:
            return _enter_callback(frame)
        case _StackPosition.OUTSIDE | _StackPosition.GREENLET_ROOT:
            is_starter = frame.role is LoopFrameRole.STARTER
            return _PathState(_StackPosition.STARTER if is_starter else _StackPosition.OUTSIDE)
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


def _tabulate_steps() -> tuple[U8, U8]:
    """Tabulate `_descend` by position and role.

    Returns the position below, and what becomes of the blocker.
    """
    positions, marks = np.zeros((2, len(_StackPosition) + 1, MAX_CLASSES), np.uint8)
    for position, role in product(_StackPosition, LoopFrameRole):
        state = _descend(_PathState(position, "above"), LoopFrame("this", role))
        step = (position.value, role.value)
        positions[step] = state.position.value
        marks[step] = {"above": KEEP_MARK, "this": MARK_FRAME, "": CLEAR_MARK}[state.blocker]
    return positions, marks


_NEXT_POSITIONS, _MARKS = _tabulate_steps()
