"""Keep the sidecar's memory in one malloc arena.

The C library gives each of several threads an arena of its own, so that they need not wait for each other;
memory that one thread has freed is then not reused by the others. The sidecar's threads, up to thirty of
them, mostly wait for files and for the sampler. With one arena and forty processes to sample, the sidecar
is 7 MiB smaller (`bench/sampler.py --only many`).
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8
"""From glibc's malloc.h. Other C libraries have no mallopt, or ignore this number."""


def limit_arenas() -> None:
    """Use one arena for all threads that start later."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
