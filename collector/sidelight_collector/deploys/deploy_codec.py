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

FORMAT: Final = 1


def encode(deploy: Deploy) -> bytes:
    """A deploy as it is written."""
    fields = {name: getattr(deploy, name) for name in Deploy.__dataclass_fields__}
    return orjson.dumps({"format": FORMAT, **fields}, option=orjson.OPT_SORT_KEYS)


def decode(key: str, content: bytes) -> Deploy:
    """A deploy as it was written. Raises ObjectDamaged."""
    try:
        told: Any = orjson.loads(content)
        if told["format"] != FORMAT:
            raise ValueError(f"format {told['format']}")
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
            str(told["judged"]),
            tuple(map(_look, told["looks"])),
            told["verdict"],
            _over(told["over"]),
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
    return Over(float(told["at"]), Why(told["why"]), str(told["by"])) if told else None
