from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.catalog import list_label_names, list_label_values
from sidelight_collector.query.select.matchers import (
    MAX_PATTERN_SECONDS,
    make_pattern_check,
    parse_re2_selector,
)
from sidelight_collector.query.windows import WindowQuery
from sidelight_model.errors import BadSelector
from sidelight_model.selectors import Matcher, Op, Selector
from tests.collector.stored_windows import START_NS, asked, question, stored, window

VERSIONS = ["", "1", "2", "10", "2026.11", "x\u2028y", "é", "a.b"]
TEAMS = ["", "red", "blue", "red-blue"]
WINDOWS = [window(version=version, team=team) for version in VERSIONS for team in TEAMS]
STORE = stored(WINDOWS[::2], WINDOWS[1::2])
PATTERNS = [".*", ".+", "", "1|2", "1.*", "[0-9]+", "2026\\..*", "(?i)RED", "red.*|", "x.y", "^1$", "é"]

plain = st.sampled_from([*VERSIONS, *TEAMS, "none"])
matchers = st.builds(
    Matcher,
    name=st.sampled_from(["version", "team", "service", "nowhere"]),
    op=st.sampled_from(Op),
    value=st.sampled_from(PATTERNS),
) | st.builds(
    Matcher,
    name=st.sampled_from(["version", "team", "service", "nowhere"]),
    op=st.sampled_from([Op.EQUAL, Op.NOT_EQUAL]),
    value=plain,
)


def dot_matches_all(pattern: str, value: str) -> bool:
    return re.fullmatch(f"(?s:{pattern})" if not pattern.startswith("(?i)") else pattern, value) is not None


@given(st.lists(matchers, max_size=3).map(lambda some: Selector(tuple(some))))
def test_a_selector_chooses_what_matching_each_window_by_itself_would(selector: Selector) -> None:
    expected = [one for one in WINDOWS if selector.matches(one.labels, dot_matches_all)]
    asked_for = question(str(selector))
    found = asked(STORE, lambda reading: list_label_values(reading, asked_for, "team"))
    assert found["basis"]["windows"] == len(expected)
    assert found["values"] == sorted({one.labels["team"] for one in expected if "team" in one.labels})


def test_labels_are_those_that_some_window_has() -> None:
    store = stored([window(zone="eu"), window(pod="", zone="us", team="red")])
    assert asked(store, lambda reading: list_label_names(reading, question()))["labels"] == [
        *("pod", "service", "team", "version", "zone"),
    ]
    only = question('team="red"')
    assert asked(store, lambda reading: list_label_names(reading, only))["labels"] == [
        *("service", "team", "version", "zone"),
    ]
    assert asked(store, lambda reading: list_label_values(reading, only, "zone"))["values"] == ["us"]
    assert asked(store, lambda reading: list_label_values(reading, only, "nowhere"))["values"] == []


@pytest.mark.parametrize(
    ("text", "position"),
    [('service="a", version=~"(?=x)"', 22), ('version=~"a(?<n>b)\\\\1"', 9), ('version!~"x{2000}"', 9)],
)
def test_a_pattern_that_re2_does_not_know_is_refused_with_its_position(text: str, position: int) -> None:
    with pytest.raises(BadSelector) as refused:
        parse_re2_selector(text)
    assert refused.value.position == position


def test_a_pattern_cannot_escape_its_anchors() -> None:
    with pytest.raises(BadSelector):
        parse_re2_selector('version=~"1)|(2"')
    with pytest.raises(BadSelector):
        parse_re2_selector('version=~"\\\\Q1"')


def test_a_pattern_that_would_take_a_backtracking_matcher_years_is_answered_at_once() -> None:
    store = stored([window(team="a" * 200)])
    asked_for = question('team=~"(a*)*b"')
    began = time.process_time()
    assert asked(store, lambda reading: list_label_values(reading, asked_for, "team"))["values"] == []
    assert time.process_time() - began < 5


@pytest.mark.parametrize("pattern", ["\\pL+", "r\\x{65}d", "\\Qred\\E", "red\\z", "r(?i)ED", "(?U)red"])
def test_a_pattern_that_only_re2_knows_is_matched(pattern: str) -> None:
    asked_for = WindowQuery(Selector((Matcher("team", Op.MATCHES, pattern),)), START_NS, START_NS + 10**12)
    assert parse_re2_selector(str(asked_for.selector)) == asked_for.selector
    assert "red" in asked(STORE, lambda reading: list_label_values(reading, asked_for, "team"))["values"]


def test_patterns_that_take_long_to_read_do_not_add_up() -> None:
    text = "{" + ",".join(['team=~"[^\\\\pL]{200}"'] * 150) + "}"
    began = time.process_time()
    with pytest.raises(BadSelector, match="took too long"):
        parse_re2_selector(text)
    assert time.process_time() - began < 5


def test_only_reading_patterns_counts_as_their_time() -> None:
    check = make_pattern_check()
    until = time.thread_time() + 2 * MAX_PATTERN_SECONDS
    while time.thread_time() < until:  # as a collection of garbage does
        pass
    check("nothing.*")
