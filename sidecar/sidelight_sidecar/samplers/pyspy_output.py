"""What `py-spy record -f raw` writes and prints, read into values.

py-spy escapes nothing, so a line that cannot be read (a newline in a file name cuts one in two)
is counted, and costs only itself.
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
    """The counts of a raw file, how many samples were clipped, and how many lines could not be read."""
    counts: dict[Stack, Counts] = {}
    truncated = unreadable = 0
    for number, line in enumerate(raw.decode(errors="replace").split("\n"), 1):
        try:
            for stack, found in parse_folded_lines([(number, line)], max_depth=max_depth).items():
                counts[stack] = counts.get(stack, ZERO).plus(found)
                truncated += found.wall if line.count(";") >= max_depth else 0
        except BadFolded:
            unreadable += 1
    return counts, truncated, unreadable


def parse_error_count(log: str) -> int:
    """Ticks that failed, as py-spy tells at the end; 0 when it did not get so far."""
    found = _TOTALS.search(log)
    return int(found[2]) if found else 0


def parse_late_ns(log: str) -> int:
    """How far sampling ever ran behind: the largest of the warnings."""
    return max((int(float(seconds) * 1e9) for seconds in _BEHIND.findall(log)), default=0)


def parse_failure(log: str) -> tuple[Reason, str]:
    """Why py-spy did not begin: the reason word and its own first line about it."""
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
