"""Comparisons of two sides: what they find of planted differences, and how the API asks for them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from sidelight_collector.comparison.answer import query_verdict
from sidelight_collector.comparison.model import Verdict
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.window_query import WindowQuery
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter
from sidelight_collector.statistics.basis import Basis
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.gates import parse_condition
from tests.collector.api_client import get, refused, serving
from tests.collector.comparison_data import (
    CPU,
    WALL,
    WELL,
    built,
    check,
    drawn,
    functions,
    judged,
    said,
    shop,
    two,
)
from tests.collector.stored_windows import START_NS, asked, question, stored, window
from tests.collector.test_query_blocks import compacted
from tests.collector.test_resolutions import Collector


def test_a_function_that_takes_more_is_found_and_the_others_are_not() -> None:
    found = said(two(render=1.3))
    assert found["direction"] == "increased"
    assert found["summary"].startswith("B takes ")
    assert "more CPU time than A (" in found["summary"]
    assert functions(found) == {
        "main": "increased",
        "handle": "increased",
        "render": "increased",
        "parse": functions(found)["parse"],
        "other": functions(found)["other"],
    }
    assert {functions(found)["parse"], functions(found)["other"]} <= {"unchanged", "inconclusive"}
    of = found["functions"]
    at = of["function"].index("render")
    total, own = of["total"], of["self"]
    assert of["file"][at] == "r.py"
    low, high = total["relative_low"][at], total["relative_high"][at]
    assert low is not None
    assert high is not None
    assert low < 0.3 < high
    assert (total["pods_agreeing"][at], total["pods_total"][at]) == (6, 6)
    assert total["q"][at] < 0.01
    assert own["delta"][at] == pytest.approx(total["delta"][at])
    assert own["delta"][of["function"].index("main")] == 0
    (row,) = found["culprits"]["rows"]
    assert (row["function"], row["self_or_total"], row["direction"]) == ("render", "self", "increased")
    assert [row[name] for name in ("delta", "low", "high")] == pytest.approx(
        [own[name][at] for name in ("delta", "low", "high")]
    )
    assert found["functions_total"] == 5


def test_sides_that_are_alike_have_no_change_anywhere() -> None:
    tree = drawn(two())
    found = tree["verdict"]
    assert found["direction"] == "unchanged"
    assert found["summary"].startswith("No detectable change in CPU time (")
    assert set(functions(found).values()) <= {"unchanged", "inconclusive"}
    assert tree["changed"] == [0] * len(tree["level"])
    assert found["required"] is None


def test_too_little_to_tell_is_said_with_what_would_do() -> None:
    own = random.Random(3)
    found = said(stored([*shop("1", own, pods=2, minutes=6), *shop("2", own, pods=2, minutes=6)]))
    assert found["direction"] == "inconclusive"
    assert found["summary"].startswith("Not enough data to say whether CPU time changed (")
    assert found["required"] is not None
    assert found["required"]["minutes"] or found["required"]["pods"]


def test_call_paths_that_changed_are_marked_in_the_tree() -> None:
    for lines in (False, True):
        tree = drawn(two(render=1.3), lines=lines)
        names = [tree["names"][name] for name in tree["name"]]
        marked = {name for name, changed in zip(names, tree["changed"], strict=True) if changed}
        end = ":9)" if lines else ")"
        assert f"render (r.py{end}" in marked
        assert not any(name.startswith(("parse", "other")) for name in marked)
        assert all(":" not in name for name in tree["verdict"]["functions"]["file"])


def test_a_tree_with_states_has_the_verdict_of_one_without() -> None:
    store = two(render=1.3)
    plain, states = drawn(store), drawn(store, states=True)
    assert states["verdict"] == plain["verdict"]
    assert states["changed"] == plain["changed"]
    assert judged(store)["verdict"] == plain["verdict"]


def test_what_only_one_side_has_is_new_and_gone() -> None:
    found = functions(said(two(name="paint", deeper=4)))
    assert (found["paint"], found["render"]) == ("new", "removed")


def test_what_only_changed_its_name_is_neither() -> None:
    found = said(two(name="paint"))
    of = found["functions"]
    assert "render" not in of["function"]
    assert of["renamed_from"][of["function"].index("paint")] == "render"
    assert functions(found)["paint"] in ("unchanged", "inconclusive")


def test_stacks_that_became_deeper_are_told_by_depth_and_not_by_time() -> None:
    found = said(two(deeper=5))
    assert found["direction"] == "unchanged"
    depth = found["depth"]
    assert depth is not None
    assert (depth["mean"]["direction"], depth["p95"]["direction"]) == ("increased", "increased")
    assert (depth["p95"]["baseline"], depth["p95"]["comparison"], depth["max"]) == (3, 8, [3, 8])
    assert depth["gap"]["depth"] == 3


def test_a_busier_side_waits_less() -> None:
    found = said(two(busy=1.5))
    assert found["idle"] is not None
    assert (found["idle"]["direction"], found["thread_kinds"]) == ("decreased", [])
    assert found["idle"]["baseline"] == pytest.approx(1 - 1400 / 6000, abs=0.01)


def test_kinds_of_threads_wait_each_for_themselves() -> None:
    own = random.Random(5)
    store = stored(
        [
            *shop("1", own, thread="main"),
            *shop("1", own, thread="other"),
            *shop("2", own, thread="main"),
            *shop("2", own, thread="other", busy=1.5),
        ]
    )
    roles = {one["thread"]: one["idle"]["direction"] for one in said(store)["thread_kinds"]}
    assert roles["other"] == "decreased"
    assert roles["main"] != "decreased"


def test_rates_are_per_request_where_requests_are_given() -> None:
    store = two(busy=1.5)
    found = said(store, request_counts=(1e6, 1.5e6))
    assert found["method"]["unit"] == "request"
    assert found["direction"] == "unchanged"
    assert "ms/request" in found["summary"]
    assert found["rate"]["baseline"] * 1e6 == pytest.approx(judged(store)["sides"][0]["seconds"])
    assert check(found, "load") == ("mismatch", "warn", "load_differs")


def test_later_looks_ask_for_more_and_say_so() -> None:
    store = two()
    only, first, third = said(store), said(store, analysis_index=1), said(store, analysis_index=3)
    levels = [found["method"]["alpha_spent"] for found in (only, first, third)]
    assert levels == pytest.approx([0.05, 0.05 / 2, 0.05 / 12])
    assert third["rate"]["high"] - third["rate"]["low"] > first["rate"]["high"] - first["rate"]["low"]  # type: ignore[operator]


def test_sides_of_other_modes_and_types_that_lack_a_state_are_refused() -> None:
    blind = replace(WELL, mode="command", sampler="py-spy 0.4.3", missing_states=("idle", "gil"))
    store = two(quality=blind, render=1.5)
    found = said(store, WALL)
    assert found["direction"] == "not_comparable"
    assert found["summary"].startswith("Thread time cannot be compared: ")
    assert check(found, "states") == ("mismatch", "blocking", "states_missing")
    assert set(functions(found).values()) == {"not_comparable"}
    assert found["culprits"] == {"share": None, "rows": []}
    assert set(drawn(store)["changed"]) == {2}
    assert check(said(store), "mode") == ("mismatch", "blocking", "mode_differs")


CASES = [
    ("cpu>+3%", "regressed"),
    ("cpu<-3%", "pass"),
    ("rate>+50%", "pass"),
    ("wall>+3%", "pass"),
    ("function:rend.*>+1%", "regressed"),
    ("function:render (r.py)>+1pp", "regressed"),
    ("function:render (other.py)>+1pp", "pass"),
    ("function:main|render>+1%", "regressed"),
    ("self:main>+1%", "pass"),
    ("self:render>+1ms", "regressed"),
    ("depth.p95>+5", "pass"),
    ("depth.max>+5", "pass"),
    ("idle<-50pp", "pass"),
    ("gil>+1%", "pass"),
]


def test_conditions_are_judged_by_the_numbers_that_they_are_about() -> None:
    conditions = tuple(parse_condition(text) for text, _ in CASES)
    told = said(two(render=1.3), conditions=conditions)["conditions"]
    assert [(one["condition"], one["state"]) for one in told] == CASES
    assert all(one["summary"] for one in told)
    main_or_render = next(one["effect"] for one in told if one["condition"].startswith("function:main"))
    main = next(one["effect"] for one in told if one["condition"] == "cpu>+3%")
    # a stack that has both counts once; the interval of a function is that of the table of functions
    told_alike = ("baseline", "comparison", "delta", "relative", "direction")
    assert [main_or_render[name] for name in told_alike] == [main[name] for name in told_alike]


def test_a_condition_on_another_type_than_asked_has_that_types_numbers() -> None:
    store, conditions = two(render=1.3), (parse_condition("cpu>+3%"), parse_condition("wall>+3%"))
    cpu, wall = said(store, CPU, conditions=conditions), said(store, WALL, conditions=conditions)
    for at in (0, 1):
        one, other = (found["conditions"][at] for found in (cpu, wall))
        assert one["state"] == other["state"]
        assert one["effect"] is not None
        assert other["effect"] is not None
        assert one["effect"]["delta"] == pytest.approx(other["effect"]["delta"])


def test_a_type_that_can_be_compared_is_judged_beside_one_that_cannot() -> None:
    blind = replace(WELL, missing_states=("idle",))
    found = said(
        two(quality=blind, render=1.3),
        WALL,
        conditions=(parse_condition("cpu>+3%"), parse_condition("wall>+3%")),
    )
    assert [one["state"] for one in found["conditions"]] == ["regressed", "not_comparable"]


def test_a_verdict_is_about_the_stacks_that_are_picked() -> None:
    store = two(render=1.3)
    found = judged(store, pick=StackFilter(function="parse"))
    assert found["verdict"]["direction"] in ("unchanged", "inconclusive")
    assert functions(found["verdict"]).keys() == {"main", "handle", "parse"}
    assert found["verdict"]["rate"]["baseline"] == pytest.approx(
        found["sides"][0]["seconds"] / found["sides"][0]["pod_seconds"]
    )


def test_no_side_one_side_and_no_samples_are_said_as_such() -> None:
    nothing = said(MemoryStore())
    assert (nothing["direction"], nothing["functions_total"]) == ("no_data", 0)
    assert nothing["summary"] == "Neither A nor B has windows here, so there is nothing to compare."
    one = said(stored(shop("1", random.Random(1))))
    assert one["direction"] == "no_data"
    assert one["summary"] == "B has no windows here, so there is nothing to compare."
    assert set(functions(one).values()) == {"no_data"}
    idle = said(stored([window("main;poll;[idle] 9", version=name) for name in "12"]))
    assert idle["summary"] == "Neither side took any CPU time."
    assert idle["depth"] is None


def test_one_pod_is_compared_and_warned_about() -> None:
    own = random.Random(2)
    found = said(stored([*shop("1", own, pods=1), *shop("2", own, pods=1, busy=1.5)]))
    assert found["direction"] == "increased"
    assert check(found, "pods") == ("mismatch", "warn", "few_pods")


def test_one_window_a_side_is_not_enough() -> None:
    own = random.Random(2)
    found = said(stored([*shop("1", own, pods=1, minutes=1), *shop("2", own, pods=1, minutes=1)]))
    assert found["method"]["time_blocks"] == [1, 1]
    assert found["direction"] == "inconclusive"


def test_what_is_kept_by_the_hour_is_compared_and_said_to_be() -> None:
    own = random.Random(4)
    late = {"minutes": 10, "step": 3600}
    collector = Collector(stored([*shop("1", own, **late), *shop("2", own, render=1.6, **late)]))  # type: ignore[arg-type]
    wide = [question(f'{{version="{one}"}}', start=-40_000, end=46_000) for one in ("1", "2")]
    rates = []
    for days in (0.5, 3, 5):
        collector.look(days)
        answer = asked(
            collector.store,
            lambda reading: query_verdict(
                reading, wide, CPU, stack_filter=NO_FILTER, options=ComparisonOptions(), max_nodes=10**5
            ),
        )
        found = answer["verdict"]
        rates.append((found["rate"]["baseline"], found["rate"]["comparison"]))
        if days > 1:
            assert check(found, "pods") == ("unknown", "warn", "pods_merged")
        assert {functions(found)["render"]} <= {"increased", "inconclusive"}
    assert rates[1] == pytest.approx(rates[0])
    assert rates[2] == pytest.approx(rates[0])


def test_a_verdict_is_the_same_before_and_after_compaction() -> None:
    store = built(render=1.3)
    before = said(store)
    assert said(compacted(store)) == before


def test_beyond_so_many_rows_hours_are_read_instead_of_windows() -> None:
    store = compacted(built(render=1.3))
    windows, hours = judged(store), judged(store, max_rows=100)
    assert "hour" in [one["resolution"] for one in hours["basis"]["resolutions"]]
    assert [one["resolution"] for one in windows["basis"]["resolutions"]] == ["window"]
    assert hours["verdict"]["rate"]["baseline"] == pytest.approx(windows["verdict"]["rate"]["baseline"])


def test_names_of_any_kind_come_back_as_they_are() -> None:
    hostile = "<b>%3B&\u202e"
    found = said(two(name=hostile, render=1.5))
    assert hostile.replace("%3B", ";") in functions(found)


ASKED = {"query": '{service="shop"}', "baseline": 'version="1"', "comparison": 'version="2"', "type": "cpu"}


async def test_a_comparison_carries_the_verdict_that_is_asked_for_alone() -> None:
    async with serving(two(render=1.3)) as client:
        comparison, alone = await get(client, "compare", **ASKED), await get(client, "verdict", **ASKED)
        assert comparison["verdict"] == alone["verdict"]
        assert len(comparison["changed"]) == len(comparison["level"])
        assert sum(comparison["changed"]) > 0
        assert alone["basis"] == comparison["basis"]
        fields = set(alone["sides"][0])
        assert [{name: side[name] for name in fields} for side in comparison["sides"]] == alone["sides"]


async def test_without_a_verdict_a_comparison_is_its_tree_alone() -> None:
    async with serving(two()) as client:
        whole = await get(client, "compare", **ASKED)
        bare = await get(client, "compare", **ASKED, verdict="0")
        assert set(whole) - set(bare) == {"verdict", "changed"}
        assert {name: whole[name] for name in bare} == bare


async def test_what_is_asked_of_a_verdict_is_told_in_its_method() -> None:
    async with serving(two()) as client:
        asked = {"min_effect": "0.02", "alpha": "0.01", "analysis_index": "2", "limit": "2"}
        found = (await get(client, "verdict", **ASKED, **asked))["verdict"]
        method = found["method"]
        assert (method["min_effect"], method["alpha"], method["analysis_index"]) == (0.02, 0.01, 2)
        assert method["alpha_spent"] == pytest.approx(0.01 / 6)
        assert len(found["functions"]["function"]) == 2
        assert found["functions_total"] == 5


async def test_conditions_come_as_often_as_they_are_given() -> None:
    async with serving(two(render=1.3)) as client:
        parameters = [*ASKED.items(), ("conditions", "cpu>+3%"), ("conditions", "self:(?i)RENDER>+1%")]
        async with client.get("/api/v1/verdict", params=parameters) as response:
            assert response.status == 200, await response.text()
            told = (await response.json())["verdict"]["conditions"]
        assert [(one["condition"], one["state"]) for one in told] == [
            ("cpu>+3%", "regressed"),
            ("self:(?i)RENDER>+1%", "regressed"),
        ]


REFUSED = [
    ("conditions", "cpu"),
    ("conditions", "cpu>+3"),
    ("conditions", "function:(>+1%"),
    ("conditions", "function:(?=a)b>+1%"),
    ("conditions", "function:" + "a" * 1024 + ">+1%"),
    ("min_effect", "0"),
    ("min_effect", "5%"),
    ("min_effect", "nan"),
    ("min_effect", "1e3"),
    ("alpha", "0.6"),
    ("alpha", "-0.1"),
    ("analysis_index", "0"),
    ("analysis_index", "1.5"),
    ("limit", "0"),
    ("min_coverage", "2"),
    ("baseline_requests", "many"),
    ("verdict", "yes"),
]


async def test_parameters_that_cannot_be_read_are_refused() -> None:
    async with serving(two()) as client:
        for parameter, value in REFUSED:
            other = {"comparison_requests": "5"} if parameter == "baseline_requests" else {}
            given = {**ASKED, **other, parameter: value}
            status, body = await refused(client, "compare", **given)
            assert (status, body["error"]) == (400, "bad_parameter"), (parameter, value)
            if parameter != "verdict":
                assert await refused(client, "verdict", **given) == (status, body), (parameter, value)


async def test_patterns_that_take_too_long_to_read_are_refused() -> None:
    many = [("conditions", rf"function:(\pL{{1,{50 + at}}}){{9}}>+1%") for at in range(40)]
    async with (
        serving(two()) as client,
        client.get("/api/v1/verdict", params=[*ASKED.items(), *many]) as response,
    ):
        body = await response.json()
        assert (response.status, body["error"]) == (400, "bad_parameter")


async def test_other_parameters_are_still_given_once_and_one_side_has_no_verdict() -> None:
    async with serving(two()) as client:
        twice = [*ASKED.items(), ("analysis_index", "1"), ("analysis_index", "2")]
        async with client.get("/api/v1/verdict", params=twice) as response:
            assert response.status == 400
        for path in ("flamegraph", "top", "depth"):
            status, body = await refused(client, path, query='{service="shop"}', conditions="cpu>+3%")
            assert (status, body["error"]) == (400, "bad_parameter")


async def test_requests_of_one_side_alone_are_no_rates_and_said_to_be_missing() -> None:
    async with serving(two()) as client:
        found = (await get(client, "verdict", **ASKED, baseline_requests="100"))["verdict"]
        load = next(one for one in found["checks"] if one["name"] == "load")
        assert found["method"]["unit"] == "pod-second"
        assert (load["severity"], load["reason"]) == ("warn", "load_unknown")
        assert "comparison_requests is not given" in load["text"]


def apart(store: ObjectStore, sides: list[WindowQuery], **wanted: Any) -> Verdict:
    """The verdict on two sides at different times."""
    ask = ComparisonOptions(**wanted)
    return asked(
        store,
        lambda reading: query_verdict(
            reading, sides, CPU, stack_filter=NO_FILTER, options=ask, max_nodes=50_000
        ),
    )["verdict"]


def test_the_total_of_sides_of_different_times_is_not_judged() -> None:
    rng = random.Random(4)
    store = stored([*shop("1", rng, thread="main"), *shop("2", rng, busy=3.0, at=3600, thread="main")])
    sides = [question('{version="1"}'), question('{version="2"}', start=3600, end=7200)]
    found = apart(store, sides, conditions=(parse_condition("cpu>+5%"),))
    rate = found["rate"]
    assert found["basis"] == "composition"
    assert (found["direction"], rate["direction"]) == ("not_judged", "not_judged")
    assert rate["relative"] == pytest.approx(2, rel=0.1)
    assert rate["relative_low"] is rate["relative_high"] is rate["low"] is rate["high"] is None
    assert rate["min_detectable_effect"] is None
    assert not {"increased", "decreased"} & set(functions(found).values())
    assert found["idle"]["direction"] == found["thread_kinds"][0]["idle"]["direction"] == "not_judged"
    assert found["culprits"] == {"share": None, "rows": []}
    assert [one["state"] for one in found["conditions"]] == ["inconclusive"]
    assert found["required"] is None
    assert found["summary"].endswith("; may be load.")
    assert found["depth"]["mean"]["low"] is not None, "depth is no time"
    time = next(one for one in found["checks"] if one["name"] == "time")
    assert (time["severity"], time["reason"]) == ("warn", "time_differs")
    assert "basis=equal_load" in time["hint"]


def test_sides_of_different_times_report_changes_if_equal_load_is_assumed() -> None:
    rng = random.Random(5)
    store = stored([*shop("1", rng), *shop("2", rng, busy=1.15, at=3600)])
    sides = [question('{version="1"}'), question('{version="2"}', start=3600, end=7200)]
    found = apart(store, sides, basis=Basis.EQUAL_LOAD)
    assert (found["direction"], found["basis"]) == ("increased", "equal_load")
    assert found["rate"]["relative_low"] < 0.15 < found["rate"]["relative_high"]
    assert functions(found)["render"] == "increased"
    time = next(one for one in found["checks"] if one["name"] == "time")
    assert time["severity"] == "ok"


async def test_a_parameter_chooses_the_basis() -> None:
    halves = {"baseline_until": str(START_NS // 10**9 + 900), "comparison_from": str(START_NS // 10**9 + 900)}
    async with serving(two()) as client:
        for parameters, basis in (
            ({}, "composition"),
            ({"basis": "concurrent"}, "composition"),
            ({"basis": "equal_load"}, "equal_load"),
        ):
            for path in ("verdict", "compare"):
                given = {**ASKED, **halves, **parameters}
                assert (await get(client, path, **given))["verdict"]["basis"] == basis
        for wrong in ({"basis": "equally"}, {"min_relevant_share": "1.1"}, {"min_relevant_depth": "0"}):
            status, refusal = await refused(client, "verdict", **ASKED, **wrong)
            assert (status, next(iter(wrong)) in refusal["message"]) == (400, True)
        for form in ("csv", "html"):
            asked_for = {**ASKED, **halves, "basis": "equally", "format": form}
            status, _ = await refused(client, "export/compare", **asked_for)
            assert status == 400


async def test_no_more_is_tested_than_the_limit_allows() -> None:
    async with serving(two(render=1.3), QueryLimits(max_verdict_tests=2)) as client:
        found = (await get(client, "verdict", **ASKED))["verdict"]
        assert len(found["functions"]["function"]) == 2
        assert found["functions_total"] == 5
    with pytest.raises(ValueError, match="max_verdict_rows must be at least 1"):
        QueryLimits(max_verdict_rows=0)


async def test_equal_questions_have_equal_answers() -> None:
    own = random.Random(9)
    made = [*shop("1", own), *shop("2", own, render=1.1, deeper=2)]
    bodies = []
    for _ in range(2):
        async with serving(stored(made)) as client:
            bodies.append(await get(client, "compare", **ASKED))
    assert bodies[0] == bodies[1]
