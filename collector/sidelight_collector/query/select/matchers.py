"""Selectors evaluated on columns of labels.

A matcher is decided once for each distinct value of its label, not for each window. Regular expressions run
in RE2 (https://github.com/google/re2, inside Arrow), whose time is linear in the value: a pattern that a
reader sends can be wrong and cannot be slow. As in Prometheus they match the whole value, `.` matches a
newline too, and a label that is absent counts as the empty text.
"""

import time
from collections.abc import Sequence
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
from sidelight_model.labels import RESERVED_LABELS
from sidelight_model.selectors import Matcher, Op, PatternCheck, Selector, parse_selector

MAX_PATTERN_SECONDS: Final = 0.05
"""CPU time after which a selector may not have another regular expression."""

_EMPTY_STRING: Final = pa.array([""], pa.string())


def parse_re2_selector(text: str) -> Selector:
    """Read a selector whose patterns are RE2's, whatever Python's `re` makes of them.

    Raises BadSelector with a position.
    """
    return parse_selector(text, make_pattern_check())


def make_pattern_check() -> PatternCheck:
    """What refuses (ValueError) patterns that RE2 does not take, or that all together take it too long."""
    began = time.thread_time()

    def check(pattern: str) -> None:
        # Some patterns, \pL{60} for one, take RE2 a tenth of a second: many of them would hold up everybody.
        if time.thread_time() - began > MAX_PATTERN_SECONDS:
            raise ValueError("those before it took too long already")
        _check_pattern(pattern)

    return check


def filter_by_selector(table: pa.Table, selector: Selector) -> pa.Table:
    """The rows of a table of windows whose labels the selector accepts."""
    for matcher in selector.matchers:
        labels = get_label_column(table, matcher.name)
        accepted = _match_values(labels.dictionary, matcher)
        table = filter_rows(table, accepted.take(labels.indices))
    return table


def get_label_column(table: pa.Table, name: str) -> DictionaryColumn:
    """One label of each window, empty where absent."""
    if name in RESERVED_LABELS:
        return dictionary_encode(table[name])
    found = pc.map_lookup(combine_chunks(table["labels"]), query_key=pa.scalar(name), occurrence="first")
    return dictionary_encode(pc.fill_null(found, ""))


def _match_values(values: Array, matcher: Matcher) -> Array:
    """For each distinct value whether the matcher accepts it."""
    if matcher.op is Op.EQUAL:
        return is_equal(values, matcher.value)
    if matcher.op is Op.NOT_EQUAL:
        return pc.invert(is_equal(values, matcher.value))
    matches = pc.match_substring_regex(values, f"^(?s:{matcher.value})$")
    return matches if matcher.op is Op.MATCHES else pc.invert(matches)


def _check_pattern(pattern: str) -> None:
    # Alone first: in a group, `a)|(b` would be two halves of a pattern that is not anchored.
    for tried in (pattern, f"^(?s:{pattern})$"):
        try:
            pc.match_substring_regex(_EMPTY_STRING, tried)
        except pa.ArrowInvalid as error:
            problem = str(error).removeprefix("Invalid regular expression: ")
            raise ValueError(f"in RE2's syntax: {problem}") from error


def is_full_match(pattern: str, value: str) -> bool:
    """Whether a whole value matches a pattern that `parse_re2_selector` took."""
    return find_full_matches(pattern, [value])[0]


def find_full_matches(pattern: str, values: Sequence[str]) -> list[bool]:
    """The same of many values."""
    matches = pc.match_substring_regex(pa.array(values, pa.string()), f"^(?s:{pattern})$")
    return cast("list[bool]", matches.to_pylist())
