"""The design of a comparison, and the tests of all functions and call paths."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sidelight_collector.arrow_ops import F64
from sidelight_collector.comparison.cost_tables import CostTable, NodeCosts
from sidelight_collector.comparison.effects import (
    EffectFamily,
    compute_table_effects,
    estimate_null,
    estimate_table_rates,
    exceeds_counting_noise,
)
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.query.call_tree import Flags
from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.inference.design import Design, SideMatrix, build_design
from sidelight_collector.statistics.inference.effect_size import (
    assign_directions,
    compute_rate_effects,
    count_agreeing_rows,
)
from sidelight_collector.statistics.inference.empirical_null import NO_NULL, EmpiricalNull
from sidelight_collector.statistics.inference.fdr import benjamini_hochberg
from sidelight_collector.statistics.inference.rate_estimates import RateEstimates
from sidelight_collector.statistics.inference.shrinkage import PriorVariance


def build_basis_design(
    basis: Basis,
    exposure: tuple[SideMatrix, SideMatrix],
    cells: tuple[F64, F64],
    options: ComparisonOptions,
    *,
    pairing: str = "",
    same_pods: bool = False,
    is_share: bool = False,
) -> Design:
    """Build the design of a quantity, or of a share.

    `cells` are its sums, (P, T) of each side. `exposure` is what its rate is divided by. `pairing` is the
    reason for paired columns: `time`, `hours` or empty.
    """
    rates = [
        own.sum() / side.total_exposure
        for own, side in zip(cells, exposure, strict=True)
        if side.total_exposure
    ]
    return build_design(
        *exposure,
        same_time=bool(pairing),
        other_days=pairing == "hours",
        same_pods=same_pods,
        alpha=options.alpha,
        analysis_index=options.analysis_index,
        min_effect=options.min_effect,
        min_relevant=options.min_relevant_share * (1.0 if is_share else max(rates, default=0.0)),
    )


@dataclass(frozen=True, slots=True)
class FunctionRates:
    """Costs of all functions, by self or by total time, and their rates."""

    table: CostTable
    rates: RateEstimates


def estimate_function_rates(design: Design, table: CostTable, basis: Basis) -> FunctionRates:
    """Estimate the rates of all functions, in `composition` their shares."""
    are_shares = basis is Basis.COMPOSITION
    return FunctionRates(
        table, estimate_table_rates(design, table, are_shares=are_shares, with_shrinkage=True)
    )


def build_function_designs(
    design: Design, self_rates: FunctionRates, total_rates: FunctionRates, basis: Basis
) -> tuple[Design, Design]:
    """Build the designs of the self and the total time of functions.

    Sides of different times get the empirical null of all functions, each family its own: one request whose
    number differs moves the totals of a whole chain of callers. Their common shift is that of self times,
    because one changed function changes the totals of many. `design` is that of their unit, which for
    shares is the time of the whole profile. What all rates per request have in common is a change.
    """
    are_shares = basis is Basis.COMPOSITION
    if not are_shares and (design.is_concurrent or basis is Basis.EQUAL_LOAD):
        return design, design
    designs: list[Design] = []
    shift: float | None = None
    for of in (self_rates, total_rates):
        null = estimate_null(of.rates, of.table, are_shares=are_shares, shift=shift)
        shift = null.shift
        designs.append(replace(design, null=null if are_shares else replace(null, shift=0.0)))
    return designs[0], designs[1]


def compute_total_null(self_design: Design, self_costs: CostTable, basis: Basis) -> EmpiricalNull:
    """Compute how far the total differs between two periods.

    It follows from the differences of unchanged functions. These are taken to differ independently, so
    their sum differs less: by the sum of the squares of their shares. The total of a comparison of shares
    is not judged.
    """
    if basis is Basis.COMPOSITION or not self_design.null.variance:
        return NO_NULL
    seconds = self_costs.a.sum((1, 2)) / max(self_design.a.total_exposure, 1e-9)
    seconds = seconds + self_costs.b.sum((1, 2)) / max(self_design.b.total_exposure, 1e-9)
    shares = seconds / max(float(seconds.sum()), 1e-9)
    null = self_design.null
    return replace(null, variance=null.variance * float(shares @ shares))


def compare_functions(design: Design, functions: FunctionRates) -> EffectFamily:
    """Compare the self or the total time of all functions.

    Only those that the false-discovery rate allows count as changed. Functions that are too small for a
    relevant change are a family of their own, so their number costs the others nothing (independent
    filtering by the mean of both sides: Bourgon, Gentleman and Huber, Proceedings of the National Academy
    of Sciences 107, 2010).
    """
    found = compute_rate_effects(design, functions.rates)
    is_relevant = found.baseline + found.comparison >= design.min_relevant
    q = np.empty_like(found.p)
    for part in (is_relevant, ~is_relevant):
        q[part] = benjamini_hochberg(found.p[part])
    found = assign_directions(found, design, q <= design.alpha)
    agree, rows = count_agreeing_rows(found, design, functions.table.b)
    return EffectFamily(found, q, agree, rows)


def find_changed_nodes(
    design: Design, costs: CostTable | NodeCosts, basis: Basis, prior: PriorVariance
) -> Flags:
    """Return which nodes of a tree changed: all of them are one family.

    `prior` is the usual variance of functions. Nodes within counting noise need no further test.
    """
    count = len(costs.samples_a)
    p, is_relevant = np.ones(count), np.zeros(count, bool)
    near = np.flatnonzero(exceeds_counting_noise(costs, design))
    if len(near):
        found = compute_table_effects(
            design,
            costs.take(near),
            are_shares=basis is Basis.COMPOSITION,
            prior=prior,
        )
        p[near], is_relevant[near] = found.p, np.abs(found.delta) >= design.min_relevant
    changed: Flags = (benjamini_hochberg(p) <= design.alpha) & is_relevant
    return changed
