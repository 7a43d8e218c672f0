"""Patterns that people send, on every route that takes one: in linear time, and only in RE2's syntax."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.window import encode_windows
from tests.collector.conftest import Serve
from tests.collector.fake_sidecars import JSON
from tests.collector.stored_windows import START_NS, stored, window
from tests.collector.test_api_document import DOCUMENT, resolved

SELECTORS = ("query", "baseline", "comparison")
PLACES = (*SELECTORS, "conditions")
RANGE = {"from": str(START_NS // 10**9 - 60), "until": str(START_NS // 10**9 + 60)}
EVIL = "(a*)*b"
"""A matcher that tries one way after the other takes years for it on a name of a hundred letters `a`."""
LOOKAHEAD = "(?=a)a"


def list_pattern_parameters() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield routes that read, each parameter of theirs that has patterns, and the names of all of them.

    By the OpenAPI document.
    """
    for path, operations in DOCUMENT["paths"].items():
        parameters = [resolved(one) for one in operations.get("get", {}).get("parameters", ())]
        names = frozenset(parameter["name"] for parameter in parameters)
        for parameter in parameters:
            if parameter["name"] in PLACES:
                yield path, parameter["name"], names
            else:
                text = parameter.get("description", "").lower()
                assert "regular expression" not in text, f"add {parameter['name']} of {path} to PLACES"


def ask_with(path: str, name: str, names: frozenset[str], pattern: str) -> str:
    """A URL with a pattern in one parameter, and valid others."""
    sides = {"baseline": 'version="1"', "comparison": 'version="2"'}
    value = f'team=~"{pattern}"' if name in SELECTORS else f"function:{pattern}>+3%"
    if path.startswith("/pyroscope/render"):
        value = f"process_cpu:cpu:nanoseconds:cpu:nanoseconds{{{value}}}"
    given = {
        one: text for one, text in {**RANGE, **sides, "label": "team", name: value}.items() if one in names
    }
    return path.replace("{id}", "c_0").replace("{name}", "team") + "?" + urlencode(given)


def test_the_routes_with_patterns_are_found_in_the_document() -> None:
    found = set(list_pattern_parameters())
    assert {name for _, name, _ in found} == set(PLACES)
    assert len(found) > 30


async def test_no_pattern_takes_a_route_long_and_a_lookahead_is_refused_with_its_place(
    serving: Serve,
) -> None:
    long = "a" * 100
    store = stored([window(f"main;{long} (app.py:1) 3", team=long, version=one) for one in ("1", "2")])
    async with serving(store) as collector:
        for path, name, names in list_pattern_parameters():
            answer = await collector.ask("GET", ask_with(path, name, names, EVIL))
            assert answer.status < 500, (path, name, answer.body)
            if "{id}" in path:
                continue  # there is no such capture, whatever the pattern
            refused = await collector.ask("GET", ask_with(path, name, names, LOOKAHEAD))
            assert refused.status == 400, (path, name, refused.body)
            assert refused.reason in ("bad_selector", "bad_parameter")
            assert "RE2" in refused.json["message"]
            assert "position" in refused.json["message"]


async def test_a_capture_takes_patterns_of_re2_alone(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        for pattern, status in ((EVIL, 201), (LOOKAHEAD, 400)):
            wish = {"service": "shop", "seconds": 1, "query": f'team=~"{pattern}"'}
            made = await collector.ask("POST", "/api/v1/captures", json.dumps(wish).encode(), JSON)
            assert made.status == status, made.body
        assert "RE2" in made.json["message"]


@pytest.mark.parametrize("pattern", [EVIL, "(a|a)*c", "(.*)(.*)(.*)(.*)b"])
async def test_patterns_of_selectors_are_linear_where_windows_have_not_been_compacted(
    serving: Serve, pattern: str
) -> None:
    windows = [window(team="a" * 200, version=str(one)) for one in range(50)]
    async with serving(MemoryStore()) as collector:
        assert (await collector.post(encode_windows(windows))).status in (200, 422)
        answer = await collector.get("services", {**RANGE, "query": f'team=~"{pattern}"'})
        assert (answer.status, answer.json["services"]) == (200, [])
