"""What was sampled just before: windows kept in memory for a capture that may be asked for.

They are kept as they would be shipped, compressed, so that the bound in bytes is what they take. A
window leaves by age, for want of room (the oldest of all processes first), with its process, or to
be shipped: then once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sidelight_sidecar.discovery.processes import Key

AGE, ROOM, ENDED = "expired", "full", "ended"
WHY = (AGE, ROOM, ENDED)


@dataclass(frozen=True, slots=True)
class Kept:
    """Packed windows of one span of a process's time; `end` is monotonic seconds."""

    key: Key
    start_ns: int
    end: float
    packed: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.packed))


class Preroll:
    """The last `seconds` of each process, in at most `max_bytes` for all together."""

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self.seconds = seconds
        self._max_bytes = max_bytes
        self._kept: deque[Kept] = deque()
        self.size = 0

    @property
    def on(self) -> bool:
        return self.seconds > 0

    @property
    def windows(self) -> int:
        return sum(len(kept.packed) for kept in self._kept)

    @property
    def keys(self) -> list[Key]:
        """The processes of which something is kept."""
        return sorted({kept.key for kept in self._kept})

    def add(self, kept: Kept) -> dict[str, int]:
        """Keep windows that ended now; returns how many others were dropped for that, by reason."""
        self._kept.append(kept)
        self.size += kept.size
        dropped = {AGE: self.age(kept.end), ROOM: 0}
        while self.size > self._max_bytes:
            oldest = self._kept.popleft()
            self.size -= oldest.size
            dropped[ROOM] += len(oldest.packed)
        return dropped

    def age(self, now: float) -> int:
        """Drop what is too old by now; how many windows that were."""
        return self._drop(lambda old: old.end < now - self.seconds)

    def drain(self, key: Key) -> list[Kept]:
        """What is kept of a process, oldest first; it is not kept any more."""
        found = [kept for kept in self._kept if kept.key == key]
        self._drop(lambda kept: kept.key == key)
        return found

    def _drop(self, which: Callable[[Kept], bool]) -> int:
        gone = [kept for kept in self._kept if which(kept)]
        if gone:
            self._kept = deque(kept for kept in self._kept if not which(kept))
            self.size -= sum(kept.size for kept in gone)
        return sum(len(kept.packed) for kept in gone)
