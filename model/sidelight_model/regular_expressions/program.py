"""Programs of patterns: their instructions, and sets of characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

Ranges = tuple[tuple[int, int], ...]


class BadPattern(ValueError):
    """A pattern that is not in the syntax of RE2."""


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """A set of characters: ranges, Unicode categories and other sets."""

    ranges: Ranges = ()
    categories: tuple[str, ...] = ()
    members: tuple[CharacterClass, ...] = ()
    is_negated: bool = False
    ignores_case: bool = False

    def has(self, character: str) -> bool:
        variants = {character}
        if self.ignores_case:
            variants |= {character.lower(), character.upper()}
        found = any(self._has_exactly(one) for one in variants if len(one) == 1)
        return found is not self.is_negated

    def _has_exactly(self, character: str) -> bool:
        code = ord(character)
        if any(low <= code <= high for low, high in self.ranges):
            return True
        if self.categories and unicodedata.category(character).startswith(self.categories):
            return True
        return any(member.has(character) for member in self.members)


CharacterTest = Callable[[str], bool]


@dataclass(slots=True)
class Instruction:
    """A step of a program: a test, an assertion, a jump to `targets`, or the end."""

    kind: str
    test: CharacterTest | None = None
    targets: tuple[int, ...] = ()
