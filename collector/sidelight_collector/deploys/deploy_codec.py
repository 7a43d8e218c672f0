"""Deploys as JSON in the store: docs/formats.md says what it looks like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from sidelight_collector.deploys.deploy import (
    AlertResolution,
    Delivery,
    Deploy,
    DeployAnalysis,
    DeployEnd,
    DeployRollout,
    DeployState,
    FinishReason,
    ObservedSpan,
    TimeRange,
)
from sidelight_collector.storage.documents import parse_document, rename_fields
from sidelight_collector.storage.objects import ObjectDamaged

FORMAT: Final = 2
_FORMAT_1: Final[Mapping[str, Mapping[str, str]]] = {
    "deploy": {"judged": "conclusion", "looks": "analyses", "over": "finished"},
    "analysis": {"k": "index", "way": "comparison_mode", "sentence": "summary"},
    "finished": {"why": "reason", "by": "successor"},
    "resolved": {"by": "user"},
    "delivery": {"tries": "attempts"},
}
"""Names of format 1 that are others now, by what has them."""
_FORMAT_1_VALUES: Final[Mapping[str, str]] = {
    "fine": "pass",
    "unclear": "inconclusive",
    "incomparable": "not_comparable",
    "over": "finished",
}
"""States of format 1 that are called otherwise now."""
_FORMAT_1_MODES: Final[Mapping[str, str]] = {"": "none", "hours": "same_hours", "before": "previous_period"}
"""The same of comparison modes."""
_FORMAT_1_VERDICT: Final[Mapping[str, str]] = {
    "a": "baseline",
    "b": "comparison",
    "detectable": "min_detectable_effect",
    "agree": "pods_agreeing",
    "of": "pods_total",
    "sentence": "summary",
    "sampled": "sampling_only",
    "roles": "thread_kinds",
    "holders": "blockers",
    "functions_in_all": "functions_total",
    "more": "required",
    "look": "analysis_index",
    "level": "alpha_spent",
    "detect": "min_effect",
    "rows": "pod_groups",
    "blocks": "time_blocks",
    "rounds": "bootstrap_rounds",
    "measured": "rate_source",
}
"""The same of a verdict, wherever in it they are."""
_FORMAT_1_VERDICT_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "direction": {
        "more": "increased",
        "less": "decreased",
        "gone": "removed",
        "same": "unchanged",
        "unclear": "inconclusive",
        "unknown": "no_data",
        "incomparable": "not_comparable",
    },
    "state": {
        "fine": "pass",
        "unclear": "inconclusive",
        "incomparable": "not_comparable",
        "alike": "match",
        "differs": "mismatch",
    },
    "severity": {"refuse": "blocking"},
    "reason": {"lines_told_apart": "lines_separate", "pods_together": "pods_merged"},
}
"""The values of a verdict's fields in format 1 that are others now, by the field's name."""


def encode_deploy(deploy: Deploy) -> bytes:
    """A deploy as it is written."""
    fields = {name: getattr(deploy, name) for name in Deploy.__dataclass_fields__}
    return orjson.dumps({"format": FORMAT, **fields}, option=orjson.OPT_SORT_KEYS)


def decode_deploy(key: str, content: bytes) -> Deploy:
    """A deploy as it was written. Raises ObjectDamaged."""
    told: Mapping[str, Any] = parse_document(key, content, FORMAT)
    try:
        if told["format"] == 1:
            told = _of_format_1(told)
        return Deploy(
            str(told["id"]),
            str(told["namespace"]),
            str(told["service"]),
            str(told["version"]),
            str(told["previous"]),
            float(told["started"]),
            float(told["first_seen"]),
            ObservedSpan(**told["previous_seen"]),
            told["due"],
            DeployRollout(**told["rollout"]) if told["rollout"] else None,
            DeployState(told["state"]),
            str(told["conclusion"]),
            tuple(map(_parse_analysis, told["analyses"])),
            told["verdict"],
            _parse_end(told["finished"]),
            AlertResolution(**told["resolved"]) if told["resolved"] else None,
            told["regressed_at"],
            tuple(Delivery(**one) for one in told["deliveries"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectDamaged(key, f"it is no deploy: {error}") from error


def _parse_analysis(told: Mapping[str, Any]) -> DeployAnalysis:
    sides = {name: TimeRange(**told[name]) if told[name] else None for name in ("baseline", "comparison")}
    state, conditions = DeployState(told["state"]), tuple(told["conditions"])
    return DeployAnalysis(**{**told, **sides, "state": state, "conditions": conditions})


def _parse_end(told: Mapping[str, Any] | None) -> DeployEnd | None:
    return (
        DeployEnd(float(told["at"]), FinishReason(told["reason"]), str(told["successor"])) if told else None
    )


def _of_format_1(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    told = rename_fields(raw, _FORMAT_1["deploy"])
    told["state"] = _FORMAT_1_VALUES.get(told["state"], told["state"])
    told["conclusion"] = _FORMAT_1_VALUES.get(told["conclusion"], told["conclusion"])
    told["analyses"] = [rename_fields(one, _FORMAT_1["analysis"]) for one in told["analyses"]]
    for one in told["analyses"]:
        one["state"] = _FORMAT_1_VALUES.get(one["state"], one["state"])
        one["comparison_mode"] = _FORMAT_1_MODES.get(one["comparison_mode"], one["comparison_mode"])
        one["rate"] = _verdict_of_format_1(one["rate"])
        one["conditions"] = _verdict_of_format_1(one["conditions"])
    told["verdict"] = _verdict_of_format_1(told["verdict"])
    for name in ("finished", "resolved"):
        told[name] = rename_fields(told[name], _FORMAT_1[name]) if told[name] else None
    told["deliveries"] = [rename_fields(one, _FORMAT_1["delivery"]) for one in told["deliveries"]]
    return told


def _verdict_of_format_1(part: Any) -> Any:
    if isinstance(part, list):
        return [_verdict_of_format_1(one) for one in part]
    if not isinstance(part, Mapping):
        return part
    return {
        _FORMAT_1_VERDICT.get(name, name): _value_of_format_1(value, values)
        if (values := _FORMAT_1_VERDICT_VALUES.get(name))
        else _verdict_of_format_1(value)
        for name, value in part.items()
    }


def _value_of_format_1(value: Any, values: Mapping[str, str]) -> Any:
    # The table of functions has columns: a list of directions.
    return [values.get(one, one) for one in value] if isinstance(value, list) else values.get(value, value)
