"""All settings of a collector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sidelight.settings import (
    BadSetting,
    parse_address,
    parse_byte_size,
    parse_nonnegative_float,
    parse_nonnegative_int,
    parse_positive_float,
    parse_seconds,
    setting,
)
from sidelight_collector.auth.read_rules import Network, parse_header_name, parse_network
from sidelight_collector.settings.engine import EngineSettings
from sidelight_collector.settings.types import (
    DAY_SECONDS,
    RetentionDays,
    check_bounds,
    parse_log_level,
    parse_path_prefix,
    parse_role,
    parse_service_days,
)

MIN_ORPHAN_AGE_SECONDS = 600.0
MAX_LEASE_SECONDS = 3600.0

_POSITIVE_SETTINGS = (
    "max_windows",
    "max_stacks",
    "max_depth",
    "max_labels",
    "decode_threads",
    "compact_min_segments",
    "compact_max_block_rows",
    "max_queries",
    "query_read_concurrency",
    "default_nodes",
    "max_nodes",
    "max_points",
    "max_rows",
    "max_cells",
    "capture_max_pods",
    "capture_max_rate",
    "capture_max_running",
    "capture_max_polls",
    "timeline_recording_max_bytes",
    "timeline_recording_max_decompressed_bytes",
    "timeline_recording_max_speedscope_frames",
    "max_export_frames",
    "max_link_bytes",
    "profile_metrics_max_series",
)

_CENTURY_DAYS = 36_525
_SETTING_MAXIMUMS = {
    "workers": 256,
    "compact_lease_seconds": MAX_LEASE_SECONDS,
    "retention_day_days": _CENTURY_DAYS,
    "max_age_days": _CENTURY_DAYS,
    "max_range_days": _CENTURY_DAYS,
    "comparison_lookback_days": _CENTURY_DAYS,
    "link_retention_days": _CENTURY_DAYS,
    "max_queue_seconds": 600.0,
    "max_future_seconds": _CENTURY_DAYS * DAY_SECONDS,
    "capture_max_pods": 100,
    "capture_max_seconds": DAY_SECONDS,
    "capture_wait_seconds": DAY_SECONDS,
    "capture_agent_timeout_seconds": DAY_SECONDS,
    "capture_poll_timeout_seconds": 600.0,
    "capture_retention_days": _CENTURY_DAYS,
}
"""Upper limits of settings.

Above them, times would exceed the range of dates or of 64-bit nanoseconds, and more workers would be
useless.
"""


@dataclass(frozen=True, slots=True)
class Settings(EngineSettings):
    """The settings of a collector, each with a flag and a SIDELIGHT_ variable."""

    listen: str = setting(
        "127.0.0.1:8080", "address to serve on; port 0 picks a free port", metavar="HOST:PORT"
    )
    store: str = setting(
        "", "store of all windows: a directory, or s3://bucket/prefix", required=True, metavar="STORE"
    )
    s3_endpoint: str | None = setting(None, "URL of an S3 service other than AWS", metavar="URL")
    store_timeout_seconds: float = setting(
        20.0, "timeout of one request to S3 (up to four attempts)", parse=parse_positive_float
    )
    path_prefix: str = setting(
        "", "URL path below which the collector serves everything", parse=parse_path_prefix
    )
    port_file: Path | None = setting(None, "file to write the port to", parse=Path)
    role: str = setting(
        "all",
        "serve: ingest and queries; compactor: compaction, retention and deploy evaluations; all: both",
        parse=parse_role,
    )
    workers: int = setting(
        1,
        "number of serving processes; 0: one for each usable core",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )

    write_tokens_file: Path | None = setting(
        None, "file of bearer tokens for sending windows, one per line", parse=Path
    )
    read_tokens_file: Path | None = setting(
        None, "file of bearer tokens for queries, one per line", parse=Path
    )
    read_rules_file: Path | None = setting(
        None,
        "file of rules for who may read which namespaces, one per line; without it, all users read all",
        parse=Path,
    )
    read_proxy_header: str | None = setting(
        None,
        "header in which a proxy sends the user, such as X-Forwarded-User",
        parse=parse_header_name,
        metavar="NAME",
    )
    read_proxy_groups_header: str | None = setting(
        None,
        "header in which the proxy sends the user's groups, separated by commas",
        parse=parse_header_name,
        metavar="NAME",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        (),
        "addresses or networks of proxies to trust; may be repeated",
        parse=parse_network,
        metavar="NETWORK",
    )

    flush_seconds: float = setting(
        1.0, "longest wait of a window for windows of other senders", parse=parse_seconds
    )
    flush_bytes: int = setting(
        16 << 20, "memory of windows at which the collector stores them earlier", parse=parse_byte_size
    )
    max_pending_bytes: int = setting(
        64 << 20,
        "most memory of requests in progress; above it, requests wait, then get 429 and retry",
        parse=parse_byte_size,
    )
    max_queue_seconds: float = setting(
        10.0,
        "longest wait of a request that --max-pending-bytes has no room for; 0: it gets 429 at once",
        parse=parse_seconds,
    )
    max_body_bytes: int = setting(
        32 << 20, "largest request body, compressed or decompressed", parse=parse_byte_size
    )
    max_receive_seconds: float = setting(60.0, "timeout for receiving a request", parse=parse_positive_float)
    max_windows: int = setting(
        1000, "most windows in one request", parse=parse_nonnegative_int, metavar="COUNT"
    )
    max_stacks: int = setting(
        100_000, "most distinct stacks in one window", parse=parse_nonnegative_int, metavar="COUNT"
    )
    max_depth: int = setting(
        4096, "most frames of a stack; deeper stacks are truncated", parse=parse_nonnegative_int
    )
    max_labels: int = setting(32, "most labels of a window", parse=parse_nonnegative_int, metavar="COUNT")
    max_label_bytes: int = setting(256, "longest label value", parse=parse_byte_size)
    max_future_seconds: float = setting(300.0, "how far in the future a window may end", parse=parse_seconds)
    max_age_days: float = setting(
        7.0, "oldest start of a window that the collector accepts, in days", parse=parse_positive_float
    )
    dedup_cache_entries: int = setting(
        200_000,
        "window ids in memory, to reject an id that returns with other content",
        parse=parse_nonnegative_int,
    )
    decode_threads: int = setting(
        2, "threads that decode requests", parse=parse_nonnegative_int, metavar="COUNT"
    )

    retention_raw_days: int = setting(
        14, "whole days to keep individual windows", parse=parse_nonnegative_int
    )
    retention_hour_days: int = setting(90, "whole days to keep hourly sums", parse=parse_nonnegative_int)
    retention_day_days: int = setting(400, "whole days to keep daily sums", parse=parse_nonnegative_int)
    retention_services: tuple[tuple[str, RetentionDays], ...] = setting(
        (),
        "retention of one service in days; may be repeated",
        parse=parse_service_days,
        metavar="SERVICE=RAW/HOUR/DAY",
    )
    retention_bytes: int = setting(
        0, "most bytes of all windows; the oldest are deleted first; 0: no limit", parse=parse_byte_size
    )
    retention_interval_seconds: float = setting(
        3600.0, "time between retention runs", parse=parse_positive_float
    )

    compact_interval_seconds: float = setting(
        60.0, "time between compaction runs; 0: never", parse=parse_seconds
    )
    compact_min_segments: int = setting(
        64,
        "segments of one day that trigger compaction; 8 MiB of them do as well",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    compact_max_wait_seconds: float = setting(
        3600.0, "age of a segment that triggers compaction below --compact-min-segments", parse=parse_seconds
    )
    compact_max_block_rows: int = setting(
        2_500_000,
        "most sample rows of a block merged from blocks; 150 bytes of memory per row",
        parse=parse_nonnegative_int,
    )
    compact_lease_seconds: float = setting(
        120.0,
        "time without renewal after which another collector may compact a day; 0: no leases",
        parse=parse_seconds,
    )
    deletion_delay_seconds: float | None = setting(
        None,
        "time from the commit of a block to the deletion of the objects that it replaces; "
        "without it, four times --query-timeout-seconds",
        parse=parse_positive_float,
    )
    orphan_age_seconds: float = setting(
        21_600.0,
        "age at which orphaned objects are deleted, at least 600",
        parse=parse_positive_float,
    )

    query_timeout_seconds: float = setting(30.0, "timeout of a query", parse=parse_positive_float)
    max_queries: int = setting(
        4, "most queries that run at the same time", parse=parse_nonnegative_int, metavar="COUNT"
    )
    max_waiting_queries: int = setting(
        32,
        "most queries that wait; above it, clients get 429 and retry",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    query_read_concurrency: int = setting(
        8, "most concurrent reads from the store", parse=parse_nonnegative_int, metavar="COUNT"
    )
    query_cache_bytes: int = setting(256 << 20, "memory for decoded segments", parse=parse_byte_size)
    answer_cache_bytes: int = setting(
        32 << 20, "memory for cached query results; 0: no cache", parse=parse_byte_size
    )
    cache_dir: Path | None = setting(
        None, "directory on a local disk for copies of the objects that are read or written", parse=Path
    )
    cache_disk_bytes: int = setting(
        1 << 30,
        "most bytes in --cache-dir, for all collectors that use it together",
        parse=parse_byte_size,
    )
    max_range_days: float = setting(
        400.0, "longest time range of a query, in days", parse=parse_positive_float
    )
    comparison_lookback_days: float = setting(
        7.0,
        "time before now in which a comparison without times or versions finds them, in days, at most "
        "--max-range-days",
        parse=parse_positive_float,
    )
    default_nodes: int = setting(
        50_000,
        "flame graph nodes of a response without the parameter nodes",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    max_nodes: int = setting(
        1_000_000,
        "most flame graph nodes of any response, also with nodes=all",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    max_points: int = setting(
        5_000,
        "most steps of a timeline or columns of a heatmap",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    max_rows: int = setting(
        100_000,
        "most rows of functions, services or a heatmap",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    max_cells: int = setting(100_000, "most cells of a heatmap", parse=parse_nonnegative_int, metavar="COUNT")
    max_export_frames: int = setting(
        10_000_000,
        "most frames of all stacks of an export together",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )

    captures: bool = setting(default=True, help="let users start captures and sidecars poll for them")
    capture_tokens_file: Path | None = setting(
        None,
        "file of bearer tokens for captures, alerts of deploys and queries, one per line",
        parse=Path,
    )
    capture_max_pods: int = setting(
        5, "most pods of one capture", parse=parse_nonnegative_int, metavar="COUNT"
    )
    capture_max_seconds: float = setting(
        600.0, "longest sampling time of a capture", parse=parse_positive_float
    )
    capture_max_rate: int = setting(
        1000, "highest sampling rate of a capture, in samples per second", parse=parse_nonnegative_int
    )
    capture_max_running: int = setting(
        10, "most captures that run at the same time", parse=parse_nonnegative_int, metavar="COUNT"
    )
    capture_wait_seconds: float = setting(
        60.0, "how long a capture waits for sidecars", parse=parse_positive_float
    )
    capture_agent_timeout_seconds: float = setting(
        60.0,
        "time without a report after which a sidecar counts as failed in a capture",
        parse=parse_positive_float,
    )
    capture_poll_timeout_seconds: float = setting(
        25.0, "how long the collector holds a sidecar's poll open", parse=parse_positive_float
    )
    capture_max_polls: int = setting(
        20_000,
        "most open polls of sidecars, and at most half of --max-connections; above it, sidecars get 429 and "
        "retry",
        parse=parse_nonnegative_int,
    )
    capture_check_interval_seconds: float = setting(
        3.0,
        "time between checks for captures started at other collectors",
        parse=parse_positive_float,
    )
    timeline_recording_max_bytes: int = setting(
        8 << 20, "largest timeline recording of one process, compressed", parse=parse_byte_size
    )
    timeline_recording_max_decompressed_bytes: int = setting(
        64 << 20, "largest timeline recording of one process, decompressed", parse=parse_byte_size
    )
    timeline_recording_max_speedscope_frames: int = setting(
        4_000_000,
        "most frames of a timeline recording exported to speedscope",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    capture_retention_days: float = setting(
        7.0,
        "days to keep captures and their recordings; their windows have the usual retention",
        parse=parse_positive_float,
    )

    links: bool = setting(default=True, help="let users who may query create short links to pages")
    link_retention_days: int = setting(
        400, "whole days to keep a link after it was last created; 0: forever", parse=parse_nonnegative_int
    )
    max_link_bytes: int = setting(32 << 10, "longest page address of a link", parse=parse_byte_size)

    core_hour_price: float = setting(
        0.0,
        "price of one CPU core for an hour, in your currency, to show what functions cost; 0: no prices",
        parse=parse_nonnegative_float,
    )
    mcp: bool = setting(default=True, help="serve tools for coding agents at /mcp, to users who may query")

    shutdown_timeout_seconds: float = setting(
        30.0, "longest wait for open requests at shutdown", parse=parse_seconds
    )
    log_json: bool = setting(default=False, help="write logs as JSON lines")
    log_level: str = setting(
        "info", "lowest level to log: debug, info, warning or error", parse=parse_log_level
    )

    def __post_init__(self) -> None:
        self.check_workers()
        self.check_client_limits(self.timeline_recording_max_bytes)
        self.check_notes()
        self.check_deploys()
        self.check_comparison()
        self.check_kubernetes()
        self.check_engine(self.store)
        check_bounds(self, _POSITIVE_SETTINGS, _SETTING_MAXIMUMS)
        if self.max_body_bytes < 1 or self.max_pending_bytes < self.max_body_bytes:
            raise BadSetting(
                "max_pending_bytes is below max_body_bytes",
                hint="One largest request must fit: raise the first or lower the second.",
            )
        for name, days in (("", self.retention_days), *self.retention_services):
            self._check_retention(name, days)
        delay_seconds = self.deletion_delay_seconds
        if delay_seconds is not None and delay_seconds < 2 * self.query_timeout_seconds:
            raise BadSetting(
                "deletion_delay_seconds is below twice query_timeout_seconds",
                hint="Queries would lose what they are reading: raise the first or lower the second.",
            )
        if self.orphan_age_seconds < MIN_ORPHAN_AGE_SECONDS:
            raise BadSetting(
                f"orphan_age_seconds is below {MIN_ORPHAN_AGE_SECONDS:g}",
                hint="A block that a slow collector is about to commit would be deleted.",
            )
        if self.role == "compactor" and self.workers != 1:
            raise BadSetting(
                "a compactor is one process",
                hint="Leave out --workers; start several compactors to share the days out.",
            )
        if self.cache_dir is not None and _is_below(self.cache_dir, self.store):
            raise BadSetting(
                "cache_dir is in the store", hint="Choose a directory that is not below that of --store."
            )
        if self.read_proxy_groups_header is not None and self.read_proxy_header is None:
            raise BadSetting(
                "read_proxy_groups_header is given without read_proxy_header",
                hint="Name the header with the user too: groups alone are nobody.",
            )
        if (self.read_proxy_header is None) is not (not self.trusted_proxies):
            raise BadSetting(
                "read_proxy_header and trusted_proxies go together",
                hint="A header counts only from proxies that are named: give both, or neither.",
            )
        if self.capture_groups and self.read_proxy_groups_header is None:
            raise BadSetting(
                "capture_groups is given without read_proxy_groups_header",
                hint="Name the header in which the proxy sends the groups of a user.",
            )
        self.check_tls()
        has_writers = self.write_tokens_file is not None or self.in_cluster
        self.check_otlp_grpc(is_guarded=has_writers or self.allow_anonymous_writes)
        if self.role != "compactor":
            self.check_access(
                self.address[0],
                has_writers=has_writers,
                has_readers=self.read_tokens_file is not None or self.read_proxy_header is not None,
            )

    def _check_retention(self, service: str, days: RetentionDays) -> None:
        of = f" of {service}" if service else ""
        if not days.window <= days.hour <= days.day:
            raise BadSetting(
                f"retention{of} is {days.window}/{days.hour}/{days.day} days",
                hint="Days of windows, of hours and of days: each must be at least the one before it.",
            )
        if days.day > _CENTURY_DAYS:
            raise ValueError(f"retention{of} must be at most {_CENTURY_DAYS} days")
        if self.max_age_days > days.window:
            raise BadSetting(
                f"max_age_days is above retention_raw_days{of}",
                hint="Windows would be acknowledged and deleted: lower the first or raise the second.",
            )

    @property
    def retention_days(self) -> RetentionDays:
        """How long windows are stored for services without retention times of their own."""
        return RetentionDays(self.retention_raw_days, self.retention_hour_days, self.retention_day_days)

    @property
    def address(self) -> tuple[str, int]:
        """The host and port of `listen`."""
        return parse_address(self.listen)


def _is_below(path: Path, store: str) -> bool:
    return "://" not in store and path.absolute().is_relative_to(Path(store).absolute())
