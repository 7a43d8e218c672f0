"""Which captures a reader may see, and which sidecars may take them."""

from __future__ import annotations

from dataclasses import replace

from sidelight_collector.auth.read_rules import Principal
from sidelight_collector.captures.capture import Capture, CaptureRequest
from sidelight_collector.captures.capture_requests import BadBody
from sidelight_model.selectors import MAX_SELECTOR_CHARACTERS


def can_read_capture(reader: Principal, capture: Capture) -> bool:
    """Return whether a reader may see a capture: all of its namespaces.

    If no sidecar has taken it yet, only readers that could have requested it may see it.
    """
    if reader.namespaces is None:
        return True
    if capture.claims:
        return all(reader.can_read(claim.labels) for claim in capture.claims)
    return set(reader.selector.matchers) <= set(capture.request.selector.matchers)


def restrict_request(reader: Principal, capture_request: CaptureRequest) -> CaptureRequest:
    """Restrict a request to sidecars in the namespaces that a reader may see.

    Raises BadBody if the selector becomes too long.
    """
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
