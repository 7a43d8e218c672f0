"""Compare two recordings by their samples alone, without a collector.

The result has the form of the collector's response to `/api/v1/verdict`. Without recording times it is a
comparison by composition: functions are compared by their share of the samples, and the total is not judged.
With them samples per second are compared, as if the load was equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from sidelight_model.change import format_number, format_percent
from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.provenance import format_minutes
from sidelight_model.frames import Frame
from sidelight_model.gates import (
    COMPOSITION,
    FUNCTION_SUBJECTS,
    TIME_SUBJECTS,
    Condition,
    evaluate_condition,
)
from sidelight_model.recordings.inputs.sample_weights import RecordedSamples
from sidelight_model.recordings.recording_checks import check_recordings
from sidelight_model.recordings.recording_culprits import find_recording_culprits
from sidelight_model.recordings.recording_pair import (
    CHANGED_DIRECTIONS,
    EQUAL_LOAD,
    JsonObject,
    RecordingPair,
)
from sidelight_model.recordings.sample_counts import FunctionKey, SampleCounts
from sidelight_model.recordings.sampling_noise import (
    FDR,
    CommonShift,
    compute_effect,
    estimate_mean,
    estimate_quantile,
    estimate_share,
)

MAX_FUNCTIONS: Final = 10_000
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_BASIS_REASONS: Final = {
    COMPOSITION: "Files do not say how long they were recorded.",
    EQUAL_LOAD: "Both recording times are given.",
}
_TYPE_NAMES: Final = {
    ProfileType.CPU: "CPU",
    ProfileType.WALL: "thread",
    ProfileType.GIL: "GIL",
    ProfileType.GIL_WAIT: "GIL wait",
    ProfileType.OFF_CPU: "off-CPU",
    ProfileType.TASKS: "task",
}


def compare_recordings(
    pair: RecordingPair,
    conditions: Sequence[Condition],
    recordings: Sequence[RecordedSamples] = (),
) -> JsonObject:
    """Build the response that a collector would send, as far as samples allow.

    With more than `MAX_FUNCTIONS` functions, only the largest by total samples are tested. Conditions
    consider all functions. `recordings` say how the files were read.
    """
    checks = check_recordings(pair.baseline, pair.comparison, pair.kind, recordings)
    is_blocked = any(check["severity"] == "blocking" for check in checks)
    total_effect = (
        pair.compute_effect(pair.baseline.samples, pair.comparison.samples)
        if pair.seconds and not pair.empty_sides
        else None
    )
    common = pair.find_common_shift()
    functions = _compare_functions(pair, common)
    direction = total_effect["direction"] if total_effect else "no_data" if pair.empty_sides else "not_judged"
    culprits: JsonObject = {"share": None, "rows": []}
    if not (is_blocked or pair.empty_sides):
        whole = total_effect["delta"] if total_effect and direction in CHANGED_DIRECTIONS else None
        culprits = find_recording_culprits(pair, functions, common, whole)
    verdict: JsonObject = {
        "summary": _summarize(pair, total_effect, functions),
        "basis": pair.basis,
        "basis_reason": _BASIS_REASONS[pair.basis],
        "available_bases": list(dict.fromkeys((pair.basis, COMPOSITION))),
        "min_relevant_share": pair.min_relevant.share,
        "min_relevant_depth": pair.min_relevant.depth,
        "direction": "not_comparable" if is_blocked else direction,
        "rate": total_effect,
        "idle": _compare_idle(pair),
        "depth": _compare_depths(pair),
        "loop": None,
        "thread_kinds": [],
        "checks": checks,
        "culprits": culprits,
        "functions": functions,
        "functions_total": len({*pair.baseline.total_samples, *pair.comparison.total_samples}),
        "method": _describe_method(pair, common),
        "required": _estimate_required_data(pair, total_effect),
    }
    verdict["conditions"] = [
        _evaluate_condition(pair, condition, verdict, common, is_blocked=is_blocked)
        for condition in conditions
    ]
    return {
        "type": pair.kind.value,
        "sides": [_side_to_json(pair, at, side) for at, side in enumerate((pair.baseline, pair.comparison))],
        "verdict": verdict,
        "basis": {},
    }


def _evaluate_condition(
    pair: RecordingPair,
    condition: Condition,
    verdict: JsonObject,
    common: CommonShift,
    *,
    is_blocked: bool,
) -> JsonObject:
    subject_effect = (
        {"direction": "not_comparable"}
        if is_blocked
        else _find_subject_effect(pair, condition, verdict, common)
    )
    state, sentence = evaluate_condition(
        condition, subject_effect, total_rate=pair.total_rate, basis=pair.basis
    )
    return {"condition": str(condition), "state": state, "summary": sentence, "effect": subject_effect}


def _find_subject_effect(
    pair: RecordingPair, condition: Condition, verdict: JsonObject, common: CommonShift
) -> JsonObject | None:
    """Return the effect on a condition's subject; None if the recordings have none."""
    if pair.empty_sides:
        return {"direction": "no_data"}
    subject = condition.subject
    if subject in FUNCTION_SUBJECTS:
        a, b = (
            side.count_matching(condition.accepts, self_only=subject == "self")
            for side in (pair.baseline, pair.comparison)
        )
        if not (a or b):
            return None
        is_share = subject == "share"
        return pair.compute_share_effect(a, b, common) if is_share else pair.compute_effect(a, b, common)
    if subject in TIME_SUBJECTS:
        kind = pair.kind if subject == "rate" else ProfileType(subject)
        return (
            pair.compute_effect(pair.baseline.states.for_type(kind), pair.comparison.states.for_type(kind))
            if pair.seconds
            else None
        )
    if subject == "idle":
        return verdict["idle"]  # type: ignore[no-any-return]
    if subject == "depth.max":
        a, b = verdict["depth"]["max"]
        return {"baseline": a, "comparison": b, "delta": b - a}
    return verdict["depth"][subject.removeprefix("depth.")]  # type: ignore[no-any-return]


def _compare_functions(pair: RecordingPair, common: CommonShift) -> JsonObject:
    """Return the functions' effects as columns.

    Changed functions come first, then the largest differences of total.
    """
    a, b = pair.baseline.total_samples, pair.comparison.total_samples
    names = sorted({*a, *b}, key=lambda name: (-max(a.get(name, 0), b.get(name, 0)), name))[:MAX_FUNCTIONS]
    columns = {}
    for of, in_a, in_b in (
        ("self", pair.baseline.self_samples, pair.comparison.self_samples),
        ("total", a, b),
    ):
        columns[of] = _test_functions(pair, names, in_a, in_b, common)
    order = sorted(
        range(len(names)),
        key=lambda at: (
            not any(columns[of][at]["direction"] in CHANGED_DIRECTIONS for of in columns),
            -abs(columns["total"][at]["delta"]),
            names[at],
        ),
    )
    columns_by_name: JsonObject = {
        "function": [names[at][0] for at in order],
        "file": [names[at][1] for at in order],
        "renamed_from": [None] * len(order),
    }
    for of, effects in columns.items():
        keys = effects[0] if effects else ()
        columns_by_name[of] = {key: [effects[at][key] for at in order] for key in keys}
    return columns_by_name


def _test_functions(
    pair: RecordingPair,
    names: Sequence[FunctionKey],
    a: Mapping[FunctionKey, int],
    b: Mapping[FunctionKey, int],
    common: CommonShift,
) -> list[JsonObject]:
    """Return the effects of functions, tested as one family."""
    pods = {"pods_agreeing": None, "pods_total": None}
    if pair.empty_sides:
        absent = dict.fromkeys(
            ("low", "high", "relative", "relative_low", "relative_high", "p", "min_detectable_effect")
        )
        blank = {"baseline": 0.0, "comparison": 0.0, "delta": 0.0, **absent, "direction": "no_data"}
        return [{**blank, "q": None, **pods} for _ in names]
    samples = [(a.get(name, 0), b.get(name, 0)) for name in names]
    return [{**effect, **pods} for effect in pair.compute_family_effects(samples, common)]


def _compare_idle(pair: RecordingPair) -> JsonObject | None:
    states = [side.states for side in (pair.baseline, pair.comparison)]
    if not all(counts.wall for counts in states) or not any(counts.off_cpu for counts in states):
        return None
    a, b = (estimate_share(counts.off_cpu, counts.wall) for counts in states)
    return compute_effect(a, b, pair.level)


def _compare_depths(pair: RecordingPair) -> JsonObject | None:
    if pair.empty_sides:
        return None
    a, b = pair.baseline.samples_by_depth, pair.comparison.samples_by_depth
    estimates = {"mean": (estimate_mean(a), estimate_mean(b))}
    for name, part in QUANTILES.items():
        estimates[name] = (estimate_quantile(a, part), estimate_quantile(b, part))
    document: JsonObject = {
        name: compute_effect(*both, pair.level, min_relevant=pair.min_relevant.depth)
        for name, both in estimates.items()
    }
    return document | {"max": [max(a), max(b)], "gap": None}


def _side_to_json(pair: RecordingPair, at: int, side: SampleCounts) -> JsonObject:
    return {
        "selector": side.name,
        "from": None,
        "until": None,
        "samples": side.samples,
        "windows": 1 if side.samples else 0,
        "pods": 1 if side.samples else 0,
        "pod_seconds": pair.seconds[at] if pair.seconds else 0.0,
    }


def _describe_method(pair: RecordingPair, common: CommonShift) -> JsonObject:
    level = pair.level
    document: JsonObject = {
        "alpha": level.alpha,
        "analysis_index": level.analysis_index,
        "alpha_spent": level.spent_alpha,
    }
    document |= {"min_effect": level.min_effect, "between_runs": math.sqrt(common.variance)}
    return document | {"fdr": FDR, "unit": "second" if pair.seconds else "share", "noise": "counting"}


def _estimate_required_data(pair: RecordingPair, total_effect: JsonObject | None) -> JsonObject | None:
    """Estimate how much longer to record to detect the minimum effect.

    Counting noise shrinks with the square root of time.
    """
    if total_effect is None or pair.seconds is None or not total_effect["min_detectable_effect"]:
        return None
    times = (total_effect["min_detectable_effect"] / pair.level.min_effect) ** 2 - 1
    return {"minutes": math.ceil(times * max(pair.seconds) / 6) / 10, "pods": None} if times > 0 else None


def _summarize(pair: RecordingPair, total_effect: JsonObject | None, functions: JsonObject) -> str:
    type_name = _TYPE_NAMES[pair.kind]
    if pair.empty_sides:
        have = "have" if len(pair.empty_sides) > 1 else "has"
        return (
            f"{' and '.join(pair.empty_sides)} {have} no {type_name} samples, so there is nothing to compare."
        )
    if total_effect is not None:
        numbers = (
            f"{format_number(total_effect['baseline'])} → "
            f"{format_number(total_effect['comparison'])} samples per second"
        )
        if total_effect["direction"] in CHANGED_DIRECTIONS:
            part = total_effect["relative"]
            by = f"{format_percent(abs(part))} {'more' if part > 0 else 'less'}"
            return f"B takes {by} {type_name} time than A ({numbers})."
        if total_effect["direction"] == "unchanged":
            return f"{type_name} time: no detectable change ({numbers})."
        required = _estimate_required_data(pair, total_effect)
        text = f"Not enough data to say whether {type_name} time changed ({numbers})"
        if required is None:
            return f"{text}."
        return (
            f"{text}: about {format_minutes(required['minutes'])} more of both would show "
            f"{_format_min_effect(pair)}."
        )
    changed = _find_directions(functions, CHANGED_DIRECTIONS)
    if not changed:
        minor = ", except for minor changes" if _find_directions(functions, ("minor",)) else ""
        tested = f"{len(functions['function']):,} functions"
        return (
            f"No function of {tested} takes a detectably larger or smaller share of {type_name} samples in B"
            f"{minor}."
        )
    at = max(
        changed,
        key=lambda index: (
            abs(functions["self"]["delta"][index]),
            abs(functions["total"]["delta"][index]),
        ),
    )
    of = "self" if functions["self"]["direction"][at] in CHANGED_DIRECTIONS else "total"
    name = Frame(functions["function"][at], functions["file"][at]).text
    from_, to = (format_percent(functions[of][side][at]) for side in ("baseline", "comparison"))
    number = "1 function takes" if len(changed) == 1 else f"{len(changed):,} functions take"
    return f"{number} another share of {type_name} samples in B; most of all {name}: {from_} → {to} ({of})."


def _format_min_effect(pair: RecordingPair) -> str:
    return f"{pair.level.min_effect * 100:.4g} %"


def _find_directions(functions: JsonObject, directions: Sequence[str]) -> list[int]:
    """Return the functions whose self time or total has one of these directions."""
    both = zip(functions["self"].get("direction", ()), functions["total"].get("direction", ()), strict=True)
    return [at for at, pair in enumerate(both) if not set(directions).isdisjoint(pair)]
