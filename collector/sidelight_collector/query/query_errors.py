"""What a query can be refused for, or fail with.

BadParameter        a query parameter is unknown, given twice, or has a value that cannot be used
QueryTimeout        the query took longer than it may
TooManyQueries      all places are taken, and the queue is full
EngineUnavailable   the engine that adds up did not, and this process may not
"""

from collections.abc import Iterable

from sidelight_model.errors import Reason, SidelightError


class BadParameter(SidelightError):
    """A query parameter is unknown, given twice, or has a value that cannot be used."""

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


class QueryTimeout(SidelightError):
    """A query took longer than it may."""

    reason = Reason.QUERY_TIMEOUT

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the query took longer than {seconds:g} s",
            hint="Ask for a shorter range or a narrower selector, ask again (what was read is kept in "
            "memory), or raise the collector's --query-timeout-seconds.",
        )


class TooManyQueries(SidelightError):
    """All places for queries are taken, and so is the queue."""

    reason = Reason.OVERLOADED

    def __init__(self, running: int, waiting: int) -> None:
        super().__init__(
            f"{running} queries are running and {waiting} are waiting",
            hint="Ask again after Retry-After seconds.",
        )


class EngineUnavailable(SidelightError):
    """The engine that adds up for queries did not, and the collector may not do it itself."""

    reason = Reason.ENGINE_UNAVAILABLE

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(
            f"ClickHouse did not add up ({cause}): {text}",
            hint="Check --clickhouse-url and the server's own log, or allow --clickhouse-fallback.",
        )
