"""A finite automaton that reads stacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]

MAX_CLASSES: Final = 16
KEEP_MARK: Final = 0
MARK_FRAME: Final = 1
CLEAR_MARK: Final = 2


@dataclass(frozen=True, slots=True)
class Automaton:
    """A finite automaton over the classes of frames that marks one frame of a stack.

    `next_states` (S, MAX_CLASSES) has the next state for each state and class, and `marks` whether the
    marked frame stays, is this one or is forgotten. The native kernel has a `walk` of its own.
    """

    next_states: U8
    marks: U8
    start: int

    def walk(self, stacks: Iterable[Sequence[int]], classes: U8) -> tuple[U8, I32]:
        """Return the state in which it leaves each stack, and its mark.

        The mark is a frame, or -1. Stacks are root first, and `classes` has the class of each frame.
        """
        class_list, next_states, marks = classes.tolist(), self.next_states.tolist(), self.marks.tolist()
        found: list[tuple[int, int]] = []
        for frames in stacks:
            state, marked = self.start, -1
            for frame in frames:
                of = class_list[frame]
                marked = (marked, frame, -1)[marks[state][of]]
                state = next_states[state][of]
            found.append((state, marked))
        return np.array([state for state, _ in found], np.uint8), np.array([at for _, at in found], np.int32)
