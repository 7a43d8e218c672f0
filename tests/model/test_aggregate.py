from __future__ import annotations

import json
from textwrap import dedent

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.aggregate import find_largest_gap, rank_functions
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.export_formats.speedscope import write_speedscope
from sidelight_model.frames import OTHER
from sidelight_model.profile import Profile
from sidelight_model.tree import Tree, compute_totals, find_parents, prune_tree
from tests.model.reference_profiles import build_profile_tree, count_depths, render_outline
from tests.model.strategies import FEWER, PERIOD_NS, deep, profile, profiles

kinds = st.sampled_from(ProfileType)


@FEWER
@given(profiles, kinds, st.booleans())
def test_a_tree_holds_exactly_its_profile(one: Profile, kind: ProfileType, lines: bool) -> None:
    grown = build_profile_tree(one, kind=kind, lines=lines)
    check(grown)
    assert compute_totals(grown, 0)[0] == sum(grown.self_samples[0]) == one.total().for_type(kind)
    assert compute_totals(grown, 0, "ns")[0] == one.total_ns().for_type(kind)


@FEWER
@given(profiles, profiles, kinds)
def test_a_comparison_is_both_trees_on_one_set_of_call_paths(
    a: Profile, b: Profile, kind: ProfileType
) -> None:
    both = build_profile_tree(a, b, kind=kind)
    check(both)
    assert without_zeros(both, 0) == without_zeros(build_profile_tree(a, kind=kind), 0)
    assert without_zeros(both, 1) == without_zeros(build_profile_tree(b, kind=kind), 0)


def test_a_comparison_shows_both_sides_of_every_call_path() -> None:
    before = profile("main;handle;query 6 | main;handle;render 2")
    after = profile("main;handle;query 2 | main;handle;cache 1")
    assert render_outline(build_profile_tree(before, after)) == dedent("""\
        total  8/0  3/0
          main  8/0  3/0
            handle  8/0  3/0
              cache  0/0  1/1
              query  6/6  2/2
              render  2/2  0/0""")


def test_lines_are_folded_away_unless_asked_for() -> None:
    two_lines = profile("main (a.py:1);work (a.py:7) 2 | main (a.py:1);work (a.py:8) 3")
    assert (
        render_outline(build_profile_tree(two_lines))
        == "total  5/0\n  main (a.py)  5/0\n    work (a.py)  5/5"
    )
    assert "work (a.py:8)  3/3" in render_outline(build_profile_tree(two_lines, lines=True))


@FEWER
@given(profiles, profiles, st.integers(1, 12))
def test_pruning_keeps_every_total_and_shows_what_it_folded(a: Profile, b: Profile, nodes: int) -> None:
    whole = build_profile_tree(a, b)
    pruned, dropped = prune_tree(whole, nodes)
    check(pruned)
    kept = [node for node in range(len(pruned)) if pruned.names[pruned.name_index[node]] != OTHER]
    assert len(kept) == len(whole) - dropped == min(nodes, len(whole))
    paths = path_totals(whole)
    for path, total in path_totals(pruned).items():
        if OTHER not in path:
            assert paths[path] == total


def test_pruning_keeps_what_is_heavy_on_either_side() -> None:
    pruned, dropped = prune_tree(
        build_profile_tree(profile("a 98 | b 1 | c 1"), profile("a 1 | b 1 | c 98")), 3
    )
    assert (
        render_outline(pruned) == "total  100/0  100/0\n  a  98/98  1/1\n  (other)  1/1  1/1\n  c  1/1  98/98"
    )
    assert dropped == 1


@FEWER
@given(profiles, kinds)
def test_depths_count_every_sample_once(one: Profile, kind: ProfileType) -> None:
    found = count_depths(one.rows(kind))
    assert found.total == one.total().for_type(kind)
    if found.total:
        everyone = sorted(d for d, n in found.samples.items() for _ in range(n))
        assert found.mean == pytest.approx(sum(everyone) / len(everyone))
        assert (found.quantile(0.5), found.quantile(1), found.max) == (
            everyone[(len(everyone) - 1) // 2],
            everyone[-1],
            everyone[-1],
        )


def test_the_largest_gap_is_where_the_distributions_differ_most() -> None:
    shallow, deeper = (
        count_depths(profile("a 8 | a;b 2").rows(ProfileType.CPU)),
        count_depths(profile("a;b 5 | a;b;c 5").rows(ProfileType.CPU)),
    )
    assert find_largest_gap(shallow, deeper) == (1, 0.8)
    assert find_largest_gap(deeper, shallow) == (1, -0.8)
    assert find_largest_gap(shallow, count_depths([])) is None


@FEWER
@given(profiles, kinds)
def test_a_function_counts_once_per_stack(one: Profile, kind: ProfileType) -> None:
    costs = rank_functions([one.rows(kind)])
    total = one.total().for_type(kind)
    assert sum(cost.self_samples for (cost,) in costs.values()) == total
    for (cost,) in costs.values():
        assert 0 <= cost.self_samples <= cost.total_samples <= total


def test_recursion_does_not_inflate_a_total() -> None:
    costs = rank_functions([profile("main;fib;fib;fib 5 | main;fib 2").rows(ProfileType.CPU)])
    assert costs["fib"][0].total_samples == 7
    assert costs["main"][0].self_samples == 0
    assert costs["main"][0].total_ns == 7 * PERIOD_NS


def test_nothing_recurses() -> None:
    abyss = Profile({deep(20_000): Counts(running=1), deep(20_000, "other leaf"): Counts(idle=2)}, {})
    abyss, double = (
        Profile(
            {stack: count.times(factor) for stack, count in abyss.samples.items()},
            {stack: count.times(factor * 10) for stack, count in abyss.samples.items()},
        )
        for factor in (1, 2)
    )
    grown = build_profile_tree(abyss, double)
    assert max(grown.level) == 20_000
    assert compute_totals(grown, 1)[0] == 6
    pruned, dropped = prune_tree(grown, 10)
    assert compute_totals(pruned, 0)[0] == 3
    assert dropped == len(grown) - 10
    assert count_depths(abyss.rows(ProfileType.WALL)).samples == {20_000: 3}
    assert rank_functions([abyss.rows(ProfileType.WALL)])["recurse"][0].total_samples == 3
    assert (
        len(
            json.loads(write_speedscope(abyss.rows(ProfileType.WALL), "abyss", "test"))["profiles"][0][
                "samples"
            ]
        )
        == 2
    )
    assert render_outline(grown).count("\n") == 20_001


SAMPLED = {
    "type": "object",
    "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
    "properties": {
        "type": {"const": "sampled"},
        "unit": {"enum": ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]},
        "samples": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "weights": {"type": "array", "items": {"type": "number"}},
    },
}


@FEWER
@given(profiles, kinds)
def test_speedscope_shows_the_whole_profile(one: Profile, kind: ProfileType) -> None:
    document = json.loads(write_speedscope(one.rows(kind), "shop", "sidelight"))
    (written,) = document["profiles"]
    jsonschema.validate(written, SAMPLED)
    assert written["endValue"] == sum(written["weights"]) == one.total_ns().for_type(kind)
    names = len(document["shared"]["frames"])
    assert all(0 <= code < names for sample in written["samples"] for code in sample)


def test_speedscope_names_functions_files_and_lines_unescaped() -> None:
    document = json.loads(
        write_speedscope(profile("f (a%3Bb.py:7);[native] 1").rows(ProfileType.CPU), "x", "y")
    )
    assert document["shared"]["frames"] == [{"name": "f", "file": "a;b.py", "line": 7}, {"name": "[native]"}]


def check(grown: Tree) -> None:
    """What is true of every tree: pre-order, one root, unique children, columns of one length."""
    assert grown.level[0] == 0
    assert all(level >= 1 for level in grown.level[1:])
    assert all(b <= a + 1 for a, b in zip(grown.level, grown.level[1:], strict=False))
    above = find_parents(grown)
    children = {(above[node], grown.name_index[node]) for node in range(1, len(grown))}
    assert len(children) == len(grown) - 1
    for column in (*grown.self_samples, *grown.self_ns, grown.name_index):
        assert len(column) == len(grown)


def path_totals(grown: Tree) -> dict[tuple[str, ...], tuple[int, ...]]:
    columns = [compute_totals(grown, side) for side in range(grown.side_count)]
    columns += [compute_totals(grown, side, "ns") for side in range(grown.side_count)]
    found: dict[tuple[str, ...], tuple[int, ...]] = {}
    path: list[str] = []
    for node, level in enumerate(grown.level):
        path[level:] = [grown.names[grown.name_index[node]]]
        found[tuple(path)] = tuple(column[node] for column in columns)
    return found


def without_zeros(grown: Tree, side: int) -> dict[tuple[str, ...], int]:
    found, path = {}, []
    for node, level in enumerate(grown.level):
        path[level:] = [grown.names[grown.name_index[node]]]
        if own := grown.self_samples[side][node]:
            found[tuple(path)] = own
    return found
