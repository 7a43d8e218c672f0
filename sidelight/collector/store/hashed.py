"""A window with its stacks named by hash: made once, when it arrives."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import xxhash

from sidelight.stacks.errors import LimitExceeded
from sidelight.stacks.folded import Stack
from sidelight.stacks.window import Window, encode

MAX_THREAD_TIME_NS: Final = 10**17
"""Three years, or an hour of 27,000 busy threads."""
MAX_SAMPLES: Final = 10**12
"""As many at 10 kHz."""


@dataclass(frozen=True, slots=True)
class HashedWindow:
    """One window, its columns aligned and in ascending order of hash.

    `digest` is the XXH3 64-bit hash of the window's header line in its canonical form (as `encode` writes it)
    followed by the columns hashes, idle, running and gil as little-endian 64-bit integers: equal for equal
    windows, whatever the order of their stacks was on the way.
    """

    window: Window
    digest: int
    hashes: array[int]
    idle: array[int]
    running: array[int]
    gil: array[int]
    stacks: Sequence[Stack]


def stack_hash(stack: str) -> int:
    """The name of a stack in the store: XXH3 64-bit, seed 0, of its folded text."""
    return xxhash.xxh3_64_intdigest(stack.encode())


def hashed(window: Window) -> HashedWindow:
    """Name the stacks of a window and leave out those counted zero times.

    Raises LimitExceeded for more samples, or more time, than a process can give in a window: sums of sums
    must fit 63 bits.
    """
    samples = window.total.wall
    if samples > MAX_SAMPLES:
        raise LimitExceeded(
            f"window {window.id} claims {samples} samples, more than {MAX_SAMPLES:.0e}",
            hint="Counts are samples, not nanoseconds.",
        )
    if samples * window.period_ns > MAX_THREAD_TIME_NS:
        raise LimitExceeded(
            f"window {window.id} claims more than {MAX_THREAD_TIME_NS:.0e} ns of thread time",
            hint="Samples times period is the time that threads spent in the window: check `period_ns`.",
        )
    by_hash = sorted((stack_hash(stack), stack) for stack, count in window.counts.items() if any(count))
    hashes = array("Q", [h for h, _ in by_hash])
    stacks = [stack for _, stack in by_hash]
    counts = [window.counts[stack] for stack in stacks]
    idle = array("q", [count[0] for count in counts])
    running = array("q", [count[1] for count in counts])
    gil = array("q", [count[2] for count in counts])
    digest = xxhash.xxh3_64(encode([replace(window, counts={})]))
    for column in (hashes, idle, running, gil):
        digest.update(column)
    return HashedWindow(window, digest.intdigest(), hashes, idle, running, gil, stacks)
