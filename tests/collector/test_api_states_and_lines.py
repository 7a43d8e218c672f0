"""What the pages ask for beyond a picture: the lines of one function, and a tree's states."""

from __future__ import annotations

import pytest

from sidelight_model.counts import STATES
from tests.collector.api_client import get, serving
from tests.collector.stored_windows import stored, window

RECURSIVE = (
    "main (a.py:1);f (b.py:3);f (b.py:5);g (c.py) 4 | main (a.py:1);f (b.py:3);[gil] 2 | "
    "main (a.py:2);f (b.py:5);f (b.py:5);[idle] 8 | main (a.py:2);f (b.py) 1 | f (z.py:3) 16 | f 32"
)


async def test_lines_count_a_stack_once_a_line_and_the_function_once_a_stack() -> None:
    async with serving(stored([window(RECURSIVE)])) as client:
        answer = await get(client, "lines", function="f", file="b.py")
        assert answer["line"] == [0, 3, 5]
        [side] = answer["sides"]
        assert side["self_samples"] == [1, 2, 8]
        assert side["total_samples"] == [1, 6, 12]
        assert side["total_us"] == [10_000, 60_000, 120_000]
        assert side["whole"] == {
            "self_samples": 11,
            "total_samples": 15,
            "self_us": 110_000,
            "total_us": 150_000,
        }
        cpu = await get(client, "lines", function="f", file="b.py", type="cpu", limit="1")
        assert (cpu["line"], cpu["lines_total"]) == ([3], 3)
        bare = await get(client, "lines", function="f")
        assert (bare["line"], bare["sides"][0]["self_samples"]) == ([0], [32])


async def test_lines_of_some_depths_leave_the_other_samples_out() -> None:
    async with serving(stored([window(RECURSIVE)])) as client:
        answer = await get(client, "lines", function="f", file="b.py", min_depth="3", max_depth="3")
        assert (answer["line"], answer["sides"][0]["total_samples"]) == ([5], [8])
        assert (answer["sides"][0]["samples"], answer["sides"][0]["whole"]["total_samples"]) == (8, 8)
        every = await get(client, "lines", function="f", file="b.py")
        assert every["sides"][0]["samples"] == 63


async def test_lines_of_two_sides_are_those_of_either() -> None:
    store = stored(
        [window("main;f (a.py:1) 3 | main;f (a.py:2) 1", version="1")],
        [window("main;f (a.py:2) 5 | main;f (a.py:9) 2", version="2")],
    )
    async with serving(store) as client:
        answer = await get(
            client, "lines", function="f", file="a.py", baseline='version="1"', comparison='version="2"'
        )
    assert answer["line"] == [1, 2, 9]
    assert [side["self_samples"] for side in answer["sides"]] == [[3, 1, 0], [0, 5, 2]]
    assert [side["whole"]["total_samples"] for side in answer["sides"]] == [4, 7]


@pytest.mark.parametrize("name", ["gone", "", "a;b", "x" * 3000, "<img>", "f (b.py:3)"])
async def test_a_function_that_nobody_has_seen_has_no_lines(name: str) -> None:
    async with serving(stored([window(RECURSIVE)])) as client:
        answer = await get(client, "lines", function=name, file="b.py")
    assert (answer["function"], answer["line"], answer["lines_total"]) == (name, [], 0)
    assert answer["sides"][0]["whole"]["total_samples"] == 0


async def test_lines_are_found_by_names_as_people_read_them() -> None:
    async with serving(stored([window("a%3Bb (x%0Ay.py:3) 2 | %5Bidle] 5")])) as client:
        odd = await get(client, "lines", function="a;b", file="x\ny.py")
        assert (odd["line"], odd["sides"][0]["self_samples"]) == ([3], [2])
        state = await get(client, "lines", function="[idle]")
        assert state["sides"][0]["self_samples"] == [5]


@pytest.mark.parametrize("path", ["flamegraph", "compare"])
@pytest.mark.parametrize("kind", ["wall", "cpu", "gil"])
@pytest.mark.parametrize("nodes", ["2", "50000"])
async def test_states_add_up_to_the_side_node_by_node(path: str, kind: str, nodes: str) -> None:
    async with serving(
        stored([window(RECURSIVE)], [window("main (a.py:1);[idle] 3", version="2")])
    ) as client:
        plain = await get(client, path, type=kind, nodes=nodes)
        answer = await get(client, path, type=kind, nodes=nodes, states="1")
    assert len(answer["level"]) == len(answer["name"])
    for side, before in zip(answer["sides"], plain["sides"], strict=True):
        assert sum(side["self_samples"]) == sum(before["self_samples"])
        for own in ("self_samples", "self_us"):
            states = side[f"{own}_by_state"]
            assert list(states) == list(STATES)
            assert [sum(node) for node in zip(*states.values(), strict=True)] == side[own]
            assert f"{own}_by_state" not in before
        if kind != "wall":
            assert not any(side["self_samples_by_state"]["idle"])
    if nodes == "50000":
        assert (answer["names"], answer["level"]) == (plain["names"], plain["level"])


async def test_each_state_is_where_it_was_sampled() -> None:
    async with serving(
        stored(
            [
                window(
                    "main;wait;[idle] 9 | main;work 6 | main;work;[gil] 4 | main;wait;[cpu_wait] 2"
                    " | main;work;[gil_wait] 3 | main;wait;[lock] 5 | main;wait;[sleep] 7"
                )
            ]
        )
    ) as client:
        answer = await get(client, "flamegraph", states="1")
    assert answer["names"] == ["total", "main", "wait", "work"]
    assert answer["sides"][0]["self_samples_by_state"] == {
        "idle": [0, 0, 9, 0],
        "running": [0, 0, 0, 6],
        "gil": [0, 0, 0, 4],
        "cpu_wait": [0, 0, 2, 0],
        "gil_wait": [0, 0, 0, 3],
        "lock": [0, 0, 5, 0],
        "poll": [0, 0, 0, 0],
        "io": [0, 0, 0, 0],
        "sleep": [0, 0, 7, 0],
        "task_running": [0, 0, 0, 0],
        "task_ready": [0, 0, 0, 0],
        "task_waiting": [0, 0, 0, 0],
    }
