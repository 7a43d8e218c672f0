"""Timeouts of HTTP connections, a part of the settings of each server."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.settings import parse_positive_float, setting


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class ConnectionSettings:
    """Timeouts of connections.

    The settings of collector, sidecar and injector include them.
    """

    header_timeout_seconds: float = setting(
        20.0,
        "timeout of a TLS handshake, and of a request's line and headers",
        parse=parse_positive_float,
    )
    body_timeout_seconds: float = setting(
        30.0, "longest pause of a client that sends a request's body", parse=parse_positive_float
    )
    response_timeout_seconds: float = setting(
        120.0, "longest pause of a client that receives a response", parse=parse_positive_float
    )
    idle_timeout_seconds: float = setting(
        620.0,
        "how long a connection stays open between requests; longer than that of a load balancer",
        parse=parse_positive_float,
    )
