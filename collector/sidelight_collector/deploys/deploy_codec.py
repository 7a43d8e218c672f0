"""Deploys as JSON in the store; docs/formats.md specifies the format."""

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
    TimeRange,
)
from sidelight_collector.storage.documents import parse_document, rename_fields
from sidelight_collector.storage.objects import ObjectDamaged
from sidelight_collector.times import ObservedSpan

FORMAT: Final = 3
_FORMAT_1: Final[Mapping[str, Mapping[str, str]]] = {
    "deploy": {"judged": "conclusion", "looks": "analyses", "over": "finished"},
    "analysis": {"k": "index", "way": "comparison_mode", "sentence": "summary"},
    "finished": {"why": "reason", "by": "successor"},
    "resolved": {"by": "user"},
    "delivery": {"tries": "attempts"},
}
"""Current names of the fields of format 1, by kind of object."""
_FORMAT_1_VALUES: Final[Mapping[str, str]] = {
    "fine": "pass",
    "unclear": "inconclusive",
    "incomparable": "not_comparable",
    "over": "finished",
}
"""Current names of the states of format 1."""
_FORMAT_1_MODES: Final[Mapping[str, str]] = {"": "none", "hours": "same_hours", "before": "previous_period"}
"""Current names of the comparison modes of format 1."""
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
"""Current names of a verdict's fields of format 1, at any depth."""
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
"""Current values of a verdict's fields of format 1, by name of the field."""


def encode_deploy(deploy: Deploy) -> bytes:
    """Encode a deploy for the store."""
    fields = {name: getattr(deploy, name) for name in Deploy.__dataclass_fields__}
    return orjson.dumps({"format": FORMAT, **fields}, option=orjson.OPT_SORT_KEYS)


def decode_deploy(key: str, content: bytes) -> Deploy:
    """Decode a stored deploy.

    Raises ObjectDamaged.
    """
    document: Mapping[str, Any] = parse_document(key, content, FORMAT)
    try:
        if document["format"] == 1:
            document = _of_format_1(document)
        if document["format"] < FORMAT:
            document = {**document, "verdict": _verdict_of_format_2(document["verdict"])}
        return Deploy(
            str(document["id"]),
            str(document["namespace"]),
            str(document["service"]),
            str(document["version"]),
            str(document["previous"]),
            float(document["started"]),
            float(document["first_seen"]),
            ObservedSpan(**document["previous_seen"]),
            document["due"],
            DeployRollout(**document["rollout"]) if document["rollout"] else None,
            DeployState(document["state"]),
            str(document["conclusion"]),
            tuple(map(_parse_analysis, document["analyses"])),
            document["verdict"],
            _parse_end(document["finished"]),
            AlertResolution(**document["resolved"]) if document["resolved"] else None,
            document["regressed_at"],
            tuple(Delivery(**delivery) for delivery in document["deliveries"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectDamaged(key, f"it is no deploy: {error}") from error


def _parse_analysis(raw: Mapping[str, Any]) -> DeployAnalysis:
    sides = {name: TimeRange(**raw[name]) if raw[name] else None for name in ("baseline", "comparison")}
    state, conditions = DeployState(raw["state"]), tuple(raw["conditions"])
    return DeployAnalysis(**{**raw, **sides, "state": state, "conditions": conditions})


def _parse_end(raw: Mapping[str, Any] | None) -> DeployEnd | None:
    return DeployEnd(float(raw["at"]), FinishReason(raw["reason"]), str(raw["successor"])) if raw else None


def _of_format_1(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    document = rename_fields(raw, _FORMAT_1["deploy"])
    document["state"] = _FORMAT_1_VALUES.get(document["state"], document["state"])
    document["conclusion"] = _FORMAT_1_VALUES.get(document["conclusion"], document["conclusion"])
    document["analyses"] = [rename_fields(entry, _FORMAT_1["analysis"]) for entry in document["analyses"]]
    for entry in document["analyses"]:
        entry["state"] = _FORMAT_1_VALUES.get(entry["state"], entry["state"])
        entry["comparison_mode"] = _FORMAT_1_MODES.get(entry["comparison_mode"], entry["comparison_mode"])
        entry["rate"] = _verdict_of_format_1(entry["rate"])
        entry["conditions"] = _verdict_of_format_1(entry["conditions"])
    document["verdict"] = _verdict_of_format_1(document["verdict"])
    for name in ("finished", "resolved"):
        document[name] = rename_fields(document[name], _FORMAT_1[name]) if document[name] else None
    document["deliveries"] = [rename_fields(entry, _FORMAT_1["delivery"]) for entry in document["deliveries"]]
    return document


def _verdict_of_format_2(verdict: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Convert a verdict of format 2, which has no culprits and remedies."""
    if verdict is None:
        return None
    fields = {name: value for name, value in verdict.items() if name != "explanation"}
    checks = [{**check, "remedy": None} for check in verdict.get("checks", ())]
    return {**fields, "checks": checks, "culprits": {"share": None, "rows": []}}


def _verdict_of_format_1(part: Any) -> Any:
    if isinstance(part, list):
        return [_verdict_of_format_1(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    return {
        _FORMAT_1_VERDICT.get(name, name): _value_of_format_1(value, values)
        if (values := _FORMAT_1_VERDICT_VALUES.get(name))
        else _verdict_of_format_1(value)
        for name, value in part.items()
    }


def _value_of_format_1(value: Any, values: Mapping[str, str]) -> Any:
    # In the table of functions, which has columns, it is a list of values.
    return [values.get(item, item) for item in value] if isinstance(value, list) else values.get(value, value)
