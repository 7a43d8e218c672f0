"""CPU time of the statistics of a comparison of two sides of 20,000 stacks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from bench.verdicts.page import Table
from sidelight_collector.comparison.cost_tables import CostTable
from sidelight_collector.comparison.function_tests import (
    build_basis_design,
    build_function_designs,
    compare_functions,
    estimate_function_rates,
    find_changed_nodes,
)
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.depths.depth_comparison import compare_depths
from sidelight_collector.statistics.inference.design import SideMatrix
from sidelight_collector.statistics.preorder import I64
from sidelight_model.change import Direction
from sidelight_model.culprits.changed_tree import NODE_CHANGED, ChangedTree, FunctionTest
from sidelight_model.culprits.culprit_search import find_culprits

LIMIT_MS = 250.0
STACKS = 20_000
FUNCTIONS = 4_000
DEPTHS = 120
ROWS = 16


def tabulate_cost(repeats: int) -> Table:
    """Measure each part of a comparison, by its median of `repeats`."""
    rng = np.random.default_rng(1)
    observed = np.full((ROWS, ROWS), 225.0)
    side = SideMatrix(observed, tuple((f"pod-{row}",) for row in range(ROWS)), 225.0)
    rate = np.exp(rng.normal(-4, 2, STACKS))
    a, b = (rng.poisson(rate[:, None, None] * np.ones((ROWS, ROWS))).astype(float) for _ in "ab")
    whole = a.sum(0), b.sum(0)
    level = np.maximum(np.arange(STACKS) % 60, 1).astype(np.int32)
    level[0] = 0
    options, basis = ComparisonOptions(), Basis.COMPOSITION
    shares = tuple(SideMatrix(of, side.pods, side.block_seconds) for of in whole)
    base = build_basis_design(basis, (shares[0], shares[1]), whole, options)
    functions, nodes = (
        CostTable(a[:count], b[:count], a[:count].sum((1, 2)), b[:count].sum((1, 2)))
        for count in (FUNCTIONS, STACKS)
    )
    rates = estimate_function_rates(base, functions, basis)
    design, _ = build_function_designs(base, rates, rates, basis)
    prior = rates.rates.prior
    deep = [of[: DEPTHS * (STACKS // DEPTHS)].reshape(DEPTHS, -1, ROWS, ROWS).sum(1) for of in (a, b)]

    def compare_families() -> None:
        both = [estimate_function_rates(base, functions, basis) for _ in range(2)]
        for of, own in zip(build_function_designs(base, *both, basis), both, strict=True):
            compare_functions(of, own)

    parts: dict[str, Callable[[], object]] = {
        f"self and total of {FUNCTIONS:,} functions, with their empirical null": compare_families,
        f"which of {STACKS:,} call paths changed": lambda: find_changed_nodes(design, nodes, basis, prior),
        f"{DEPTHS} stack depths": lambda: compare_depths(base, np.arange(1, DEPTHS + 1), *deep),
    }
    parts[f"where the change starts, on {STACKS:,} call paths"] = _build_culprit_search(
        level.astype(np.int64), rng
    )
    rows, total = [], 0.0
    for what, work in parts.items():
        taken = statistics.median(_measure_cpu_ms(work) for _ in range(repeats))
        total += taken
        rows.append([what, f"{taken:.1f}", f"{taken / LIMIT_MS:.2f}"])
    rows.append(["all", f"{total:.1f}", f"{total / LIMIT_MS:.2f}"])
    head = ["of 16 pods by 16 blocks a side", "CPU ms (median)", f"of {LIMIT_MS:.0f} ms"]
    return Table("CPU of two sides of 20,000 stacks", head, rows)


def _build_culprit_search(level: I64, rng: np.random.Generator) -> Callable[[], object]:
    """Build a search in which every tenth function and every tenth call path changed."""
    names = [f"function_{at} (shop/module_{at % 100}.py)" for at in range(FUNCTIONS)]
    functions = {name: FunctionTest(Direction.INCREASED, Direction.INCREASED) for name in names[::10]}
    flags = np.where(rng.random(len(level)) < 1 / 10, NODE_CHANGED, 0).tolist()
    name = rng.integers(0, FUNCTIONS, len(level)).tolist()
    tree = ChangedTree(names, level.tolist(), name, rng.normal(0, 1, len(level)).tolist(), flags)
    return lambda: find_culprits(tree, functions)


def _measure_cpu_ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000
