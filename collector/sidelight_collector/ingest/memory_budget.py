"""How much may be held in memory for clients at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sidelight_model.errors import Reason, SidelightError

REQUEST_BYTES: Final = 16 << 10
"""What any request costs at least, however small its body."""


class Overloaded(SidelightError):
    """More was sent than can be stored at the moment."""

    reason = Reason.OVERLOADED


class Budget:
    """Bytes that may still be taken; belongs to one event loop."""

    def __init__(self, max_bytes: int, observe: Callable[[int], None]) -> None:
        """`observe` is told the bytes taken, each time they change."""
        self._max_bytes = max_bytes
        self._observe = observe
        self._taken = 0

    @property
    def taken(self) -> int:
        return self._taken

    @contextmanager
    def share(self) -> Iterator[Share]:
        """A part of the budget for one request, given back at the end. Raises Overloaded."""
        share = Share(self)
        try:
            share.set(0)
            yield share
        finally:
            self._change(-share.taken)

    def _change(self, by: int) -> None:
        if by > 0 and self._taken + by > self._max_bytes:
            raise Overloaded(
                f"{self._taken} bytes of windows wait to be stored, and at most {self._max_bytes} may",
                hint="Send again after Retry-After; if this lasts, the store is slow or the load is too high "
                "for one collector.",
            )
        self._taken += by
        self._observe(self._taken)


class Share:
    """What one request holds."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.taken = 0

    def set(self, held: int) -> None:
        """Now hold so many bytes, REQUEST_BYTES at least. Raises Overloaded, then nothing has changed."""
        held = max(held, REQUEST_BYTES)
        self._budget._change(held - self.taken)
        self.taken = held
