"""Captures as JSON in the store: docs/formats.md says what it looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import orjson

from sidelight_collector.captures.capture import Attached, Capture, Claim, Outcome, Part, Wish
from sidelight_collector.query.select.matchers import read_selector
from sidelight_collector.storage.objects import ObjectDamaged
from sidelight_model.capture_protocol import BadMessage, CaptureReport, CaptureState

FORMAT: Final = 2
_FORMAT_1: Final[Mapping[str, Mapping[str, str]]] = {
    "capture": {"by": "requested_by", "ended": "outcome", "ordered": "timeline"},
    "claim": {"attached": "ephemeral_sidecar"},
    "part": {"heard": "last_seen"},
    "report": {"top": "top_functions"},
}
"""Names of format 1 that are others now, by what has them."""
_NO_NAMES: Final[Mapping[str, Mapping[str, str]]] = {what: {} for what in _FORMAT_1}


def encode(capture: Capture) -> bytes:
    """A capture as it is written."""
    wish = capture.wish
    told: dict[str, Any] = {
        "format": FORMAT,
        "id": capture.id,
        "service": wish.service,
        "query": wish.query,
        "pods": list(wish.pods) if isinstance(wish.pods, tuple) else wish.pods,
        "seconds": wish.seconds,
        "rate": wish.rate,
        "mode": wish.mode,
        "timeline": wish.timeline,
        "created": capture.created,
        "requested_by": capture.by,
        "claims": [_claim(one) for one in capture.claims],
        "stop_at": capture.stop_at,
        "outcome": None if capture.ended is None else asdict(capture.ended),
    }
    if wish.attach:
        told |= {"attach": True, "container": wish.container}
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS)


def decode(key: str, content: bytes) -> Capture:
    """A capture as it was written. Raises ObjectDamaged."""
    told, renamed = _told(key, content, "capture")
    try:
        pods = told["pods"]
        wish = Wish(
            str(told["service"]),
            str(told["query"]),
            read_selector(str(told["query"])),
            tuple(map(str, pods)) if isinstance(pods, list) else pods,
            float(told["seconds"]),
            int(told["rate"]),
            str(told["mode"]),
            bool(told["timeline"]),
            bool(told.get("attach", False)),
            str(told.get("container", "")),
        )
        outcome = told["outcome"]
        return Capture(
            str(told["id"]),
            wish,
            float(told["created"]),
            str(told["requested_by"]),
            tuple(
                Claim(
                    str(one["agent"]),
                    dict(one["labels"]),
                    float(one["at"]),
                    Attached(**one["ephemeral_sidecar"]) if one.get("ephemeral_sidecar") else None,
                )
                for one in (_renamed(claim, renamed["claim"]) for claim in told["claims"])
            ),
            None if told["stop_at"] is None else float(told["stop_at"]),
            None
            if outcome is None
            else Outcome(
                CaptureState(outcome["state"]),
                float(outcome["at"]),
                str(outcome["problem"]),
                str(outcome["hint"]),
                int(outcome["samples"]),
                float(outcome["elapsed_seconds"]),
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ObjectDamaged(key, f"{type(error).__name__}: {error}") from error


def _claim(claim: Claim) -> dict[str, Any]:
    told: dict[str, Any] = {"agent": claim.agent, "labels": dict(claim.labels), "at": claim.at}
    return told if claim.attached is None else told | {"ephemeral_sidecar": asdict(claim.attached)}


def encode_part(part: Part) -> bytes:
    """The last report of a sidecar as it is written."""
    told = {
        "format": FORMAT,
        "agent": part.agent,
        "last_seen": part.last_seen,
        "report": part.report.to_json(),
    }
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS)


def decode_part(key: str, content: bytes) -> Part:
    """The last report of a sidecar as it was written. Raises ObjectDamaged."""
    told, renamed = _told(key, content, "part")
    try:
        report = _renamed(told["report"], renamed["report"])
        if told["format"] == 1:
            top = [{"function": name, "self_samples": samples} for name, samples in report["top_functions"]]
            report["top_functions"] = top
        return Part(str(told["agent"]), float(told["last_seen"]), CaptureReport.parse(report))
    except (ValueError, KeyError, TypeError, AttributeError, BadMessage) as error:
        raise ObjectDamaged(key, f"{type(error).__name__}: {error}") from error


def _told(key: str, content: bytes, what: str) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, str]]]:
    """An object by its names of today, and the names to be changed in what it holds."""
    try:
        told = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ObjectDamaged(key, str(error)) from error
    if not isinstance(told, dict) or not isinstance(told.get("format"), int):
        raise ObjectDamaged(key, "it is no JSON object with a format")
    if told["format"] > FORMAT:
        raise ObjectDamaged(key, f"it is in format {told['format']}, and this version reads up to {FORMAT}")
    renamed = _FORMAT_1 if told["format"] == 1 else _NO_NAMES
    return _renamed(told, renamed[what]), renamed


def _renamed(raw: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in raw.items()}
