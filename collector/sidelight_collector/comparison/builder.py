"""Build the verdict of one comparison from sides that are cut into cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final, cast

import numpy as np

from sidelight_collector.arrow_ops import F64
from sidelight_collector.comparison.blocking_summary import compare_event_loops
from sidelight_collector.comparison.blocking_summary import to_event_loop_json as told_loop
from sidelight_collector.comparison.cost_tables import (
    CostRows,
    CostTable,
    build_function_costs,
    build_node_costs,
)
from sidelight_collector.comparison.effects import (
    CHANGED_DIRECTIONS,
    EffectFamily,
    build_summary_input,
    describe_method,
    describe_old_name,
    exceeds_counting_noise,
    mark_not_comparable,
    rank_functions,
)
from sidelight_collector.comparison.inputs import ComparedStacks, ComparisonLoaders
from sidelight_collector.comparison.matrix import PairedObservations
from sidelight_collector.comparison.model import (
    ConditionJson,
    DepthEffectsJson,
    EffectJson,
    EventLoopJson,
    ExplanationJson,
    ThreadIdleJson,
    Verdict,
    build_exact_effect,
    to_check_json,
    to_depth_json,
    to_effect_json,
)
from sidelight_collector.comparison.rename_matching import (
    include_old_names,
    merge_renamed_functions,
    rename_tree_functions,
)
from sidelight_collector.comparison.request import (
    THREAD_KINDS,
    ComparisonOptions,
    build_exposure_matrix,
    measure_idle_time,
    summarize_sampling,
)
from sidelight_collector.query.call_tree import Flags, PooledStacks
from sidelight_collector.query.select.matchers import find_full_matches
from sidelight_collector.statistics.attribution import explain_change, explain_self_time
from sidelight_collector.statistics.comparability import (
    CheckContext,
    run_checks,
    select_blocking_checks,
)
from sidelight_collector.statistics.depths import DepthComparison, compare_depths
from sidelight_collector.statistics.event_loop import has_event_loop_frames
from sidelight_collector.statistics.inference.cluster_variance import (
    NO_PRIOR,
    Effects,
    assign_directions,
    compute_effects,
    count_agreeing_rows,
)
from sidelight_collector.statistics.inference.design import (
    Design,
    LoadAssumption,
    SideMatrix,
    build_design,
)
from sidelight_collector.statistics.inference.fdr import benjamini_hochberg, tree_rejections
from sidelight_collector.statistics.inference.power import SampleSizeAdvice, advise_sample_size
from sidelight_collector.statistics.inference.shrinkage import PriorVariance
from sidelight_collector.statistics.summary_text import (
    POD_SECOND,
    REQUEST,
    RequiredSample,
    summarize_difference,
)
from sidelight_model.change import Direction
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, unescape_frame
from sidelight_model.gates import DEPTH_SUBJECTS, FUNCTION_SUBJECTS, Condition, evaluate_condition

MINUTE_SECONDS: Final = 60
MIN_ROWS: Final = 2


class ComparisonBuilder:
    """One comparison while its verdict is built.

    `requests` are the requests in each cell of both sides, if rates are per request.
    """

    def __init__(
        self,
        observations: PairedObservations,
        stacks: ComparedStacks,
        kind: ProfileType,
        options: ComparisonOptions,
        loaders: ComparisonLoaders,
        requests: tuple[F64, F64] | None = None,
    ) -> None:
        self._observations = observations.baseline, observations.comparison
        self._kind, self._options, self._loaders = kind, options, loaders
        self._pairing, self._same_pods = observations.pairing, observations.same_pods
        requests_a, requests_b = requests or (None, None)
        self._is_per_request = requests is not None
        self._sampling = (
            summarize_sampling(observations.baseline, requests_a),
            summarize_sampling(observations.comparison, requests_b),
        )
        self._lineless_stacks = stacks.lineless
        self._check_context = CheckContext(
            kind,
            observations.pairing,
            all(own.has_pod_rows for own in self._observations),
            stacks.has_lines,
            self._is_per_request,
            options.min_coverage,
            options.missing_requests_reason,
            options.assume_equal_load,
        )
        self._checks = run_checks(*self._sampling, self._check_context)
        self._blocking_checks = select_blocking_checks(self._checks)
        a, b = self._stack_rows = self._build_rows(stacks.lineless)
        self._sample_counts = float(a.samples.sum()), float(b.samples.sum())
        exposure = (
            build_exposure_matrix(observations.baseline, requests_a),
            build_exposure_matrix(observations.comparison, requests_b),
        )
        self._design = self._build_design(exposure, (a.sum_seconds(), b.sum_seconds()))
        self._sampled_effects = self._compute_effect(
            self._design, (a.sum_seconds(), b.sum_seconds()), self._sample_counts
        )
        self._has_cpu_clock = stacks.is_complete and all(own.has_cpu_clock for own in self._observations)
        self._clock_exposure = (
            build_exposure_matrix(observations.baseline, requests_a, by_clock=True),
            build_exposure_matrix(observations.comparison, requests_b, by_clock=True),
        )
        by_clock = self._time_source(kind) == "clock"
        self._rate_effects = (
            self._apply_checks(self._compare_cpu_clock()) if by_clock else self._sampled_effects
        )
        function_costs = build_function_costs(stacks.lineless, a, b, options.max_tests)
        self.renames = loaders.find_renames(function_costs)
        self._function_costs, self._old_names = merge_renamed_functions(function_costs, self.renames)
        self._tree = tree = rename_tree_functions(stacks.tree, self.renames)
        if stacks.pooled is not stacks.lineless:
            a, b = self._build_rows(stacks.pooled)
        self._node_costs = build_node_costs(tree, a, b, options.max_tests)
        self._self_effects, self._total_effects = (
            self._compare_family(of)
            for of in (self._function_costs.self_costs, self._function_costs.total_costs)
        )
        self._is_node_changed = self._test_nodes()

    def build(self) -> Verdict:
        """Build the verdict."""
        of, own, total = self._function_costs, self._self_effects, self._total_effects
        order = rank_functions(own, total)[: self._options.max_functions]
        frames = [Frame.parse(unescape_frame(of.names[at])) for at in order.tolist()]
        required, idle = self._find_required_sample(), self._compare_idle(None)
        depths = self._compare_depths()
        depth = to_depth_json(depths, self._apply_checks) if depths else None
        return {
            "summary": self._summarize(required),
            "direction": self._rate_effects.direction[0].value,
            "rate": to_effect_json(self._rate_effects),
            "sampling_only": to_effect_json(self._sampled_effects),
            "idle": idle,
            "depth": depth,
            "loop": self._compare_event_loop() if idle else None,
            "thread_kinds": self._compare_thread_idle(),
            "checks": to_check_json(self._checks),
            "explanation": self._explain(own),
            "functions": {
                "function": [frame.function for frame in frames],
                "file": [frame.file for frame in frames],
                "renamed_from": [
                    describe_old_name(self._old_names[at], of.names[at]) for at in order.tolist()
                ],
                "self": own.to_columns(order),
                "total": total.to_columns(order),
            },
            "functions_total": of.function_count,
            "method": describe_method(
                self._design,
                self._sampled_effects,
                self._options,
                paired=self._pairing,
                same_pods=self._same_pods,
                pods=[own.pod_count for own in self._observations],
                unit=REQUEST if self._is_per_request else POD_SECOND,
                rate_source=self._time_source(self._kind),
            ),
            "required": None if required is None else {"minutes": required.minutes, "pods": required.pods},
            "conditions": self._evaluate_conditions(idle, depth),
        }

    def list_node_flags(self) -> list[int]:
        """List for each node of the tree whether it is outside noise (1 or 0)."""
        changed = np.zeros(len(self._tree.level), np.int64)
        changed[self._node_costs.node_ids[self._is_node_changed]] = 1
        flags: list[int] = changed.tolist()
        return flags

    def _test_nodes(self) -> Flags:
        """Return which nodes are outside noise.

        Nodes within counting noise need no further test.
        """
        of, level = self._node_costs, self._design.alpha
        p = np.ones(len(of.node_ids))
        no_exposure = min(self._design.a.total_exposure, self._design.b.total_exposure) <= 0
        if self._blocking_checks or self._is_variance_unknown or no_exposure:
            return np.zeros(len(p), bool)
        near = np.flatnonzero(exceeds_counting_noise(of.total_costs, self._design))
        if len(near):
            table = of.total_costs.take(near)
            sides = table.a, table.b, table.samples_a, table.samples_b
            p[near] = compute_effects(
                self._design, *sides, is_family=True, prior=self._total_effects.effects.prior
            ).p
        return tree_rejections(of.level, p, level)

    def _explain(self, self_effects: EffectFamily) -> ExplanationJson:
        """Explain the change by the fewest call paths, and by functions' self time."""
        of, sampled = self._node_costs, self._sampled_effects
        a, b = (
            whole if whole > 0 else 1.0
            for whole in (self._design.a.total_exposure, self._design.b.total_exposure)
        )
        delta = of.total_costs.b.sum((1, 2)) / b - of.total_costs.a.sum((1, 2)) / a
        names = list(map(unescape_frame, self._tree.names))
        # The whole may be known by the clock, what explains it is known by samples.
        agreed = sampled.delta[0] * self._rate_effects.delta[0] > 0
        changed = bool(agreed) and self._rate_effects.direction[0] in CHANGED_DIRECTIONS
        found = explain_change(names, of.level, of.name, delta, self._is_node_changed, is_changed=changed)
        owned = explain_self_time(
            self_effects.effects.delta, self_effects.is_changed, float(sampled.delta[0]) if changed else 0.0
        )
        frames = [Frame.parse(unescape_frame(self._function_costs.names[one.index])) for one in owned]
        return {
            "share": found.share,
            "paths": [
                {"names": list(path.names), "delta": path.delta, "share": path.share} for path in found.paths
            ],
            "functions": [
                {"function": frame.function, "file": frame.file, "delta": one.delta, "share": one.share}
                for frame, one in zip(frames, owned, strict=True)
            ],
        }

    def _compare_depths(self) -> DepthComparison | None:
        """Compare the samples of both sides by stack depth."""
        depth, of = np.unique(self._lineless_stacks.builder.depths(), return_inverse=True)
        a, b = (rows.sum_by_group(of.astype(np.int64), len(depth)) for rows in self._stack_rows)
        seen = (a.sum((1, 2)) > 0) | (b.sum((1, 2)) > 0)
        return compare_depths(self._design, depth[seen].astype(np.int64), a[seen], b[seen])

    def _evaluate_conditions(
        self, idle: EffectJson | None, depth: DepthEffectsJson | None
    ) -> list[ConditionJson]:
        results: list[ConditionJson] = []
        for condition in self._options.conditions:
            found = self._find_effect(condition, idle, depth)
            state, summary = evaluate_condition(
                condition, found, total_rate=float(self._sampled_effects.baseline[0])
            )
            results.append(
                {"condition": condition.text, "state": state.value, "summary": summary, "effect": found}
            )
        return results

    def _find_effect(
        self, condition: Condition, idle: EffectJson | None, depth: DepthEffectsJson | None
    ) -> EffectJson | None:
        """Return the effect that a condition is about, or None if there is none."""
        subject = condition.subject
        if subject in FUNCTION_SUBJECTS:
            return self._compare_functions(condition)
        if subject == "idle":
            return idle
        if subject == "depth.max":
            direction = Direction.NOT_COMPARABLE if self._blocking_checks else Direction.INCONCLUSIVE
            return build_exact_effect(depth["max"][0], depth["max"][1], direction) if depth else None
        if subject in DEPTH_SUBJECTS:
            of = cast("Mapping[str, EffectJson]", depth or {})
            return of.get(subject.removeprefix("depth."))
        if subject in ("rate", self._kind.value):
            return to_effect_json(self._rate_effects)
        return self._compare_type(ProfileType(subject))

    def _compare_type(self, kind: ProfileType) -> EffectJson:
        """Compare the whole rate of another profile type than the requested one.

        Its own states decide whether it is comparable.
        """
        rows = self._loaders.load_rows(kind)
        (a, samples_a), (b, samples_b) = ((own.sum_seconds(), float(own.samples.sum())) for own in rows)
        of = self._build_design((self._design.a, self._design.b), (a, b))
        refused = select_blocking_checks(run_checks(*self._sampling, replace(self._check_context, kind=kind)))
        by_clock = self._time_source(kind) == "clock"
        found = (
            self._compare_cpu_clock()
            if by_clock
            else self._compute_raw_effect(of, (a, b), (samples_a, samples_b))
        )
        return to_effect_json(mark_not_comparable(found, refused))

    def _time_source(self, kind: ProfileType) -> str:
        """Return the source of the whole time of a profile type."""
        return "clock" if self._has_cpu_clock and kind is ProfileType.CPU else "samples"

    def _compare_cpu_clock(self) -> Effects:
        """Compare the CPU time of all threads by the kernel's clock.

        It has no sampling noise.
        """
        cells = self._observations[0].cpu_seconds, self._observations[1].cpu_seconds
        of = self._build_design(self._clock_exposure, cells)
        return self._compute_raw_effect(of, cells, (math.inf, math.inf))

    def _compare_functions(self, condition: Condition) -> EffectJson | None:
        """Compare the time of stacks with a condition's functions.

        The stacks contain (or end with) any of them. Each stack counts once.
        """
        canvas = self._lineless_stacks.builder
        frames = [Frame.parse(unescape_frame(word)) for word in canvas.frame_names()]
        function, file = condition.patterns
        frame_mask = np.array(find_full_matches(function, [frame.function for frame in frames]), bool)
        if file:
            frame_mask &= np.array(find_full_matches(file, [frame.file for frame in frames]), bool)
        frame_mask = include_old_names(frame_mask, canvas.frame_names(), self.renames)
        any_of, last = canvas.match_stacks(frame_mask)
        stack_mask, of = (
            (any_of, self._total_effects) if condition.subject == "function" else (last, self._self_effects)
        )
        a, b = self._stack_rows
        counted = a.count_samples(stack_mask), b.count_samples(stack_mask)
        if not any(counted):
            return self._build_zero_effect()
        cells = a.sum_seconds(stack_mask), b.sum_seconds(stack_mask)
        found = self._compute_raw_effect(self._design, cells, counted, is_family=True, prior=of.effects.prior)
        return to_effect_json(self._apply_checks(found))

    def _build_zero_effect(self) -> EffectJson | None:
        """Build the effect of functions that no stack has.

        It is None if both sides were observed. Otherwise their absence means nothing, and the direction gives
        the reason.
        """
        if self._blocking_checks:
            return build_exact_effect(0.0, 0.0, Direction.NOT_COMPARABLE)
        watched = all(taken.pod_seconds > 0 for taken in self._sampling)
        return None if watched else build_exact_effect(0.0, 0.0, Direction.NO_DATA)

    def _build_rows(self, pooled: PooledStacks) -> tuple[CostRows, CostRows]:
        a, b = (
            CostRows.build(side, own) for side, own in zip(pooled.sides[:2], self._observations, strict=True)
        )
        return a, b

    def _build_design(self, exposure: tuple[SideMatrix, SideMatrix], cells: tuple[F64, F64]) -> Design:
        options = self._options
        return build_design(
            *exposure,
            *cells,
            same_time=bool(self._pairing),
            other_days=self._pairing == "hours",
            same_pods=self._same_pods,
            alpha=options.alpha,
            analysis_index=options.analysis_index,
            min_effect=options.min_effect,
            load=LoadAssumption.ASSUMED_EQUAL if options.assume_equal_load else LoadAssumption.UNKNOWN,
        )

    def _compute_effect(
        self, design: Design, cells: tuple[F64, F64], samples: tuple[float, float]
    ) -> Effects:
        """Compute the effect of one quantity."""
        return self._apply_checks(self._compute_raw_effect(design, cells, samples))

    def _compute_raw_effect(
        self,
        design: Design,
        cells: tuple[F64, F64],
        samples: tuple[float, float],
        *,
        is_family: bool = False,
        prior: PriorVariance = NO_PRIOR,
    ) -> Effects:
        a, b = (own[None] for own in cells)
        return compute_effects(
            design, a, b, *(np.array([count]) for count in samples), is_family=is_family, prior=prior
        )

    def _apply_checks(self, effects: Effects) -> Effects:
        has_exposure = min(self._design.a.total_exposure, self._design.b.total_exposure) > 0
        if not self._blocking_checks and self._is_variance_unknown and has_exposure:
            return replace(effects, direction=(Direction.INCONCLUSIVE,) * len(effects.direction))
        return mark_not_comparable(effects, self._blocking_checks)

    @property
    def _is_variance_unknown(self) -> bool:
        """Whether a side has one pod in one block of time, which show no variance."""
        return (
            not self._design.frequency_count
            and min(self._design.a.row_count, self._design.b.row_count) < MIN_ROWS
        )

    def _compare_family(self, table: CostTable) -> EffectFamily:
        """Compute the effects of many quantities.

        Only those that the false-discovery rate allows count as changed.
        """
        sides = table.a, table.b, table.samples_a, table.samples_b
        found = compute_effects(self._design, *sides, with_shrinkage=True)
        q = benjamini_hochberg(found.p)
        found = self._apply_checks(assign_directions(found, self._design, q <= self._design.alpha))
        agree, rows = count_agreeing_rows(found, self._design, table.b)
        return EffectFamily(found, q, agree, rows)

    def _compare_idle(self, thread: str | None) -> EffectJson | None:
        """Compare the idle share of wall time, of all threads or of one kind.

        The result is None if a side has no idle share.
        """
        (idle_a, time_a, samples_a), (idle_b, time_b, samples_b) = (
            measure_idle_time(own, thread) for own in self._observations
        )
        if time_a.total_exposure <= 0 or time_b.total_exposure <= 0:
            return None
        of = self._build_design((time_a, time_b), (idle_a, idle_b))
        return to_effect_json(self._compute_effect(of, (idle_a, idle_b), (samples_a, samples_b)))

    def _compare_thread_idle(self) -> list[ThreadIdleJson]:
        found = ((thread, self._compare_idle(thread)) for thread in THREAD_KINDS)
        return [{"thread": thread, "idle": idle} for thread, idle in found if idle is not None]

    def _compare_event_loop(self) -> EventLoopJson | None:
        """Compare which functions block the event loop; None if there is no loop.

        Waiting samples are included, whatever profile type was requested.
        """
        if not has_event_loop_frames(self._lineless_stacks.builder.frame_names()):
            return None
        tree, rows = self._loaders.build_wall_tree()
        found = compare_event_loops(self._design, rename_tree_functions(tree, self.renames), rows)
        return told_loop(found, self._apply_checks) if found else None

    def _find_required_sample(self) -> SampleSizeAdvice | None:
        """Return the sample size that is lacking.

        Minutes are in addition to the observed time.
        """
        found = None if self._blocking_checks else advise_sample_size(self._rate_effects, self._design)
        if found is None or found.minutes is None:
            return found
        watched = (
            max(own.matrix.exposure.shape[1] * own.matrix.block_seconds for own in self._observations)
            / MINUTE_SECONDS
        )
        return replace(found, minutes=max(found.minutes - watched, 0.0))

    def _summarize(self, required: SampleSizeAdvice | None) -> str:
        return summarize_difference(
            build_summary_input(
                self._rate_effects,
                self._design,
                round(sum(self._sample_counts)),
                REQUEST if self._is_per_request else POD_SECOND,
            ),
            self._kind,
            unobserved=[
                side for side, taken in zip("AB", self._sampling, strict=True) if not taken.pod_seconds
            ],
            blocking_reason="; ".join(check.text.rstrip(".") for check in self._blocking_checks),
            required=RequiredSample(self._options.min_effect, **asdict(required)) if required else None,
        )
