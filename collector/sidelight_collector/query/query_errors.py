"""Errors of queries.

BadParameter        a parameter is unknown, repeated or invalid
QueryTimeout        the query exceeded its time limit
TooManyQueries      the limit of running queries is reached, and the queue is full
EngineUnavailable   the external engine failed, and the fallback is off
"""

from collections.abc import Iterable

from sidelight_model.errors import Reason, SidelightError


class BadParameter(SidelightError):
    """A query parameter is unknown, repeated or has an invalid value."""

    reason = Reason.BAD_PARAMETER

    @classmethod
    def unknown(cls, name: str, allowed: Iterable[str]) -> "BadParameter":
        return cls(
            f"there is no query parameter {name[:80]!r} here",
            hint=f"The parameters are: {', '.join(sorted(allowed)) or '(none)'}.",
        )

    @classmethod
    def duplicate(cls, name: str) -> "BadParameter":
        return cls(f"{name} is given more than once", hint=f"Give {name} once.")

    @classmethod
    def invalid_value(cls, name: str, text: str, expected: str) -> "BadParameter":
        return cls(f"{name}={text[:80]!r} cannot be used", hint=f"{name} is {expected}.")


class MissingVersion(BadParameter):
    """A side is not given, and there is no version to choose for it.

    The reason is `no_previous_version` or `no_version_label`.
    """

    reason = Reason.NO_PREVIOUS_VERSION


class QueryTimeout(SidelightError):
    """A query exceeded its time limit."""

    reason = Reason.QUERY_TIMEOUT

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the query took longer than {seconds:g} s",
            hint="Ask for a shorter range or a narrower selector, ask again (what was read is kept in "
            "memory), or raise the collector's --query-timeout-seconds.",
        )


class TooManyQueries(SidelightError):
    """The limit of running queries is reached, and the queue is full."""

    reason = Reason.OVERLOADED

    def __init__(self, running: int, waiting: int) -> None:
        super().__init__(
            f"{running} queries are running and {waiting} are waiting",
            hint="Ask again after Retry-After seconds.",
        )


class EngineUnavailable(SidelightError):
    """The external engine did not sum the stacks, and the fallback is off."""

    reason = Reason.ENGINE_UNAVAILABLE

    def __init__(self, where: str, cause: str, text: str) -> None:
        super().__init__(
            f"{where} did not sum the stacks ({cause}): {text}",
            hint="Check --engine and the server's own log, or allow --engine-fallback.",
        )
