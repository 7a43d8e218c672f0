"""Stacks of a window in a quarter of the memory of their text: numbers of frames, and each frame once."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, overload

from sidelight_collector.native_kernel import NATIVE
from sidelight_model.folded import Stack


@dataclass(frozen=True, slots=True)
class PackedStacks(Sequence[Stack]):
    """Stacks in columns as Arrow has them: 32-bit integers in the machine's order, and UTF-8.

    Stack i has the frames from `offsets[i]` to `offsets[i + 1]` of `frames`. Frame n has the text from
    `text_offsets[n]` to `text_offsets[n + 1]` of `texts`, escaped as in folded text. Frames are numbered in
    the order in which they occur first.
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

    @overload
    def __getitem__(self, at: int) -> Stack: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Stack]: ...
    def __getitem__(self, at: int | slice) -> Stack | Sequence[Stack]:
        return list(self)[at]

    def __iter__(self) -> Iterator[Stack]:
        text_offsets, offsets = memoryview(self.text_offsets).cast("i"), memoryview(self.offsets).cast("i")
        texts = [self.texts[start:end].decode() for start, end in pairwise(text_offsets)]
        frames = memoryview(self.frames).cast("i")
        for start, end in pairwise(offsets):
            yield Stack(";".join(texts[number] for number in frames[start:end]))


def pack_stacks(stacks: Iterable[Stack], native: Any | None = NATIVE) -> PackedStacks:
    """Pack stacks, with the native kernel or with the Python reference, which give identical results."""
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
