"""Functions of a comparison: how they scatter, whether they were renamed, and who holds the event loop."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from sidelight_collector.answers.flame import FlameGraph, query_flame_graph
from sidelight_collector.comparison.answer import query_verdict
from sidelight_collector.comparison.model import Verdict
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.query.stack_filter import NO_FILTER
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from sidelight_model.gates import parse_condition
from sidelight_model.tree import Tree
from sidelight_model.window import Quality, Window
from tests.collector.comparison_data import CPU, WELL, drawn, functions, said
from tests.collector.stored_windows import asked, question, stored, window
from tests.model.reference_profiles import render_outline

MANY, FEW = 40, 4


def many(version: str, count: int, grown: float = 1.0, pods: int = 3) -> Iterator[Window]:
    """A service of so many functions, each of which differs from pod to pod by a way of its own; one grew."""
    for pod in range(pods):
        ways = [random.Random(f"{version} {pod} {at}").gauss(1, 0.05) for at in range(count)]
        ways[0] *= grown
        luck = random.Random(f"{version} {pod}")
        for minute in range(24):
            taken = [max(round(luck.gauss(50 * way, 7)), 0) for way in ways]
            parts = [f"main (a.py:1);f{at} (f.py:{9 * at}) {samples}" for at, samples in enumerate(taken)]
            text = " | ".join([*parts, f"main (a.py:1);poll (p.py:1);[idle] {6000 - sum(taken)}"])
            pod_name = f"shop-{version}-{pod}"
            yield window(text, version=version, pod=pod_name, at=60 * minute, seconds=60, quality=WELL)


@cache
def of_many(count: int, grown: float) -> ObjectStore:
    return stored([*many("1", count), *many("2", count, grown)])


def changed(found: Verdict) -> set[str]:
    return {name for name, way in functions(found).items() if way in ("increased", "decreased")}


def test_a_function_among_many_is_found_with_three_pods_a_side() -> None:
    assert changed(said(of_many(FEW, 1.3))) == set()
    store = of_many(MANY, 1.3)
    assert changed(said(store)) == set(), "it is less than 1 % of the profile"
    assert changed(said(store, min_relevant_share=0.001)) == {"f0"}
    tree = drawn(store, min_relevant_share=0.001)
    marked = [tree["names"][name] for name, of in zip(tree["name"], tree["changed"], strict=True) if of == 1]
    assert marked == ["f0 (f.py)"]


def test_many_that_did_not_change_are_not_found() -> None:
    assert changed(said(of_many(MANY, 1.0))) == set()


@pytest.mark.parametrize("subject", ["function", "self"])
def test_a_condition_knows_of_a_function_what_the_table_does(subject: str) -> None:
    found = said(of_many(MANY, 1.3), conditions=(parse_condition(f"{subject}:f0>+5%"),))
    told = found["conditions"][0]
    assert told["state"] == "regressed"
    of = found["functions"]
    column = of["self" if subject == "self" else "total"]
    at = of["function"].index("f0")
    assert told["effect"] is not None
    for name in ("delta", "low", "high", "relative_low", "relative_high"):
        assert told["effect"][name] == pytest.approx(column[name][at])  # type: ignore[literal-required]


def renaming(version: str, render: str, luck: random.Random, *, times: float = 1.0) -> Iterator[Window]:
    """A service with a function under a name that depends on the version, `function (file:line)`."""
    for pod in range(5):
        for minute in range(16):
            load = luck.gauss(1, 0.02)
            parse_, rendered, escaped = (
                round(count * load + luck.gauss(0, count**0.5)) for count in (600, 250 * times, 90)
            )
            handle = "main (a.py:1);handle (app/views.py:30)"
            text = (
                f"{handle};parse (app/views.py:90) {parse_} | {handle};{render} {rendered} | "
                f"{handle};{render};escape (html.py:9) {escaped} | main (a.py:1);poll (p.py:1);[idle] 5000"
            )
            yield window(text, version=version, pod=f"shop-{version}-{pod}", at=minute * 60, seconds=60)


@cache
def renamed(was: str, now: str, *, times: float = 1.0) -> ObjectStore:
    luck = random.Random(5)
    return stored([*renaming("1", was, luck), *renaming("2", now, luck, times=times)])


def compared(store: ObjectStore, *, lines: bool = False, states: bool = False, **wanted: Any) -> FlameGraph:
    sides = [question(f'{{version="{one}"}}') for one in ("1", "2")]
    return asked(
        store,
        lambda reading: query_flame_graph(
            reading,
            sides,
            CPU,
            lines=lines,
            nodes=None,
            max_nodes=50_000,
            states=states,
            comparison_options=ComparisonOptions(**wanted),
        ),
    )


def origins(found: FlameGraph) -> dict[str, tuple[str, str | None, str]]:
    """Of each function its file, what it was, and the direction of its own time."""
    of = found["verdict"]["functions"]
    rows = zip(of["file"], of["renamed_from"], of["self"]["direction"], strict=True)
    return dict(zip(of["function"], rows, strict=True))


def test_a_renamed_function_is_no_change_under_its_new_name() -> None:
    found = compared(renamed("old (app/views.py:60)", "new (app/views.py:62)"), min_effect=0.1)
    assert origins(found)["new"] == ("app/views.py", "old", "unchanged")
    assert "old" not in origins(found)
    assert {direction for _, _, direction in origins(found).values()} <= {"unchanged", "inconclusive"}
    assert found["verdict"]["functions_total"] == len(origins(found))


def test_a_renamed_function_that_got_slower_is_found_as_such() -> None:
    found = compared(renamed("old (app/views.py:60)", "new (app/views.py:62)", times=1.5))
    assert origins(found)["new"] == ("app/views.py", "old", "increased")
    assert origins(found)["parse"][2] in ("unchanged", "inconclusive")
    (row,) = found["verdict"]["culprits"]["rows"]
    assert row["names"][-1] == "new (app/views.py)"


def test_a_function_that_moved_to_another_file_says_where_it_was() -> None:
    found = compared(renamed("render (app/views.py:60)", "render (app/pages.py:10)"), min_effect=0.1)
    assert origins(found)["render"] == ("app/pages.py", "render (app/views.py)", "unchanged")


def test_the_tree_has_one_node_for_both_names_with_what_is_below_it() -> None:
    store = renamed("zeta (app/views.py:60)", "alpha (app/views.py:62)")
    for states in (False, True):
        found = compared(store, states=states)
        sides = [(side["self_samples"], [0] * len(found["level"])) for side in found["sides"]]
        tree = Tree(
            found["names"],
            found["level"],
            found["name"],
            [one for one, _ in sides],
            [one for _, one in sides],
        )
        rows = [line.split("  ") for line in render_outline(tree).splitlines()]
        assert [" ".join(row[:-2]).strip() for row in rows] == [
            "total",
            "main (a.py)",
            "handle (app/views.py)",
            "alpha (app/views.py)",
            "escape (html.py)",
            "parse (app/views.py)",
        ]
        assert all(int(total.split("/")[0]) > 0 for row in rows for total in row[-2:])
        assert len(found["changed"]) == len(found["level"])
        if states:
            running = found["sides"][0]["self_samples_by_state"]
            assert [sum(each) for each in zip(*running.values(), strict=True)] == list(sides[0][0])


def test_a_condition_on_the_new_name_is_about_the_old_one_too() -> None:
    store = renamed("old (app/views.py:60)", "new (app/views.py:62)")
    (one,) = compared(store, conditions=(parse_condition("function:new>+15%"),))["verdict"]["conditions"]
    assert one["state"] == "pass"
    (one,) = compared(
        renamed("old (app/views.py:60)", "new (app/views.py:62)", times=1.5),
        conditions=(parse_condition("function:new>+15%"),),
    )["verdict"]["conditions"]
    assert one["state"] == "regressed"


@pytest.mark.parametrize("now", ["new (app/other.py:62)", "new (app/views.py:400)"])
def test_another_function_is_new_and_the_old_one_gone(now: str) -> None:
    luck = random.Random(5)
    after = [*renaming("2", "kept (app/views.py:62)", luck)]
    store = stored([*renaming("1", "old (app/views.py:60)", luck), *_other(after, now)])
    rows = origins(compared(store))
    assert rows["old"][1:] == (None, "removed")
    assert rows["new"][1:] == (None, "new")


def _other(windows: list[Window], now: str) -> Iterator[Window]:
    """The same windows, where what was rendered is something else with other callees."""
    for one in windows:
        counts = {
            stack.replace("kept (app/views.py:62)", now).replace(
                "escape (html.py:9)", "send (net.py:3)"
            ): count
            for stack, count in one.counts.items()
        }
        yield type(one)(
            **{**{name: getattr(one, name) for name in one.__dataclass_fields__}, "counts": counts}
        )


def test_with_lines_the_table_still_knows_renames() -> None:
    found = compared(renamed("old (app/views.py:60)", "new (app/views.py:62)"), lines=True, min_effect=0.1)
    assert origins(found)["new"] == ("app/views.py", "old", "unchanged")


LOOP = "main (a.py:1);run_forever (asyncio/base_events.py:600);_run_once (asyncio/base_events.py:1900)"
CALLBACK = f"{LOOP};_run (asyncio/events.py:80)"
THREAD = "_bootstrap (threading.py:995);_worker (pool.py:9)"


def looping(
    version: str, luck: random.Random, *, blocked: float, quality: Quality = WELL
) -> Iterator[Window]:
    """A service whose callback `query` waits for its database without letting others run."""
    for pod in range(5):
        for minute in range(16):
            busy, stuck = (round(mean * luck.gauss(1, 0.03)) for mean in (1500, blocked))
            text = (
                f"{CALLBACK};serve (app.py:7);loads (json/__init__.py:3) {busy} | "
                f"{CALLBACK};query (db.py:9);recv (socket.py:5);[idle] {stuck} | "
                f"{LOOP};select (selectors.py:450);[idle] {6000 - busy - stuck} | "
                f"{THREAD};[idle] 6000"
            )
            yield window(
                text, version=version, pod=f"{version}-{pod}", at=minute * 60, seconds=60, quality=quality
            )


def of_loop(store: ObjectStore, kind: ProfileType) -> Verdict:
    sides = [question(f'{{version="{one}"}}') for one in ("1", "2")]
    return asked(
        store,
        lambda reading: query_verdict(
            reading, sides, kind, stack_filter=NO_FILTER, options=ComparisonOptions(), max_nodes=50_000
        ),
    )["verdict"]


@pytest.mark.parametrize("kind", [ProfileType.WALL, ProfileType.CPU])
def test_a_callback_that_blocks_holds_the_loop_and_takes_no_cpu(kind: ProfileType) -> None:
    luck = random.Random(3)
    store = stored([*looping("1", luck, blocked=600), *looping("2", luck, blocked=1800)])
    found = of_loop(store, kind)["loop"]
    assert found is not None
    assert found["busy"]["baseline"] == pytest.approx(0.35, abs=0.02)
    assert found["busy"]["comparison"] == pytest.approx(0.55, abs=0.02)
    assert found["busy"]["direction"] == "increased"
    holders = {one["function"]: one for one in found["blockers"]}
    assert holders["query"]["comparison"] == pytest.approx(0.3, abs=0.02)
    assert holders["query"]["effect"]["direction"] == "increased"
    assert holders["serve"]["effect"]["direction"] in ("unchanged", "inconclusive")
    assert holders.keys() == {"query", "serve"}


def test_where_waiting_is_not_seen_nothing_is_said_of_loops() -> None:
    luck = random.Random(3)
    blind = replace(WELL, missing_states=("idle",))
    sides = [*looping("1", luck, blocked=600), *looping("2", luck, blocked=600, quality=blind)]
    assert of_loop(stored(sides), ProfileType.CPU)["loop"] is None


def test_without_an_event_loop_there_is_none_to_tell_of() -> None:
    windows = [
        window(
            "main (a.py:1);work (a.py:2) 100 | main (a.py:1);[idle] 9", version=one, pod=f"{one}-{pod}", at=at
        )
        for one in ("1", "2")
        for pod in range(2)
        for at in range(0, 600, 60)
    ]
    assert of_loop(stored(windows), ProfileType.WALL)["loop"] is None
