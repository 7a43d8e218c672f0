"""Parses and validates capture requests and the polls of sidecars.

Unknown fields of a capture request are refused; those of a poll are ignored.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ulid import ULID

from sidelight_collector.auth.write_identity import WriterIdentity
from sidelight_collector.captures.capture import CAPTURE_ID_PATTERN, CapturePolicy, CaptureRequest
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_model.capture_protocol import AGENT_PATTERN, AgentPoll, BadMessage
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.labels import LabelLimits
from sidelight_model.selectors import Op, Selector

MAX_CAPTURE_REQUEST_BYTES: Final = 1 << 16
MEMORY_PER_BYTE: Final = 8
"""Memory that the values of a poll or a capture request may take for each byte that it may have."""
CAPTURE_MODES: Final = ("auto", "gil", "blocking", "nonblocking", "command", "native")
MAX_ID_AGE_SECONDS: Final = 600.0
"""Maximum difference between the collector's clock and the time in a client's id."""
NAME_PATTERN: Final = AGENT_PATTERN
_REQUEST_FIELDS: Final = (
    *("id", "selector", "service", "query", "pods", "seconds", "rate", "mode", "native", "timeline"),
    *("attach", "container"),
)


class BadBody(SidelightError):
    """A request body is invalid."""

    reason = Reason.BAD_PARAMETER


def parse_capture_request(raw: Mapping[str, Any], policy: CapturePolicy) -> CaptureRequest:
    """Parse a capture request.

    Raises BadBody and BadSelector.
    """
    unknown = sorted(name for name in raw if name not in _REQUEST_FIELDS)
    if unknown:
        raise _make_body_error(f"there is no field {unknown[0][:64]!r}")
    service, query = _parse_service_and_query(raw)
    if not isinstance(service, str) or not 0 < len(service.encode(errors="replace")) <= 256:
        raise _make_body_error("service is not the name of one")
    seconds = _parse_number(raw, "seconds", min(60.0, policy.max_seconds), policy.max_seconds)
    rate = _parse_number(raw, "rate", min(100, policy.max_rate), policy.max_rate)
    if rate != int(rate) or rate < 1:
        raise _make_body_error("rate is not a whole number of samples per second")
    if not isinstance(raw.get("native", False), bool):
        raise _make_body_error("native is not true or false")
    mode = raw.get("mode", "native" if raw.get("native") else "auto")
    if raw.get("native") and mode != "native":
        raise _make_body_error(f"native is true, and mode is {str(mode)[:64]!r}")
    if mode not in CAPTURE_MODES:
        raise _make_body_error(f"mode {str(mode)[:64]!r} is not one of {', '.join(CAPTURE_MODES)}")
    timeline = raw.get("timeline", True)
    if not isinstance(timeline, bool):
        raise _make_body_error("timeline is not true or false")
    attach, container = raw.get("attach", False), raw.get("container", "")
    if not isinstance(attach, bool):
        raise _make_body_error("attach is not true or false")
    if not isinstance(container, str) or (container and not NAME_PATTERN.fullmatch(container)):
        raise _make_body_error("container is not the name of one")
    if container and not attach:
        raise _make_body_error("container is for captures that attach a sidecar")
    pods = _parse_pods(raw.get("pods", 1), policy.max_pods)
    selector = parse_re2_selector(query)
    return CaptureRequest(
        service, query, selector, pods, seconds, int(rate), mode, timeline, attach, container
    )


def parse_capture_id(raw: Mapping[str, Any]) -> str:
    """Return the id that a client gave its capture; empty if none.

    With an id, a client can repeat its request safely. Raises BadBody.
    """
    capture_id = raw.get("id", "")
    if not isinstance(capture_id, str) or (capture_id and not CAPTURE_ID_PATTERN.fullmatch(capture_id)):
        raise _make_body_error("id is not c_ and a ULID")
    # Captures are listed by the time in their ids.
    if capture_id and abs(ULID.from_str(capture_id[2:]).timestamp - time.time()) > MAX_ID_AGE_SECONDS:
        raise _make_body_error("the time in id, which is a ULID, is not that of now")
    return capture_id


def _parse_service_and_query(raw: Mapping[str, Any]) -> tuple[object, str]:
    """Return the service and the other matchers.

    They are two fields, or one field `selector` that has service="…".
    """
    query = raw.get("query", "")
    if not isinstance(query, str):
        raise _make_body_error("query is not text")
    if "selector" not in raw:
        return raw.get("service"), query
    text = raw["selector"]
    if not isinstance(text, str) or "service" in raw or query:
        raise _make_body_error("selector is not text, or stands beside service or query")
    selector = parse_re2_selector(text)
    service_matchers = [
        matcher for matcher in selector.matchers if matcher.name == "service" and matcher.op is Op.EQUAL
    ]
    if len(service_matchers) != 1:
        raise _make_body_error('selector does not name one service: {service="shop", version="2"}')
    rest = Selector(tuple(matcher for matcher in selector.matchers if matcher is not service_matchers[0]))
    return service_matchers[0].value, str(rest)[1:-1]


def _parse_pods(raw: object, limit: int) -> int | str | tuple[str, ...]:
    if raw == "all":
        return "all"
    if raw == "one":
        return 1
    if isinstance(raw, int) and not isinstance(raw, bool):
        if not 1 <= raw <= limit:
            raise _make_body_error(f"pods must be from 1 to {limit} (--capture-max-pods)")
        return raw
    if not isinstance(raw, list) or not all(isinstance(name, str) and 0 < len(name) <= 256 for name in raw):
        raise _make_body_error('pods is not a number, a list of names, or "all"')
    names = tuple(dict.fromkeys(raw))
    if not 1 <= len(names) <= limit:
        raise _make_body_error(f"pods must name from 1 to {limit} (--capture-max-pods)")
    return names


def parse_poll(raw: Mapping[str, Any], writer: WriterIdentity | None = None) -> AgentPoll:
    """Parse the poll of a sidecar; its labels are the pod's if `writer` names a pod.

    Raises BadMessage, BadLabel, LimitExceeded and LabelMismatch.
    """
    poll = AgentPoll.parse(raw, LabelLimits(allow_missing_service=writer is not None))
    if not all(CAPTURE_ID_PATTERN.fullmatch(report.capture) for report in poll.reports):
        raise BadMessage("a report names no capture", hint=_POLL_HINT)
    if writer is None:
        return poll
    status = replace(
        poll.status,
        agent=writer.qualify_agent_name(poll.status.agent),
        # A node's own poll is for no pod: its labels are not used.
        labels=poll.status.labels if poll.for_node else writer.bind_labels(poll.status.labels),
    )
    return replace(poll, status=status)


def _parse_number(raw: Mapping[str, Any], name: str, default: float, limit: float) -> float:
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise _make_body_error(f"{name} is not a number")
    if not 0 < value <= limit:
        raise _make_body_error(f"{name} must be above 0 and at limit {limit:g} (--capture-max-{name})")
    return value


def _make_body_error(problem: str) -> BadBody:
    return BadBody(
        problem,
        hint='A capture is {"service": "shop", "pods": 1, "seconds": 60, "rate": 100, "mode": "auto"}.',
    )


_POLL_HINT: Final = "This is for sidecars: docs/api-reference.md says what they send."
