"""The flame graph answer: one side or two, in columns, pruned for drawing only."""

from collections.abc import Sequence
from typing import TypedDict

from sidelight.collector.query.basis import Basis, SideNumbers, basis, side
from sidelight.collector.query.drawing import drawn
from sidelight.collector.query.frames import weigh
from sidelight.collector.query.picking import ALL, Pick, narrowed, picked
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.scan import sums
from sidelight.collector.query.windows import Question, choose_all
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.frames import unescape


class FlameSide(SideNumbers):
    """One side's numbers, and for each node what ended exactly there."""

    self_samples: Sequence[int]
    self_us: Sequence[int]


class Pruned(TypedDict):
    """How many nodes were folded into `(other)`, and the limit they were folded for."""

    nodes: int
    limit: int | None


class Flame(TypedDict):
    """A call tree in pre-order (see sidelight.stacks.tree), frames unescaped for reading."""

    type: str
    lines: bool
    names: list[str]
    level: Sequence[int]
    name: Sequence[int]
    sides: list[FlameSide]
    pruned: Pruned
    basis: Basis


def flame(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    lines: bool,
    nodes: int | None,
    most: int,
    pick: Pick = ALL,
) -> Flame:
    """The call tree of these sides, the lightest nodes beyond `nodes` (None: beyond `most`) as `(other)`."""
    chosen = choose_all(reading, sides)
    limit = min(nodes or most, most)
    weighed = [picked(reading, windows, weigh(sums(reading, windows), kind), pick) for windows in chosen]
    tree = drawn(reading, list(zip(chosen, weighed, strict=True)), lines=lines, most=limit)
    reading.deadline.remaining()
    return {
        "type": kind.value,
        "lines": lines,
        "names": list(map(unescape, tree.names)),
        "level": tree.level,
        "name": tree.name,
        "sides": [
            {
                **narrowed(side(question, windows, kind), weights, pick),
                "self_samples": samples,
                "self_us": microseconds,
            }
            for question, windows, weights, samples, microseconds in zip(
                sides, chosen, weighed, tree.samples, tree.microseconds, strict=True
            )
        ],
        "pruned": {"nodes": tree.dropped, "limit": limit if nodes or tree.whole > most else None},
        "basis": basis(chosen, kind, reading.unreadable),
    }
