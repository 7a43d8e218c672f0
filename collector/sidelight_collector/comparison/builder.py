"""Build the verdict of one comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final, cast

import numpy as np

from sidelight_collector.comparison.cost_tables import (
    CostTable,
    build_node_costs,
)
from sidelight_collector.comparison.culprit_rows import (
    CulpritSearch,
    FunctionEffects,
    flag_one_sided_nodes,
)
from sidelight_collector.comparison.effects import (
    CHANGED_DIRECTIONS,
    EffectFamily,
    build_summary_input,
    compute_table_effects,
    describe_method,
    describe_old_name,
    rank_functions,
)
from sidelight_collector.comparison.function_tests import (
    FunctionRates,
    compare_functions,
    find_changed_nodes,
)
from sidelight_collector.comparison.model import (
    ConditionJson,
    CulpritsJson,
    DepthEffectsJson,
    EffectJson,
    Verdict,
    build_exact_effect,
    finite_or_none,
    to_check_json,
    to_depth_json,
    to_effect_json,
)
from sidelight_collector.comparison.rename_matching import (
    include_old_names,
    rename_tree_functions,
)
from sidelight_collector.comparison.side_comparison import SideComparison
from sidelight_collector.query.call_tree import Flags
from sidelight_collector.query.select.matchers import find_full_matches
from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.power import SampleSizeAdvice, advise_sample_size
from sidelight_collector.statistics.inference.shrinkage import NO_PRIOR
from sidelight_collector.statistics.required_sample_text import RequiredSample
from sidelight_collector.statistics.summary_text import SHARE, ChangedFunction, summarize_difference
from sidelight_model.change import Direction
from sidelight_model.counts import ProfileType
from sidelight_model.culprits.changed_tree import NODE_CHANGED
from sidelight_model.frames import Frame, unescape_frame
from sidelight_model.gates import DEPTH_SUBJECTS, FUNCTION_SUBJECTS, Condition, evaluate_condition

MINUTE_SECONDS: Final = 60
NODE_NOT_JUDGED: Final = 2
"""Flag of a node that was not tested; 0 is within noise, 1 changed."""


class ComparisonBuilder:
    """A comparison while its verdict is built."""

    def __init__(self, sides: SideComparison) -> None:
        self._sides, self._options = sides, sides.options
        stacks = sides.stacks
        self._tree = rename_tree_functions(stacks.tree, sides.renames)
        rows = sides.stack_rows if stacks.pooled is stacks.lineless else sides.build_rows(stacks.pooled)
        self._tree_rows = rows
        self._node_costs = build_node_costs(self._tree, *rows, self._options.max_tests)
        self._self_effects = self._compare_family(sides.self_design, sides.self_rates)
        self._total_effects = self._compare_family(sides.total_design, sides.total_rates)
        self._changed_nodes = self._node_costs.node_ids[self._test_nodes()]

    def build(self) -> Verdict:
        of, own, total = self._sides.function_costs, self._self_effects, self._total_effects
        order = rank_functions(own, total)[: self._options.max_functions]
        frames = [Frame.parse(unescape_frame(of.names[at])) for at in order.tolist()]
        required, idle = self._find_required_sample(), self._sides.compare_idle(None)
        depths = self._sides.compare_depths()
        depth = to_depth_json(depths, self._sides.apply_checks) if depths else None
        return {
            "summary": self._summarize(required),
            "basis": self._sides.basis_choice.basis.value,
            "basis_reason": self._sides.basis_choice.reason,
            "available_bases": [basis.value for basis in self._sides.basis_choice.available],
            "min_relevant_share": self._options.min_relevant_share,
            "min_relevant_depth": self._options.min_relevant_depth,
            "direction": self._sides.rate_effects.direction[0].value,
            "rate": to_effect_json(self._sides.rate_effects),
            "sampling_only": to_effect_json(self._sides.sampled_effects),
            "idle": idle,
            "depth": depth,
            "loop": self._sides.compare_event_loop() if idle else None,
            "thread_kinds": self._sides.compare_thread_idle(),
            "checks": to_check_json(self._sides.checks),
            "culprits": self._find_culprits(),
            "functions": {
                "function": [frame.function for frame in frames],
                "file": [frame.file for frame in frames],
                "renamed_from": [
                    describe_old_name(self._sides.old_names[at], of.names[at]) for at in order.tolist()
                ],
                "self": own.to_columns(order),
                "total": total.to_columns(order),
            },
            "functions_total": of.function_count,
            "method": describe_method(
                self._sides.design,
                self._sides.sampled_effects,
                self._options,
                paired=self._sides.pairing,
                same_pods=self._sides.same_pods,
                pods=[own.pod_count for own in self._sides.observations],
                unit=SHARE if self._sides.are_shares else self._sides.unit,
                rate_source=self._sides.time_source(self._sides.kind),
            ),
            "required": None if required is None else {"minutes": required.minutes, "pods": required.pods},
            "conditions": self._evaluate_conditions(idle, depth),
        }

    def list_node_flags(self) -> list[int]:
        """List for each node of the tree: 0 within noise, 1 changed, 2 not judged."""
        changed = np.full(len(self._tree.level), NODE_NOT_JUDGED, np.int64)
        if self._sides.is_testable:
            changed[self._node_costs.node_ids] = 0
            changed[self._changed_nodes] = NODE_CHANGED
            changed = flag_one_sided_nodes(self._tree, changed)
            if self._sides.are_shares:
                changed[:1] = NODE_NOT_JUDGED
        flags: list[int] = changed.tolist()
        return flags

    def _test_nodes(self) -> Flags:
        """Return which nodes are outside noise, as far as the checks allow."""
        of, sides = self._node_costs, self._sides
        if not sides.is_testable:
            return np.zeros(len(of.node_ids), bool)
        prior = self._total_effects.effects.prior
        return find_changed_nodes(sides.total_design, of, sides.basis_choice.basis, prior)

    def _find_culprits(self) -> CulpritsJson:
        """Find the functions where the change starts."""
        sampled, whole = self._sides.sampled_effects, self._sides.rate_effects
        # The whole may be known by the clock, what accounts for it is known by samples.
        agreed = sampled.delta[0] * whole.delta[0] > 0
        is_changed = agreed and whole.direction[0] in CHANGED_DIRECTIONS
        search = CulpritSearch(
            self._sides.total_design,
            self._tree,
            self._tree_rows,
            FunctionEffects(self._sides.function_costs.names, self._self_effects, self._total_effects),
            are_shares=self._sides.are_shares,
        )
        return search.find(self._changed_nodes, float(sampled.delta[0]) if is_changed else None)

    def _evaluate_conditions(
        self, idle: EffectJson | None, depth: DepthEffectsJson | None
    ) -> list[ConditionJson]:
        results: list[ConditionJson] = []
        for condition in self._options.conditions:
            found = self._find_effect(condition, idle, depth)
            state, summary = evaluate_condition(
                condition,
                found,
                total_rate=float(self._sides.sampled_effects.baseline[0]),
                basis=self._sides.basis_choice.basis.value,
                basis_reason=self._sides.basis_choice.reason,
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
            direction = Direction.NOT_COMPARABLE if self._sides.blocking_checks else Direction.INCONCLUSIVE
            return build_exact_effect(depth["max"][0], depth["max"][1], direction) if depth else None
        if subject in DEPTH_SUBJECTS:
            of = cast("Mapping[str, EffectJson]", depth or {})
            return of.get(subject.removeprefix("depth."))
        if subject in ("rate", self._sides.kind.value):
            return to_effect_json(self._sides.rate_effects)
        return self._sides.compare_type(ProfileType(subject))

    def _compare_functions(self, condition: Condition) -> EffectJson | None:
        """Compare the time, or the share, of stacks with a condition's functions.

        The stacks contain (or end with) any of them. Each stack counts once.
        """
        canvas = self._sides.lineless_stacks.builder
        frames = [Frame.parse(unescape_frame(word)) for word in canvas.frame_names()]
        function, file = condition.patterns
        frame_mask = np.array(find_full_matches(function, [frame.function for frame in frames]), bool)
        if file:
            frame_mask &= np.array(find_full_matches(file, [frame.file for frame in frames]), bool)
        frame_mask = include_old_names(frame_mask, canvas.frame_names(), self._sides.renames)
        any_of, last = canvas.match_stacks(frame_mask)
        stack_mask, family, design = (
            (last, self._self_effects, self._sides.self_design)
            if condition.subject == "self"
            else (any_of, self._total_effects, self._sides.total_design)
        )
        prior, are_shares = family.effects.prior, self._sides.are_shares
        if condition.subject == "share" and not are_shares:
            design, prior, are_shares = self._sides.share_design, NO_PRIOR, True
        a, b = self._sides.stack_rows
        counted = a.count_samples(stack_mask), b.count_samples(stack_mask)
        if not any(counted):
            return self._build_zero_effect()
        table = CostTable(
            a.sum_seconds(stack_mask)[None], b.sum_seconds(stack_mask)[None], *np.array(counted)[:, None]
        )
        found = compute_table_effects(design, table, are_shares=are_shares, prior=prior)
        return to_effect_json(self._sides.apply_checks(found))

    def _build_zero_effect(self) -> EffectJson | None:
        """Build the effect of functions that no stack has.

        It is None if both sides were observed. Otherwise their absence means nothing, and the direction gives
        the reason.
        """
        if self._sides.blocking_checks:
            return build_exact_effect(0.0, 0.0, Direction.NOT_COMPARABLE)
        watched = all(taken.pod_seconds > 0 for taken in self._sides.sampling)
        return None if watched else build_exact_effect(0.0, 0.0, Direction.NO_DATA)

    def _compare_family(self, design: Design, rates: FunctionRates) -> EffectFamily:
        """Compare many quantities, as far as the checks allow."""
        family = compare_functions(design, rates)
        return replace(family, effects=self._sides.apply_checks(family.effects))

    def _find_required_sample(self) -> SampleSizeAdvice | None:
        """Return the sample size that is lacking.

        Minutes are in addition to the observed time.
        """
        is_lacking = not self._sides.blocking_checks and not self._sides.are_shares
        found = advise_sample_size(self._sides.rate_effects, self._sides.design) if is_lacking else None
        if found is None or found.minutes is None:
            return found
        watched = (
            max(own.matrix.exposure.shape[1] * own.matrix.block_seconds for own in self._sides.observations)
            / MINUTE_SECONDS
        )
        return replace(found, minutes=max(found.minutes - watched, 0.0))

    def _list_changed_functions(self) -> list[ChangedFunction]:
        """List the functions whose self time changed, largest change first."""
        effects, is_changed = self._self_effects.effects, self._self_effects.is_changed
        order = sorted(np.flatnonzero(is_changed).tolist(), key=lambda at: -abs(float(effects.delta[at])))
        return [
            ChangedFunction(
                Frame.parse(unescape_frame(self._sides.function_costs.names[at])).function,
                effects.direction[at],
                finite_or_none(float(effects.relative[at])),
            )
            for at in order
        ]

    def _summarize(self, required: SampleSizeAdvice | None) -> str:
        return summarize_difference(
            build_summary_input(
                self._sides.rate_effects,
                self._sides.design,
                round(sum(self._sides.sample_counts)),
                self._sides.unit,
            ),
            self._sides.kind,
            unobserved=[
                side for side, taken in zip("AB", self._sides.sampling, strict=True) if not taken.pod_seconds
            ],
            blocking_reason="; ".join(check.text.rstrip(".") for check in self._sides.blocking_checks),
            required=RequiredSample(self._options.min_effect, **asdict(required)) if required else None,
            changed_functions=self._list_changed_functions() if self._sides.are_shares else None,
        )
