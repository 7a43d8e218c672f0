"""How much one query may ask for, and how much all of them together may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Bounds on queries; every field can be set.

    max_range_days: longest span between `from` and `until`.
    default_nodes: most flame graph nodes in an answer that does not ask for a number.
    max_nodes: most nodes in any answer, also with `nodes=all`.
    max_points: most steps in a timeline, or columns of a heatmap.
    max_rows: most rows of functions, of services, or of a heatmap.
    max_cells: most cells of a heatmap.
    max_verdict_rows: most samples (rows of stacks in windows) that a verdict reads window by window; beyond
    it hours are taken, where windows are added up by the hour.
    max_verdict_tests: most functions, and most nodes of the tree, that a verdict tests.
    max_export_frames: most frames of all stacks of an export together.
    timeout_seconds: after which a query is given up.
    running: queries worked on at once; waiting: queries that may wait for a place.
    reads: objects read from the store at once.
    cache_bytes: memory for decoded segments.
    answer_bytes: memory for finished answers.
    """

    max_range_days: float = 400
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
        least_one = ("running", "reads", "default_nodes", "max_nodes", "max_points", "max_rows")
        for name in (*least_one, "max_cells", "max_export_frames", "max_verdict_rows", "max_verdict_tests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.timeout_seconds <= 0 or self.max_range_days <= 0:
            raise ValueError("timeout_seconds and max_range_days must be above zero")
        for name in ("waiting", "cache_bytes", "answer_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
