"""What was sampled just before: windows kept in memory for a capture that may be asked for.

They are kept as they would be shipped, compressed, so that the bound in bytes is what they take. A
window leaves by age, for want of room (the oldest of all processes first), with its process, or to
be shipped: then once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sidelight_sidecar.discovery.processes import ProcessKey

AGE, SPACE, ENDED = "expired", "full", "ended"
DROP_REASONS = (AGE, SPACE, ENDED)


@dataclass(frozen=True, slots=True)
class BufferedWindows:
    """Packed windows of one span of a process's time; `ended_at` is monotonic seconds."""

    key: ProcessKey
    start_ns: int
    ended_at: float
    compressed: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.compressed))


class Preroll:
    """The last `seconds` of each process, in at most `max_bytes` for all together."""

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self.seconds = seconds
        self._max_bytes = max_bytes
        self._buffer: deque[BufferedWindows] = deque()
        self.size = 0

    @property
    def is_enabled(self) -> bool:
        return self.seconds > 0

    @property
    def window_count(self) -> int:
        return sum(len(kept.compressed) for kept in self._buffer)

    @property
    def process_keys(self) -> list[ProcessKey]:
        """The processes of which something is kept."""
        return sorted({kept.key for kept in self._buffer})

    def add(self, buffered: BufferedWindows) -> dict[str, int]:
        """Keep windows that ended now; returns how many others were dropped for that, by reason."""
        self._buffer.append(buffered)
        self.size += buffered.size
        dropped = {AGE: self.drop_expired(buffered.ended_at), SPACE: 0}
        while self.size > self._max_bytes:
            oldest = self._buffer.popleft()
            self.size -= oldest.size
            dropped[SPACE] += len(oldest.compressed)
        return dropped

    def drop_expired(self, now: float) -> int:
        """Drop what is too old by now; how many windows that were."""
        return self._drop(lambda old: old.ended_at < now - self.seconds)

    def drain(self, key: ProcessKey) -> list[BufferedWindows]:
        """What is kept of a process, oldest first; it is not kept any more."""
        found = [kept for kept in self._buffer if kept.key == key]
        self._drop(lambda kept: kept.key == key)
        return found

    def _drop(self, should_drop: Callable[[BufferedWindows], bool]) -> int:
        dropped = [kept for kept in self._buffer if should_drop(kept)]
        if dropped:
            self._buffer = deque(kept for kept in self._buffer if not should_drop(kept))
            self.size -= sum(kept.size for kept in dropped)
        return sum(len(kept.compressed) for kept in dropped)
