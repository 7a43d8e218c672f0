"""What a comparison is built from, beside its observations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sidelight_collector.comparison.cost_tables import CostRows, FunctionCosts
from sidelight_collector.query.call_tree import CallTree, PooledStacks
from sidelight_collector.statistics.renames.function_rename import FunctionRename
from sidelight_model.counts import ProfileType


@dataclass(frozen=True, slots=True)
class ComparedStacks:
    """The stacks of both sides, with `tree` over `pooled`, and again without lines.

    `is_complete`: no stack is filtered out, so the kernel's clock measures their CPU time. `has_lines`: the
    tree distinguishes lines.
    """

    tree: CallTree
    pooled: PooledStacks
    lineless: PooledStacks
    is_complete: bool
    has_lines: bool


@dataclass(frozen=True, slots=True)
class ComparisonLoaders:
    """Functions that load what only some comparisons need.

    `load_rows` returns both sides' rows of another profile type, `pool_wall_stacks` the stacks of all
    samples in the pool without lines, and `find_renames` the functions that have two names.
    """

    load_rows: Callable[[ProfileType], Sequence[CostRows]]
    pool_wall_stacks: Callable[[], PooledStacks]
    find_renames: Callable[[FunctionCosts], Sequence[FunctionRename]]
