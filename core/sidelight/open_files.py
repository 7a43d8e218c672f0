"""The limit of open files, and how many connections fit below it."""

from __future__ import annotations

import resource
from typing import Final

MIN_OTHER_FILES: Final = 128
"""Descriptors that connections leave to the store, files, processes and libraries, at least."""
MAX_OTHER_FILES: Final = 1024
_UNLIMITED_FILES: Final = 1 << 20


def raise_open_file_limit() -> int:
    """Raise the soft limit of open files (RLIMIT_NOFILE) to the hard one; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # a sandbox may forbid it
            pass
    return _UNLIMITED_FILES if soft == resource.RLIM_INFINITY else soft


def limit_connections(max_connections: int, open_file_limit: int, probe_reserve: int) -> int:
    """Return how many ordinary connections a server may have.

    It is from 1 to `max_connections`. A quarter of all descriptors, from 128 to 1024, is for other files.
    """
    other_files = min(MAX_OTHER_FILES, max(MIN_OTHER_FILES, open_file_limit // 4))
    return max(1, min(max_connections, open_file_limit - other_files - probe_reserve))
