"""Windows for tests, written as text."""

from __future__ import annotations

from ulid import ULID

from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window

SECOND = 10**9
BEGIN = 1_795_000_000 * SECOND


def window(
    number: int, folded: str = "main;work 3\n", *, pod: str = "a", seconds: int = 10, pid: int = 7
) -> Window:
    """The window that begins `number` windows after the first; its id sorts by that number."""
    counts = parse_folded(folded)
    samples = sum(count.wall for count in counts.values())
    start = BEGIN + number * seconds * SECOND
    return Window(
        id=make_id(start),
        labels=Labels({"service": "shop", "pod": pod, "process": "main"}),
        start_ns=start,
        duration_ns=seconds * SECOND,
        period_ns=SECOND // 100,
        counts=counts,
        quality=Quality(attempts=samples, samples=samples, mode="blocking", sampler="py-spy 0.4.3", pid=pid),
    )


def make_id(start_ns: int) -> str:
    return str(ULID.from_timestamp(start_ns // 10**6))
