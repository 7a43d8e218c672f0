"""Who holds the event loop: how much of its thread's time callbacks take, and whose they are.

A loop's thread is one whose stacks go through a loop that is known here, and it is idle only where the loop
itself waits for something to do (its selector, its hub). What a callback does is busy for the loop even where
it takes no CPU, as `time.sleep` or a query without `await`: every other callback waits for it. The *holder*
is the application's first function below what runs callbacks, in an awaited chain the outermost coroutine;
where all of it is plumbing, the first of that.

What stacks look like was recorded on CPython 3.11 (before 3.11 the same without classes' names):

    asyncio  … run_forever (asyncio/base_events.py);_run_once;Handle._run (asyncio/events.py);HOLDER …
    _run_once;EpollSelector.select (selectors.py)                    waits uvloop   … Runner.run
    (asyncio/runners.py);HOLDER                           nothing of the loop is Python … Runner.run
    (asyncio/runners.py)                                  waits, or is in its own C code tornado  as asyncio
    anyio    as the loop that it runs on trio     … run (trio/_core/_run.py);unrolled_run
    (trio/_core/_run.py);HOLDER … run (trio/_core/_run.py);EpollIOManager.get_events (trio/_core/_io_epoll.py)
    waits gevent   Hub.run (gevent/hub.py)                                            waits HOLDER
    greenlets have stacks of their own

Greenlets do not name their loop, so where a hub was seen they are all stacks that do not begin as a thread
does. A uvloop that is run by `loop.run_until_complete` alone leaves no frame, and is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.depths import per_sample, share_samples
from sidelight_collector.statistics.inference.cluster_variance import Effects, effects
from sidelight_collector.statistics.inference.design import Design, Load
from sidelight_model.frames import unescape, without_line
from sidelight_model.packages import Kind, package_of

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MOST_HOLDERS: Final = 20
PLUMBING: Final = frozenset([
    "aiohttp", "anyio", "asgiref", "daphne", "fastapi", "gevent", "greenlet", "gunicorn", "hypercorn",
    "quart", "sanic", "sniffio", "starlette", "tornado", "trio", "uvicorn", "uvloop",
])  # fmt: skip
"""Packages that carry callbacks and are not what one looks for; the standard library is no holder either."""


OUTSIDE: Final = -2
WAITS: Final = -1


def mentioned(names: Iterable[str]) -> bool:
    """Whether any is of an event loop. Of greenlets any frame of their library tells, as a hub waits."""
    return any(
        _Word.of(text).step in (_Step.STARTER, _Step.LOOP, _Step.HUB) or " (gevent/" in text for text in names
    )


@dataclass(frozen=True, slots=True)
class Held:
    """For each node of a tree what its own time is to a loop, and the frames (escaped, no lines) of holders.

    `part` is the number of a holder, `WAITS` where the loop waits, or `OUTSIDE`.
    """

    part: I64
    holders: tuple[str, ...]

    @property
    def found(self) -> bool:
        """Whether any event loop was seen."""
        return bool((self.part != OUTSIDE).any())


def held(names: Sequence[str], level: Sequence[int], name: Sequence[int]) -> Held:
    """What each node of a pre-order tree is to an event loop, from the frames above it and its own."""
    words = [_Word.of(text) for text in names]
    hub = any(words[code].step is _Step.HUB for code in set(name))
    codes: dict[str, int] = {}
    part: list[int] = []
    path = [_At(_Where.OUTSIDE)]
    for node, depth in enumerate(level):
        if node:
            del path[depth:]
            first = hub and depth == 1
            path.append(_below(path[-1], words[name[node]], greenlet=first))
        here = path[-1]
        if here.holder:
            part.append(codes.setdefault(here.holder, len(codes)))
        else:
            part.append(WAITS if here.where in (_Where.WAITS, _Where.STARTER) else OUTSIDE)
    return Held(np.array(part, np.int64), tuple(codes))


class _Step(Enum):
    """What a frame is to a loop."""

    STARTER = auto()
    STARTING = auto()
    LOOP = auto()
    SELECTOR = auto()
    RUNNER = auto()
    HUB = auto()
    THREAD = auto()
    APPLICATION = auto()
    PLUMBING = auto()


_STEPS: Final = [
    (step, re.compile(rf"(?:[^(]*\.)?{function} \((?:.*/)?{file}\)"))
    for step, function, file in (
        (_Step.STARTER, "run", r"asyncio/runners\.py"),
        (_Step.STARTING, r"\w+", r"asyncio/runners\.py"),
        (_Step.STARTING, r"run_until_complete", r"asyncio/base_events\.py"),
        (_Step.LOOP, "run_forever", r"asyncio/base_events\.py"),
        (_Step.LOOP, "run", r"trio/_core/_run\.py"),
        (_Step.SELECTOR, "select", r"selectors\.py"),
        (_Step.SELECTOR, "get_events", r"trio/_core/_io_\w+\.py"),
        (_Step.RUNNER, "_run", r"asyncio/events\.py"),
        (_Step.RUNNER, "unrolled_run", r"trio/_core/_run\.py"),
        (_Step.HUB, "run", r"gevent/hub\.py"),
        (_Step.THREAD, "_bootstrap", r"threading\.py"),
    )
]


class _Word(NamedTuple):
    """A frame's text without its line, and what it is to a loop."""

    text: str
    step: _Step

    @classmethod
    def of(cls, text: str) -> _Word:
        folded = without_line(text)
        read = unescape(folded)
        for step, pattern in _STEPS:
            if pattern.fullmatch(read):
                return cls(folded, step)
        package = package_of(read)
        own = package.kind is Kind.PACKAGE and package.name not in PLUMBING
        return cls(folded, _Step.APPLICATION if own else _Step.PLUMBING)


class _Where(Enum):
    """How far down a stack has come: CARRIED is below what runs callbacks, with no holder that is settled."""

    OUTSIDE = auto()
    STARTER = auto()
    STARTING = auto()
    LOOP = auto()
    WAITS = auto()
    RUNNER = auto()
    CARRIED = auto()
    SETTLED = auto()


class _At(NamedTuple):
    """Where a frame of a stack stands, and the holder there, if any."""

    where: _Where
    holder: str = ""


def _below(at: _At, word: _Word, *, greenlet: bool) -> _At:
    """One frame further down; `greenlet`: it is the first of a stack where a hub was seen."""
    if at.where is _Where.SETTLED:
        return at
    if word.step is _Step.HUB:
        return _At(_Where.WAITS)
    if word.step is _Step.LOOP:
        return _At(_Where.LOOP, word.text)
    match at.where:
        case _Where.OUTSIDE:
            if greenlet and word.step is not _Step.THREAD:
                return _carried(word)
            return _At(_Where.STARTER) if word.step is _Step.STARTER else at
        case _Where.STARTER | _Where.STARTING:
            if word.step in (_Step.STARTER, _Step.STARTING):
                return _At(_Where.STARTER if word.step is _Step.STARTER else _Where.STARTING)
            # A loop in Python is the next frame. Below a starter, what else there is was called by one in C.
            return _carried(word) if at.where is _Where.STARTER else at
        case _Where.LOOP if word.step is _Step.SELECTOR:
            return _At(_Where.WAITS)
        case _Where.LOOP if word.step is _Step.RUNNER:
            return _At(_Where.RUNNER, word.text)
        case _Where.WAITS | _Where.CARRIED:
            return _At(_Where.SETTLED, word.text) if word.step is _Step.APPLICATION else at
        case _Where.RUNNER:
            return _carried(word)
    return at


def _carried(word: _Word) -> _At:
    return _At(_Where.SETTLED if word.step is _Step.APPLICATION else _Where.CARRIED, word.text)


@dataclass(frozen=True, slots=True)
class Loop:
    """How much of its thread's time the loop was held: `busy` (1,), and by whom (K,), most first."""

    busy: Effects
    holders: tuple[str, ...]
    shares: Effects


def loop(of: Design, found: Held, a: F64, b: F64, *, most: int = MOST_HOLDERS) -> Loop | None:
    """Compare who holds the loop. `a` and `b` have samples of all states by holder, (K + 1, P, T): the last
    row is where the loop waits. None where a side has no time on a loop."""
    whole_a, whole_b = a.sum(0), b.sum(0)
    if not whole_a.any() or not whole_b.any():
        return None
    busy_a, busy_b = a[:-1].sum(0), b[:-1].sum(0)
    own = per_sample(of, whole_a, whole_b, busy_a, busy_b)
    if of.load is Load.UNKNOWN:  # a busier loop is held for longer
        own = replace(own, load=of.load)
    busy = _shares(own, busy_a[None], busy_b[None])
    share = np.maximum(a[:-1].sum((1, 2)) / whole_a.sum(), b[:-1].sum((1, 2)) / whole_b.sum())
    first = [int(at) for at in np.argsort(-share, kind="stable")[:most] if share[at] > 0]
    return Loop(busy, tuple(found.holders[at] for at in first), _shares(own, a[first], b[first]))


def _shares(own: Design, a: F64, b: F64) -> Effects:
    return effects(own, a, b, share_samples(a, own.a), share_samples(b, own.b))
