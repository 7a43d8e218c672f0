"""Recognise the frames of event loops.

The patterns are those of stacks recorded on CPython 3.11; see `loop_attribution` for whole stacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple

from sidelight_model.frames import strip_line_number, unescape_frame
from sidelight_model.packages import PackageKind, classify_frame

FRAMEWORK_PACKAGES: Final = frozenset([
    "aiohttp", "anyio", "asgiref", "daphne", "fastapi", "gevent", "greenlet", "gunicorn", "hypercorn",
    "quart", "sanic", "sniffio", "starlette", "tornado", "trio", "uvicorn", "uvloop",
])  # fmt: skip
"""Packages that run callbacks: like the standard library, no application code."""


class LoopFrameRole(Enum):
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
        (LoopFrameRole.STARTER, "run", r"asyncio/runners\.py"),
        (LoopFrameRole.STARTING, r"\w+", r"asyncio/runners\.py"),
        (LoopFrameRole.STARTING, r"run_until_complete", r"asyncio/base_events\.py"),
        (LoopFrameRole.LOOP, "run_forever", r"asyncio/base_events\.py"),
        (LoopFrameRole.LOOP, "run", r"trio/_core/_run\.py"),
        (LoopFrameRole.SELECTOR, "select", r"selectors\.py"),
        (LoopFrameRole.SELECTOR, "get_events", r"trio/_core/_io_\w+\.py"),
        (LoopFrameRole.RUNNER, "_run", r"asyncio/events\.py"),
        (LoopFrameRole.RUNNER, "unrolled_run", r"trio/_core/_run\.py"),
        (LoopFrameRole.HUB, "run", r"gevent/hub\.py"),
        (LoopFrameRole.THREAD, "_bootstrap", r"threading\.py"),
    )
]


class LoopFrame(NamedTuple):
    """The text of a frame without its line, and its role in an event loop."""

    text: str
    role: LoopFrameRole


@lru_cache(maxsize=16_384)
def classify_loop_frame(text: str) -> LoopFrame:
    folded = strip_line_number(text)
    unescaped = unescape_frame(folded)
    for role, pattern in _ROLE_PATTERNS:
        if pattern.fullmatch(unescaped):
            return LoopFrame(folded, role)
    package = classify_frame(unescaped)
    is_application = package.kind is PackageKind.PACKAGE and package.name not in FRAMEWORK_PACKAGES
    return LoopFrame(folded, LoopFrameRole.APPLICATION if is_application else LoopFrameRole.FRAMEWORK)


def has_event_loop_frames(names: Iterable[str]) -> bool:
    """Return whether any of `names` is a frame of an event loop.

    For greenlets, any frame of their library is sufficient, because a hub waits.
    """
    return any(
        classify_loop_frame(text).role in (LoopFrameRole.STARTER, LoopFrameRole.LOOP, LoopFrameRole.HUB)
        or " (gevent/" in text
        for text in names
    )
