"""Evaluate selectors on columns of labels.

A matcher is evaluated once for each distinct value of its label, not for each window. Regular expressions
run in RE2 (https://github.com/google/re2, inside Arrow), whose time is linear in the length of the value: a
user's pattern may be wrong, but not slow. As in Prometheus, a pattern matches the whole value, `.` also
matches a newline, and an absent label has the empty value.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    DictionaryColumn,
    combine_chunks,
    dictionary_encode,
    filter_rows,
    is_equal,
)
from sidelight_model.endpoints.endpoint_search import NO_ENDPOINT
from sidelight_model.labels import RESERVED_LABELS
from sidelight_model.selectors import Matcher, Op, PatternCheck, Selector, parse_selector

MAX_PATTERN_SECONDS: Final = 0.05
"""CPU time to check the patterns of one selector; after it, a further pattern is refused."""

_POSITIVE_OPS: Final = {
    Op.EQUAL: Op.EQUAL, Op.NOT_EQUAL: Op.EQUAL, Op.MATCHES: Op.MATCHES, Op.NOT_MATCHES: Op.MATCHES,
}  # fmt: skip
_EMPTY_STRING: Final = pa.array([""], pa.string())


def parse_re2_selector(text: str) -> Selector:
    """Parse a selector whose patterns have the syntax of RE2, not of Python's `re`.

    Raises BadSelector with a position.
    """
    return parse_selector(text, make_pattern_check())


def make_pattern_check() -> PatternCheck:
    """Make a check that raises ValueError for a pattern that RE2 does not accept.

    It also raises if all patterns together take longer than MAX_PATTERN_SECONDS to compile.
    """
    spent_seconds = 0.0

    def check(pattern: str) -> None:
        # RE2 needs a tenth of a second for some patterns, such as \pL{60}: many would block other work.
        nonlocal spent_seconds
        if spent_seconds > MAX_PATTERN_SECONDS:
            raise ValueError("those before it took too long already")
        began = time.thread_time()
        _check_pattern(pattern)
        spent_seconds += time.thread_time() - began

    return check


def filter_by_selector(table: pa.Table, selector: Selector) -> pa.Table:
    """Keep the rows of a table of windows whose labels match the selector."""
    for matcher in selector.matchers:
        labels = get_label_column(table, matcher.name)
        accepted = _match_values(labels.dictionary, matcher)
        table = filter_rows(table, accepted.take(labels.indices))
    return table


def match_endpoints(names: Array, matchers: Sequence[Matcher]) -> Array:
    """Return a mask of the names of endpoints that the matchers accept.

    Stacks without an endpoint have NO_ENDPOINT and, as an absent label, the empty value.
    """
    accepted: Array = pa.array([True] * len(names), pa.bool_())
    absent = is_equal(names, NO_ENDPOINT)
    for matcher in matchers:
        is_negative = matcher.op in (Op.NOT_EQUAL, Op.NOT_MATCHES)
        positive = replace(matcher, op=_POSITIVE_OPS[matcher.op])
        empty = _match_values(_EMPTY_STRING, positive)[0].as_py()
        matches = pc.or_(_match_values(names, positive), pc.and_(absent, pa.scalar(empty)))
        accepted = pc.and_(accepted, pc.invert(matches) if is_negative else matches)
    return accepted


def find_matching_values(values: Sequence[str], matchers: Sequence[Matcher]) -> list[str]:
    """Return the values of a label that all of its matchers accept."""
    remaining: Array = pa.array(values, pa.string())
    for matcher in matchers:
        remaining = remaining.filter(_match_values(remaining, matcher))
    return cast("list[str]", remaining.to_pylist())


def get_label_column(table: pa.Table, name: str) -> DictionaryColumn:
    """Return the values of one label, empty for windows without it."""
    if name in RESERVED_LABELS:
        return dictionary_encode(table[name])
    values = pc.map_lookup(combine_chunks(table["labels"]), query_key=pa.scalar(name), occurrence="first")
    return dictionary_encode(pc.fill_null(values, ""))


def _match_values(values: Array, matcher: Matcher) -> Array:
    """Return a mask of the values that the matcher accepts."""
    if matcher.op is Op.EQUAL:
        return is_equal(values, matcher.value)
    if matcher.op is Op.NOT_EQUAL:
        return pc.invert(is_equal(values, matcher.value))
    matches = pc.match_substring_regex(values, f"^(?s:{matcher.value})$")
    return matches if matcher.op is Op.MATCHES else pc.invert(matches)


def _check_pattern(pattern: str) -> None:
    # Check the bare pattern first: inside the group, `a)|(b` would become two patterns with one anchor each.
    for candidate in (pattern, f"^(?s:{pattern})$"):
        try:
            pc.match_substring_regex(_EMPTY_STRING, candidate)
        except pa.ArrowInvalid as error:
            problem = str(error).removeprefix("Invalid regular expression: ")
            raise ValueError(f"in RE2's syntax: {problem}") from error


def is_full_match(pattern: str, value: str) -> bool:
    """Whether a whole value matches a pattern that `parse_re2_selector` accepted."""
    return find_full_matches(pattern, [value])[0]


def find_full_matches(pattern: str, values: Sequence[str]) -> list[bool]:
    """Return for each value whether it matches the pattern as a whole."""
    matches = pc.match_substring_regex(pa.array(values, pa.string()), f"^(?s:{pattern})$")
    return cast("list[bool]", matches.to_pylist())
