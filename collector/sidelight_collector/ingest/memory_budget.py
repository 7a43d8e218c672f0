"""A bound on the memory that all running requests may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sidelight_model.errors import Reason, SidelightError

MIN_REQUEST_BYTES: Final = 16 << 10
"""The memory that a request counts as at least."""


class Overloaded(SidelightError):
    """Clients send more than the collector can store at the moment."""

    reason = Reason.OVERLOADED


class MemoryBudget:
    """A budget of bytes for one event loop.

    `on_change` is called with the number of used bytes whenever it changes.
    """

    def __init__(self, max_bytes: int, on_change: Callable[[int], None]) -> None:
        self._max_bytes = max_bytes
        self._on_change = on_change
        self._used_bytes = 0

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @contextmanager
    def reserve(self) -> Iterator[Reservation]:
        """Reserve memory for one request, and release it at the end. Raises Overloaded."""
        reservation = Reservation(self)
        try:
            reservation.resize(0)
            yield reservation
        finally:
            self._adjust(-reservation.size_bytes)

    def _adjust(self, delta: int) -> None:
        if delta > 0 and self._used_bytes + delta > self._max_bytes:
            raise Overloaded(
                f"{self._used_bytes} bytes of requests are in progress, and at most {self._max_bytes} may be",
                hint="Send again after Retry-After; if this lasts, the store is slow or the load is too high "
                "for one collector.",
            )
        self._used_bytes += delta
        self._on_change(self._used_bytes)


class Reservation:
    """The memory of one request."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size_bytes = 0

    def resize(self, size_bytes: int) -> None:
        """Change the reservation to `size_bytes`, or MIN_REQUEST_BYTES if that is more.

        Raises Overloaded, and then changes nothing.
        """
        size_bytes = max(size_bytes, MIN_REQUEST_BYTES)
        self._budget._adjust(size_bytes - self.size_bytes)
        self.size_bytes = size_bytes
