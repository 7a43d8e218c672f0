"""The place of functions among the unchanged functions of their file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sidelight_collector.statistics.renames.function_profiles import FunctionProfile, LinesByFunction
from sidelight_model.frames import Frame, unescape_frame

_MAX_LINE_DISTANCE: Final = 5


class LineSlot(NamedTuple):
    """The place of a function among those of its file that both sides have.

    `previous_function` and `next_function` are its neighbours there. `rank` is its position among the
    functions to match in the same place, or None if the sides have different numbers of them.
    """

    file: str
    previous_function: str
    next_function: str
    first_line: int
    last_line: int
    rank: int | None


@dataclass(frozen=True, slots=True)
class LineIndex:
    """The lines of the functions that both sides have."""

    lines: LinesByFunction

    @classmethod
    def build(cls, lines: LinesByFunction) -> LineIndex:
        """Build the index from the lines of all functions."""
        return cls({text: by_side for text, by_side in lines.items() if by_side[0] and by_side[1]})

    def find_slots(
        self, removed: Mapping[str, FunctionProfile], new: Mapping[str, FunctionProfile]
    ) -> dict[str, LineSlot]:
        """Return the slot of each function whose lines are available."""
        common_functions: defaultdict[str, list[str]] = defaultdict(list)
        for text in self.lines:
            common_functions[Frame.parse(unescape_frame(text)).file].append(text)
        slots_by_side = [
            {
                text: self._build_slot(function, common_functions[function.frame.file], side)
                for text, function in functions.items()
                if function.lines
            }
            for side, functions in enumerate((removed, new))
        ]
        groups: defaultdict[tuple[str, str, str], tuple[list[str], list[str]]]
        groups = defaultdict(lambda: ([], []))
        for side, slots in enumerate(slots_by_side):
            for text in sorted(slots, key=lambda text: slots[text].first_line):
                groups[slots[text][:3]][side].append(text)
        ranked: dict[str, LineSlot] = {}
        for side, slots in enumerate(slots_by_side):
            for text, slot in slots.items():
                group = groups[slot[:3]]
                rank = group[side].index(text) if len(group[0]) == len(group[1]) else None
                ranked[text] = slot._replace(rank=rank)
        return ranked

    def compute_line_similarity(self, old: LineSlot | None, new: LineSlot | None) -> float | None:
        """Return how close the lines of two functions are, from 0 to 1.

        It is 1 where they meet and decreases with each line between them. It is None where lines are not
        available. Lines are compared after the shift of a neighbour that both sides have. Two functions of
        a file never meet: a definition and a blank line lie between them.
        """
        if old is None or new is None:
            return None
        if old[:3] != new[:3] or old.rank != new.rank:
            return 0.0
        shifts = {
            edge(self.lines[text][1]) - edge(self.lines[text][0])
            for text in (old.previous_function, old.next_function)
            if text
            for edge in (min, max)
        }
        between = min(
            max(new.first_line - old.last_line - shift, old.first_line + shift - new.last_line, 0)
            for shift in shifts or {0}
        )
        return max(0.0, 1 - between / _MAX_LINE_DISTANCE)

    def _build_slot(self, function: FunctionProfile, common_functions: Sequence[str], side: int) -> LineSlot:
        first, last = function.lines[0], function.lines[-1]
        starts = sorted((min(self.lines[text][side]), text) for text in common_functions)
        preceding = [text for line, text in starts if line <= first]
        following = [text for line, text in starts if line > first]
        return LineSlot(
            function.frame.file,
            preceding[-1] if preceding else "",
            following[0] if following else "",
            first,
            last,
            None,
        )
