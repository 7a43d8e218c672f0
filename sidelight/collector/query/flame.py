"""The flame graph answer: one side or two, in columns, pruned for drawing only."""

from collections.abc import Sequence
from typing import TypedDict

from sidelight.collector.query.basis import Basis, SideNumbers, basis, side
from sidelight.collector.query.frames import rows, weigh
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.scan import sums
from sidelight.collector.query.windows import Question, choose_all
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.frames import unescape
from sidelight.stacks.tree import build, prune


class FlameSide(SideNumbers):
    """One side's numbers, and for each node what ended exactly there."""

    self_samples: list[int]
    self_us: list[int]


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
) -> Flame:
    """The call tree of these sides, the lightest nodes beyond `nodes` (None: beyond `most`) as `(other)`."""
    chosen = choose_all(reading, sides)
    tree = build([rows(reading, one, weigh(sums(reading, one), kind), lines=lines) for one in chosen])
    limit = min(nodes or most, most)
    whole = len(tree)
    tree, dropped = prune(tree, limit)
    reading.deadline.remaining()
    # Names are numbered as nodes use them: equal trees give equal answers, and pruned names are left out.
    codes = {code: number for number, code in enumerate(dict.fromkeys(tree.name))}
    return {
        "type": kind.value,
        "lines": lines,
        "names": [unescape(tree.names[code]) for code in codes],
        "level": tree.level,
        "name": [codes[code] for code in tree.name],
        "sides": [
            {
                **side(question, windows, kind),
                "self_samples": list(samples),
                "self_us": _microseconds(ns),
            }
            for question, windows, samples, ns in zip(
                sides, chosen, tree.self_samples, tree.self_ns, strict=True
            )
        ],
        "pruned": {"nodes": dropped, "limit": limit if nodes or whole > most else None},
        "basis": basis(chosen, kind, reading.unreadable),
    }


def _microseconds(column: Sequence[int]) -> list[int]:
    return [round(ns / 1000) for ns in column]
