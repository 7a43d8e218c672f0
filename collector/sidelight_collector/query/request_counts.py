"""The interface of a source of request counts, and its argument."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from sidelight_collector.arrow_ops import F64


@dataclass(frozen=True, slots=True)
class TimeBlocks:
    """Consecutive blocks of time for which requests are counted.

    The first of T blocks starts at `start_ns` (Unix); each is `block_seconds` long. `alive_seconds` has the
    profiled time of each row in each block, (P, T) in pod-seconds. `process_windows` has the windows of the
    side. `pods` has the pods of each row, where rows are pods.
    """

    start_ns: int
    block_seconds: float
    alive_seconds: F64
    process_windows: pa.Table
    pods: Sequence[Sequence[str]] = ()


class RequestCountSource(Protocol):
    def count_requests(self, name: str, time_blocks: TimeBlocks, timeout_seconds: float) -> F64:
        """Return the requests in each cell of the side `name`, (P, T), within the timeout.

        Raises RequestCountUnavailable.
        """
