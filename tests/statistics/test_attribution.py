"""What explains a change: against every set of small trees, and shapes whose answer a person knows."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.statistics.attribution import (
    MAX_PATHS,
    MIN_SHARE,
    TARGET_SHARE,
    VAGUE_SHARE,
    Explanation,
    explain_change,
    explain_self_time,
)
from sidelight_model.tree import Tree as Stacks
from sidelight_model.tree import find_parents


class Case(NamedTuple):
    """A tree in pre-order and the change of each node's own time."""

    names: list[str]
    level: list[int]
    own: list[float]
    mask: list[bool]

    @property
    def above(self) -> list[int]:
        return find_parents(Stacks(self.names, self.level, range(len(self.level)), [], []))

    @property
    def delta(self) -> list[float]:
        total, above = list(self.own), self.above
        for node in range(len(total) - 1, 0, -1):
            total[above[node]] += total[node]
        return total

    def explained(self, *, changed: bool = True, limit: int = MAX_PATHS) -> Explanation:
        return explain_change(
            self.names,
            self.level,
            range(len(self.level)),
            self.delta,
            self.mask,
            is_changed=changed,
            limit=limit,
        )


def drawn(text: str) -> Case:
    """A tree from an outline: indented names, each with the change of its own time; a `?` is within noise."""
    names, level, own, mask = ["total"], [0], [0.0], [True]
    for line in text.strip("\n").splitlines():
        word, _, rest = line.strip().partition(" ")
        names.append(word)
        level.append(1 + (len(line) - len(line.lstrip())) // 2)
        own.append(float(rest.strip().removesuffix("?") or 0))
        mask.append(not rest.endswith("?"))
    return Case(names, level, own, mask)


def told(found: Explanation) -> list[str]:
    return [f"{';'.join(path.names)} {path.share:+.0%}" for path in found.paths]


def test_the_most_specific_path_is_told_and_not_main() -> None:
    found = drawn("""
main 0
  handle 0
    query 0.2
      parse 10
    render 0.3
""").explained()
    assert told(found) == ["main;handle;query;parse +95%"]


def test_a_change_that_branches_is_told_by_its_branches() -> None:
    found = drawn("""
main 0
  search 0
    score 5
  cart 0
    price 4
  login 1
""").explained()
    assert told(found) == ["main;search;score +50%", "main;cart;price +40%"]


@pytest.mark.parametrize(
    ("rest", "words"),
    [(2.5, ["run;render +48%", "run;query +32%"]), (2.6, ["run +100%"])],
)
def test_a_trunk_gives_way_to_branches_that_account_for_what_is_asked_for(
    rest: float, words: list[str]
) -> None:
    """Four fifths of the whole, where all of it runs below one frame and a part everywhere."""
    found = drawn(f"""
run {rest}
  render 6
  query 4
""").explained()
    assert told(found) == words


def test_a_function_grown_in_many_small_parts_is_told_itself() -> None:
    parts = "\n".join(f"    part{at} 0.25" for at in range(12))
    found = drawn(f"""
main 0
  render 0
{parts}
  other 7
""").explained()
    assert told(found) == ["main;other +70%", "main;render +30%"]


def test_a_path_within_noise_is_never_told() -> None:
    found = drawn("""
main 0
  handle 1
    query 9 ?
""").explained()
    assert told(found) == ["main;handle +100%"]


def test_what_went_the_other_way_is_allowed_for_and_said() -> None:
    found = drawn("""
main 0
  encode 10
  decode 10
  cache -10
""").explained()
    assert told(found) == ["main;encode +100%", "main;decode +100%", "main;cache -100%"]
    assert found.share == pytest.approx(1.0)


def test_a_small_saving_beside_a_large_growth_is_not_worth_a_line() -> None:
    found = drawn("""
encode 10
cache -1
""").explained()
    assert told(found) == ["encode +111%"]


def test_a_saving_is_explained_as_a_growth_is() -> None:
    found = drawn("""
main 0
  handle -9
  log -1
""").explained()
    assert told(found) == ["main;handle +90%"]
    assert found.paths[0].delta == -9


def test_where_the_whole_did_not_change_what_moved_is_told_both_ways() -> None:
    found = drawn("""
old -10
new 10
""").explained(changed=False)
    assert told(found) == ["new +50%", "old -50%"]
    assert found.share is None


def test_more_paths_than_the_limit_are_not_told_and_the_share_says_so() -> None:
    found = drawn("\n".join(f"job{at} 1" for at in range(20))).explained()
    assert len(found.paths) == MAX_PATHS
    assert found.share == pytest.approx(0.5)


def test_without_a_change_there_is_nothing_to_explain() -> None:
    assert drawn("main 0").explained() == Explanation(None, ())
    assert explain_change([], [], [], [], []) == Explanation(None, ())


def test_a_stack_of_20000_frames_is_explained() -> None:
    levels = list(range(20_001))
    found = explain_change(["total", "f"], levels, [0] + [1] * 20_000, [1.0] * 20_001, [True] * 20_001)
    assert [len(path.names) for path in found.paths] == [20_000]


def test_own_time_is_told_by_the_fewest_functions() -> None:
    found = explain_self_time([1, 5, 0.1, 4], [True, True, True, True], 10.1)
    assert [(one.index, one.delta) for one in found] == [(1, pytest.approx(5)), (3, pytest.approx(4))]


def test_own_time_that_went_the_other_way_is_told_with_a_negative_share() -> None:
    found = explain_self_time([20, -10], [True, True], 10)
    assert [(one.index, one.share) for one in found] == [(0, 2.0), (1, -1.0)]


def test_own_time_within_noise_is_not_told() -> None:
    assert explain_self_time([9, 1], [False, True], 10) == explain_self_time([0, 1], [True, True], 10)
    assert explain_self_time([1], [True], 0) == ()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.integers(1, 8))
    level = [0]
    for _ in range(size):
        level.append(draw(st.integers(1, level[-1] + 1)))
    own = draw(st.lists(st.sampled_from([0, 0, 1, 2, 4, 8, 20, -1, -4, -8]), min_size=size, max_size=size))
    mask = draw(st.lists(st.sampled_from([True, True, True, False]), min_size=size, max_size=size))
    names = ["total", *(f"f{at}" for at in range(size))]
    return Case(names, level, [0.0, *map(float, own)], [True, *mask])


class Sets:
    """Every set of paths of a small tree, one direction."""

    def __init__(self, case: Case, sign: float, least: float, whole: float, limit: int) -> None:
        self.gain = [value * sign for value in case.delta]
        self.above = case.above
        self.limit, self.whole = limit, whole
        nodes = range(1, len(case.level))
        self.allowed = [
            node for node in nodes if case.mask[node] and self.gain[node] > 0 and self.gain[node] >= least
        ]
        # Deepest first: whether a node is vague depends on those inside it alone.
        self.sayable: list[int] = []
        for node in sorted(self.allowed, key=lambda node: -case.level[node]):
            if not self.vague(node):
                self.sayable.append(node)

    def inside(self, node: int, other: int) -> bool:
        while node:
            node = self.above[node]
            if node == other:
                return True
        return False

    def of(self, nodes: list[int], count: int) -> list[tuple[int, ...]]:
        return [
            chosen
            for size in range(min(count, len(nodes)) + 1)
            for chosen in combinations(nodes, size)
            if not any(self.inside(a, b) or self.inside(b, a) for a, b in combinations(chosen, 2))
        ]

    def total(self, chosen: tuple[int, ...]) -> float:
        return sum(self.gain[node] for node in chosen)

    def vague(self, node: int) -> bool:
        below = [one for one in self.sayable if self.inside(one, node)]
        few = max(1, int(self.limit * self.gain[node] / self.whole)) if self.whole else 0
        enough = min(VAGUE_SHARE * self.gain[node], TARGET_SHARE * self.whole)
        return any(self.total(one) >= enough for one in self.of(below, few))

    def most(self) -> float:
        return max(map(self.total, self.of(self.allowed, len(self.allowed))))

    def best(self, target: float) -> tuple[int, float]:
        """The fewest paths that gain the target (or the most that is to be had), and the most they gain."""
        sets = self.of(self.sayable, self.limit)
        goal = min(target, max(map(self.total, sets)))
        fewest = min(len(one) for one in sets if self.total(one) >= goal)
        return fewest, max(self.total(one) for one in sets if len(one) == fewest)


@given(cases(), st.sampled_from([2, 4, 10]))
def test_no_smaller_set_accounts_for_as_much(case: Case, limit: int) -> None:
    whole = case.delta[0]
    if not whole:
        return
    sign = 1.0 if whole > 0 else -1.0
    found = case.explained(limit=limit)
    target = abs(whole) + Sets(case, -sign, 0.0, 0.0, 1).most()
    sets = Sets(case, sign, MIN_SHARE * abs(whole), target, limit)
    chosen = tuple(path.node for path in found.paths if path.share > 0)
    assert chosen in [tuple(sorted(one, key=chosen.index)) for one in sets.of(list(chosen), len(chosen))]
    assert set(chosen) <= set(sets.sayable)
    assert (len(chosen), sets.total(chosen)) == sets.best(TARGET_SHARE * target)


@given(cases())
def test_paths_that_are_told_never_contain_each_other(case: Case) -> None:
    for changed in (True, False):
        nodes = [path.node for path in case.explained(changed=changed).paths]
        sets = Sets(case, 1.0, 0.0, 0.0, 1)
        assert not any(sets.inside(a, b) for a in nodes for b in nodes)
        assert all(case.mask[node] and node for node in nodes)


@given(cases(), st.sampled_from([0.001, 3.0, 1e9]))
def test_the_unit_and_the_direction_of_time_do_not_matter(case: Case, scale: float) -> None:
    plain = case.explained()
    scaled = case._replace(own=[value * scale for value in case.own]).explained()
    turned = case._replace(own=[-value for value in case.own]).explained()
    assert [path.node for path in plain.paths] == [path.node for path in scaled.paths]
    assert [path.node for path in plain.paths] == [path.node for path in turned.paths]
    assert np.allclose([path.share for path in plain.paths], [path.share for path in scaled.paths])


@given(cases())
def test_the_share_is_the_sum_of_what_is_told(case: Case) -> None:
    found = case.explained()
    if found.share is not None:
        assert found.share == pytest.approx(sum(path.delta for path in found.paths) / case.delta[0])
