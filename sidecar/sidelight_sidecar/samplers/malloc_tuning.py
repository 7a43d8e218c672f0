"""Keeps the sidecar's memory in one heap.

The C library gives each of several threads a heap of its own, so that they need not wait for each other, and
what one has freed the others do not use. The sidecar's threads mostly wait for files and for the sampler, at
times thirty of them: beside forty processes it is 7 MiB smaller with one heap
(`bench/sampler.py --only many`).
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8
"""Of malloc.h, glibc. Other C libraries have no mallopt, or know no such number and do nothing."""


def limit_arenas() -> None:
    """Holds for threads that are started later."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
