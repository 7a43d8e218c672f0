"""The functions where a change starts, as rows of a verdict with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidelight_collector.arrow_ops import F64, I64
from sidelight_collector.comparison.cost_tables import CostRows, CostTable
from sidelight_collector.comparison.effects import EffectFamily, compute_table_effects
from sidelight_collector.comparison.model import CulpritsJson, to_effect_json
from sidelight_collector.query.call_tree import CallTree
from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.effect_size import count_agreeing_rows
from sidelight_collector.statistics.preorder import compute_parents_and_ends
from sidelight_collector.times import SECOND_NS
from sidelight_model.culprits.changed_tree import NODE_CHANGED, ChangedTree, FunctionTest
from sidelight_model.culprits.culprit_row import CulpritJson, build_culprit_row
from sidelight_model.culprits.culprit_search import Culprit, find_culprits
from sidelight_model.frames import unescape_frame


@dataclass(frozen=True, slots=True)
class FunctionEffects:
    """The effects of functions' self and total time.

    `names` are escaped frames without lines.
    """

    names: Sequence[str]
    self_effects: EffectFamily
    total_effects: EffectFamily

    def list_tests(self) -> dict[str, FunctionTest]:
        """List the tests of functions that changed, by frame."""
        own, total = self.self_effects, self.total_effects
        changed = np.flatnonzero(own.is_changed | total.is_changed).tolist()
        return {
            unescape_frame(self.names[at]): FunctionTest(
                own.effects.direction[at], total.effects.direction[at], float(own.q[at]), float(total.q[at])
            )
            for at in changed
        }

    def list_baselines(self) -> dict[str, float]:
        """List the total time in the baseline by frame."""
        names = map(unescape_frame, self.names)
        return dict(zip(names, self.total_effects.effects.baseline.tolist(), strict=True))


class CulpritSearch:
    """The call tree of both sides with its costs, and the effects of functions.

    `rows` are the costs of the stacks whose nodes `tree` names.
    """

    def __init__(
        self,
        design: Design,
        tree: CallTree,
        rows: tuple[CostRows, CostRows],
        functions: FunctionEffects,
        *,
        are_shares: bool,
    ) -> None:
        self._design, self._tree, self._rows, self._functions = design, tree, rows, functions
        self._are_shares = are_shares
        self._stack_nodes = tree.stack_nodes

    def find(self, changed_nodes: I64, whole: float | None) -> CulpritsJson:
        """Find the functions where a change starts.

        `changed_nodes` are outside noise. `whole` is the change of the total, or None if it did not change.
        """
        tests = self._functions.list_tests()
        if not tests:
            return {"share": None, "rows": []}
        rates = [self._sum_by_node(side) for side in range(2)]
        found = find_culprits(
            ChangedTree(
                list(map(unescape_frame, self._tree.names)),
                self._tree.level.tolist(),
                self._tree.name.tolist(),
                (rates[1] - rates[0]).tolist(),
                _set_flags(len(self._tree.level), changed_nodes).tolist(),
            ),
            tests,
            whole=whole,
            min_delta=self._design.min_relevant,
        )
        return {"share": found.share, "rows": self._to_json(found.rows)}

    def _sum_by_node(self, side: int) -> F64:
        """Return the rate of each node's own time."""
        rows, exposure = self._rows[side], (self._design.a, self._design.b)[side].total_exposure
        ns = np.bincount(self._stack_nodes[rows.stack_ids], rows.ns, len(self._tree.level))
        rate: F64 = ns / SECOND_NS / (exposure or 1.0)
        return rate

    def _to_json(self, culprits: Sequence[Culprit]) -> list[CulpritJson]:
        if not culprits:
            return []
        row_ids = np.full(len(self._tree.level), len(culprits), np.int64)
        for at, culprit in enumerate(culprits):
            row_ids[culprit.nodes] = at
        group_ids, count = row_ids[self._stack_nodes], len(culprits) + 1
        a, b = (rows.sum_seconds_by_group(group_ids, count)[:-1] for rows in self._rows)
        samples = (rows.sum_by_group(group_ids, count)[:-1].sum((1, 2)) for rows in self._rows)
        effects = compute_table_effects(
            self._design,
            CostTable(a, b, *samples),
            are_shares=self._are_shares,
            prior=self._functions.self_effects.effects.prior,
        )
        agreeing, row_count = count_agreeing_rows(effects, self._design, b)
        baselines = self._functions.list_baselines()
        rows: list[CulpritJson] = []
        for at, culprit in enumerate(culprits):
            effect = to_effect_json(effects, at)
            rows.append(
                build_culprit_row(
                    culprit,
                    baselines.get(culprit.frame, effect["baseline"]),
                    delta=effect["delta"],
                    interval=(effect["low"], effect["high"]),
                    pods=(int(agreeing[at]), row_count),
                )
            )
        return rows


def flag_one_sided_nodes(tree: CallTree, flags: I64) -> I64:
    """Flag all nodes of one side below a changed node of this side as changed.

    What a new call runs is new as well, even where it has too few samples for a test of its own.
    """
    _, ends = compute_parents_and_ends(tree.level)
    sums = (np.concatenate([[0.0], np.cumsum(side.astype(float))]) for side in tree.samples[:2])
    in_a, in_b = (side[ends] > side[:-1] for side in sums)
    flagged = np.flatnonzero((flags == NODE_CHANGED) & (in_a != in_b))
    flagged = flagged[flagged > 0]
    # A subtree is the run of nodes up to its end. All nodes below one of a single side are of that side.
    starts, stops = (np.bincount(edges, minlength=len(flags) + 1) for edges in (flagged, ends[flagged]))
    is_inside = np.cumsum(starts - stops)[:-1] > 0
    return np.where(is_inside & (in_a != in_b), NODE_CHANGED, flags)


def _set_flags(count: int, changed_nodes: I64) -> I64:
    flags = np.zeros(count, np.int64)
    flags[changed_nodes] = NODE_CHANGED
    return flags
