"""Verdicts on real stores, over sides whose differences were planted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sidelight.collector.query.flame import Flame, flame
from sidelight.collector.query.picking import ALL, Pick
from sidelight.collector.query.sides import Wanted
from sidelight.collector.query.verdict import Verdict, VerdictAnswer, verdict
from sidelight.collector.store.memory import MemoryStore
from sidelight.collector.store.objects import ObjectStore
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.window import Quality, Window
from sidelight.verdicts.conditions import parse
from tests.collector.storing import asked, question, stored, window
from tests.collector.test_query_blocks import compacted
from tests.collector.test_rotation import Collector

CPU, WALL, GIL = ProfileType.CPU, ProfileType.WALL, ProfileType.GIL
WELL = Quality(attempts=6000, samples=6000, mode="gil", sampler="sidelight", reader="own", python="3.11.7")
MINUTES = 32


def shop(
    version: str,
    luck: random.Random,
    *,
    pods: int = 6,
    at: float = 0,
    render: float = 1.0,
    busy: float = 1.0,
    deeper: int = 0,
    minutes: int = MINUTES,
    step: float = 60,
    quality: Quality = WELL,
    name: str = "render",
    **labels: str,
) -> Iterator[Window]:
    """A service whose pods and minutes differ by some per cent; `render` and `busy` are factors of times."""
    frames = "".join(f"step{depth} (deep.py:1);" for depth in range(deeper))
    for pod in range(pods):
        speed = luck.gauss(busy, 0.01)
        for minute in range(minutes):
            load = speed * luck.gauss(1, 0.02)
            parse_, rendered, other = (
                round(count * load + luck.gauss(0, count**0.5)) for count in (600, 300 * render, 500)
            )
            text = (
                f"main (a.py:1);handle (a.py:5);parse (p.py:3) {parse_} | "
                f"main (a.py:1);handle (a.py:5);{frames}{name} (r.py:9) {rendered} | "
                f"main (a.py:1);other (o.py:1) {other} | "
                f"main (a.py:1);poll (p.py:1);[idle] {6000 - parse_ - rendered - other}"
            )
            yield window(
                text,
                version=version,
                pod=f"shop-{version}-{pod}",
                at=at + minute * step,
                seconds=60,
                quality=quality,
                **labels,
            )


def two(luck: int = 7, **second: Any) -> ObjectStore:
    """Version 1, and version 2 that differs so, watched at the same time."""
    own = random.Random(luck)
    return stored([*shop("1", own), *shop("2", own, **second)])


SIDES = [question(f'{{version="{one}"}}') for one in ("1", "2")]


def judged(store: ObjectStore, kind: ProfileType = CPU, pick: Pick = ALL, **wanted: Any) -> VerdictAnswer:
    return asked(
        store,
        lambda reading: verdict(reading, SIDES, kind, pick=pick, wanted=Wanted(**wanted), most=50_000),
    )


def said(store: ObjectStore, kind: ProfileType = CPU, **wanted: Any) -> Verdict:
    return judged(store, kind, **wanted)["verdict"]


def drawn(store: ObjectStore, *, lines: bool = False, states: bool = False) -> Flame:
    return asked(
        store,
        lambda reading: flame(
            reading,
            SIDES,
            CPU,
            lines=lines,
            nodes=None,
            most=50_000,
            states=states,
            wanted=Wanted(),
        ),
    )


def functions(found: Verdict) -> dict[str, str]:
    """The direction of each function's total."""
    of = found["functions"]
    return dict(zip(of["function"], of["total"]["direction"], strict=True))


def check(found: Verdict, name: str) -> tuple[str, str, str]:
    one = next(one for one in found["checks"] if one["name"] == name)
    assert one["text"]
    assert one["hint"] or one["severity"] == "ok"
    return one["state"], one["severity"], one["reason"]


def test_a_function_that_takes_more_is_found_and_the_others_are_not() -> None:
    found = said(two(render=1.3))
    assert found["direction"] == "more"
    assert found["sentence"].startswith("B takes ")
    assert "more CPU time than A (" in found["sentence"]
    assert functions(found) == {
        "main": "more",
        "handle": "more",
        "render": "more",
        "parse": functions(found)["parse"],
        "other": functions(found)["other"],
    }
    assert {functions(found)["parse"], functions(found)["other"]} <= {"same", "unclear"}
    of = found["functions"]
    at = of["function"].index("render")
    total, own = of["total"], of["self"]
    assert of["file"][at] == "r.py"
    low, high = total["relative_low"][at], total["relative_high"][at]
    assert low is not None
    assert high is not None
    assert low < 0.3 < high
    assert (total["agree"][at], total["of"][at]) == (6, 6)
    assert total["q"][at] < 0.01
    assert own["delta"][at] == pytest.approx(total["delta"][at])
    assert own["delta"][of["function"].index("main")] == 0
    assert found["explanation"]["functions"][0]["function"] == "render"
    assert found["functions_in_all"] == 5


def test_sides_that_are_alike_have_no_change_anywhere() -> None:
    tree = drawn(two())
    found = tree["verdict"]
    assert found["direction"] == "same"
    assert found["sentence"].startswith("No detectable change in CPU time (")
    assert set(functions(found).values()) <= {"same", "unclear"}
    assert tree["changed"] == [0] * len(tree["level"])
    assert found["more"] is None


def test_too_little_to_tell_is_said_with_what_would_do() -> None:
    own = random.Random(3)
    found = said(stored([*shop("1", own, pods=2, minutes=6), *shop("2", own, pods=2, minutes=6)]))
    assert found["direction"] == "unclear"
    assert found["sentence"].startswith("Not enough data to tell whether CPU time changed (")
    assert found["more"] is not None
    assert found["more"]["minutes"] or found["more"]["pods"]


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
    assert (found["paint"], found["render"]) == ("new", "gone")


def test_what_only_changed_its_name_is_neither() -> None:
    found = said(two(name="paint"))
    of = found["functions"]
    assert "render" not in of["function"]
    assert of["renamed_from"][of["function"].index("paint")] == "render"
    assert functions(found)["paint"] in ("same", "unclear")


def test_stacks_that_became_deeper_are_told_by_depth_and_not_by_time() -> None:
    found = said(two(deeper=5))
    assert found["direction"] == "same"
    depth = found["depth"]
    assert depth is not None
    assert (depth["mean"]["direction"], depth["p95"]["direction"]) == ("more", "more")
    assert (depth["p95"]["a"], depth["p95"]["b"], depth["max"]) == (3, 8, [3, 8])
    assert depth["gap"]["depth"] == 3


def test_a_busier_side_waits_less() -> None:
    found = said(two(busy=1.5))
    assert found["idle"] is not None
    assert (found["idle"]["direction"], found["roles"]) == ("less", [])
    assert found["idle"]["a"] == pytest.approx(1 - 1400 / 6000, abs=0.01)


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
    roles = {one["thread"]: one["idle"]["direction"] for one in said(store)["roles"]}
    assert roles["other"] == "less"
    assert roles["main"] != "less"


def test_rates_are_per_request_where_requests_are_given() -> None:
    store = two(busy=1.5)
    found = said(store, requests=(1e6, 1.5e6))
    assert found["method"]["unit"] == "request"
    assert found["direction"] == "same"
    assert "seconds per request" in found["sentence"]
    assert found["rate"]["a"] * 1e6 == pytest.approx(judged(store)["sides"][0]["seconds"])
    assert check(found, "load") == ("differs", "warn", "load_differs")


def test_later_looks_ask_for_more_and_say_so() -> None:
    store = two()
    only, first, third = said(store), said(store, look=1), said(store, look=3)
    levels = [found["method"]["level"] for found in (only, first, third)]
    assert levels == pytest.approx([0.05, 0.05 / 2, 0.05 / 12])
    assert third["rate"]["high"] - third["rate"]["low"] > first["rate"]["high"] - first["rate"]["low"]  # type: ignore[operator]


def test_sides_of_other_modes_and_types_that_lack_a_state_are_refused() -> None:
    blind = replace(WELL, mode="command", sampler="py-spy 0.4.3", missing_states=("idle", "gil"))
    store = two(quality=blind, render=1.5)
    found = said(store, WALL)
    assert found["direction"] == "incomparable"
    assert found["sentence"].startswith("Thread time cannot be compared: ")
    assert check(found, "states") == ("differs", "refuse", "states_missing")
    assert set(functions(found).values()) == {"incomparable"}
    assert found["explanation"]["paths"] == []
    assert set(drawn(store)["changed"]) == {0}
    assert check(said(store), "mode") == ("differs", "refuse", "mode_differs")


CASES = [
    ("cpu>+3%", "regressed"),
    ("cpu<-3%", "fine"),
    ("rate>+50%", "fine"),
    ("wall>+3%", "fine"),
    ("function:rend.*>+1%", "regressed"),
    ("function:render (r.py)>+1pp", "regressed"),
    ("function:render (other.py)>+1pp", "fine"),
    ("function:main|render>+1%", "regressed"),
    ("self:main>+1%", "fine"),
    ("self:render>+1ms", "regressed"),
    ("depth.p95>+5", "fine"),
    ("depth.max>+5", "fine"),
    ("idle<-50pp", "fine"),
    ("gil>+1%", "fine"),
]


def test_conditions_are_judged_by_the_numbers_that_they_are_about() -> None:
    conditions = tuple(parse(text) for text, _ in CASES)
    told = said(two(render=1.3), conditions=conditions)["conditions"]
    assert [(one["condition"], one["state"]) for one in told] == CASES
    assert all(one["sentence"] for one in told)
    main_or_render = next(one["effect"] for one in told if one["condition"].startswith("function:main"))
    main = next(one["effect"] for one in told if one["condition"] == "cpu>+3%")
    # a stack that has both counts once; the interval of a function is that of the table of functions
    told_alike = ("a", "b", "delta", "relative", "direction")
    assert [main_or_render[name] for name in told_alike] == [main[name] for name in told_alike]


def test_a_condition_on_another_type_than_asked_has_that_types_numbers() -> None:
    store, conditions = two(render=1.3), (parse("cpu>+3%"), parse("wall>+3%"))
    cpu, wall = said(store, CPU, conditions=conditions), said(store, WALL, conditions=conditions)
    for at in (0, 1):
        one, other = (found["conditions"][at] for found in (cpu, wall))
        assert one["state"] == other["state"]
        assert one["effect"] is not None
        assert other["effect"] is not None
        assert one["effect"]["delta"] == pytest.approx(other["effect"]["delta"])


def test_a_type_that_can_be_compared_is_judged_beside_one_that_cannot() -> None:
    blind = replace(WELL, missing_states=("idle",))
    found = said(two(quality=blind, render=1.3), WALL, conditions=(parse("cpu>+3%"), parse("wall>+3%")))
    assert [one["state"] for one in found["conditions"]] == ["regressed", "incomparable"]


def test_a_verdict_is_about_the_stacks_that_are_picked() -> None:
    store = two(render=1.3)
    found = judged(store, pick=Pick(function="parse"))
    assert found["verdict"]["direction"] in ("same", "unclear")
    assert functions(found["verdict"]).keys() == {"main", "handle", "parse"}
    assert found["verdict"]["rate"]["a"] == pytest.approx(
        found["sides"][0]["seconds"] / found["sides"][0]["pod_seconds"]
    )


def test_no_side_one_side_and_no_samples_are_said_as_such() -> None:
    nothing = said(MemoryStore())
    assert (nothing["direction"], nothing["functions_in_all"]) == ("unknown", 0)
    assert nothing["sentence"] == "Neither A nor B has windows here, so there is nothing to compare."
    one = said(stored(shop("1", random.Random(1))))
    assert one["direction"] == "unknown"
    assert one["sentence"] == "B has no windows here, so there is nothing to compare."
    assert set(functions(one).values()) == {"unknown"}
    idle = said(stored([window("main;poll;[idle] 9", version=name) for name in "12"]))
    assert idle["sentence"] == "Neither side took any CPU time."
    assert idle["depth"] is None


def test_one_pod_is_compared_and_warned_about() -> None:
    own = random.Random(2)
    found = said(stored([*shop("1", own, pods=1), *shop("2", own, pods=1, busy=1.5)]))
    assert found["direction"] == "more"
    assert check(found, "pods") == ("differs", "warn", "few_pods")


def test_one_window_a_side_is_not_enough() -> None:
    own = random.Random(2)
    found = said(stored([*shop("1", own, pods=1, minutes=1), *shop("2", own, pods=1, minutes=1)]))
    assert found["method"]["blocks"] == [1, 1]
    assert found["direction"] == "unclear"


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
            lambda reading: verdict(reading, wide, CPU, pick=ALL, wanted=Wanted(), most=10**5),
        )
        found = answer["verdict"]
        rates.append((found["rate"]["a"], found["rate"]["b"]))
        if days > 1:
            assert check(found, "pods") == ("unknown", "warn", "pods_together")
        assert {functions(found)["render"]} <= {"more", "unclear"}
    assert rates[1] == pytest.approx(rates[0])
    assert rates[2] == pytest.approx(rates[0])


def test_a_verdict_is_the_same_before_and_after_compaction() -> None:
    store = two(render=1.3)
    before = said(store)
    assert said(compacted(store)) == before


def test_beyond_so_many_rows_hours_are_read_instead_of_windows() -> None:
    store = compacted(two(render=1.3))
    windows, hours = judged(store), judged(store, most_rows=100)
    assert "hour" in [one["resolution"] for one in hours["basis"]["resolutions"]]
    assert [one["resolution"] for one in windows["basis"]["resolutions"]] == ["window"]
    assert hours["verdict"]["rate"]["a"] == pytest.approx(windows["verdict"]["rate"]["a"])


def test_names_of_any_kind_come_back_as_they_are() -> None:
    hostile = "<b>%3B&\u202e"
    found = said(two(name=hostile, render=1.5))
    assert hostile.replace("%3B", ";") in functions(found)
