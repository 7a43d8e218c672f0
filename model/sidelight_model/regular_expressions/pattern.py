"""A compiled pattern, which matches texts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from sidelight_model.regular_expressions.compiler import compile_program

MAX_CACHED_STEPS: Final = 20_000


class Pattern:
    """A compiled pattern. The constructor raises BadPattern.

    With `dot_all`, `.` matches a newline too.
    """

    def __init__(self, pattern: str, *, dot_all: bool = False) -> None:
        self.pattern = pattern
        self._program = compile_program(pattern, dot_all=dot_all)
        self._sets: dict[frozenset[int], int] = {}
        self._steps: dict[tuple[int, str, str], tuple[bool, frozenset[int]]] = {}

    def __repr__(self) -> str:
        return f"Pattern({self.pattern!r})"

    def search(self, text: str) -> bool:
        """Return whether the pattern matches any part of a text."""
        return self._run(text, is_anchored=False)

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches the whole of a text."""
        return self._run(text, is_anchored=True)

    def _run(self, text: str, *, is_anchored: bool) -> bool:
        start = frozenset((0,))
        states, previous = start, "start"
        for character in text:
            is_match, states = self._step(states, previous, character)
            if is_match and not is_anchored:
                return True
            if not is_anchored:
                states |= start
            elif not states:
                return False
            previous = _get_kind(character)
        return self._step(states, previous, "")[0]

    def _step(self, states: frozenset[int], previous: str, character: str) -> tuple[bool, frozenset[int]]:
        """Follow all states over one character, which is empty at the end of the text.

        Returns whether one of them had ended, and the states after it.
        """
        number = self._sets.setdefault(states, len(self._sets))
        key = number, previous, character
        if (step := self._steps.get(key)) is None:
            if len(self._steps) >= MAX_CACHED_STEPS:
                self._steps.clear()
                self._sets = {states: 0}
                key = 0, previous, character
            step = self._steps[key] = self._follow(states, previous, character)
        return step

    def _follow(self, states: Iterable[int], previous: str, character: str) -> tuple[bool, frozenset[int]]:
        pending, visited = list(states), set(states)
        is_match, following = False, set()
        while pending:
            at = pending.pop()
            instruction = self._program[at]
            if instruction.kind == "match":
                is_match = True
            elif instruction.test is not None:
                if character and instruction.test(character):
                    following.add(at + 1)
            else:
                targets = instruction.targets
                if instruction.kind != "jump" and not _holds(instruction.kind, previous, character):
                    targets = ()
                for target in targets:
                    if target not in visited:
                        visited.add(target)
                        pending.append(target)
        return is_match, frozenset(following)


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern whose `.` matches a newline too. Raises BadPattern."""
    return Pattern(pattern, dot_all=True)


def _get_kind(character: str) -> str:
    """Return what assertions need of the character before a position."""
    if character == "\n":
        return "newline"
    return "word" if character.isascii() and (character.isalnum() or character == "_") else "other"


def _holds(assertion: str, previous: str, character: str) -> bool:
    """Return whether an assertion holds between two characters."""
    if assertion == "start":
        return previous == "start"
    if assertion == "line start":
        return previous in ("start", "newline")
    if assertion == "end":
        return not character
    if assertion == "line end":
        return character in ("", "\n")
    is_boundary = (previous == "word") is not (character != "" and _get_kind(character) == "word")
    return is_boundary is (assertion == "boundary")
