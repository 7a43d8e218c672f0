"""What a comparison says, from the rows of the store: sides are cut into cells, and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import pyarrow as pa

from sidelight_collector.arrow_ops import (
    F64,
    same,
)
from sidelight_collector.comparison.builder import Judgement
from sidelight_collector.comparison.cost_tables import Functions, Rows
from sidelight_collector.comparison.matrix import (
    Cut,
    Cuts,
    choose_apart,
    counted,
    cut,
)
from sidelight_collector.comparison.model import Verdict
from sidelight_collector.comparison.rename_matching import renamed
from sidelight_collector.comparison.request import Wanted, served
from sidelight_collector.query.call_tree import Drawn, Pooled, painted, pooled_stacks, repainted
from sidelight_collector.query.data_basis import Basis, SideNumbers, basis, side
from sidelight_collector.query.engine.stack_text import Weights, weigh
from sidelight_collector.query.engines.prometheus import (
    RequestsUnknown,
)
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.request_counts import (
    Blocks,
)
from sidelight_collector.query.stack_filter import Pick, narrowed, picked
from sidelight_collector.query.windows import (
    Question,
    Windows,
)
from sidelight_collector.statistics.renames import Rename
from sidelight_model.counts import ProfileType


class VerdictAnswer(TypedDict):
    """A verdict alone, and what it stands on."""

    type: str
    sides: list[SideNumbers]
    verdict: Verdict
    basis: Basis


@dataclass(frozen=True, slots=True)
class Compared:
    """Both sides of a comparison: what was asked, their windows, cut, and the samples of each cell."""

    sides: Sequence[Question]
    cuts: Cuts
    samples: Sequence[pa.Table]

    @property
    def chosen(self) -> list[Windows]:
        return [self.cuts.a.windows, self.cuts.b.windows]


def compared(reading: Reading, sides: Sequence[Question], wanted: Wanted) -> Compared:
    """Both sides, with what they took by cell and stack."""
    cuts = cut(sides, choose_apart(reading, sides, wanted.most_rows))
    return Compared(sides, cuts, [counted(reading, own) for own in (cuts.a, cuts.b)])


def verdict(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    pick: Pick,
    wanted: Wanted,
    most: int,
) -> VerdictAnswer:
    """The verdict on two sides, of whose tree the `most` heaviest nodes are looked at."""
    both = compared(reading, sides, wanted)
    pairs = list(zip(both.chosen, _of_type(reading, both, kind, pick), strict=True))
    tree, pooled = painted(reading, pairs, lines=False, most=most)
    found, _, _ = judge(reading, both, pairs, tree, pooled, kind, pick, wanted)
    return {
        "type": kind.value,
        "sides": [
            narrowed(side(question, windows, kind), weights, pick)
            for question, (windows, weights) in zip(sides, pairs, strict=True)
        ],
        "verdict": found,
        "basis": basis(both.chosen, kind, reading.unreadable),
    }


def judge(
    reading: Reading,
    both: Compared,
    pairs: Sequence[tuple[Windows, Weights]],
    tree: Drawn,
    pooled: Pooled,
    kind: ProfileType,
    pick: Pick,
    wanted: Wanted,
    *,
    lines: bool = False,
) -> tuple[Verdict, list[int], Sequence[Rename]]:
    """The verdict, for each node whether it changed, and the renames after which the tree has these nodes.

    With `lines` the tree tells them apart.
    """
    cuts = (both.cuts.a, both.cuts.b)
    stacks = pooled_stacks(reading, pairs) if lines else pooled

    def taken(of_kind: ProfileType) -> list[Rows]:
        """What both sides took of a type; of which of these stacks does not matter."""
        return [
            Rows.of((same(0, pa.int32(), len(weights.h)), weights), own)
            for own, weights in zip(cuts, _of_type(reading, both, of_kind, pick), strict=True)
        ]

    def waiting() -> tuple[Drawn, list[Rows]]:
        """The tree of all samples, waiting ones included, and the rows that it was drawn from."""
        if kind is ProfileType.WALL and not lines:
            return tree, [Rows.of(numbers, own) for numbers, own in zip(pooled.sides, cuts, strict=True)]
        columns = list(zip(both.chosen, _of_type(reading, both, ProfileType.WALL, pick), strict=True))
        drawn_, own_pool = repainted(reading, columns, stacks, most=wanted.most_tested)
        return drawn_, [Rows.of(numbers, own) for numbers, own in zip(own_pool.sides, cuts, strict=True)]

    def renames(functions: Functions) -> list[Rename]:
        watched = both.cuts.a.side.whole, both.cuts.b.side.whole
        return renamed(reading, pairs, tree, functions, watched)

    requests, judged = _requests(reading, both.cuts, wanted)
    judgement = Judgement(
        both.cuts,
        tree,
        pooled,
        stacks,
        kind,
        judged,
        taken,
        waiting,
        renames,
        all_stacks=pick.all,
        lines=lines,
        requests=requests,
    )
    reading.deadline.remaining()
    return judgement.verdict(), judgement.changed(), judgement.renamed


def _requests(reading: Reading, cuts: Cuts, wanted: Wanted) -> tuple[tuple[F64, F64] | None, Wanted]:
    """Requests of each cell of both sides, as given or as Prometheus tells; else why there are none."""
    if wanted.requests is not None:
        given_a, given_b = wanted.requests
        return (served(cuts.a, given_a), served(cuts.b, given_b)), wanted
    told = reading.request_counts
    if told is None or wanted.trouble or not (cuts.a.side.whole and cuts.b.side.whole):
        return None, wanted
    try:
        a = told.requests("A", _blocks(cuts.a), reading.deadline.remaining())
        b = told.requests("B", _blocks(cuts.b), reading.deadline.remaining())
    except RequestsUnknown as unknown:
        reading.passing = True
        return None, replace(wanted, trouble=str(unknown))
    return (a, b), wanted


def _blocks(own: Cut) -> Blocks:
    """The blocks of time of a side, of which requests are asked."""
    return Blocks(own.start_ns, own.side.seconds, own.alive, own.windows.watched, own.side.pods)


def _of_type(reading: Reading, both: Compared, kind: ProfileType, pick: Pick) -> list[Weights]:
    """What each side took of a type, of the stacks that are looked at."""
    return [
        picked(reading, windows, weigh(table, kind), pick)
        for windows, table in zip(both.chosen, both.samples, strict=True)
    ]
