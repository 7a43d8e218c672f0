"""Verdicts as they are asked for: parameters, limits, and what a comparison carries."""

from __future__ import annotations

import random

import pytest

from sidelight.collector.query.limits import QueryLimits
from tests.collector.asking import get, refused, serving
from tests.collector.storing import START_NS, stored
from tests.collector.test_verdict import shop, two

SIDES = {"query": '{service="shop"}', "baseline": 'version="1"', "comparison": 'version="2"', "type": "cpu"}


async def test_a_comparison_carries_the_verdict_that_is_asked_for_alone() -> None:
    async with serving(two(render=1.3)) as client:
        comparison, alone = await get(client, "compare", **SIDES), await get(client, "verdict", **SIDES)
        assert comparison["verdict"] == alone["verdict"]
        assert len(comparison["changed"]) == len(comparison["level"])
        assert sum(comparison["changed"]) > 0
        assert alone["basis"] == comparison["basis"]
        fields = set(alone["sides"][0])
        assert [{name: side[name] for name in fields} for side in comparison["sides"]] == alone["sides"]


async def test_without_a_verdict_a_comparison_is_its_tree_alone() -> None:
    async with serving(two()) as client:
        whole = await get(client, "compare", **SIDES)
        bare = await get(client, "compare", **SIDES, verdict="0")
        assert set(whole) - set(bare) == {"verdict", "changed"}
        assert {name: whole[name] for name in bare} == bare


async def test_what_is_asked_of_a_verdict_is_told_in_its_method() -> None:
    async with serving(two()) as client:
        asked = {"detect": "0.02", "alpha": "0.01", "look": "2", "limit": "2"}
        found = (await get(client, "verdict", **SIDES, **asked))["verdict"]
        method = found["method"]
        assert (method["detect"], method["alpha"], method["look"]) == (0.02, 0.01, 2)
        assert method["level"] == pytest.approx(0.01 / 6)
        assert len(found["functions"]["function"]) == 2
        assert found["functions_in_all"] == 5


async def test_conditions_come_as_often_as_they_are_given() -> None:
    async with serving(two(render=1.3)) as client:
        parameters = [*SIDES.items(), ("conditions", "cpu>+3%"), ("conditions", "self:(?i)RENDER>+1%")]
        async with client.get("/api/v1/verdict", params=parameters) as response:
            assert response.status == 200, await response.text()
            told = (await response.json())["verdict"]["conditions"]
        assert [(one["condition"], one["state"]) for one in told] == [
            ("cpu>+3%", "regressed"),
            ("self:(?i)RENDER>+1%", "regressed"),
        ]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("conditions", "cpu"),
        ("conditions", "cpu>+3"),
        ("conditions", "function:(>+1%"),
        ("conditions", "function:(?=a)b>+1%"),
        ("conditions", "function:" + "a" * 1024 + ">+1%"),
        ("detect", "0"),
        ("detect", "5%"),
        ("detect", "nan"),
        ("detect", "1e3"),
        ("alpha", "0.6"),
        ("alpha", "-0.1"),
        ("look", "0"),
        ("look", "1.5"),
        ("limit", "0"),
        ("coverage", "2"),
        ("load", "same"),
        ("baseline_requests", "many"),
        ("verdict", "yes"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_what_would_do(parameter: str, value: str) -> None:
    other = {"comparison_requests": "5"} if parameter == "baseline_requests" else {}
    async with serving(two()) as client:
        status, body = await refused(client, "compare", **SIDES, **other, **{parameter: value})
        assert (status, body["error"]) == (400, "bad_parameter")
        if parameter != "verdict":
            assert await refused(client, "verdict", **SIDES, **other, **{parameter: value}) == (status, body)


async def test_patterns_that_take_too_long_to_read_are_refused() -> None:
    many = [("conditions", rf"function:(\pL{{1,{50 + at}}}){{9}}>+1%") for at in range(40)]
    async with (
        serving(two()) as client,
        client.get("/api/v1/verdict", params=[*SIDES.items(), *many]) as response,
    ):
        body = await response.json()
        assert (response.status, body["error"]) == (400, "bad_parameter")


async def test_other_parameters_are_still_given_once_and_one_side_has_no_verdict() -> None:
    async with serving(two()) as client:
        twice = [*SIDES.items(), ("look", "1"), ("look", "2")]
        async with client.get("/api/v1/verdict", params=twice) as response:
            assert response.status == 400
        for path in ("flamegraph", "top", "depth"):
            status, body = await refused(client, path, query='{service="shop"}', conditions="cpu>+3%")
            assert (status, body["error"]) == (400, "bad_parameter")


async def test_requests_of_one_side_alone_are_no_rates_and_said_to_be_missing() -> None:
    async with serving(two()) as client:
        found = (await get(client, "verdict", **SIDES, baseline_requests="100"))["verdict"]
        load = next(one for one in found["checks"] if one["name"] == "load")
        assert found["method"]["unit"] == "pod-second"
        assert (load["severity"], load["reason"]) == ("warn", "load_unknown")
        assert "comparison_requests is not given" in load["text"]


@pytest.mark.parametrize(("load", "known"), [("", "unknown"), ("before", "unknown"), ("alike", "alike")])
async def test_load_is_said_to_be_alike_by_a_word(load: str, known: str) -> None:
    halves = {"baseline_until": str(START_NS // 10**9 + 900), "comparison_from": str(START_NS // 10**9 + 900)}
    given = {**SIDES, **halves, **({"load": load} if load else {})}
    async with serving(two()) as client:
        for path in ("verdict", "compare"):
            assert (await get(client, path, **given))["verdict"]["method"]["load"] == known
        for form in ("csv", "html"):
            status, _ = await refused(client, "export/compare", **{**given, "load": "same"}, format=form)
            assert status == 400


async def test_no_more_is_tested_than_the_limit_allows() -> None:
    async with serving(two(render=1.3), QueryLimits(max_verdict_tests=2)) as client:
        found = (await get(client, "verdict", **SIDES))["verdict"]
        assert len(found["functions"]["function"]) == 2
        assert found["functions_in_all"] == 5
    with pytest.raises(ValueError, match="max_verdict_rows must be at least 1"):
        QueryLimits(max_verdict_rows=0)
    with pytest.raises(ValueError, match="max_verdict_ranges must not be negative"):
        QueryLimits(max_verdict_ranges=-1)
    assert QueryLimits(max_verdict_ranges=0).max_verdict_ranges == 0


async def test_equal_questions_have_equal_answers() -> None:
    own = random.Random(9)
    made = [*shop("1", own), *shop("2", own, render=1.1, deeper=2)]
    bodies = []
    for _ in range(2):
        async with serving(stored(made)) as client:
            bodies.append(await get(client, "compare", **SIDES))
    assert bodies[0] == bodies[1]
