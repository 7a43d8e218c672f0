from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.errors import BadSelector
from sidelight_model.selectors import Matcher, Op, Selector, parse_selector

names = st.sampled_from(["service", "version", "pod", "_x9"])
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
plain = st.builds(Matcher, names, st.sampled_from([Op.EQUAL, Op.NOT_EQUAL]), values)
patterns = st.builds(
    Matcher,
    names,
    st.sampled_from([Op.MATCHES, Op.NOT_MATCHES]),
    st.sampled_from([".*", "a|b", "2026.*", ""]),
)
selectors = st.lists(st.one_of(plain, patterns), max_size=4).map(lambda some: Selector(tuple(some)))


@given(selectors)
def test_reading_undoes_writing(selector: Selector) -> None:
    assert parse_selector(str(selector)) == selector


@given(selectors, selectors, st.dictionaries(names, st.sampled_from(["", "a", "b", "2026.1"])))
def test_two_selectors_together_select_what_both_do(a: Selector, b: Selector, labels: dict[str, str]) -> None:
    assert (a & b).matches(labels) == (a.matches(labels) and b.matches(labels))


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("{}", {}, True),
        ("", {"service": "ads"}, True),
        ('{service="ads"}', {"service": "ads"}, True),
        ('service="ads"', {"service": "ads"}, True),
        ("{ service = 'ads' , }", {"service": "ads"}, True),
        ('{service="ad"}', {"service": "ads"}, False),
        ('{version=~"2026.*"}', {"version": "2026.11"}, True),
        ('{version=~"026"}', {"version": "2026"}, False),
        ('{pod!="x"}', {}, True),
        ('{pod=""}', {}, True),
        ('{pod!~"x|y"}', {"pod": "y"}, False),
        (r'{pod=~"a\\d"}', {"pod": "a1"}, True),
        (r'{pod="say \"hi\""}', {"pod": 'say "hi"'}, True),
    ],
)
def test_a_selector_means_what_it_means_in_prometheus(
    text: str, labels: dict[str, str], selected: bool
) -> None:
    assert parse_selector(text).matches(labels) is selected


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("{", 1),
        ('{service="ads"', 14),
        ("{service}", 8),
        ("{service=ads}", 9),
        ('{service=="ads"}', 9),
        ('{="ads"}', 1),
        ('{service="ads" version="1"}', 15),
        ('{service="ads"} or', 16),
        ('service="ads"}', 13),
        ('{service=~"("}', 10),
        (r'{pod=~"a\d"}', 8),
        ('{service="a\nb"}', 9),
        ("x" * 4097, 4096),
    ],
)
def test_a_selector_that_cannot_be_read_says_where(text: str, position: int) -> None:
    with pytest.raises(BadSelector) as refused:
        parse_selector(text)
    assert refused.value.position == position
    assert f"position {position}" in refused.value.message
