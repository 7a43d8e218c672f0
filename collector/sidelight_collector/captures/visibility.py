"""Which captures a reader may see, and which sidecars a reader's capture may ask."""

from __future__ import annotations

from dataclasses import replace

from sidelight_collector.auth.read_rules import Principal
from sidelight_collector.captures.capture import Capture, CaptureRequest
from sidelight_collector.captures.capture_requests import BadBody
from sidelight_model.selectors import MAX_SELECTOR_CHARACTERS


def can_read_capture(reader: Principal, capture: Capture) -> bool:
    """Whether all that a capture has is of namespaces that this reader sees.

    One that no sidecar has taken yet is seen by those who could have asked for it.
    """
    if reader.namespaces is None:
        return True
    if capture.claims:
        return all(reader.can_read(claim.labels) for claim in capture.claims)
    return set(reader.selector.matchers) <= set(capture.request.selector.matchers)


def restrict_request(reader: Principal, capture_request: CaptureRequest) -> CaptureRequest:
    """The wish, with what this reader sees as a condition on sidecars. Raises BadBody."""
    if reader.namespaces is None:
        return capture_request
    selector = capture_request.selector & reader.selector
    query = str(selector)
    if len(query) > MAX_SELECTOR_CHARACTERS:
        raise BadBody(
            "the query, with the namespaces that you may read, is too long",
            hint=f"Together they may have {MAX_SELECTOR_CHARACTERS} characters: name one namespace in fewer "
            "rules with patterns.",
        )
    return replace(capture_request, query=query, selector=selector)
