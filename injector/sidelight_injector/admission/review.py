"""Parse the API server's admission reviews and build the responses to them.

This module is pure. Every response allows the pod: no error here may prevent a pod.
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
    """An admission request: a pod that is about to be created in a namespace.

    With `is_dry_run` nothing outside the review may happen.
    """

    uid: str
    namespace: str
    pod: Mapping[str, Any]
    is_dry_run: bool = False


def parse_review(body: bytes) -> AdmissionReview:
    """Parse the body of an admission request.

    `pod` is empty unless the request creates a pod. Raises SidelightError if the body is no admission
    review.
    """
    try:
        document = json.loads(body)
        request = document["request"]
        uid, kind = request["uid"], request["kind"]["kind"]
        is_new_pod = kind == "Pod" and request["operation"] == "CREATE" and not request.get("subResource")
        pod = request["object"] if is_new_pod else {}
        review = AdmissionReview(
            str(uid), str(request.get("namespace") or ""), pod, bool(request.get("dryRun"))
        )
        if document["apiVersion"] != API_VERSION or not isinstance(pod, dict):
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
    """Build the response that allows the pod with this patch."""
    response: dict[str, Any] = {"uid": review.uid, "allowed": True}
    if patch:
        text = json.dumps(list(patch), separators=(",", ":"))
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(text.encode()).decode()}
    if warnings:
        response["warnings"] = list(warnings)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
