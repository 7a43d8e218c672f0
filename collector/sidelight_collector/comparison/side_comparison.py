"""Two sides of a comparison, and the effects between them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from sidelight_collector.arrow_ops import F64
from sidelight_collector.comparison.blocking_summary import compare_event_loops, to_event_loop_json
from sidelight_collector.comparison.cost_tables import (
    CostRows,
    build_function_costs,
)
from sidelight_collector.comparison.effects import mark_not_comparable, mark_not_judged
from sidelight_collector.comparison.function_tests import (
    build_basis_design,
    build_function_designs,
    compute_total_null,
    estimate_function_rates,
)
from sidelight_collector.comparison.inputs import ComparedStacks, ComparisonLoaders
from sidelight_collector.comparison.matrix import PairedObservations
from sidelight_collector.comparison.model import (
    EffectJson,
    EventLoopJson,
    ThreadIdleJson,
    to_effect_json,
)
from sidelight_collector.comparison.pod_sampling import summarize_pods
from sidelight_collector.comparison.rename_matching import merge_renamed_functions
from sidelight_collector.comparison.request import (
    THREAD_KINDS,
    ComparisonOptions,
    build_exposure_matrix,
    measure_idle_time,
    summarize_sampling,
)
from sidelight_collector.query.call_tree import PooledStacks
from sidelight_collector.statistics.basis import Basis, BasisChoice
from sidelight_collector.statistics.comparability.checks import run_checks, select_blocking_checks
from sidelight_collector.statistics.comparability.pod_exclusion import add_pod_exclusions
from sidelight_collector.statistics.comparability.sampling_summary import CheckContext
from sidelight_collector.statistics.depths.depth_comparison import DepthComparison, compare_depths
from sidelight_collector.statistics.event_loop.loop_frames import has_event_loop_frames
from sidelight_collector.statistics.inference.design import (
    Design,
    SideMatrix,
)
from sidelight_collector.statistics.inference.effect_size import (
    Effects,
    compute_effects,
)
from sidelight_collector.statistics.inference.empirical_null import NO_NULL
from sidelight_collector.statistics.summary_text import (
    POD_SECOND,
    REQUEST,
)
from sidelight_model.change import Direction
from sidelight_model.counts import ProfileType

MIN_ROWS: Final = 2


class SideComparison:
    """Two sides, and the effects that the checks and the basis allow.

    `requests` are the requests in each cell of both sides, if rates are per request (see `basis_choice`).
    """

    def __init__(
        self,
        observations: PairedObservations,
        stacks: ComparedStacks,
        kind: ProfileType,
        options: ComparisonOptions,
        loaders: ComparisonLoaders,
        basis_choice: BasisChoice,
        requests: tuple[F64, F64] | None = None,
    ) -> None:
        self.observations = observations.baseline, observations.comparison
        self.kind, self.options, self._loaders, self.basis_choice = kind, options, loaders, basis_choice
        self.pairing, self.same_pods = observations.pairing, observations.same_pods
        is_per_request = basis_choice.basis is Basis.PER_REQUEST
        requests_a, requests_b = requests if requests and is_per_request else (None, None)
        self.unit = REQUEST if is_per_request else POD_SECOND
        self.sampling = (
            summarize_sampling(observations.baseline, requests_a),
            summarize_sampling(observations.comparison, requests_b),
        )
        self.stacks, self.lineless_stacks = stacks, stacks.lineless
        self._check_context = CheckContext(
            kind,
            observations.pairing,
            all(own.has_pod_rows for own in self.observations),
            basis_choice.basis,
            stacks.has_lines,
            options.min_coverage,
            options.missing_requests_reason,
        )
        self.checks = add_pod_exclusions(
            run_checks(*self.sampling, self._check_context),
            lambda: (summarize_pods(observations.baseline), summarize_pods(observations.comparison)),
            observations.selectors,
            self._check_context,
        )
        self.blocking_checks = select_blocking_checks(self.checks)
        a, b = self.stack_rows = self.build_rows(stacks.lineless)
        cells = a.sum_seconds(), b.sum_seconds()
        self.sample_counts = float(a.samples.sum()), float(b.samples.sum())
        self.design = self._build_design(
            (
                build_exposure_matrix(observations.baseline, requests_a),
                build_exposure_matrix(observations.comparison, requests_b),
            ),
            cells,
        )
        exposures = self.design.a, self.design.b
        self._share_design = self._build_design(
            (replace(exposures[0], exposure=cells[0]), replace(exposures[1], exposure=cells[1])), cells
        )
        self._has_cpu_clock = stacks.is_complete and all(own.has_cpu_clock for own in self.observations)
        self._clock_exposure = (
            build_exposure_matrix(observations.baseline, requests_a, by_clock=True),
            build_exposure_matrix(observations.comparison, requests_b, by_clock=True),
        )
        function_costs = build_function_costs(stacks.lineless, a, b, options.max_tests)
        self.renames = loaders.find_renames(function_costs)
        self.function_costs, self.old_names = merge_renamed_functions(function_costs, self.renames)
        base = self._share_design if self.are_shares else self.design
        self.self_rates, self.total_rates = (
            estimate_function_rates(base, table, basis_choice.basis)
            for table in (self.function_costs.self_costs, self.function_costs.total_costs)
        )
        self.self_design, self.total_design = build_function_designs(
            base, self.self_rates, self.total_rates, basis_choice.basis
        )
        self._total_null = compute_total_null(
            self.self_design, self.function_costs.self_costs, basis_choice.basis
        )
        self.sampled_effects = self._judge_total(
            self.compute_raw_effect(replace(self.design, null=self._total_null), cells, self.sample_counts)
        )
        by_clock = self.time_source(kind) == "clock"
        self.rate_effects = self._judge_total(self.compare_cpu_clock()) if by_clock else self.sampled_effects

    @property
    def are_shares(self) -> bool:
        """Whether functions are compared by their share of the profile."""
        return self.basis_choice.basis is Basis.COMPOSITION

    @property
    def share_design(self) -> Design:
        """The design of shares of the profile where functions are compared by rates."""
        return replace(self._share_design, null=replace(self.total_design.null, are_shares=True))

    @property
    def is_load_equal(self) -> bool:
        """Whether quantities that depend on load, such as idle time, can be compared."""
        return self.design.is_concurrent or self.basis_choice.basis is Basis.EQUAL_LOAD

    @property
    def is_testable(self) -> bool:
        has_exposure = min(self.design.a.total_exposure, self.design.b.total_exposure) > 0
        return has_exposure and not self.blocking_checks and not self._is_variance_unknown

    def compare_depths(self) -> DepthComparison | None:
        """Compare the samples of both sides by stack depth."""
        depth, of = np.unique(self.lineless_stacks.builder.depths(), return_inverse=True)
        a, b = (rows.sum_by_group(of.astype(np.int64), len(depth)) for rows in self.stack_rows)
        seen = (a.sum((1, 2)) > 0) | (b.sum((1, 2)) > 0)
        design = replace(self.design, min_relevant=self.options.min_relevant_depth, null=NO_NULL)
        return compare_depths(design, depth[seen].astype(np.int64), a[seen], b[seen])

    def compare_type(self, kind: ProfileType) -> EffectJson:
        """Compare the whole rate of another profile type than the requested one.

        Its own states decide whether it is comparable.
        """
        rows = self._loaders.load_rows(kind)
        (a, samples_a), (b, samples_b) = ((own.sum_seconds(), float(own.samples.sum())) for own in rows)
        of = self._build_design((self.design.a, self.design.b), (a, b))
        refused = select_blocking_checks(run_checks(*self.sampling, replace(self._check_context, kind=kind)))
        by_clock = self.time_source(kind) == "clock"
        found = (
            self.compare_cpu_clock()
            if by_clock
            else self.compute_raw_effect(of, (a, b), (samples_a, samples_b))
        )
        return to_effect_json(mark_not_comparable(self._judge_load(found), refused))

    def time_source(self, kind: ProfileType) -> str:
        """Return the source of the whole time of a profile type."""
        return "clock" if self._has_cpu_clock and kind is ProfileType.CPU else "samples"

    def compare_cpu_clock(self) -> Effects:
        """Compare the CPU time of all threads by the kernel's clock.

        It has no sampling noise.
        """
        cells = self.observations[0].cpu_seconds, self.observations[1].cpu_seconds
        of = replace(self._build_design(self._clock_exposure, cells), null=self._total_null)
        return self.compute_raw_effect(of, cells, (math.inf, math.inf))

    def build_rows(self, pooled: PooledStacks) -> tuple[CostRows, CostRows]:
        a, b = (
            CostRows.build(side, own) for side, own in zip(pooled.sides[:2], self.observations, strict=True)
        )
        return a, b

    def _build_design(
        self, exposure: tuple[SideMatrix, SideMatrix], cells: tuple[F64, F64], *, is_share: bool = False
    ) -> Design:
        """Build the design of a quantity with the sum `cells`, or of a share."""
        return build_basis_design(
            self.basis_choice.basis,
            exposure,
            cells,
            self.options,
            pairing=self.pairing,
            same_pods=self.same_pods,
            is_share=is_share,
        )

    def compute_raw_effect(
        self, design: Design, cells: tuple[F64, F64], samples: tuple[float, float]
    ) -> Effects:
        """Compute the effect of one quantity."""
        a, b = (own[None] for own in cells)
        return compute_effects(design, a, b, *(np.array([count]) for count in samples))

    def _judge_total(self, effects: Effects) -> Effects:
        return self.apply_checks(self._judge_load(effects))

    def _judge_load(self, effects: Effects) -> Effects:
        """Mark a total that load may explain."""
        return mark_not_judged(effects) if self.are_shares else effects

    def _judge_waiting(self, effects: Effects) -> Effects:
        """Mark a share of time that load may explain on every basis."""
        return self.apply_checks(effects if self.is_load_equal else mark_not_judged(effects))

    def apply_checks(self, effects: Effects) -> Effects:
        has_exposure = min(self.design.a.total_exposure, self.design.b.total_exposure) > 0
        if not self.blocking_checks and self._is_variance_unknown and has_exposure:
            return replace(effects, direction=(Direction.INCONCLUSIVE,) * len(effects.direction))
        return mark_not_comparable(effects, self.blocking_checks)

    @property
    def _is_variance_unknown(self) -> bool:
        """Whether a side has one pod in one block of time, which show no variance."""
        return (
            not self.design.frequency_count
            and min(self.design.a.row_count, self.design.b.row_count) < MIN_ROWS
        )

    def compare_idle(self, thread: str | None) -> EffectJson | None:
        """Compare the idle share of wall time, of all threads or of one kind.

        The result is None if a side has no idle share.
        """
        (idle_a, time_a, samples_a), (idle_b, time_b, samples_b) = (
            measure_idle_time(own, thread) for own in self.observations
        )
        if time_a.total_exposure <= 0 or time_b.total_exposure <= 0:
            return None
        of = self._build_design((time_a, time_b), (idle_a, idle_b), is_share=True)
        found = self.compute_raw_effect(of, (idle_a, idle_b), (samples_a, samples_b))
        return to_effect_json(self._judge_waiting(found))

    def compare_thread_idle(self) -> list[ThreadIdleJson]:
        found = ((thread, self.compare_idle(thread)) for thread in THREAD_KINDS)
        return [{"thread": thread, "idle": idle} for thread, idle in found if idle is not None]

    def compare_event_loop(self) -> EventLoopJson | None:
        """Compare which functions block the event loop; None if there is no loop.

        Waiting samples are included, whatever profile type was requested.
        """
        if not has_event_loop_frames(self.lineless_stacks.builder.frame_names()):
            return None
        stacks = self._loaders.pool_wall_stacks()
        design = replace(self.design, min_relevant=self.options.min_relevant_share, null=NO_NULL)
        found = compare_event_loops(design, stacks.builder, self.build_rows(stacks), self.renames)
        return to_event_loop_json(found, self._judge_waiting) if found else None
