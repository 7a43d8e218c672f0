"""Renamed functions in real stores: one function in the table, one node in the tree, judged as one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from sidelight.collector.query.flame import Flame, flame
from sidelight.collector.query.sides import Wanted
from sidelight.collector.store.objects import ObjectStore
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.tree import Tree, outline
from sidelight.stacks.window import Window
from sidelight.verdicts.conditions import parse
from tests.collector.storing import asked, question, stored, window

CPU = ProfileType.CPU


def shop(version: str, render: str, luck: random.Random, *, times: float = 1.0) -> Iterator[Window]:
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


def two(was: str, now: str, *, times: float = 1.0) -> ObjectStore:
    luck = random.Random(5)
    return stored([*shop("1", was, luck), *shop("2", now, luck, times=times)])


def compared(store: ObjectStore, *, lines: bool = False, states: bool = False, **wanted: Any) -> Flame:
    sides = [question(f'{{version="{one}"}}') for one in ("1", "2")]
    return asked(
        store,
        lambda reading: flame(
            reading,
            sides,
            CPU,
            lines=lines,
            nodes=None,
            most=50_000,
            states=states,
            wanted=Wanted(**wanted),
        ),
    )


def told(found: Flame) -> dict[str, tuple[str, str | None, str]]:
    """Of each function its file, what it was, and the direction of its own time."""
    of = found["verdict"]["functions"]
    rows = zip(of["file"], of["renamed_from"], of["self"]["direction"], strict=True)
    return dict(zip(of["function"], rows, strict=True))


def test_a_renamed_function_is_no_change_under_its_new_name() -> None:
    found = compared(two("old (app/views.py:60)", "new (app/views.py:62)"), detect=0.1)
    assert told(found)["new"] == ("app/views.py", "old", "same")
    assert "old" not in told(found)
    assert {direction for _, _, direction in told(found).values()} <= {"same", "unclear"}
    assert found["verdict"]["functions_in_all"] == len(told(found))


def test_a_renamed_function_that_got_slower_is_found_as_such() -> None:
    found = compared(two("old (app/views.py:60)", "new (app/views.py:62)", times=1.5))
    assert told(found)["new"] == ("app/views.py", "old", "more")
    assert told(found)["parse"][2] in ("same", "unclear")
    (path,) = found["verdict"]["explanation"]["paths"]
    assert path["names"][-1] == "new (app/views.py)"


def test_a_function_that_moved_to_another_file_says_where_it_was() -> None:
    found = compared(two("render (app/views.py:60)", "render (app/pages.py:10)"), detect=0.1)
    assert told(found)["render"] == ("app/pages.py", "render (app/views.py)", "same")


def test_the_tree_has_one_node_for_both_names_with_what_is_below_it() -> None:
    store = two("zeta (app/views.py:60)", "alpha (app/views.py:62)")
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
        rows = [line.split("  ") for line in outline(tree).splitlines()]
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
    store = two("old (app/views.py:60)", "new (app/views.py:62)")
    (one,) = compared(store, conditions=(parse("function:new>+15%"),))["verdict"]["conditions"]
    assert one["state"] == "fine"
    (one,) = compared(
        two("old (app/views.py:60)", "new (app/views.py:62)", times=1.5),
        conditions=(parse("function:new>+15%"),),
    )["verdict"]["conditions"]
    assert one["state"] == "regressed"


@pytest.mark.parametrize("now", ["new (app/other.py:62)", "new (app/views.py:400)"])
def test_another_function_is_new_and_the_old_one_gone(now: str) -> None:
    luck = random.Random(5)
    after = [*shop("2", "kept (app/views.py:62)", luck)]
    store = stored([*shop("1", "old (app/views.py:60)", luck), *_other(after, now)])
    rows = told(compared(store))
    assert rows["old"][1:] == (None, "gone")
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
    found = compared(two("old (app/views.py:60)", "new (app/views.py:62)"), lines=True, detect=0.1)
    assert told(found)["new"] == ("app/views.py", "old", "same")
