"""Parse the files and messages of `py-spy record -f raw`.

py-spy escapes nothing: a newline in a file name cuts a line in two. A line that cannot be parsed is
counted, and the other lines are still used.
"""

from __future__ import annotations

import re

from sidelight_model.counts import ZERO, Counts
from sidelight_model.errors import BadFolded, Reason
from sidelight_model.folded import Stack, parse_folded_lines

_TOTALS = re.compile(r"Samples: ([0-9]+) Errors: ([0-9]+)")
_BEHIND = re.compile(r"([0-9.]+)\s*s behind in sampling")
STARTED_MESSAGE = "Sampling process"


def parse_counts(raw: bytes, max_depth: int) -> tuple[dict[Stack, Counts], int, int]:
    """Parse a raw file: counts, number of truncated samples, and of unreadable lines."""
    counts: dict[Stack, Counts] = {}
    truncated = unreadable = 0
    for number, line in enumerate(raw.decode(errors="replace").split("\n"), 1):
        try:
            for stack, count in parse_folded_lines([(number, line)], max_depth=max_depth).items():
                counts[stack] = counts.get(stack, ZERO).plus(count)
                truncated += count.wall if line.count(";") >= max_depth else 0
        except BadFolded:
            unreadable += 1
    return counts, truncated, unreadable


def parse_error_count(log: str) -> int:
    """Return the number of failed ticks; 0 if py-spy ended before it reported them."""
    match = _TOTALS.search(log)
    return int(match[2]) if match else 0


def parse_late_ns(log: str) -> int:
    """Return the largest lag of py-spy's warnings, in nanoseconds."""
    return max((int(float(seconds) * 1e9) for seconds in _BEHIND.findall(log)), default=0)


def parse_failure(log: str) -> tuple[Reason, str]:
    """Return why py-spy did not start: the reason word and its first message."""
    lines = [line.removeprefix("Error: ") for line in log.split("\n") if line.strip()]
    text = next((line for line in lines if not line.startswith("py-spy>")), "it did not say why")
    for words, reason in _FAILURE_REASONS:
        if any(word in log for word in words):
            return reason, text
    return Reason.SAMPLER_FAILED, text


_FAILURE_REASONS = (
    (("Permission Denied", "Permission denied", "EPERM", "Operation not permitted"), Reason.PTRACE_DENIED),
    (("No such process", "ESRCH", "Check that the process is running"), Reason.PID_GONE),
    (("Failed to find python version", "not a python process"), Reason.NOT_PYTHON),
    (("Unsupported version of Python", "free-threaded"), Reason.UNSUPPORTED_PYTHON),
)
