"""Limits of what clients send, a part of the collector's settings."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.request_origin import parse_host_name
from sidelight.settings import BadSetting, parse_byte_size, parse_nonnegative_int, setting
from sidelight_collector.settings.listener import ListenerSettings

_POSITIVE_SETTINGS = (
    "max_connections",
    "max_window_header_bytes",
    "capture_max_poll_bytes",
    "max_file_bytes",
    "max_file_memory_bytes",
    "capture_max_agents_bytes",
    "capture_max_agents_per_pod",
    "capture_max_running_per_namespace",
    "timeline_recording_max_memory_bytes",
    "timeline_recording_max_per_sidecar",
)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class ClientLimitSettings(ListenerSettings):
    """Limits of connections, hosts, headers, polls, recordings and captures.

    The collector's `Settings` include them.
    """

    max_connections: int = setting(
        20_000,
        "most open connections of each process; fewer if its limit of open files (RLIMIT_NOFILE) is lower",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "name of a host that requests may be for, besides this machine, such as that of a proxy; may be "
        "repeated; without it, a collector that listens beyond loopback answers for every host",
        parse=parse_host_name,
        metavar="HOST",
    )
    max_window_header_bytes: int = setting(64 << 10, "largest header line of a window", parse=parse_byte_size)
    capture_max_pending_bytes: int = setting(
        64 << 20,
        "most bytes of recordings, polls, links and capture requests that are being received; above it, "
        "clients get 429 and retry",
        parse=parse_byte_size,
    )
    capture_max_poll_bytes: int = setting(256 << 10, "largest poll of a sidecar", parse=parse_byte_size)
    capture_max_agents_bytes: int = setting(
        64 << 20, "most memory of the table of polling sidecars", parse=parse_byte_size
    )
    capture_max_agents_per_pod: int = setting(
        8, "most sidecars of one pod that may poll", parse=parse_nonnegative_int, metavar="COUNT"
    )
    capture_max_running_per_namespace: int = setting(
        5,
        "most captures that run at the same time in one namespace",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    max_file_bytes: int = setting(
        24 << 20, "largest profile file, unpacked, that the page for files shows", parse=parse_byte_size
    )
    max_file_memory_bytes: int = setting(
        1 << 30,
        "most memory of the process that reads such files, one request at a time",
        parse=parse_byte_size,
    )
    timeline_recording_max_memory_bytes: int = setting(
        512 << 20,
        "most memory that the values of one timeline recording may take, by an upper estimate",
        parse=parse_byte_size,
    )
    timeline_recording_max_per_sidecar: int = setting(
        100,
        "most timeline recordings of one sidecar in one capture: one for each process",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )

    def check_client_limits(self, max_recording_bytes: int) -> None:
        """Raise ValueError or BadSetting for invalid settings."""
        for name in _POSITIVE_SETTINGS:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.capture_max_pending_bytes < max(max_recording_bytes, self.capture_max_poll_bytes):
            raise BadSetting(
                "capture_max_pending_bytes is below timeline_recording_max_bytes or capture_max_poll_bytes",
                hint="One largest body must fit: raise the first or lower the others.",
            )
