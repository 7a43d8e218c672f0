"""Deploys as JSON in the store: docs/formats.md says what it looks like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from sidelight_collector.deploys.deploy import (
    Delivery,
    Deploy,
    Look,
    Over,
    Range,
    Resolved,
    Rolled,
    Span,
    State,
    Why,
)
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


def encode(deploy: Deploy) -> bytes:
    """A deploy as it is written."""
    fields = {name: getattr(deploy, name) for name in Deploy.__dataclass_fields__}
    return orjson.dumps({"format": FORMAT, **fields}, option=orjson.OPT_SORT_KEYS)


def decode(key: str, content: bytes) -> Deploy:
    """A deploy as it was written. Raises ObjectDamaged."""
    try:
        told: Any = orjson.loads(content)
        if told["format"] not in (1, FORMAT):
            raise ValueError(f"format {told['format']}")
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
            Span(**told["previous_seen"]),
            told["due"],
            Rolled(**told["rollout"]) if told["rollout"] else None,
            State(told["state"]),
            str(told["conclusion"]),
            tuple(map(_look, told["analyses"])),
            told["verdict"],
            _over(told["finished"]),
            Resolved(**told["resolved"]) if told["resolved"] else None,
            told["regressed_at"],
            tuple(Delivery(**one) for one in told["deliveries"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectDamaged(key, f"it is no deploy: {error}") from error


def _look(told: Mapping[str, Any]) -> Look:
    sides = {name: Range(**told[name]) if told[name] else None for name in ("baseline", "comparison")}
    state, conditions = State(told["state"]), tuple(told["conditions"])
    return Look(**{**told, **sides, "state": state, "conditions": conditions})


def _over(told: Mapping[str, Any] | None) -> Over | None:
    return Over(float(told["at"]), Why(told["reason"]), str(told["successor"])) if told else None


def _of_format_1(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    told = _renamed(raw, "deploy")
    told["state"] = _FORMAT_1_VALUES.get(told["state"], told["state"])
    told["conclusion"] = _FORMAT_1_VALUES.get(told["conclusion"], told["conclusion"])
    told["analyses"] = [_renamed(one, "analysis") for one in told["analyses"]]
    for one in told["analyses"]:
        one["state"] = _FORMAT_1_VALUES.get(one["state"], one["state"])
        one["comparison_mode"] = _FORMAT_1_MODES.get(one["comparison_mode"], one["comparison_mode"])
    for name in ("finished", "resolved"):
        told[name] = _renamed(told[name], name) if told[name] else None
    told["deliveries"] = [_renamed(one, "delivery") for one in told["deliveries"]]
    return told


def _renamed(raw: Mapping[str, Any], what: str) -> dict[str, Any]:
    return {_FORMAT_1[what].get(name, name): value for name, value in raw.items()}
