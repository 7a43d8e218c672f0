"""Hash the stacks of a window, once, when it arrives."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import xxhash

from sidelight_collector.packed_stacks import PackedStacks, pack_stacks
from sidelight_model.counts import STATES, Counts
from sidelight_model.errors import LimitExceeded
from sidelight_model.folded import Stack
from sidelight_model.window import Window, count_truncated, encode_windows

MAX_THREAD_TIME_NS: Final = 10**17
"""Three years, or an hour of 27,000 busy threads."""
MAX_SAMPLES: Final = 10**12
"""The samples of MAX_THREAD_TIME_NS at 10 kHz."""
_MAX_INT: Final = 2**63 - 1
FIRST_STATES: Final = STATES[:3]
"""The states of the first format, which are in every digest."""


@dataclass(frozen=True, slots=True)
class HashedStacks:
    """The stacks of a window with their hashes, in ascending order of hash and text.

    Stacks without samples are absent. `samples` counts all samples, `truncated_samples` those with a
    truncated stack. A count above 2^63-1 is stored as 2^63-1, because its window is refused anyway.
    """

    hashes: array[int]
    counts: tuple[array[int], ...]
    """Samples by state, in the order of STATES."""
    stacks: PackedStacks
    samples: int
    truncated_samples: int


@dataclass(frozen=True, slots=True)
class HashedWindow:
    """A window with hashed stacks, as aligned columns in ascending order of hash.

    `window` itself has no counts. `digest` is the XXH3 64-bit hash of the canonical header line of the
    window (as `encode_windows` writes it) followed by the columns hashes, idle, running and gil, and those of
    the later states that have samples, as little-endian 64-bit integers. It is equal for equal windows,
    whatever the order of their stacks.
    """

    window: Window
    digest: int
    hashes: array[int]
    counts: tuple[array[int], ...]
    stacks: PackedStacks

    @property
    def memory_bytes(self) -> int:
        """The size of its columns."""
        numbers = sum(len(column) * column.itemsize for column in (self.hashes, *self.counts))
        return numbers + self.stacks.memory_bytes


def hash_stack(stack: str) -> int:
    """Hash a stack for the store: XXH3 64-bit, seed 0, of its folded text."""
    return xxhash.xxh3_64_intdigest(stack.encode())


def build_hashed_stacks(counts: Mapping[Stack, Counts]) -> HashedStacks:
    """Hash stacks, and drop those without samples."""
    by_hash = sorted((hash_stack(stack), stack) for stack, count in counts.items() if any(count))
    stacks = [stack for _, stack in by_hash]
    rows = [counts[stack] for stack in stacks]
    samples = sum(map(sum, rows))
    if samples > _MAX_INT:
        rows = [Counts(*(min(count, _MAX_INT) for count in row)) for row in rows]
    return HashedStacks(
        array("Q", [h for h, _ in by_hash]),
        tuple(array("q", [row[state] for row in rows]) for state in range(len(STATES))),
        pack_stacks(stacks),
        samples,
        count_truncated(counts),
    )


def hash_window(window: Window) -> HashedWindow:
    """Hash the stacks of a window. Raises LimitExceeded as `build_hashed_window` does."""
    return build_hashed_window(replace(window, counts={}), build_hashed_stacks(window.counts))


def build_hashed_window(window: Window, hashed_stacks: HashedStacks) -> HashedWindow:
    """Join a window without counts with its hashed stacks.

    Raises LimitExceeded for more samples, or more thread time, than a process can have in a window. The
    limits keep sums of many windows within 63 bits.
    """
    if hashed_stacks.samples > MAX_SAMPLES:
        raise LimitExceeded(
            f"window {window.id} claims {hashed_stacks.samples} samples, more than {MAX_SAMPLES:.0e}",
            hint="Counts are samples, not nanoseconds.",
        )
    if hashed_stacks.samples * window.period_ns > MAX_THREAD_TIME_NS:
        raise LimitExceeded(
            f"window {window.id} claims more than {MAX_THREAD_TIME_NS:.0e} ns of thread time",
            hint="Samples times period is the time that threads spent in the window: check `period_ns`.",
        )
    digest = xxhash.xxh3_64(encode_windows([window]))
    digest.update(hashed_stacks.hashes)
    for state, column in zip(STATES, hashed_stacks.counts, strict=True):
        if state in FIRST_STATES or any(column):
            digest.update(column)
    return HashedWindow(
        window,
        digest.intdigest(),
        hashed_stacks.hashes,
        hashed_stacks.counts,
        hashed_stacks.stacks,
    )
