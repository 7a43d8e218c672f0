"""Where a change starts: call trees drawn as text, with an answer that a person knows, and laws."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.change import Direction
from sidelight_model.culprits.changed_tree import ChangedTree, FunctionTest
from sidelight_model.culprits.culprit_search import MAX_FOLDED, MAX_ROWS, Culprit, Culprits, find_culprits
from sidelight_model.tree import find_parents_and_ends

NOISE = 1.0
"""In these trees a change of at least this size is outside noise."""


@dataclass(frozen=True)
class DrawnTree:
    """A tree in pre-order with the own time of each node on both sides."""

    names: list[str]
    level: list[int]
    a: list[float]
    b: list[float]

    def find(self, *, whole: bool = False, min_delta: float = 0.0, with_node_flags: bool = True) -> Culprits:
        delta = np.array(self.b) - np.array(self.a)
        ends = find_parents_and_ends(self.level)[1]
        totals = np.array([delta[at:end].sum() for at, end in enumerate(ends)])
        flags = (with_node_flags & (np.abs(totals) >= NOISE)).astype(np.int64)
        tree = ChangedTree(self.names, self.level, range(len(ends)), delta.tolist(), flags.tolist())
        return find_culprits(
            tree, self.test_functions(), whole=float(delta.sum()) if whole else None, min_delta=min_delta
        )

    def list_path(self, node: int) -> list[str]:
        """List the frames from below the root to a node."""
        path = [node]
        for at in range(node - 1, 0, -1):
            if self.level[at] < self.level[path[-1]]:
                path.append(at)
        return [self.names[at] for at in reversed(path)]

    def test_functions(self) -> dict[str, FunctionTest]:
        """Test functions as a comparison does: each stack counts once."""
        ways = {name: ([0.0, 0.0], [0.0, 0.0]) for name in self.names[1:]}
        path: list[str] = []
        for name, level, *sides in zip(self.names, self.level, self.a, self.b, strict=True):
            del path[level:]
            path.append(name)
            for side, seconds in enumerate(sides):
                for caller in set(path[1:]):
                    ways[caller][1][side] += seconds
                if level:
                    ways[name][0][side] += seconds
        return {
            name: FunctionTest(judge(own), judge(total), 0.001, 0.002) for name, (own, total) in ways.items()
        }


def judge(sides: Sequence[float]) -> Direction:
    a, b = sides
    if abs(b - a) < NOISE:
        return Direction.UNCHANGED
    if not a or not b:
        return Direction.REMOVED if a else Direction.NEW
    return Direction.INCREASED if b > a else Direction.DECREASED


def draw(text: str) -> DrawnTree:
    """Draw a tree: indented frames, each with its own time in A and B, such as `f (app.py) 10→20`."""
    tree = DrawnTree(["total"], [0], [0.0], [0.0])
    for line in text.strip("\n").splitlines():
        found = re.fullmatch(r"( *)(.+?)(?: (\S+)→(\S+))?", line)
        assert found
        tree.names.append(found[2])
        tree.level.append(1 + len(found[1]) // 2)
        tree.a.append(float(found[3] or 5))
        tree.b.append(float(found[4] or 5))
    return tree


def describe(found: Culprits) -> list[str]:
    return [f"{' > '.join([row.frame, *row.folded])} {row.direction} {row.delta:+g}" for row in found.rows]


def test_a_library_that_got_slower_counts_for_the_own_function_above_it() -> None:
    found = draw("""
serve (uvicorn/server.py)
  main (shop/app.py)
    handle (shop/views.py)
      lookup_promotions (shop/cart.py)
        deepcopy (copy.py)
          _deepcopy_dict (copy.py) 10→50
    render (shop/views.py)
""").find(whole=True)
    assert describe(found) == ["lookup_promotions (shop/cart.py) > deepcopy > _deepcopy_dict increased +40"]
    (row,) = found.rows
    assert row.path == [
        *("serve (uvicorn/server.py)", "main (shop/app.py)", "handle (shop/views.py)"),
        "lookup_promotions (shop/cart.py)",
    ]
    assert (row.share, found.share, row.q, row.is_self) == (1.0, 1.0, 0.001, False)


def test_an_own_function_that_got_slower_is_the_row_and_its_callers_are_not() -> None:
    found = draw("""
main (app.py)
  handle (app.py)
    parse (app.py) 10→30
""").find()
    assert describe(found) == ["parse (app.py) increased +20"]
    assert found.rows[0].is_self


def test_without_own_code_on_the_path_the_changed_frame_is_the_row() -> None:
    found = draw("""
run (asyncio/runners.py)
  (truncated)
    collect (gc.so) 10→30
""").find()
    assert describe(found) == ["collect (gc.so) increased +20"]


def test_a_function_reached_by_two_paths_is_one_row_named_by_the_heavier() -> None:
    found = draw("""
login (app.py)
  check (auth.py)
    sha256 (hashlib.py) 10→14
checkout (app.py)
  check (auth.py)
    hexdigest (hashlib.py) 10→18
""").find()
    assert describe(found) == ["check (auth.py) > hexdigest increased +12"]
    assert found.rows[0].path == ["checkout (app.py)", "check (auth.py)"]


def test_lines_do_not_make_two_rows_of_a_function() -> None:
    drawn = draw("""
f (app.py:3) 5→9
f (app.py:4) 5→8
""")
    tree = ChangedTree(drawn.names, drawn.level, range(3), [0, 4.0, 3.0], [1, 1, 1])
    found = find_culprits(tree, {"f (app.py)": FunctionTest(Direction.INCREASED, Direction.INCREASED)})
    assert describe(found) == ["f (app.py) increased +7"]


def test_a_recursive_function_counts_once_per_stack() -> None:
    found = draw("""
walk (app.py) 5→6
  walk (app.py) 5→7
    walk (app.py) 5→8
      dumps (json/encoder.py) 5→15
""").find(whole=True)
    assert describe(found) == ["walk (app.py) > dumps increased +16"]
    assert (found.share, found.rows[0].path) == (1.0, ["walk (app.py)"] * 3)


def test_opposite_changes_are_rows_of_their_own_largest_first() -> None:
    found = draw("""
main (app.py)
  encode (app.py) 5→25
  decode (app.py) 45→5
""").find(whole=True)
    assert describe(found) == ["decode (app.py) decreased -40", "encode (app.py) increased +20"]
    assert [row.share for row in found.rows] == [1.0, 1.0]
    assert found.share == 1.0


def test_opposite_changes_below_one_function_that_did_not_change_are_both_rows() -> None:
    found = draw("""
handle (app.py)
  dumps (json/encoder.py) 5→45
  match (re/matcher.so) 45→5
""").find()
    assert describe(found) == [
        "handle (app.py) > match decreased -40",
        "handle (app.py) > dumps increased +40",
    ]


def test_new_code_is_one_row_of_its_outermost_function() -> None:
    found = draw("""
handle (app.py)
  audit (audit.py) 0→2
    format_entry (audit.py) 0→3
      dumps (json/encoder.py) 0→9
    write (audit.py) 0→4
  query (db.py)
""").find()
    assert describe(found) == ["audit (audit.py) > format_entry > dumps new +18"]


def test_removed_code_is_one_row_of_its_outermost_function() -> None:
    found = draw("""
handle (app.py)
  audit (audit.py) 2→0
    write (audit.py) 9→0
""").find()
    assert describe(found) == ["audit (audit.py) > write removed -11"]


def test_a_new_frame_around_code_that_did_not_change_is_no_row() -> None:
    found = draw("""
serve (app.py)
  handle (app.py) 9→0
    query (db.py) 50→0
  middleware (app.py) 0→2
    handle (app.py) 0→9
      query (db.py) 0→50
""").find()
    assert describe(found) == ["middleware (app.py) new +2"]


def test_library_calls_moved_into_a_new_function_are_no_row() -> None:
    found = draw("""
handle (app.py)
  dumps (json/encoder.py) 50→0
  to_json (app.py) 0→0.2
    dumps (json/encoder.py) 0→50
""").find()
    assert describe(found) == []


def test_the_only_caller_of_a_library_is_the_row_even_if_its_total_did_not_change() -> None:
    found = draw("""
handle (app.py)
  render (jinja2/runtime.py) 20→15
    loop (jinja2/runtime.py) 0→5
""").find()
    assert describe(found) == [
        "handle (app.py) > render decreased -5",
        "handle (app.py) > render > loop increased +5",
    ]


def test_a_library_that_moved_and_grew_counts_for_itself() -> None:
    found = draw("""
handle (app.py)
  dumps (json/encoder.py) 50→0
  to_json (app.py) 0→0.2
    dumps (json/encoder.py) 0→55
""").find()
    assert describe(found) == ["dumps (json/encoder.py) increased +5"]
    assert found.rows[0].path[-2:] == ["to_json (app.py)", "dumps (json/encoder.py)"]


def test_a_function_that_grew_in_many_small_parts_is_a_row() -> None:
    parts = "\n".join(f"    part{at} (app.py) 5→5.25" for at in range(12))
    found = draw(f"""
main (app.py)
  render (app.py)
{parts}
  rest (app.py)
""").find(whole=True)
    assert describe(found) == ["render (app.py) increased +3"]
    assert found.rows[0].q == 0.002


def test_a_function_that_calls_unchanged_helpers_more_often_is_a_row() -> None:
    found = draw("""
often (app.py)
  save (app.py)
    emit (logging/__init__.py) 5→6.5
seldom (app.py)
  save (app.py)
    emit (logging/__init__.py) 5→4.7
never (app.py)
  save (app.py)
    emit (logging/__init__.py) 5→4.7
""").find()
    assert describe(found) == ["often (app.py) increased +1.5"]


def test_a_library_function_called_from_everywhere_counts_for_itself() -> None:
    callers = "\n".join(f"f{at} (app.py)\n  dumps (json/encoder.py) 5→5.5" for at in range(4))
    found = draw(callers).find()
    assert describe(found) == ["dumps (json/encoder.py) increased +2"]


@pytest.mark.parametrize(
    ("last", "row"),
    [(5 + 1.99, "dumps (json/encoder.py) increased +3.99"), (5 + 2, "log (app.py) > dumps increased +2")],
)
def test_one_caller_that_stands_out_is_the_row_if_it_accounts_for_half(last: float, row: str) -> None:
    callers = "\n".join(f"f{at} (app.py)\n  dumps (json/encoder.py) 5→5.5" for at in range(4))
    found = draw(f"{callers}\nlog (app.py)\n  dumps (json/encoder.py) 5→{last}").find()
    assert describe(found) == [row]


def test_an_own_helper_called_from_everywhere_has_its_library_folded() -> None:
    callers = "\n".join(
        f"f{at} (app.py)\n  save (app.py)\n    dumps (json/encoder.py) 5→5.5" for at in range(4)
    )
    assert describe(draw(callers).find()) == ["save (app.py) > dumps increased +2"]


def test_nothing_significant_gives_no_rows_and_no_share() -> None:
    assert draw("main (app.py) 5→5.5").find(whole=True) == Culprits(None, ())
    assert draw("").find(whole=True) == Culprits(None, ())


def test_changes_below_the_smallest_relevant_size_are_no_rows_at_its_edge() -> None:
    drawn = draw("""
f (app.py) 5→15
g (app.py) 5→7
""")
    assert describe(drawn.find(min_delta=2.0)) == ["f (app.py) increased +10", "g (app.py) increased +2"]
    found = drawn.find(min_delta=2.01)
    assert describe(found) == ["f (app.py) increased +10"]
    assert found.share == found.rows[0].share == pytest.approx(10 / 12)


def test_equal_changes_are_in_the_order_of_their_frames_and_limited_per_direction() -> None:
    found = draw(
        "\n".join(f"{'gh'[at % 2]}{at:02} (app.py) 5→{5 + 2 * (-1) ** at}" for at in range(24))
    ).find()
    up = [f"g{at:02} (app.py) increased +2" for at in range(0, 24, 2)]
    down = [f"h{at:02} (app.py) decreased -2" for at in range(1, 24, 2)]
    assert describe(found) == up[:MAX_ROWS] + down[:MAX_ROWS]
    assert found.share == pytest.approx(2 * MAX_ROWS / 24)


def test_of_many_folded_frames_the_outermost_and_the_changed_one_are_named() -> None:
    found = draw("""
f (app.py)
  get (requests/api.py)
    request (requests/api.py)
      send (requests/sessions.py)
        send (requests/adapters.py)
          read (ssl.py) 5→15
""").find()
    assert found.rows[0].folded == ["get", "request", "read"]
    assert len(found.rows[0].folded) == MAX_FOLDED


@pytest.mark.parametrize("frame", ["f (app.py)", "deepcopy (copy.py)"])
def test_a_stack_of_20000_frames_is_attributed(frame: str) -> None:
    count = 20_000
    tree = ChangedTree(
        ["total", "main (app.py)", frame],
        range(count + 2),
        [0, 1] + [2] * count,
        [0.0, 0.0] + [1.0] * count,
        [1] * (count + 2),
    )
    found = find_culprits(tree, {frame: FunctionTest(Direction.INCREASED, Direction.INCREASED)})
    assert [row.delta for row in found.rows] == [count]


FRAMES = [
    *("f (app.py)", "g (app.py)", "h (app.py)", "dumps (json/encoder.py)", "get (django/views.py)"),
    "(truncated)",
]


@st.composite
def drawn_trees(draw_value: st.DrawFn) -> DrawnTree:
    size = draw_value(st.integers(1, 12))
    levels = [0]
    for _ in range(size):
        levels.append(draw_value(st.integers(1, levels[-1] + 1)))
    times = st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 8.0, 40.0]), min_size=size, max_size=size)
    names = draw_value(st.lists(st.sampled_from(FRAMES), min_size=size, max_size=size))
    return DrawnTree(["total", *names], levels, [0.0, *draw_value(times)], [0.0, *draw_value(times)])


def sum_by_direction(rows: Sequence[Culprit]) -> dict[bool, float]:
    sums: dict[bool, float] = defaultdict(float)
    for row in rows:
        sums[row.delta > 0] += row.share
    return sums


@given(drawn_trees())
def test_shares_add_up_to_one_at_most_and_no_time_counts_twice(drawn: DrawnTree) -> None:
    found = drawn.find(whole=True)
    assert all(share <= 1 + 1e-9 for share in sum_by_direction(found.rows).values())
    assert found.share is None or 0 <= found.share <= 1
    nodes = [node for row in found.rows for node in row.nodes]
    assert len(nodes) == len(set(nodes))
    delta = np.array(drawn.b) - np.array(drawn.a)
    for row in found.rows:
        assert row.delta == pytest.approx(delta[list(row.nodes)].sum())
        assert row.delta


@given(drawn_trees())
def test_a_row_has_no_time_of_own_functions_that_it_calls(drawn: DrawnTree) -> None:
    """Each node's nearest frame of the application is the row's, except in new code."""
    tests = drawn.test_functions()
    for row in drawn.find(with_node_flags=False).rows:
        if tests[row.frame].total_direction in (Direction.NEW, Direction.REMOVED):
            continue
        for node in row.nodes:
            callers = drawn.list_path(node)
            own = [name for name in callers if name.endswith("(app.py)")]
            assert row.frame == (own[-1] if row.frame.endswith("(app.py)") else callers[-1])


@given(drawn_trees())
def test_with_the_sides_swapped_each_row_has_the_opposite_change(drawn: DrawnTree) -> None:
    swapped = DrawnTree(drawn.names, drawn.level, drawn.b, drawn.a)
    assert {(row.frame, -row.delta) for row in swapped.find().rows} == {
        (row.frame, row.delta) for row in drawn.find().rows
    }
