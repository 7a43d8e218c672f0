"""Admission reviews as the API server sends them, and the answers it takes. Pure.

Every answer allows the pod: whatever goes wrong here must cost nobody a pod.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sidelight_model.errors import Reason, SidelightError

API_VERSION = "admission.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class AdmissionReview:
    """The question: a pod about to be made in a namespace; `is_dry_run` when nothing is to happen outside
    it.
    """

    uid: str
    namespace: str
    pod: Mapping[str, Any]
    is_dry_run: bool = False


def parse_review(body: bytes) -> AdmissionReview:
    """The question in a request's body; `pod` is empty for what is no new pod. Raises SidelightError."""
    try:
        told = json.loads(body)
        asked = told["request"]
        uid, kind = asked["uid"], asked["kind"]["kind"]
        is_new_pod = kind == "Pod" and asked["operation"] == "CREATE" and not asked.get("subResource")
        pod = asked["object"] if is_new_pod else {}
        review = AdmissionReview(str(uid), str(asked.get("namespace") or ""), pod, bool(asked.get("dryRun")))
        if told["apiVersion"] != API_VERSION or not isinstance(pod, dict):
            raise ValueError(f"it is not an AdmissionReview of {API_VERSION}")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise SidelightError(
            f"the body is no admission review: {error!r}"[:300],
            reason=Reason.BAD_REQUEST,
            hint="Only an API server has something to ask here: see docs/injector.md.",
        ) from error
    return review


def build_response(
    review: AdmissionReview, patch: Sequence[Mapping[str, Any]] = (), warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """The answer: the pod may be made, changed by the patch."""
    response: dict[str, Any] = {"uid": review.uid, "allowed": True}
    if patch:
        text = json.dumps(list(patch), separators=(",", ":"))
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(text.encode()).decode()}
    if warnings:
        response["warnings"] = list(warnings)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
