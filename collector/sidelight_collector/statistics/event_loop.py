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

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.depths import build_per_sample_design, compute_share_sample_sizes
from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.effect_size import Effects, compute_effects
from sidelight_model.frames import strip_line_number, unescape_frame
from sidelight_model.packages import PackageKind, classify_frame

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MAX_BLOCKERS: Final = 20
FRAMEWORK_PACKAGES: Final = frozenset([
    "aiohttp", "anyio", "asgiref", "daphne", "fastapi", "gevent", "greenlet", "gunicorn", "hypercorn",
    "quart", "sanic", "sniffio", "starlette", "tornado", "trio", "uvicorn", "uvloop",
])  # fmt: skip
"""Packages that run callbacks: like the standard library, no application code."""

OUTSIDE_LOOP: Final = -2
LOOP_WAITING: Final = -1


def has_event_loop_frames(names: Iterable[str]) -> bool:
    """Return whether any of `names` is a frame of an event loop.

    For greenlets, any frame of their library is sufficient, because a hub waits.
    """
    return any(
        _classify_loop_frame(text).role in (_FrameRole.STARTER, _FrameRole.LOOP, _FrameRole.HUB)
        or " (gevent/" in text
        for text in names
    )


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
    words = [_classify_loop_frame(text) for text in names]
    hub = any(words[code].role is _FrameRole.HUB for code in set(name))
    codes: dict[str, int] = {}
    blocker_ids: list[int] = []
    path = [_PathState(_StackPosition.OUTSIDE)]
    for node, depth in enumerate(level):
        if node:
            del path[depth:]
            first = hub and depth == 1
            path.append(_descend(path[-1], words[name[node]], is_greenlet_root=first))
        here = path[-1]
        if here.blocker:
            blocker_ids.append(codes.setdefault(here.blocker, len(codes)))
        else:
            blocker_ids.append(
                LOOP_WAITING
                if here.position in (_StackPosition.WAITING, _StackPosition.STARTER)
                else OUTSIDE_LOOP
            )
    return LoopAttribution(np.array(blocker_ids, np.int64), tuple(codes))


class _FrameRole(Enum):
    """The role of a frame in an event loop."""

    STARTER = auto()
    STARTING = auto()
    LOOP = auto()
    SELECTOR = auto()
    RUNNER = auto()
    HUB = auto()
    THREAD = auto()
    APPLICATION = auto()
    FRAMEWORK = auto()


_ROLE_PATTERNS: Final = [
    (step, re.compile(rf"(?:[^(]*\.)?{function} \((?:.*/)?{file}\)"))
    for step, function, file in (
        (_FrameRole.STARTER, "run", r"asyncio/runners\.py"),
        (_FrameRole.STARTING, r"\w+", r"asyncio/runners\.py"),
        (_FrameRole.STARTING, r"run_until_complete", r"asyncio/base_events\.py"),
        (_FrameRole.LOOP, "run_forever", r"asyncio/base_events\.py"),
        (_FrameRole.LOOP, "run", r"trio/_core/_run\.py"),
        (_FrameRole.SELECTOR, "select", r"selectors\.py"),
        (_FrameRole.SELECTOR, "get_events", r"trio/_core/_io_\w+\.py"),
        (_FrameRole.RUNNER, "_run", r"asyncio/events\.py"),
        (_FrameRole.RUNNER, "unrolled_run", r"trio/_core/_run\.py"),
        (_FrameRole.HUB, "run", r"gevent/hub\.py"),
        (_FrameRole.THREAD, "_bootstrap", r"threading\.py"),
    )
]


class _LoopFrame(NamedTuple):
    """The text of a frame without its line, and its role in an event loop."""

    text: str
    role: _FrameRole


@lru_cache(maxsize=16_384)
def _classify_loop_frame(text: str) -> _LoopFrame:
    folded = strip_line_number(text)
    unescaped = unescape_frame(folded)
    for role, pattern in _ROLE_PATTERNS:
        if pattern.fullmatch(unescaped):
            return _LoopFrame(folded, role)
    package = classify_frame(unescaped)
    is_application = package.kind is PackageKind.PACKAGE and package.name not in FRAMEWORK_PACKAGES
    return _LoopFrame(folded, _FrameRole.APPLICATION if is_application else _FrameRole.FRAMEWORK)


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


def _descend(state: _PathState, frame: _LoopFrame, *, is_greenlet_root: bool) -> _PathState:
    """Return the state one frame further down the stack.

    `is_greenlet_root`: the frame is the first of a stack in a profile with a hub.
    """
    if state.position is _StackPosition.IN_BLOCKER:
        return state
    if frame.role is _FrameRole.HUB:
        return _PathState(_StackPosition.WAITING)
    if frame.role is _FrameRole.LOOP:
        return _PathState(_StackPosition.LOOP, frame.text)
    match state.position:
        case _StackPosition.OUTSIDE:
            if is_greenlet_root and frame.role is not _FrameRole.THREAD:
                return _enter_callback(frame)
            return _PathState(_StackPosition.STARTER) if frame.role is _FrameRole.STARTER else state
        case _StackPosition.STARTER | _StackPosition.STARTING:
            if frame.role in (_FrameRole.STARTER, _FrameRole.STARTING):
                return _PathState(
                    _StackPosition.STARTER if frame.role is _FrameRole.STARTER else _StackPosition.STARTING
                )
            # A loop in Python is the next frame. A loop in C called any other frame below a starter.
            return _enter_callback(frame) if state.position is _StackPosition.STARTER else state
        case _StackPosition.LOOP if frame.role is _FrameRole.SELECTOR:
            return _PathState(_StackPosition.WAITING)
        case _StackPosition.LOOP if frame.role is _FrameRole.RUNNER:
            return _PathState(_StackPosition.RUNNER, frame.text)
        case _StackPosition.WAITING | _StackPosition.IN_CALLBACK:
            return (
                _PathState(_StackPosition.IN_BLOCKER, frame.text)
                if frame.role is _FrameRole.APPLICATION
                else state
            )
        case _StackPosition.RUNNER:
            return _enter_callback(frame)
    return state


def _enter_callback(frame: _LoopFrame) -> _PathState:
    return _PathState(
        _StackPosition.IN_BLOCKER if frame.role is _FrameRole.APPLICATION else _StackPosition.IN_CALLBACK,
        frame.text,
    )


@dataclass(frozen=True, slots=True)
class LoopComparison:
    """How long a loop was blocked on each side, and by which functions.

    `busy` (1,) is the share of its thread's time in which the loop was blocked. `shares` (K,) are the
    shares of `blockers`, largest first.
    """

    busy: Effects
    blockers: tuple[str, ...]
    shares: Effects


def compare_loops(
    design: Design, attribution: LoopAttribution, a: F64, b: F64, *, max_blockers: int = MAX_BLOCKERS
) -> LoopComparison | None:
    """Compare which functions block the event loop.

    `a` and `b` hold samples of all states by blocker, (K + 1, P, T). The last row is where the loop waits.
    Returns None if a side has no time on a loop.
    """
    whole_a, whole_b = a.sum(0), b.sum(0)
    if not whole_a.any() or not whole_b.any():
        return None
    busy_a, busy_b = a[:-1].sum(0), b[:-1].sum(0)
    per_sample = build_per_sample_design(design, whole_a, whole_b)
    busy = _compute_share_effects(per_sample, busy_a[None], busy_b[None])
    share = np.maximum(a[:-1].sum((1, 2)) / whole_a.sum(), b[:-1].sum((1, 2)) / whole_b.sum())
    largest = [int(at) for at in np.argsort(-share, kind="stable")[:max_blockers] if share[at] > 0]
    return LoopComparison(
        busy,
        tuple(attribution.blockers[at] for at in largest),
        _compute_share_effects(per_sample, a[largest], b[largest]),
    )


def _compute_share_effects(own: Design, a: F64, b: F64) -> Effects:
    return compute_effects(
        own, a, b, compute_share_sample_sizes(a, own.a), compute_share_sample_sizes(b, own.b)
    )
