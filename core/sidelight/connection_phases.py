"""Decides when a server closes a connection.

The module is pure: it does no I/O, and the clock is an argument. `ConnectionTimer` follows one connection
through its phases. `ConnectionTable` holds all connections of a server within a limit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Generic, TypeVar

GRACE_SECONDS: Final = 0.1
"""Time after a deadline in which the event loop reads bytes that arrived while it was busy."""
MIN_WAIT_SECONDS: Final = 0.25
"""Age from which a waiting connection may be closed for a new one."""


class CloseReason(StrEnum):
    """Why a server closed a connection: a closed set of words for metrics."""

    HEADER_TIMEOUT = "header_timeout"
    BODY_TIMEOUT = "body_timeout"
    RESPONSE_TIMEOUT = "response_timeout"
    IDLE = "idle"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """Timeouts of a connection's phases, in seconds.

    `body_pause_seconds` and `response_pause_seconds` are pauses without any progress.
    """

    header_seconds: float
    body_pause_seconds: float
    whole_body_seconds: float
    response_pause_seconds: float
    idle_seconds: float


class Phase(Enum):
    """What a server waits for on a connection."""

    HEAD = "the TLS handshake, or a request's line and headers"
    BODY = "the rest of a request's body"
    HANDLER = "its own handler"
    WRITING = "a client that reads slowly"
    REST = "the rest of a body whose request was answered"
    IDLE = "the next request"


_WAITING: Final = (Phase.HEAD, Phase.REST, Phase.IDLE)


class ConnectionTimer:
    """The phase of one connection, and its deadline: None while the server works."""

    __slots__ = ("_body_until", "_is_handling", "_is_overdue", "_timeouts", "_unsent", "deadline", "phase")

    def __init__(self, timeouts: ConnectionTimeouts, now: float) -> None:
        self._timeouts = timeouts
        self._is_handling = False
        self._body_until = 0.0
        self._unsent = 0
        self._is_overdue = False
        self.phase = Phase.HEAD
        self.deadline: float | None = now + timeouts.header_seconds

    @property
    def is_waiting(self) -> bool:
        """Whether no request is in progress, so that a close loses none."""
        return self.phase in _WAITING

    def start(self, now: float) -> None:
        """Note that the connection is ready for a request, after the TLS handshake."""
        self._enter(Phase.HEAD, now + self._timeouts.header_seconds)

    def receive(self, now: float) -> None:
        """Note bytes from the client."""
        if self.phase is Phase.IDLE:
            self._enter(Phase.HEAD, now + self._timeouts.header_seconds)
        elif self.phase is Phase.BODY and now < self._body_until:
            self._enter(Phase.BODY, min(self._body_until, now + self._timeouts.body_pause_seconds))

    def begin_request(self, now: float, *, has_body: bool) -> None:
        """Note a complete head.

        `has_body` tells that more of the body has to arrive.
        """
        self._is_handling = True
        if has_body:
            self._body_until = now + self._timeouts.whole_body_seconds
            self._enter(Phase.BODY, min(self._body_until, now + self._timeouts.body_pause_seconds))
        else:
            self._enter(Phase.HANDLER, None)

    def end_body(self, now: float) -> None:
        """Note the end of a body, or that the server gave it up."""
        if self.phase is Phase.BODY:
            self._enter(Phase.HANDLER, None)
        elif self.phase is Phase.REST:
            self._enter(Phase.IDLE, now + self._timeouts.idle_seconds)

    def end_request(self, now: float, *, has_body: bool) -> None:
        """Note that the handler has ended.

        `has_body` tells that a part of the body was not received.
        """
        self._is_handling = False
        if self.phase is not Phase.WRITING:
            self._rest(now, has_body=has_body)

    def pause_writing(self, now: float, unsent_bytes: int) -> None:
        """Note that the client reads slower than the server writes."""
        self._unsent = unsent_bytes
        self._enter(Phase.WRITING, now + self._timeouts.response_pause_seconds)

    def resume_writing(self, now: float) -> None:
        """Note that the client has read most of the response so far."""
        if self.phase is Phase.WRITING:
            if self._is_handling:
                self._enter(Phase.HANDLER, None)
            else:
                self._rest(now, has_body=False)

    def find_expired(self, now: float, *, is_reading: bool, unsent_bytes: int) -> CloseReason | None:
        """Return why to close the connection, or None; sets the next deadline.

        `is_reading` is False while the server itself does not read.
        """
        if self.deadline is None or now < self.deadline:
            return None
        if not self._is_overdue:
            self._is_overdue, self.deadline = True, now + GRACE_SECONDS
            return None
        if self.phase is Phase.WRITING:
            if unsent_bytes >= self._unsent:
                return CloseReason.RESPONSE_TIMEOUT
            self.pause_writing(now, unsent_bytes)
            return None
        if self.phase is Phase.BODY and not is_reading:
            self._enter(Phase.BODY, now + self._timeouts.body_pause_seconds)
            return None
        if self.phase is Phase.HEAD:
            return CloseReason.HEADER_TIMEOUT
        return CloseReason.IDLE if self.phase is Phase.IDLE else CloseReason.BODY_TIMEOUT

    def _rest(self, now: float, *, has_body: bool) -> None:
        if has_body:
            self._enter(Phase.REST, now + self._timeouts.header_seconds)
        else:
            self._enter(Phase.IDLE, now + self._timeouts.idle_seconds)

    def _enter(self, phase: Phase, deadline: float | None) -> None:
        self.phase, self.deadline, self._is_overdue = phase, deadline, False


ConnectionT = TypeVar("ConnectionT", bound=Hashable)


class ConnectionTable(Generic[ConnectionT]):
    """The open connections of a server.

    At most `max_connections` have ordinary requests in progress. `probe_reserve` more may wait for a request,
    or have a probe's. Incomplete heads of requests may have `max_head_bytes` together.
    """

    def __init__(self, max_connections: int, probe_reserve: int, max_head_bytes: int) -> None:
        self.max_connections = max_connections
        self._max_head_bytes = max_head_bytes
        self._head_bytes: dict[ConnectionT, int] = {}
        self._all_head_bytes = 0
        self._capacity = max_connections + probe_reserve
        self._open: set[ConnectionT] = set()
        self._closing: set[ConnectionT] = set()
        self._waiting: OrderedDict[ConnectionT, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def has_room(self) -> bool:
        """Whether another connection may be open, if only for a probe."""
        return len(self._open) < self._capacity

    @property
    def is_closing(self) -> bool:
        """Whether a connection is about to be gone."""
        return bool(self._closing)

    @property
    def is_full(self) -> bool:
        """Whether all ordinary places are taken."""
        return len(self._open) - len(self._closing) >= self.max_connections

    @property
    def is_busy(self) -> bool:
        """Whether as many requests are in progress as there are ordinary places."""
        return len(self._open) - len(self._closing) - len(self._waiting) >= self.max_connections

    def add(self, connection: ConnectionT, now: float) -> None:
        """Add a connection, which waits for a request."""
        self._open.add(connection)
        self.set_waiting(connection, now)

    def remove(self, connection: ConnectionT) -> None:
        """Forget a connection that is gone."""
        self._open.discard(connection)
        self._closing.discard(connection)
        self.set_working(connection)

    def set_waiting(self, connection: ConnectionT, now: float) -> None:
        """Note that a connection waits for its client, from now on."""
        if connection in self._open and connection not in self._closing:
            self._waiting[connection] = now
            self._waiting.move_to_end(connection)

    def set_working(self, connection: ConnectionT) -> None:
        """Note that a connection has a request in progress."""
        self._waiting.pop(connection, None)
        self._all_head_bytes -= self._head_bytes.pop(connection, 0)

    def set_closing(self, connection: ConnectionT) -> None:
        """Note that a connection is about to be gone."""
        self.set_working(connection)
        if connection in self._open:
            self._closing.add(connection)

    def add_head_bytes(self, connection: ConnectionT, count: int) -> bool:
        """Add bytes of an incomplete head; return whether there are too many now."""
        if connection in self._waiting:
            self._head_bytes[connection] = self._head_bytes.get(connection, 0) + count
            self._all_head_bytes += count
        return self._all_head_bytes > self._max_head_bytes

    def find_largest_heads(self) -> list[ConnectionT]:
        """Return the connections to close so that the rest is within `max_head_bytes`."""
        largest, excess = [], self._all_head_bytes - self._max_head_bytes
        for connection in sorted(self._head_bytes, key=lambda key: -self._head_bytes[key]):
            if excess <= 0:
                break
            excess -= self._head_bytes[connection]
            largest.append(connection)
        return largest

    def find_longest_waiting(self, now: float) -> ConnectionT | None:
        """Return the connection to close for a new one.

        It is None if no connection has waited MIN_WAIT_SECONDS.
        """
        for connection, since in self._waiting.items():
            return connection if now - since >= MIN_WAIT_SECONDS else None
        return None
