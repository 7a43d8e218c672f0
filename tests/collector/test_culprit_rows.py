"""Where a change starts, through the API: a function twice as slow below a library that others use too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.comparison.culprit_rows import flag_one_sided_nodes
from sidelight_collector.query.call_tree import CallTree
from sidelight_model.culprits.changed_tree import NODE_CHANGED
from sidelight_model.window import Window
from tests.collector.api_client import get, serving
from tests.collector.stored_windows import stored, window

HANDLE = "main (shop/app.py:1);run (uvicorn/main.py:2);handle (shop/views.py:4)"
CALLS = {
    "lookup_promotions (shop/cart.py:7);deepcopy (copy.py:119);_deepcopy_dict (copy.py:201)": (200, 400),
    "render (shop/pages.py:7);deepcopy (copy.py:119);_deepcopy_dict (copy.py:201)": (150, 150),
    "audit (shop/audit.py:3);dumps (json/__init__.py:9)": (0, 60),
    **{f"query{at} (shop/db.py:{at + 5})": (40, 40) for at in range(12)},
}


def serve_requests(version: int, *, rare: str = "", start: float = 0) -> Iterator[Window]:
    """Sixteen windows of each of four pods, whose counts scatter as samples do."""
    luck = random.Random(version)
    for pod in range(4):
        for at in range(16):
            counts = {calls: counts[version - 1] for calls, counts in CALLS.items()}
            stacks = [
                f"{HANDLE};{calls} {max(1, round(luck.gauss(count, count**0.5)))}"
                for calls, count in counts.items()
                if count
            ]
            stacks += [f"{HANDLE};{rare} 1"] if rare and pod == at == 0 else []
            yield window(
                " | ".join(stacks),
                at=start + at * 30,
                seconds=30,
                version=str(version),
                pod=f"{version}-{pod}",
            )


async def compare(
    *, baseline: int = 1, comparison: int = 2, path: str = "verdict", start: float = 0, **query: str
) -> Any:
    rare = "audit (shop/audit.py:3);flush (shop/audit.py:9)"
    store = stored([*serve_requests(1), *serve_requests(2, rare=rare, start=start)])
    sides = {"baseline": f'version="{baseline}"', "comparison": f'version="{comparison}"'}
    async with serving(store) as client:
        return await get(client, path, **sides, **query)


async def test_the_own_function_that_calls_the_slower_library_is_named_with_its_part() -> None:
    found = (await compare())["verdict"]
    lookup, audit = found["culprits"]["rows"]
    assert (lookup["function"], lookup["file"], lookup["folded"]) == (
        *("lookup_promotions", "shop/cart.py"),
        ["deepcopy", "_deepcopy_dict"],
    )
    assert lookup["names"] == [
        *("main (shop/app.py)", "run (uvicorn/main.py)", "handle (shop/views.py)"),
        "lookup_promotions (shop/cart.py)",
    ]
    assert (lookup["direction"], lookup["self_or_total"]) == ("increased", "total")
    # 200 samples of 10 ms more in 30 seconds of each pod, twice what the function took.
    assert lookup["low"] < 200 * 0.01 / 30 < lookup["high"]
    assert lookup["low"] < lookup["delta"] < lookup["high"]
    assert lookup["relative"] == pytest.approx(1, abs=0.05)
    assert (lookup["pods_agreeing"], lookup["pods_total"]) == (4, 4)
    assert lookup["q"] < 0.05
    assert (audit["function"], audit["direction"], audit["relative"]) == ("audit", "new", None)
    assert lookup["share"] + audit["share"] == pytest.approx(1)
    assert found["culprits"]["share"] == pytest.approx(1, abs=0.1)


async def test_a_saving_is_found_at_the_same_place_with_the_opposite_sign() -> None:
    rows = (await compare(baseline=2, comparison=1))["verdict"]["culprits"]["rows"]
    assert [(row["function"], row["direction"], row["delta"] < 0) for row in rows] == [
        ("lookup_promotions", "decreased", True),
        ("audit", "removed", True),
    ]


async def test_between_two_periods_the_changed_share_of_the_profile_is_named() -> None:
    found = (await compare(start=600))["verdict"]
    assert (found["basis"], found["direction"]) == ("composition", "not_judged")
    lookup = found["culprits"]["rows"][0]
    assert (lookup["function"], lookup["folded"]) == ("lookup_promotions", ["deepcopy", "_deepcopy_dict"])
    # 200 of 830 samples, and 400 of 1,090 later.
    assert lookup["delta"] == pytest.approx(400 / 1090 - 200 / 830, abs=0.01)
    assert lookup["low"] < lookup["delta"] < lookup["high"]


async def test_lines_do_not_hide_where_a_change_starts() -> None:
    found = (await compare(path="compare", lines="1"))["verdict"]
    assert [row["function"] for row in found["culprits"]["rows"]] == ["lookup_promotions", "audit"]
    assert found["culprits"]["rows"][0]["names"][-1] == "lookup_promotions (shop/cart.py:7)"


async def test_sides_that_are_equal_have_no_culprits() -> None:
    found = (await compare(comparison=1))["verdict"]
    assert found["culprits"] == {"share": None, "rows": []}


async def test_what_a_new_call_runs_is_new_even_with_one_sample() -> None:
    found = await compare(path="compare")
    flagged = {
        found["names"][name]
        for name, flag in zip(found["name"], found["changed"], strict=True)
        if flag == NODE_CHANGED
    }
    assert "flush (shop/audit.py)" in flagged
    assert "query0 (shop/db.py)" not in flagged


def build_tree(level: list[int], a: list[int], b: list[int]) -> CallTree:
    names = [f"f{at}" for at in range(len(level))]
    levels, sides = np.array(level, np.int64), [np.array(side, np.int64) for side in (a, b)]
    return CallTree(names, levels, np.arange(len(level)), sides, sides, np.array([], np.int64), len(level), 0)


@pytest.mark.parametrize(
    ("a", "b", "flags", "flagged"),
    [
        ([0, 0, 0, 0], [0, 9, 1, 1], [0, 1, 0, 0], [0, 1, 1, 1]),
        ([0, 9, 1, 1], [0, 0, 0, 0], [0, 1, 2, 0], [0, 1, 1, 1]),
        ([0, 9, 0, 0], [0, 9, 1, 1], [0, 1, 0, 0], [0, 1, 0, 0]),
        ([0, 0, 0, 1], [0, 9, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0]),
        ([0, 0, 0, 0], [0, 9, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]),
        ([0, 0, 0, 0], [0, 9, 0, 0], [0, 1, 2, 0], [0, 1, 2, 0]),
    ],
    ids=["new", "removed", "on both sides", "from one side to the other", "not changed", "on neither side"],
)
def test_only_nodes_of_the_changed_side_inherit_its_flag(
    a: list[int], b: list[int], flags: list[int], flagged: list[int]
) -> None:
    assert flag_one_sided_nodes(build_tree([0, 1, 2, 3], a, b), np.array(flags)).tolist() == flagged


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=9)
)
def test_flags_are_only_added(nodes: list[tuple[int, int, int, bool]]) -> None:
    level = [0]
    for depth, *_ in nodes:
        level.append(min(depth, level[-1] + 1))
    a, b, flags = ([0, *(int(node[at]) for node in nodes)] for at in (1, 2, 3))
    found = flag_one_sided_nodes(build_tree(level, a, b), np.array(flags)).tolist()
    assert all(after >= before for before, after in zip(flags, found, strict=True))
