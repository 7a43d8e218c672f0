"""The trees that the pages make of stacks: the same here, by brute force and by the collector's own sums."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidelight_model.tree import ROOT_NAME, build_tree_from_rows
from tests.model import lenses
from tests.model.reference_profiles import render_outline

PROFILES: list[dict[str, Any]] = json.loads(lenses.GOLDEN.read_text())


def test_the_shared_trees_are_what_brute_force_makes_of_their_stacks() -> None:
    assert lenses.GOLDEN.read_text() == lenses.golden(), "python -m tests.model.lenses writes them"


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile["profile"])
def test_every_shared_tree_adds_up(profile: dict[str, Any]) -> None:
    whole = [sum(column) for column in zip(*(samples for _, samples in profile["stacks"]), strict=True)]
    for way in profile["ways"]:
        for tree in [way[part] for part in ("tree", "callers", "callees") if part in way]:
            own = [sum(column) for column in zip(*(node[2] for node in tree), strict=True)]
            assert tree[0][:2] == [0, ROOT_NAME]
            assert tree[0][3] == own
            if "sandwich" not in way:
                left = way.get("left", [0] * len(whole))
                assert [a + b for a, b in zip(own, left, strict=True)] == whole


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile["profile"])
def test_both_ends_of_a_sandwich_have_the_total_that_the_collector_gives_the_function(
    profile: dict[str, Any],
) -> None:
    [listed] = [way["functions"] for way in profile["ways"] if "functions" in way]
    total = {name: totals for name, _, totals in listed}
    for way in profile["ways"]:
        if "sandwich" not in way:
            continue
        for part in ("callers", "callees"):
            tops = [node[3] for node in way[part] if node[0] == 1]
            assert tops == [total[way["sandwich"]]]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile["profile"])
def test_turning_stacks_round_twice_is_the_collectors_tree(profile: dict[str, Any]) -> None:
    sides = len(profile["stacks"][0][1])
    stacks = [(tuple(stack), samples) for stack, samples in profile["stacks"]]
    [turned] = [way["tree"] for way in profile["ways"] if "invert" in way]
    path: list[str] = []
    back = []
    for level, name, own, _ in turned:
        path[level:] = [name]
        if any(own) and level:
            back.append((tuple(path[:0:-1]), own))
    made = build_tree_from_rows(lenses.sides_of(back, sides))
    assert render_outline(made) == render_outline(build_tree_from_rows(lenses.sides_of(stacks, sides)))
