"""Hash and pack the stacks of a window, once, when it arrives.

Packed stacks take about a quarter of the memory of their text.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import xxhash

from sidelight_collector.native_kernel import NATIVE
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
class PackedStacks:
    """Stacks in columns as Arrow has them.

    Integers have 32 bits, in the machine's order, and texts are UTF-8. Stack i has the frames from
    `offsets[i]` to `offsets[i + 1]` of `frames`. Frame n has the text from `text_offsets[n]` to
    `text_offsets[n + 1]` of `texts`, escaped as in folded text. Frames are numbered in the order in which
    they occur first.
    """

    offsets: bytes
    frames: bytes
    text_offsets: bytes
    texts: bytes

    @property
    def memory_bytes(self) -> int:
        """The size of the columns."""
        return sum(map(len, self.columns))

    @property
    def columns(self) -> tuple[bytes, bytes, bytes, bytes]:
        """The columns in the order of the native kernel."""
        return self.offsets, self.frames, self.text_offsets, self.texts

    def __len__(self) -> int:
        return len(self.offsets) // 4 - 1

    def __iter__(self) -> Iterator[Stack]:
        text_offsets, offsets = memoryview(self.text_offsets).cast("i"), memoryview(self.offsets).cast("i")
        texts = [self.texts[start:end].decode() for start, end in pairwise(text_offsets)]
        frames = memoryview(self.frames).cast("i")
        for start, end in pairwise(offsets):
            yield Stack(";".join(texts[number] for number in frames[start:end]))


def pack_stacks(stacks: Iterable[Stack], native: Any | None = NATIVE) -> PackedStacks:
    """Pack stacks; the native kernel and the Python reference give identical results."""
    if native is not None:
        return PackedStacks(*native.pack_stacks(list(stacks)))
    numbers: dict[str, int] = {}
    offsets, frames = array("i", [0]), array("i")
    for stack in stacks:
        frames.extend(numbers.setdefault(frame, len(numbers)) for frame in stack.split(";"))
        offsets.append(len(frames))
    texts, text_offsets = bytearray(), array("i", [0])
    for frame in numbers:
        texts += frame.encode()
        text_offsets.append(len(texts))
    return PackedStacks(offsets.tobytes(), frames.tobytes(), text_offsets.tobytes(), bytes(texts))


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
