"""The base class of errors of the API server, and errors before a request."""

from __future__ import annotations

from sidelight_model.errors import Reason, SidelightError


class ClusterError(SidelightError):
    """A request to the API server failed."""


class InvalidName(ClusterError):
    """A text that no object in a cluster can have as its name."""

    reason = Reason.BAD_REQUEST
