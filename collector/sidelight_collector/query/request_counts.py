"""How many requests a service served: the interface of what tells them, and what it is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from sidelight_collector.arrow_ops import F64


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of time, one after the other from `start_ns` (Unix) and `seconds` long each, of which requests
    are asked: how long pods were `alive` in each, (P, T) pod-seconds, the windows that were `watched`, and
    the `pods` of each row, where these are told apart."""

    start_ns: int
    seconds: float
    alive: F64
    watched: pa.Table
    pods: Sequence[Sequence[str]] = ()


class RequestCounts(Protocol):
    """Tells how many requests were served."""

    def requests(self, name: str, of: Blocks, seconds: float) -> F64:
        """Requests in each cell of a side, (P, T), within so many seconds. Raises RequestsUnknown."""
