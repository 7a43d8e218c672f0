"""Selectors as in Prometheus: `{service="ads", version=~"2026.*", pod!="x"}`.

Syntax and meaning are those of Prometheus: an absent label counts as an empty value, and a regular
expression must match the whole value. The braces are optional.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sidelight_model.errors import BadSelector
from sidelight_model.regular_expressions.pattern import compile_pattern
from sidelight_model.regular_expressions.program import BadPattern

ENDPOINT_LABEL = "endpoint"
"""The name by which selectors match endpoints."""
MAX_SELECTOR_CHARACTERS = 4096


class Op(StrEnum):
    """The operator of a matcher."""

    EQUAL = "="
    NOT_EQUAL = "!="
    MATCHES = "=~"
    NOT_MATCHES = "!~"


FullMatch = Callable[[str, str], bool]
"""Takes (pattern, value) and returns whether the whole value matches, in time linear in its length."""


def is_full_match(pattern: str, value: str) -> bool:
    """Match without a further library; the collector matches with RE2."""
    return compile_pattern(pattern).fullmatch(value)


PatternCheck = Callable[[str], None]
"""Raises ValueError with the reason for a pattern that the `FullMatch` in use does not support."""


def check_pattern(pattern: str) -> None:
    """Accept the syntax of RE2."""
    try:
        compile_pattern(pattern)
    except BadPattern as error:
        raise ValueError(f"in RE2's syntax: {error}") from error


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on one label."""

    name: str
    op: Op
    value: str

    def accepts(self, value: str, fullmatch: FullMatch = is_full_match) -> bool:
        """Return whether a label's value (empty if absent) meets the condition."""
        if self.op is Op.EQUAL:
            return value == self.value
        if self.op is Op.NOT_EQUAL:
            return value != self.value
        return fullmatch(self.value, value) is (self.op is Op.MATCHES)

    def __str__(self) -> str:
        quoted = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.name}{self.op}"{quoted}"'


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions that must all hold; without any it selects everything."""

    matchers: tuple[Matcher, ...] = ()

    def matches(self, labels: Mapping[str, str], fullmatch: FullMatch = is_full_match) -> bool:
        return all(matcher.accepts(labels.get(matcher.name, ""), fullmatch) for matcher in self.matchers)

    def __and__(self, other: Selector) -> Selector:
        return Selector(tuple(dict.fromkeys(self.matchers + other.matchers)))

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.matchers)) + "}"


_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OP = re.compile(r"=~|!~|!=|=")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"' + r"|'((?:[^'\\\n]|\\.)*)'")
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


def parse_selector(text: str, check_pattern: PatternCheck = check_pattern) -> Selector:
    """Parse a selector.

    Raises BadSelector with the position of the character that cannot be parsed.
    """
    if len(text) > MAX_SELECTOR_CHARACTERS:
        raise BadSelector(MAX_SELECTOR_CHARACTERS, f"longer than {MAX_SELECTOR_CHARACTERS} characters")
    at = _skip_spaces(text, 0)
    braces = text.startswith("{", at)
    at = _skip_spaces(text, at + 1) if braces else at
    end = "}" if braces else ""
    matchers: list[Matcher] = []
    while at < len(text) and not (braces and text[at] == end):
        matcher, at = _parse_matcher(text, at, check_pattern)
        matchers.append(matcher)
        if at < len(text) and text[at] == ",":
            at = _skip_spaces(text, at + 1)
        elif at < len(text) and text[at : at + 1] != end:
            raise BadSelector(at, f"`,`{' or `}`' if braces else ''} was expected, not {text[at]!r}")
    if braces:
        if at >= len(text):
            raise BadSelector(at, "the closing `}` is missing")
        at = _skip_spaces(text, at + 1)
        if at < len(text):
            raise BadSelector(at, "nothing may follow the closing `}`")
    return Selector(tuple(matchers))


def add_matcher(selector: str, matcher: Matcher) -> str:
    """Return the text of a selector with one more matcher. Raises BadSelector."""
    return str(parse_selector(selector, lambda _: None) & Selector((matcher,)))


def expand_side(side: str) -> str:
    """Return the selector text of a side of a comparison.

    `version:2` stands for `version="2"`; any other text is a selector, with or without `match:` before it.
    """
    if side.startswith("version:"):
        return str(Matcher("version", Op.EQUAL, side.removeprefix("version:")))
    return side.removeprefix("match:")


def _parse_matcher(text: str, at: int, check_pattern: PatternCheck) -> tuple[Matcher, int]:
    name = _NAME.match(text, at)
    if name is None:
        raise BadSelector(at, "a label name was expected")
    at = _skip_spaces(text, name.end())
    op = _OP.match(text, at)
    if op is None:
        raise BadSelector(at, "one of = != =~ !~ was expected")
    at = _skip_spaces(text, op.end())
    quoted = _QUOTED.match(text, at)
    if quoted is None:
        raise BadSelector(at, 'a value in quotes was expected, such as "shop"')
    value = _unquote(quoted[1] if quoted[1] is not None else quoted[2], at)
    if Op(op[0]) in (Op.MATCHES, Op.NOT_MATCHES):
        try:
            check_pattern(value)
        except ValueError as error:
            raise BadSelector(at, f"the regular expression cannot be read: {error}") from error
    return Matcher(name[0], Op(op[0]), value), _skip_spaces(text, quoted.end())


def _unquote(body: str, at: int) -> str:
    """Undo the escapes of a quoted value.

    An unknown escape, such as `\\d`, is an error as in Prometheus.
    """

    def replace_escape(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise BadSelector(
                at + 1 + match.start(),
                f"unknown escape \\{match[1]} (in a regular expression write \\\\{match[1]})",
            )
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", replace_escape, body)


def _skip_spaces(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
