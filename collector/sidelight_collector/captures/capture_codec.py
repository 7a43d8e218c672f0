"""Captures as JSON in the store; docs/formats.md specifies the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import orjson

from sidelight_collector.captures.capture import (
    Capture,
    CaptureOutcome,
    CapturePart,
    CaptureRequest,
    Claim,
    EphemeralSidecar,
)
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.storage.documents import parse_document, rename_fields
from sidelight_collector.storage.objects import ObjectDamaged
from sidelight_model.capture_protocol import BadMessage, CaptureReport, CaptureState

FORMAT: Final = 2
_FORMAT_1: Final[Mapping[str, Mapping[str, str]]] = {
    "capture": {"by": "requested_by", "ended": "outcome", "ordered": "timeline"},
    "claim": {"attached": "ephemeral_sidecar"},
    "part": {"heard": "last_seen"},
    "report": {"top": "top_functions"},
}
"""Current names of the fields of format 1, by kind of object."""
_NO_NAMES: Final[Mapping[str, Mapping[str, str]]] = {what: {} for what in _FORMAT_1}


def encode_capture(capture: Capture) -> bytes:
    """Encode a capture for the store."""
    request = capture.request
    document: dict[str, Any] = {
        "format": FORMAT,
        "id": capture.id,
        "service": request.service,
        "query": request.query,
        "pods": list(request.pods) if isinstance(request.pods, tuple) else request.pods,
        "seconds": request.seconds,
        "rate": request.rate,
        "mode": request.mode,
        "timeline": request.timeline,
        "created": capture.created_at,
        "requested_by": capture.requested_by,
        "claims": [_claim_to_json(claim) for claim in capture.claims],
        "stop_at": capture.stop_at,
        "outcome": None if capture.outcome is None else asdict(capture.outcome),
    }
    if request.attach:
        document |= {"attach": True, "container": request.container}
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def decode_capture(key: str, content: bytes) -> Capture:
    """Decode a stored capture.

    Raises ObjectDamaged.
    """
    document, renamed = _parse_document(key, content, "capture")
    try:
        pods = document["pods"]
        request = CaptureRequest(
            str(document["service"]),
            str(document["query"]),
            parse_re2_selector(str(document["query"])),
            tuple(map(str, pods)) if isinstance(pods, list) else pods,
            float(document["seconds"]),
            int(document["rate"]),
            str(document["mode"]),
            bool(document["timeline"]),
            bool(document.get("attach", False)),
            str(document.get("container", "")),
        )
        outcome = document["outcome"]
        return Capture(
            str(document["id"]),
            request,
            float(document["created"]),
            str(document["requested_by"]),
            tuple(
                Claim(
                    str(claim["agent"]),
                    dict(claim["labels"]),
                    float(claim["at"]),
                    EphemeralSidecar(**claim["ephemeral_sidecar"])
                    if claim.get("ephemeral_sidecar")
                    else None,
                )
                for claim in (rename_fields(claim, renamed["claim"]) for claim in document["claims"])
            ),
            None if document["stop_at"] is None else float(document["stop_at"]),
            None
            if outcome is None
            else CaptureOutcome(
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


def _claim_to_json(claim: Claim) -> dict[str, Any]:
    document: dict[str, Any] = {"agent": claim.agent, "labels": dict(claim.labels), "at": claim.claimed_at}
    return (
        document
        if claim.ephemeral_sidecar is None
        else document | {"ephemeral_sidecar": asdict(claim.ephemeral_sidecar)}
    )


def encode_part(part: CapturePart) -> bytes:
    """Encode the last report of a sidecar for the store."""
    document = {
        "format": FORMAT,
        "agent": part.agent,
        "last_seen": part.last_seen,
        "report": part.report.to_json(),
    }
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def decode_part(key: str, content: bytes) -> CapturePart:
    """Decode the stored last report of a sidecar.

    Raises ObjectDamaged.
    """
    document, renamed = _parse_document(key, content, "part")
    try:
        report = rename_fields(document["report"], renamed["report"])
        if document["format"] == 1:
            top = [{"function": name, "self_samples": samples} for name, samples in report["top_functions"]]
            report["top_functions"] = top
        return CapturePart(str(document["agent"]), float(document["last_seen"]), CaptureReport.parse(report))
    except (ValueError, KeyError, TypeError, AttributeError, BadMessage) as error:
        raise ObjectDamaged(key, f"{type(error).__name__}: {error}") from error


def _parse_document(
    key: str, content: bytes, what: str
) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, str]]]:
    """Parse an object of any format.

    Returns it with its current names, and the names to replace in its children.
    """
    document = parse_document(key, content, FORMAT)
    renamed = _FORMAT_1 if document["format"] == 1 else _NO_NAMES
    return rename_fields(document, renamed[what]), renamed
