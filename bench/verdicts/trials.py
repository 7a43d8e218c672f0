"""One comparison of samples by pod and window, tested as the collector does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.comparison.cost_tables import CostTable, select_heaviest
from sidelight_collector.comparison.effects import EffectFamily
from sidelight_collector.comparison.function_tests import (
    build_basis_design,
    build_function_designs,
    compare_functions,
    compute_total_null,
    estimate_function_rates,
    find_changed_nodes,
)
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.inference.design import MAX_BLOCKS, Design, SideMatrix
from sidelight_collector.statistics.inference.effect_size import Effects, compute_effects

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Windows:
    """One side: pods by windows of `seconds`.

    `exposure` (P, N) is the observed time, or requests. `samples` is (1 + 2F + C, P, N): the whole, self of
    each of F functions, total of each function, and C call paths.
    """

    exposure: F64
    samples: F64
    functions: int = 0
    seconds: float = 60.0

    def build_matrix(self) -> SideMatrix:
        exposure = sum_blocks(self.exposure)
        names = tuple((f"pod-{row}",) for row in range(len(exposure)))
        return SideMatrix(exposure, names, self.exposure.shape[1] * self.seconds / exposure.shape[1])

    def until(self, window: int) -> Windows:
        """Return the first `window` windows."""
        return replace(self, exposure=self.exposure[:, :window], samples=self.samples[:, :, :window])


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of one comparison.

    `total` is the effect of the whole by samples. `own` and `total_time` are the families of self and total
    time of the functions in `selected`.
    """

    design: Design
    total: Effects
    selected: I64
    own: EffectFamily
    total_time: EffectFamily
    changed_paths: Flags


def sum_blocks(windows: F64) -> F64:
    """Sum windows (..., P, N) into blocks (..., P, T) by the start of the window."""
    count = windows.shape[-1]
    blocks = min(MAX_BLOCKS, count)
    starts = np.ceil(np.arange(blocks) * count / blocks).astype(int)
    sums: F64 = np.add.reduceat(windows, starts, axis=-1)
    return sums


def compare_total(
    a: Windows, b: Windows, basis: Basis, options: ComparisonOptions, *, same_pods: bool = False
) -> tuple[Design, Effects]:
    """Compare the first quantity of both sides."""
    cells = sum_blocks(a.samples[:1]), sum_blocks(b.samples[:1])
    design = _build_design(a, b, basis, options, cells, same_pods=same_pods)
    counts = (np.array([of.sum()]) for of in cells)
    return design, compute_effects(design, *cells, *counts)


def compare(a: Windows, b: Windows, basis: Basis, options: ComparisonOptions) -> Comparison:
    """Compare the whole, all functions and all call paths."""
    cells = sum_blocks(a.samples), sum_blocks(b.samples)
    counts = tuple(of.sum((1, 2)) for of in cells)
    end = 1 + 2 * a.functions
    selected = 1 + np.sort(
        select_heaviest(counts[0][1 + a.functions : end], counts[1][1 + a.functions : end], options.max_tests)
    )

    def table(at: I64) -> CostTable:
        return CostTable(cells[0][at], cells[1][at], counts[0][at], counts[1][at])

    design = _build_design(a, b, basis, options, cells)
    own, base = table(selected), design
    if basis is Basis.COMPOSITION:
        profile = tuple(
            replace(side, exposure=of[0]) for side, of in zip((design.a, design.b), cells, strict=True)
        )
        base = build_basis_design(basis, (profile[0], profile[1]), (cells[0][0], cells[1][0]), options)
    total_time = table(selected + a.functions)
    self_rates, total_rates = (estimate_function_rates(base, of, basis) for of in (own, total_time))
    self_design, total_design = build_function_designs(base, self_rates, total_rates, basis)
    judged = replace(design, null=compute_total_null(self_design, own, basis))
    total = compute_effects(judged, cells[0][:1], cells[1][:1], counts[0][:1], counts[1][:1])
    families = (
        compare_functions(self_design, self_rates),
        compare_functions(total_design, total_rates),
    )
    paths = find_changed_nodes(
        total_design, table(np.arange(end, len(counts[0]))), basis, families[1].effects.prior
    )
    return Comparison(self_design, total, selected - 1, *families, paths)


def _pairing(basis: Basis) -> str:
    return "time" if basis is Basis.CONCURRENT else ""


def _build_design(
    a: Windows,
    b: Windows,
    basis: Basis,
    options: ComparisonOptions,
    cells: tuple[F64, F64],
    *,
    same_pods: bool = False,
) -> Design:
    return build_basis_design(
        basis,
        (a.build_matrix(), b.build_matrix()),
        (cells[0][0], cells[1][0]),
        options,
        pairing=_pairing(basis),
        same_pods=same_pods,
    )
