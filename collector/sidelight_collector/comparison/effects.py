"""Effects of functions and nodes, and the method, as parts of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.arrow_ops import (
    F64,
    I64,
)
from sidelight_collector.comparison.cost_tables import CostTable, NodeCosts
from sidelight_collector.comparison.model import (
    ComparisonMethod,
    EffectColumns,
    finite_or_none,
    to_effect_columns,
)
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.query.call_tree import Flags
from sidelight_collector.statistics.comparability.check_result import CheckResult
from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.effect_size import Effects, compute_rate_effects
from sidelight_collector.statistics.inference.empirical_null import (
    EmpiricalNull,
    estimate_empirical_null,
)
from sidelight_collector.statistics.inference.rate_estimates import RateEstimates, estimate_rates
from sidelight_collector.statistics.inference.shrinkage import NO_PRIOR, PriorVariance
from sidelight_collector.statistics.summary_text import SummaryInput
from sidelight_model.change import Direction, spend_alpha
from sidelight_model.frames import Frame, unescape_frame

MIN_NULL_SAMPLES: Final = 10
"""Functions with fewer samples on a side do not show how far functions differ between periods."""
_LEAST_REST: Final = 1e-9
"""A function whose complement is a smaller share has no counting noise."""
CHANGED_DIRECTIONS: Final = frozenset(
    (Direction.INCREASED, Direction.DECREASED, Direction.NEW, Direction.REMOVED)
)


@dataclass(frozen=True, slots=True)
class EffectFamily:
    """Effects of many things with their q, and how many rows of B agree."""

    effects: Effects
    q: F64
    agreeing_rows: NDArray[np.int64]
    row_count: int

    @property
    def is_changed(self) -> Flags:
        return np.array([direction in CHANGED_DIRECTIONS for direction in self.effects.direction], bool)

    def to_columns(self, indices: I64) -> EffectColumns:
        return to_effect_columns(self.effects, self.q, self.agreeing_rows, self.row_count, indices)


def mark_not_comparable(effects: Effects, blocking_checks: Sequence[CheckResult]) -> Effects:
    if not blocking_checks:
        return effects
    return replace(effects, direction=(Direction.NOT_COMPARABLE,) * len(effects.direction))


def mark_not_judged(effects: Effects) -> Effects:
    """Remove the statements about effects that load alone may explain."""
    nan = np.full(len(effects.p), np.nan)
    is_observed = Direction.NO_DATA not in effects.direction
    return replace(
        effects, p=np.ones_like(nan), low=nan, high=nan, relative_low=nan, relative_high=nan,
        min_detectable_effect=np.full_like(nan, np.inf),
        direction=(Direction.NOT_JUDGED,) * len(nan) if is_observed else effects.direction,
    )  # fmt: skip


def compute_table_effects(
    design: Design, table: CostTable, *, are_shares: bool, prior: PriorVariance = NO_PRIOR
) -> Effects:
    """Compute the effects of a table of functions or nodes, as rates or as shares."""
    return compute_rate_effects(
        design, estimate_table_rates(design, table, are_shares=are_shares, prior=prior)
    )


def estimate_table_rates(
    design: Design,
    table: CostTable,
    *,
    are_shares: bool,
    with_shrinkage: bool = False,
    prior: PriorVariance = NO_PRIOR,
) -> RateEstimates:
    """Estimate the rates, or the shares, of a table of functions or nodes.

    A share scatters less than a rate of as many samples, because the whole contains it.
    """
    samples = [table.samples_a, table.samples_b]
    if are_shares:
        for side, (matrix, cells) in enumerate(((design.a, table.a), (design.b, table.b))):
            rest = 1 - cells.sum((1, 2)) / (matrix.total_exposure or 1.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                samples[side] = np.where(rest > _LEAST_REST, samples[side] / rest, np.inf)
    return estimate_rates(design, table.a, table.b, *samples, with_shrinkage=with_shrinkage, prior=prior)


def estimate_null(
    rates: RateEstimates, table: CostTable, *, are_shares: bool, shift: float | None = None
) -> EmpiricalNull:
    """Estimate from functions how far unchanged ones differ between the sides.

    `shift` is given if it is known from other functions.
    """
    mean, variance = rates.mean, rates.variance
    rest = 1 - mean if are_shares else np.ones_like(mean)
    usable = np.minimum(table.samples_a, table.samples_b) >= MIN_NULL_SAMPLES
    usable &= (variance > 0) & (rest > _LEAST_REST)
    ratios = np.log(rates.comparison[usable] / rates.baseline[usable])
    return estimate_empirical_null(
        ratios,
        variance[usable] / mean[usable] ** 2,
        rests=rest[usable] if are_shares else None,
        shift=shift,
    )


def exceeds_counting_noise(costs: CostTable | NodeCosts, design: Design) -> Flags:
    """Mark what differs by more than counting noise; the rest needs no test."""
    exposures = (design.a.total_exposure, design.b.total_exposure)
    rates = [seconds / exposure for seconds, exposure in zip(costs.seconds, exposures, strict=True)]
    counts = (costs.samples_a, costs.samples_b)
    variance = sum(rate**2 / np.maximum(count, 1) for rate, count in zip(rates, counts, strict=True))
    differs: Flags = np.abs(rates[1] - rates[0]) > NormalDist().inv_cdf(1 - design.alpha / 2) * np.sqrt(
        variance
    )
    return differs


def describe_old_name(old: str | None, new: str) -> str | None:
    """What a function was called: with its file where that is another."""
    if old is None:
        return None
    was, now = Frame.parse(unescape_frame(old)), Frame.parse(unescape_frame(new))
    return was.function if was.file == now.file else was.text


def rank_functions(self_effects: EffectFamily, total_effects: EffectFamily) -> I64:
    """Functions that changed first, then by how much all their stacks did."""
    changed = self_effects.is_changed | total_effects.is_changed
    return np.lexsort((-np.abs(self_effects.effects.delta), -np.abs(total_effects.effects.delta), ~changed))


def describe_method(
    design: Design,
    sampled_effects: Effects,
    options: ComparisonOptions,
    *,
    paired: str,
    same_pods: bool,
    pods: list[int],
    unit: str,
    rate_source: str,
) -> ComparisonMethod:
    """Describe how a comparison was made: levels, observations, rate source."""
    sides = (design.a, design.b)
    counting = (
        (sampled_effects.variance_a, sampled_effects.counting_variance_a),
        (sampled_effects.variance_b, sampled_effects.counting_variance_b),
    )
    return {
        "alpha": options.alpha,
        "analysis_index": options.analysis_index,
        "alpha_spent": spend_alpha(options.alpha, options.analysis_index),
        "min_effect": options.min_effect,
        "fdr": design.alpha,
        "unit": unit,
        "pods": pods,
        "pod_groups": [side.row_count for side in sides],
        "time_blocks": [side.block_count for side in sides],
        "frequencies": design.frequency_count,
        "paired": paired,
        "same_pods": same_pods,
        "over_dispersion": [
            finite_or_none(float(variance[0] / counted[0])) if counted[0] > 0 else None
            for variance, counted in counting
        ],
        "rate_source": rate_source,
    }


def build_summary_input(rate: Effects, design: Design, samples: int, unit: str) -> SummaryInput:
    """The numbers of the total rate that its summary in words needs."""
    return SummaryInput(
        float(rate.baseline[0]),
        float(rate.comparison[0]),
        float(rate.relative[0]),
        float(rate.relative_low[0]),
        float(rate.relative_high[0]),
        float(rate.min_detectable_effect[0]),
        rate.direction[0],
        samples,
        1 - design.alpha,
        unit,
    )
