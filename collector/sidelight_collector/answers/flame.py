"""The flame graph answer: one side or two, in columns, pruned for drawing only."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NotRequired, TypedDict

import pyarrow as pa

from sidelight_collector.comparison.answer import compared, judge
from sidelight_collector.comparison.model import Verdict
from sidelight_collector.comparison.rename_matching import relabelled
from sidelight_collector.comparison.request import Wanted
from sidelight_collector.query.call_tree import Drawn, Pooled, painted
from sidelight_collector.query.data_basis import Basis, SideNumbers, basis, side
from sidelight_collector.query.engine.stack_text import STATES_OF, Weights, weigh
from sidelight_collector.query.engine.window_sums import sums
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.window_query import (
    choose_all,
)
from sidelight_collector.query.stack_filter import ALL, Pick, narrowed, picked
from sidelight_collector.query.windows import (
    Question,
    Windows,
)
from sidelight_collector.storage.tables import STATES
from sidelight_model.counts import ProfileType
from sidelight_model.frames import unescape


class SelfColumns(TypedDict):
    """For each node what ended exactly there, and by state if that was asked for."""

    self_samples: Sequence[int]
    self_us: Sequence[int]
    self_samples_by_state: NotRequired[dict[str, Sequence[int]]]
    self_us_by_state: NotRequired[dict[str, Sequence[int]]]


class FlameSide(SideNumbers, SelfColumns):
    """One side's numbers and columns."""


class Pruned(TypedDict):
    """How many nodes were folded into `(other)`, and the limit they were folded for."""

    nodes: int
    limit: int | None


class Flame(TypedDict):
    """A call tree in pre-order (see sidelight_model.tree), frames unescaped for reading.

    With a verdict, `changed` has a 1 for each node that is outside noise.
    """

    type: str
    lines: bool
    names: list[str]
    level: Sequence[int]
    name: Sequence[int]
    sides: list[FlameSide]
    pruned: Pruned
    basis: Basis
    changed: NotRequired[list[int]]
    verdict: NotRequired[Verdict]


def flame(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    lines: bool,
    nodes: int | None,
    most: int,
    states: bool = False,
    pick: Pick = ALL,
    wanted: Wanted | None = None,
) -> Flame:
    """The call tree of these sides, the lightest nodes beyond `nodes` (None: beyond `most`) as `(other)`.

    With `states` each state is drawn as a side of its own, so that a node heavy in one of them is kept. A
    verdict is `wanted` of two sides only.
    """
    both = None if wanted is None else compared(reading, sides, wanted)
    chosen = both.chosen if both else choose_all(reading, sides)
    limit = min(nodes or most, most)
    added = both.samples if both else [sums(reading, windows) for windows in chosen]
    weighed = [
        _weighed(reading, windows, table, kind, pick, states=states)
        for windows, table in zip(chosen, added, strict=True)
    ]
    columns = [(windows, each) for windows, own in zip(chosen, weighed, strict=True) for each in own]
    tree, pooled = painted(reading, columns, lines=lines, most=limit)
    reading.deadline.remaining()
    found = None
    if both and wanted:
        at = (0, len(weighed[0]))
        own = Pooled(pooled.canvas, [pooled.sides[each] for each in at])
        alone = replace(
            tree,
            samples=[tree.samples[each] for each in at],
            microseconds=[tree.microseconds[each] for each in at],
        )
        pairs = [columns[each] for each in at]
        found = judge(reading, both, pairs, alone, own, kind, pick, wanted, lines=lines)
        tree = relabelled(tree, found[2])
    answer = _answer(reading, sides, chosen, weighed, tree, kind, lines=lines, states=states, pick=pick)
    answer["pruned"]["limit"] = limit if nodes or tree.whole > most else None
    if found:
        answer["verdict"], answer["changed"], _ = found
    return answer


def _answer(
    reading: Reading,
    sides: Sequence[Question],
    chosen: Sequence[Windows],
    weighed: Sequence[Sequence[Weights]],
    tree: Drawn,
    kind: ProfileType,
    *,
    lines: bool,
    states: bool,
    pick: Pick,
) -> Flame:
    return {
        "type": kind.value,
        "lines": lines,
        "names": list(map(unescape, tree.names)),
        "level": tree.level,
        "name": tree.name,
        "sides": [
            {
                **narrowed(side(question, windows, kind), weights[0], pick),
                **_columns(tree, at * len(weights), kind, states=states),
            }
            for at, (question, windows, weights) in enumerate(zip(sides, chosen, weighed, strict=True))
        ],
        "pruned": {"nodes": tree.dropped, "limit": None},
        "basis": basis(chosen, kind, reading.unreadable),
    }


def _weighed(
    reading: Reading, windows: Windows, added: pa.Table, kind: ProfileType, pick: Pick, *, states: bool
) -> list[Weights]:
    """The side itself, then each state of its type if these are wanted."""
    weights = [weigh(added, kind)]
    if states:
        weights += [weigh(added, kind, (state,)) for state in STATES_OF[kind]]
    return [picked(reading, windows, each, pick) for each in weights]


def _columns(tree: Drawn, first: int, kind: ProfileType, *, states: bool) -> SelfColumns:
    columns: SelfColumns = {"self_samples": tree.samples[first], "self_us": tree.microseconds[first]}
    if states:
        at = {state: first + 1 + place for place, state in enumerate(STATES_OF[kind])}
        none = [0] * len(tree.level)
        columns["self_samples_by_state"] = {
            state: tree.samples[at[state]] if state in at else none for state in STATES
        }
        columns["self_us_by_state"] = {
            state: tree.microseconds[at[state]] if state in at else none for state in STATES
        }
    return columns
