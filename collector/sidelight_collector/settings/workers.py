"""Settings of worker processes, a part of the collector's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidelight.connection_settings import ConnectionSettings
from sidelight.settings import parse_nonnegative_int, parse_positive_float, parse_seconds, setting

MIN_HEARTBEAT_TIMEOUT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class WorkerSettings(ConnectionSettings):
    """Settings of the supervision of workers; the collector's `Settings` include them."""

    max_worker_restarts: int = setting(
        5,
        "worker restarts allowed within --worker-restart-window-seconds; one more ends the collector",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    worker_restart_window_seconds: float = setting(
        60.0, "time over which worker restarts are counted", parse=parse_positive_float
    )
    worker_heartbeat_timeout_seconds: float = setting(
        60.0,
        "time without a heartbeat after which a worker is killed and replaced, at least 1; 0: never",
        parse=parse_seconds,
    )

    def check_workers(self) -> None:
        """Raise ValueError for invalid settings."""
        if 0 < self.worker_heartbeat_timeout_seconds < MIN_HEARTBEAT_TIMEOUT_SECONDS:
            raise ValueError(
                f"worker_heartbeat_timeout_seconds must be 0 or at least {MIN_HEARTBEAT_TIMEOUT_SECONDS:g}"
            )
