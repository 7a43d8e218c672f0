"""Call trees as text: whole, below a function, and above it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sidelight_mcp.text_tree import CallNode, build_callers, build_tree, render_tree
from sidelight_model.tree import build_tree_from_rows

Stacks = Mapping[tuple[str, ...], int]

SHOP: Stacks = {
    ("main (a.py)", "load (a.py)", "parse (j.py)"): 60,
    ("main (a.py)", "save (a.py)", "parse (j.py)", "scan (j.py)"): 30,
    ("main (a.py)",): 10,
}


def answer(stacks: Stacks) -> dict[str, Any]:
    """The columns of `/api/v1/flamegraph` for stacks with their seconds."""
    tree = build_tree_from_rows([[(frames, 1, seconds * 10**9) for frames, seconds in stacks.items()]])
    own = [ns // 1000 for ns in tree.self_ns[0]]
    return {
        "names": list(tree.names),
        "level": list(tree.level),
        "name": list(tree.name_index),
        "sides": [{"self_us": own}],
    }


def lines(tree: CallNode, whole: float = 100, **options: Any) -> list[str]:
    given = {"min_share": 0.0, "max_depth": 50, **options}
    return [re.sub(r" {2,}", "  ", line).strip() for line in render_tree(tree, whole, **given)]


def test_a_frame_joins_the_line_of_a_caller_that_does_nothing_else() -> None:
    assert lines(build_tree(answer(SHOP))) == [
        "total  self  frame",
        "100.0 %  10.0 %  main (a.py)",
        "60.0 %  60.0 %  load (a.py) > parse (j.py)",
        "30.0 %  30.0 %  save (a.py) > parse (j.py) > scan (j.py)",
    ]


def test_below_a_function_calls_from_all_places_are_added_up() -> None:
    tree = build_tree(answer(SHOP), "parse")
    assert (tree.name, tree.total_seconds, tree.self_seconds) == ("parse (j.py)", 90, 60)
    assert lines(tree) == ["total  self  frame", "30.0 %  30.0 %  scan (j.py)"]


def test_callers_of_a_function_lead_to_the_root() -> None:
    assert lines(build_callers(answer(SHOP), "parse (j.py)"), with_self=False) == [
        "total  frame",
        "60.0 %  load (a.py) > main (a.py)",
        "30.0 %  save (a.py) > main (a.py)",
    ]


def test_a_function_that_no_stack_has_is_an_empty_tree() -> None:
    assert build_tree(answer(SHOP), "missing").total_seconds == 0


def test_what_is_below_the_depth_is_said() -> None:
    assert lines(build_tree(answer(SHOP)), max_depth=1)[-1] == "90.0 %  below depth 1, not shown"


def test_a_stack_of_thousands_of_frames_is_one_line() -> None:
    deep = tuple(f"f{at} (deep.py)" for at in range(5000))
    (_, line) = lines(build_tree(answer({deep: 1})), whole=1)
    assert line.endswith("f2 (deep.py) > 4995 frames > f4998 (deep.py) > f4999 (deep.py)")


def test_control_characters_of_names_are_escaped() -> None:
    (_, line) = lines(build_tree(answer({("evil\x1b[2J (a.py)",): 1})), whole=1)
    assert "\x1b" not in line


frames = st.sampled_from(["a (m.py)", "b (m.py)", "c (n.py)", "a (n.py)"])
stacks = st.dictionaries(
    st.lists(frames, min_size=1, max_size=6).map(tuple), st.integers(1, 1000), min_size=1, max_size=12
)


@given(stacks, frames)
def test_a_function_has_the_same_time_seen_from_above_and_from_below(given: Stacks, function: str) -> None:
    expected = sum(seconds for stack, seconds in given.items() if function in stack)
    below, above = build_tree(answer(given), function), build_callers(answer(given), function)
    assert below.total_seconds == above.total_seconds == expected
    roots = Counter[str]()
    for stack, seconds in given.items():
        if function in stack:
            roots[_root_above(stack, function)] += seconds
    assert _sum_leaves(above) == +roots


def _root_above(stack: Sequence[str], function: str) -> str:
    return stack[0] if stack[0] != function else ""


def _sum_leaves(node: CallNode) -> Counter[str]:
    """Own time by the last frame of a path of callers; empty for calls by nobody."""
    found: Counter[str] = Counter()
    pending = [(node, "")]
    while pending:
        at, name = pending.pop()
        found[name] += round(at.self_seconds)
        pending += [(callee, callee.name) for callee in at.callees.values()]
    return +found
