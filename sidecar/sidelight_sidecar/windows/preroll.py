"""The pre-roll: recent windows in memory for a capture that may be requested.

They are stored compressed as they would be shipped, so that the size limit applies to the memory that they
take. A window leaves by age, for lack of room (the oldest of all processes first), with its process, or
when it is shipped, which happens once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sidelight_sidecar.discovery.processes import ProcessKey

AGE, SPACE, ENDED = "expired", "full", "ended"


@dataclass(frozen=True, slots=True)
class BufferedWindows:
    """Compressed windows of one time span of a process.

    `ended_at` is in monotonic seconds.
    """

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
        return sum(len(buffered.compressed) for buffered in self._buffer)

    @property
    def process_keys(self) -> list[ProcessKey]:
        """The processes with buffered windows."""
        return sorted({buffered.key for buffered in self._buffer})

    def add(self, buffered: BufferedWindows) -> dict[str, int]:
        """Add windows that ended now; return how many others were dropped, by reason."""
        self._buffer.append(buffered)
        self.size += buffered.size
        dropped = {AGE: self.drop_expired(buffered.ended_at), SPACE: 0}
        while self.size > self._max_bytes:
            oldest = self._buffer.popleft()
            self.size -= oldest.size
            dropped[SPACE] += len(oldest.compressed)
        return dropped

    def drop_expired(self, now: float) -> int:
        """Drop windows that are too old at `now`; return their number."""
        return self._drop(lambda old: old.ended_at < now - self.seconds)

    def drain(self, key: ProcessKey) -> list[BufferedWindows]:
        """Remove and return the windows of a process, oldest first."""
        drained = [buffered for buffered in self._buffer if buffered.key == key]
        self._drop(lambda buffered: buffered.key == key)
        return drained

    def _drop(self, should_drop: Callable[[BufferedWindows], bool]) -> int:
        dropped = [buffered for buffered in self._buffer if should_drop(buffered)]
        if dropped:
            self._buffer = deque(buffered for buffered in self._buffer if not should_drop(buffered))
            self.size -= sum(buffered.size for buffered in dropped)
        return sum(len(buffered.compressed) for buffered in dropped)
