"""How much may be held in memory for clients at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sidelight_model.errors import Reason, SidelightError

MIN_REQUEST_BYTES: Final = 16 << 10
"""What any request costs at least, however small its body."""


class Overloaded(SidelightError):
    """More was sent than can be stored at the moment."""

    reason = Reason.OVERLOADED


class MemoryBudget:
    """Bytes that may still be taken; belongs to one event loop."""

    def __init__(self, max_bytes: int, on_change: Callable[[int], None]) -> None:
        """`on_change` is told the bytes taken, each time they change."""
        self._max_bytes = max_bytes
        self._on_change = on_change
        self._used_bytes = 0

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @contextmanager
    def reserve(self) -> Iterator[Reservation]:
        """A part of the budget for one request, given back at the end. Raises Overloaded."""
        share = Reservation(self)
        try:
            share.resize(0)
            yield share
        finally:
            self._adjust(-share.size_bytes)

    def _adjust(self, delta: int) -> None:
        if delta > 0 and self._used_bytes + delta > self._max_bytes:
            raise Overloaded(
                f"{self._used_bytes} bytes of windows wait to be stored, and at most {self._max_bytes} may",
                hint="Send again after Retry-After; if this lasts, the store is slow or the load is too high "
                "for one collector.",
            )
        self._used_bytes += delta
        self._on_change(self._used_bytes)


class Reservation:
    """What one request holds."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size_bytes = 0

    def resize(self, size_bytes: int) -> None:
        """Now hold so many bytes, REQUEST_BYTES at least. Raises Overloaded, then nothing has changed."""
        size_bytes = max(size_bytes, MIN_REQUEST_BYTES)
        self._budget._adjust(size_bytes - self.size_bytes)
        self.size_bytes = size_bytes
