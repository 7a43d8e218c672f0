"""Captures as JSON in the store: docs/formats.md says what it looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import orjson

from sidelight_collector.captures.capture import Attached, Capture, Claim, Outcome, Part, Report, State, Wish
from sidelight_collector.query.select.matchers import read_selector
from sidelight_collector.storage.objects import ObjectDamaged

FORMAT: Final = 1


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
        "ordered": wish.ordered,
        "created": capture.created,
        "by": capture.by,
        "claims": [_claim(one) for one in capture.claims],
        "stop_at": capture.stop_at,
        "ended": None if capture.ended is None else asdict(capture.ended),
    }
    if wish.attach:
        told |= {"attach": True, "container": wish.container}
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS)


def decode(key: str, content: bytes) -> Capture:
    """A capture as it was written. Raises ObjectDamaged."""
    told = _told(key, content)
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
            bool(told["ordered"]),
            bool(told.get("attach", False)),
            str(told.get("container", "")),
        )
        ended = told["ended"]
        return Capture(
            str(told["id"]),
            wish,
            float(told["created"]),
            str(told["by"]),
            tuple(
                Claim(
                    str(one["agent"]),
                    dict(one["labels"]),
                    float(one["at"]),
                    Attached(**one["attached"]) if one.get("attached") else None,
                )
                for one in told["claims"]
            ),
            None if told["stop_at"] is None else float(told["stop_at"]),
            None
            if ended is None
            else Outcome(
                State(ended["state"]),
                float(ended["at"]),
                str(ended["problem"]),
                str(ended["hint"]),
                int(ended["samples"]),
                float(ended["elapsed_seconds"]),
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ObjectDamaged(key, f"{type(error).__name__}: {error}") from error


def _claim(claim: Claim) -> dict[str, Any]:
    told: dict[str, Any] = {"agent": claim.agent, "labels": dict(claim.labels), "at": claim.at}
    return told if claim.attached is None else told | {"attached": asdict(claim.attached)}


def encode_part(part: Part) -> bytes:
    """The last report of a sidecar as it is written."""
    told = {"format": FORMAT, "agent": part.agent, "heard": part.heard, "report": asdict(part.report)}
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS)


def decode_part(key: str, content: bytes) -> Part:
    """The last report of a sidecar as it was written. Raises ObjectDamaged."""
    told = _told(key, content)
    try:
        report = dict(told["report"])
        report["state"] = State(report["state"])
        report["top"] = [(str(name), int(samples)) for name, samples in report["top"]]
        return Part(str(told["agent"]), float(told["heard"]), Report(**report))
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectDamaged(key, f"{type(error).__name__}: {error}") from error


def _told(key: str, content: bytes) -> Mapping[str, Any]:
    try:
        told = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ObjectDamaged(key, str(error)) from error
    if not isinstance(told, dict) or not isinstance(told.get("format"), int):
        raise ObjectDamaged(key, "it is no JSON object with a format")
    if told["format"] > FORMAT:
        raise ObjectDamaged(key, f"it is in format {told['format']}, and this version reads up to {FORMAT}")
    return told
