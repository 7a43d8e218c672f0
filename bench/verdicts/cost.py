"""The cost of a verdict: CPU time of the statistics of two sides, 20,000 stacks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from bench.verdicts.page import Table
from sidelight_collector.statistics.inference.bootstrap import compute_seed, draw_rounds
from sidelight_collector.statistics.inference.cluster_variance import compute_effects
from sidelight_collector.statistics.inference.design import SideMatrix, build_design
from sidelight_collector.statistics.inference.fdr import benjamini_hochberg, tree_rejections

LIMIT_MS = 300.0
STACKS = 20_000
FUNCTIONS = 4_000
ROWS = 16


def cost(repeats: int) -> Table:
    luck = np.random.default_rng(1)
    watched = np.full((ROWS, ROWS), 225.0)
    side = SideMatrix(watched, tuple((f"pod-{row}",) for row in range(ROWS)), 225.0)
    rate = np.exp(luck.normal(-4, 2, STACKS))
    a, b = (luck.poisson(rate[:, None, None] * np.ones((ROWS, ROWS))).astype(float) for _ in "ab")
    counts = a.sum((1, 2)), b.sum((1, 2))
    few = a[:FUNCTIONS], b[:FUNCTIONS], counts[0][:FUNCTIONS], counts[1][:FUNCTIONS]
    level = np.maximum(np.arange(STACKS) % 60, 1).astype(np.int32)
    level[0] = 0
    plan = build_design(side, side, a.sum(0), b.sum(0), same_time=True)
    p = compute_effects(plan, a, b, *counts).p

    def drawn() -> None:
        drawing = draw_rounds(plan, seed=compute_seed(a[0], b[0]))
        drawing.a.resample(a)
        drawing.b.resample(b)

    def families() -> None:
        for _ in ("self", "total"):
            benjamini_hochberg(compute_effects(plan, *few, with_shrinkage=True).p)

    parts: dict[str, Callable[[], object]] = {
        "design": lambda: build_design(side, side, a.sum(0), b.sum(0), same_time=True),
        f"self and total of {FUNCTIONS:,} functions, with q": families,
        f"effects of {STACKS:,} call paths": lambda: compute_effects(plan, a, b, *counts),
        "which call paths changed": lambda: tree_rejections(level, p),
        f"1,000 rounds of {STACKS:,} stacks, both sides": drawn,
    }
    rows, whole = [], 0.0
    for what, work in parts.items():
        taken = statistics.median(_cpu_ms(work) for _ in range(repeats))
        whole += taken
        rows.append([what, f"{taken:.1f}", f"{taken / LIMIT_MS:.2f}"])
    rows.append(["all", f"{whole:.1f}", f"{whole / LIMIT_MS:.2f}"])
    head = ["of 16 pods by 16 blocks a side", "CPU ms (median)", f"of {LIMIT_MS:.0f} ms"]
    return Table("CPU of two sides of 20,000 stacks", head, rows)


def _cpu_ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000
