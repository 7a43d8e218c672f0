"""Patterns in RE2's syntax: the same answers as RE2, and no pattern that takes long."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.errors import BadSelector
from sidelight_model.gates import BadCondition, parse_condition
from sidelight_model.regular_expressions.pattern import MAX_CACHED_STEPS, Pattern
from sidelight_model.regular_expressions.program import BadPattern
from sidelight_model.selectors import parse_selector

_CLASSES = ("\\b", "\\B", "\\d", "\\w", "\\S", "[ab]", "[^a]", "[[:upper:]_]", "\\pL", "\\n", "\\x41", "\\.")
_ATOMS = st.sampled_from([*"ab_A1.^$", *_CLASSES])
_QUANTIFIERS = st.sampled_from(["", "*", "+", "?", "*?", "{2}", "{1,2}", "{0,3}", "{2,}"])
PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.builds("(?:{}){}".format, inner, _QUANTIFIERS),
        st.builds("({}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("(?{}:{})".format, st.sampled_from(["i", "s", "m", "im-s"]), inner),
    ),
    max_leaves=8,
)
TEXTS = st.text(alphabet="abAB_1.\n é", max_size=8)


@given(PATTERNS, TEXTS)
def test_a_pattern_matches_what_re2_matches(pattern: str, text: str) -> None:
    column = pa.array([text])
    anywhere, whole = (
        pc.match_substring_regex(column, one)[0].as_py() for one in (pattern, f"^(?s:{pattern})$")
    )
    assert Pattern(pattern).search(text) is anywhere
    assert Pattern(pattern, dot_all=True).fullmatch(text) is whole


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("\\Qa.b\\E+", "a.bb"),
        ("a{,2}", "a{,2}"),
        ("[]a]+", "]a"),
        ("[\\d-]+", "1-"),
        ("(?P<n>a)|(?<m>b)", "b"),
        ("(?i)É", "é"),
        ("\\p{Lu}\\P{Lu}", "Éa"),
        ("<lambda>", "<lambda>"),
        ("", ""),
    ],
)
def test_the_syntax_of_re2_is_understood(pattern: str, text: str) -> None:
    assert Pattern(pattern).fullmatch(text)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(a)\\1", "(?P<n>a)(?P=n)", "(?>a)", "a*+", "a**", "\\Z"),
        *("(", "a)", "[a", "[b-a]", "[[:no:]]", "\\", "\\x{110000}", "\\pQ", "+a", "a{1001}", "a{3,2}"),
        *("(" * 300 + ")" * 300, "((a{100}){100}){100}", "x" * 5000),
    ],
)
def test_syntax_that_re2_lacks_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(pattern)
    if len(pattern) < 100:
        with pytest.raises(BadCondition, match="RE2"):
            parse_condition(f"function:{pattern}>+3%")
        quoted = pattern.replace("\\", "\\\\")
        with pytest.raises(BadSelector, match="RE2"):
            parse_selector(f'version=~"{quoted}"')


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*c", "(.*)*x", "(a?){50}a{50}b", "(.*)(.*)(.*)(.*)b"])
def test_time_is_linear_in_the_text(pattern: str) -> None:
    text, began = "a" * 50_000, time.process_time()
    assert not Pattern(pattern).fullmatch(text)
    assert not Pattern(pattern).search(text)
    assert time.process_time() - began < 20


def test_many_different_characters_take_bounded_memory() -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 3 * MAX_CACHED_STEPS)))
    pattern = Pattern("\\d+x")
    assert not pattern.search(text)
    assert len(pattern._steps) <= MAX_CACHED_STEPS
