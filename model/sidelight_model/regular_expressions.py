"""Regular expressions that no pattern makes slow, in the syntax of RE2.

Python's `re` tries alternatives one after the other, which takes exponential time for some patterns, such as
`(a+)+b`. Here a pattern is a program whose possible states are followed all at once, character by character
(Ken Thompson, Regular Expression Search Algorithm, 1968; https://swtch.com/~rsc/regexp/regexp1.html). Time is
linear in the length of the text. The collector uses RE2 itself.

The syntax is that of RE2 (https://github.com/google/re2/wiki/Syntax), without names of scripts such as
`\\p{Greek}`. Classes such as `\\d` are ASCII, as in RE2.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from string import hexdigits
from typing import Final

MAX_PATTERN_CHARACTERS: Final = 4096
MAX_REPEAT: Final = 1000
MAX_INSTRUCTIONS: Final = 20_000
MAX_NESTING: Final = 200
MAX_CACHED_STEPS: Final = 20_000

_LAST: Final = 0x10FFFF
_DIGIT: Final = ((48, 57),)
_SPACE: Final = ((9, 10), (12, 13), (32, 32))
_WORD: Final = ((48, 57), (65, 90), (95, 95), (97, 122))
_PERL_CLASSES: Final = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_POSIX_CLASSES: Final = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGIT,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": _WORD,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_CONTROL_ESCAPES: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_ASSERTION_ESCAPES: Final = {"A": "start", "z": "end", "b": "boundary", "B": "no boundary"}
_SUBCATEGORIES: Final = {
    "C": "cfnos",
    "L": "lmotu",
    "M": "cen",
    "N": "dlo",
    "P": "cdefios",
    "S": "ckmo",
    "Z": "lps",
}
_CATEGORIES: Final = frozenset(
    f"{group}{one}" for group, members in _SUBCATEGORIES.items() for one in ("", *members)
)

Ranges = tuple[tuple[int, int], ...]


class BadPattern(ValueError):
    """A pattern that is not in the syntax of RE2."""


@dataclass(frozen=True, slots=True)
class _CharacterClass:
    """A set of characters: ranges, Unicode categories and their complements, and other sets."""

    ranges: Ranges = ()
    categories: tuple[str, ...] = ()
    members: tuple[_CharacterClass, ...] = ()
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


_Test = Callable[[str], bool]


@dataclass(slots=True)
class _Instruction:
    """One step of a program: a test of a character, an assertion, a jump to `targets`, or the end."""

    kind: str
    test: _Test | None = None
    targets: tuple[int, ...] = ()


class Pattern:
    """A compiled pattern. The constructor raises BadPattern.

    With `dot_all`, `.` matches a newline too.
    """

    def __init__(self, pattern: str, *, dot_all: bool = False) -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise BadPattern(f"longer than {MAX_PATTERN_CHARACTERS} characters")
        self.pattern = pattern
        self._program = _Compiler(pattern, dot_all=dot_all).compile()
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
        """Follow all states over one character, empty at the end; return whether one of them had ended."""
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
    """Compile a pattern whose `.` matches a newline too, as in selectors. Raises BadPattern."""
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


@dataclass(frozen=True, slots=True)
class _Flags:
    ignores_case: bool = False
    is_multiline: bool = False
    dot_all: bool = False


class _Compiler:
    """Translates a pattern into a program by recursive descent.

    A fragment is a list of instructions whose targets are relative to their own position.
    """

    def __init__(self, pattern: str, *, dot_all: bool) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._flags = _Flags(dot_all=dot_all)

    def compile(self) -> list[_Instruction]:
        fragment = self._parse_alternatives()
        if self._at < len(self._text):
            raise BadPattern("unexpected )")
        program = [*fragment, _Instruction("match")]
        return [
            _Instruction(one.kind, one.test, tuple(at + target for target in one.targets))
            for at, one in enumerate(program)
        ]

    def _parse_alternatives(self) -> list[_Instruction]:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise BadPattern("nested too deeply")
        branches = [self._parse_sequence()]
        while self._take("|"):
            branches.append(self._parse_sequence())
        self._depth -= 1
        joined = branches.pop()
        while branches:
            branch = branches.pop()
            joined = _limit([_jump(1, len(branch) + 2), *branch, _jump(len(joined) + 1), *joined])
        return joined

    def _parse_sequence(self) -> list[_Instruction]:
        pieces: list[list[_Instruction]] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._take("\\Q"):
                literal, _, _ = self._text[self._at :].partition("\\E")
                self._at = min(len(self._text), self._at + len(literal) + 2)
                pieces += [[self._literal(ord(character))] for character in literal]
                if pieces:
                    pieces[-1] = self._parse_quantifier(pieces[-1])
                continue
            piece = self._parse_atom()
            pieces.append(self._parse_quantifier(piece))
        return _limit([one for piece in pieces for one in piece])

    def _parse_quantifier(self, piece: list[_Instruction]) -> list[_Instruction]:
        bounds = self._take_bounds()
        if bounds is None:
            return piece
        least, most = bounds
        begin = self._at
        self._take("?")  # a lazy quantifier matches the same texts
        if self._take_bounds() is not None:
            raise BadPattern(f"bad repetition operator: {self._text[begin - 1 : self._at]}")
        if (most or least) * len(piece) > MAX_INSTRUCTIONS:
            raise BadPattern("pattern too large")
        required = piece * least
        if most is None:
            if not least:
                return [_jump(1, len(piece) + 2), *piece, _jump(-len(piece) - 1)]
            return [*required, _jump(-len(piece), 1)]
        optional: list[_Instruction] = []
        for _ in range(most - least):
            optional = [_jump(1, len(piece) + len(optional) + 1), *piece, *optional]
        return _limit([*required, *optional])

    def _take_bounds(self) -> tuple[int, int | None] | None:
        """Read a quantifier; `{` that begins none is an ordinary character, as in RE2."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        if not self._text.startswith("{", self._at):
            return None
        inside, brace, _ = self._text[self._at + 1 :].partition("}")
        first, comma, second = inside.partition(",")
        if not brace or not _is_number(first) or (second and not _is_number(second)):
            return None
        least = int(first)
        most = (int(second) if second else None) if comma else least
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise BadPattern(f"invalid repetition size: {{{inside}}}")
        self._at += len(inside) + 2
        return least, most

    def _parse_atom(self) -> list[_Instruction]:
        character = self._text[self._at]
        if character in "*+?":
            raise BadPattern(f"no argument for repetition operator: {character}")
        if character == "(":
            return self._parse_group()
        if character == "[":
            return [self._test(self._parse_class())]
        if character == "\\":
            return [self._parse_escape()]
        self._at += 1
        if character == ".":
            newline = _CharacterClass(() if self._flags.dot_all else ((10, 10),), is_negated=True)
            return [_Instruction("test", newline.has)]
        if character == "^":
            return [_assert("line start" if self._flags.is_multiline else "start")]
        if character == "$":
            return [_assert("line end" if self._flags.is_multiline else "end")]
        return [self._literal(ord(character))]

    def _parse_group(self) -> list[_Instruction]:
        outer = self._flags
        self._at += 1
        if self._take("?"):
            is_named = self._take("P<")
            if not is_named and not self._text.startswith(("<=", "<!"), self._at):
                is_named = self._take("<")
            if is_named:
                name, end, _ = self._text[self._at :].partition(">")
                if not end or not name.isidentifier():
                    raise BadPattern(f"invalid named capture: {name[:40]}")
                self._at += len(name) + 1
            elif self._parse_flags():
                return []
        fragment = self._parse_alternatives()
        if not self._take(")"):
            raise BadPattern("missing )")
        self._flags = outer
        return fragment

    def _parse_flags(self) -> bool:
        """Read the flags of a group; return whether it has nothing else, and holds for what follows."""
        begin, value, current = self._at, True, self._flags
        values = {"i": current.ignores_case, "m": current.is_multiline, "s": current.dot_all}
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character in values:
                values[character] = value
            elif character == "-" and value:
                value = False
            elif character in ":)":
                self._flags = _Flags(values["i"], values["m"], values["s"])
                return character == ")"
            elif character != "U":
                break
        raise BadPattern(f"invalid perl operator: (?{self._text[begin : self._at]}")

    def _parse_escape(self) -> _Instruction:
        """Read an escape outside of a class."""
        following = self._text[self._at + 1 : self._at + 2]
        if following in _ASSERTION_ESCAPES:
            self._at += 2
            return _assert(_ASSERTION_ESCAPES[following])
        found = self._parse_escaped_class()
        return self._test(found) if found else self._literal(self._parse_escaped_character())

    def _parse_escaped_class(self) -> _CharacterClass | None:
        """Read an escape that stands for a class; None, and nothing is read, if it does not."""
        following = self._text[self._at + 1 : self._at + 2]
        if following and following.lower() in _PERL_CLASSES:
            self._at += 2
            return _CharacterClass(_PERL_CLASSES[following.lower()], is_negated=following.isupper())
        if following not in ("p", "P"):
            return None
        name = self._text[self._at + 2 : self._at + 3]
        self._at += 3
        if name == "{":
            name, end, _ = self._text[self._at :].partition("}")
            self._at += len(name) + len(end)
        is_negated = (following == "P") is not name.startswith("^")
        if name.removeprefix("^") not in _CATEGORIES:
            raise BadPattern(f"invalid character class range: \\{following}{{{name[:40]}}}")
        return _CharacterClass(categories=(name.removeprefix("^"),), is_negated=is_negated)

    def _parse_escaped_character(self) -> int:
        """Read an escape that stands for one character; return its code."""
        self._at += 1
        character = self._text[self._at : self._at + 1]
        self._at += 1
        if not character:
            raise BadPattern("trailing \\")
        if character in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[character]
        if character == "x":
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            if digits.startswith("{"):
                digits, _, _ = self._text[self._at - 1 :].partition("}")
                self._at += len(digits)
            is_hexadecimal = 0 < len(digits) <= 8 and set(digits) <= set(hexdigits)
            if is_hexadecimal and int(digits, 16) <= _LAST:
                return int(digits, 16)
            raise BadPattern(f"invalid escape sequence: \\x{digits[:20]}")
        if not character.isascii() or not character.isalnum():
            return ord(character)
        raise BadPattern(f"invalid escape sequence: \\{character}")

    def _parse_class(self) -> _CharacterClass:
        self._at += 1
        is_negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        members: list[_CharacterClass] = []
        is_first = True
        while is_first or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise BadPattern("missing ]")
            is_first = False
            if member := self._parse_member():
                members.append(member)
                continue
            low = self._parse_class_character()
            high = low
            following = self._text[self._at + 1 : self._at + 2]
            if self._text.startswith("-", self._at) and following not in ("]", ""):
                self._at += 1
                high = self._parse_class_character()
            if high < low:
                raise BadPattern(f"invalid character class range: {chr(low)}-{chr(high)}")
            ranges.append((low, high))
        self._at += 1
        return _CharacterClass(tuple(ranges), members=tuple(members), is_negated=is_negated)

    def _parse_member(self) -> _CharacterClass | None:
        """Read a class inside of a class, if there is one."""
        if self._text.startswith("[:", self._at) and (end := self._text.find(":]", self._at + 2)) > 0:
            name = self._text[self._at + 2 : end]
            if (ranges := _POSIX_CLASSES.get(name.removeprefix("^"))) is None:
                raise BadPattern(f"invalid character class range: [:{name[:40]}:]")
            self._at = end + 2
            return _CharacterClass(ranges, is_negated=name.startswith("^"))
        return self._parse_escaped_class() if self._text.startswith("\\", self._at) else None

    def _parse_class_character(self) -> int:
        if self._text.startswith("\\", self._at):
            return self._parse_escaped_character()
        if self._at >= len(self._text):
            raise BadPattern("missing ]")
        self._at += 1
        return ord(self._text[self._at - 1])

    def _literal(self, code: int) -> _Instruction:
        return self._test(_CharacterClass(((code, code),)))

    def _test(self, characters: _CharacterClass) -> _Instruction:
        if self._flags.ignores_case:
            characters = _CharacterClass(
                characters.ranges, characters.categories, characters.members, characters.is_negated, True
            )
        return _Instruction("test", characters.has)

    def _take(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False


def _jump(*targets: int) -> _Instruction:
    return _Instruction("jump", None, targets)


def _assert(kind: str) -> _Instruction:
    return _Instruction(kind, None, (1,))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


def _limit(fragment: list[_Instruction]) -> list[_Instruction]:
    if len(fragment) > MAX_INSTRUCTIONS:
        raise BadPattern("pattern too large")
    return fragment
