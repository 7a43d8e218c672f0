"""Limits of one query, and of all queries together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of queries; every field is a setting.

    max_range_days: the longest span between `from` and `until`.
    comparison_lookback_days: how far before now the times and versions of a comparison are looked for.
    default_nodes: the flame graph nodes of a response if the request names no number.
    max_nodes: the most nodes of any response, also with `nodes=all`.
    max_points: the most steps of a timeline, or columns of a heatmap.
    max_rows: the most rows of functions, of services, or of a heatmap.
    max_cells: the most cells of a heatmap.
    max_verdict_rows: the most samples (rows of stacks in windows) that a verdict reads window by window;
    above it, a verdict reads hourly rollups where there are any.
    max_verdict_tests: the most functions, and the most nodes of the tree, that a verdict tests.
    max_export_frames: the most frames of all stacks of an export together.
    timeout_seconds: the time limit of a query.
    running: the queries that run at once; waiting: the queries that may queue.
    reads: the objects that are read from the store at once.
    cache_bytes: the memory for decoded segments.
    answer_bytes: the memory for cached responses.
    """

    max_range_days: float = 400
    comparison_lookback_days: float = 7
    default_nodes: int = 50_000
    max_nodes: int = 1_000_000
    max_points: int = 5_000
    max_rows: int = 100_000
    max_cells: int = 100_000
    max_verdict_rows: int = 5_000_000
    max_verdict_tests: int = 10_000
    max_export_frames: int = 10_000_000
    timeout_seconds: float = 30
    running: int = 4
    waiting: int = 32
    reads: int = 8
    cache_bytes: int = 256 << 20
    answer_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        positive = ("running", "reads", "default_nodes", "max_nodes", "max_points", "max_rows")
        for name in (*positive, "max_cells", "max_export_frames", "max_verdict_rows", "max_verdict_tests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("timeout_seconds", "max_range_days", "comparison_lookback_days"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above zero")
        for name in ("waiting", "cache_bytes", "answer_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
