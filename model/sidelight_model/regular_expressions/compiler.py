"""The compiler of patterns: syntax of RE2, translated by recursive descent."""

from __future__ import annotations

from dataclasses import dataclass
from string import hexdigits
from typing import Final

from sidelight_model.regular_expressions.program import BadPattern, CharacterClass, Instruction

MAX_PATTERN_CHARACTERS: Final = 4096
MAX_REPEAT: Final = 1000
MAX_INSTRUCTIONS: Final = 20_000
MAX_NESTING: Final = 200

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


def compile_program(pattern: str, *, dot_all: bool) -> list[Instruction]:
    """Translate a pattern into a program. Raises BadPattern.

    With `dot_all`, `.` matches a newline too.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise BadPattern(f"longer than {MAX_PATTERN_CHARACTERS} characters")
    return _Compiler(pattern, dot_all=dot_all).compile()


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

    def compile(self) -> list[Instruction]:
        fragment = self._parse_alternatives()
        if self._at < len(self._text):
            raise BadPattern("unexpected )")
        program = [*fragment, Instruction("match")]
        return [
            Instruction(one.kind, one.test, tuple(at + target for target in one.targets))
            for at, one in enumerate(program)
        ]

    def _parse_alternatives(self) -> list[Instruction]:
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

    def _parse_sequence(self) -> list[Instruction]:
        pieces: list[list[Instruction]] = []
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

    def _parse_quantifier(self, piece: list[Instruction]) -> list[Instruction]:
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
        optional: list[Instruction] = []
        for _ in range(most - least):
            optional = [_jump(1, len(piece) + len(optional) + 1), *piece, *optional]
        return _limit([*required, *optional])

    def _take_bounds(self) -> tuple[int, int | None] | None:
        """Read a quantifier; any other `{` is an ordinary character, as in RE2."""
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

    def _parse_atom(self) -> list[Instruction]:
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
            newline = CharacterClass(() if self._flags.dot_all else ((10, 10),), is_negated=True)
            return [Instruction("test", newline.has)]
        if character == "^":
            return [_assert("line start" if self._flags.is_multiline else "start")]
        if character == "$":
            return [_assert("line end" if self._flags.is_multiline else "end")]
        return [self._literal(ord(character))]

    def _parse_group(self) -> list[Instruction]:
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
        """Read the flags of a group; return whether it has nothing else."""
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

    def _parse_escape(self) -> Instruction:
        """Read an escape outside of a class."""
        following = self._text[self._at + 1 : self._at + 2]
        if following in _ASSERTION_ESCAPES:
            self._at += 2
            return _assert(_ASSERTION_ESCAPES[following])
        found = self._parse_escaped_class()
        return self._test(found) if found else self._literal(self._parse_escaped_character())

    def _parse_escaped_class(self) -> CharacterClass | None:
        """Read an escape that stands for a class; None if it does not."""
        following = self._text[self._at + 1 : self._at + 2]
        if following and following.lower() in _PERL_CLASSES:
            self._at += 2
            return CharacterClass(_PERL_CLASSES[following.lower()], is_negated=following.isupper())
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
        return CharacterClass(categories=(name.removeprefix("^"),), is_negated=is_negated)

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

    def _parse_class(self) -> CharacterClass:
        self._at += 1
        is_negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        members: list[CharacterClass] = []
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
        return CharacterClass(tuple(ranges), members=tuple(members), is_negated=is_negated)

    def _parse_member(self) -> CharacterClass | None:
        """Read a class inside of a class, if there is one."""
        if self._text.startswith("[:", self._at) and (end := self._text.find(":]", self._at + 2)) > 0:
            name = self._text[self._at + 2 : end]
            if (ranges := _POSIX_CLASSES.get(name.removeprefix("^"))) is None:
                raise BadPattern(f"invalid character class range: [:{name[:40]}:]")
            self._at = end + 2
            return CharacterClass(ranges, is_negated=name.startswith("^"))
        return self._parse_escaped_class() if self._text.startswith("\\", self._at) else None

    def _parse_class_character(self) -> int:
        if self._text.startswith("\\", self._at):
            return self._parse_escaped_character()
        if self._at >= len(self._text):
            raise BadPattern("missing ]")
        self._at += 1
        return ord(self._text[self._at - 1])

    def _literal(self, code: int) -> Instruction:
        return self._test(CharacterClass(((code, code),)))

    def _test(self, characters: CharacterClass) -> Instruction:
        if self._flags.ignores_case:
            characters = CharacterClass(
                characters.ranges, characters.categories, characters.members, characters.is_negated, True
            )
        return Instruction("test", characters.has)

    def _take(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False


def _jump(*targets: int) -> Instruction:
    return Instruction("jump", None, targets)


def _assert(kind: str) -> Instruction:
    return Instruction(kind, None, (1,))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


def _limit(fragment: list[Instruction]) -> list[Instruction]:
    if len(fragment) > MAX_INSTRUCTIONS:
        raise BadPattern("pattern too large")
    return fragment
