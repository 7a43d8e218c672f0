"""How many requests a service served: the interface of what tells them, and what it is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from sidelight_collector.arrow_ops import F64


@dataclass(frozen=True, slots=True)
class TimeBlocks:
    """Blocks of time, one after the other from `start_ns` (Unix) and `block_seconds` long each, of which
    requests are asked: how long pods were `alive_seconds` in each, (P, T) pod-seconds, the windows that
    were `process_windows`, and the `pods` of each row, where these are told apart."""

    start_ns: int
    block_seconds: float
    alive_seconds: F64
    process_windows: pa.Table
    pods: Sequence[Sequence[str]] = ()


class RequestCountSource(Protocol):
    """Tells how many requests were served."""

    def count_requests(self, name: str, time_blocks: TimeBlocks, timeout_seconds: float) -> F64:
        """Requests in each cell of a side, (P, T), within so many seconds. Raises RequestsUnknown."""
