"""Settings that the sidecar and the node agent share, validated together."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from sidelight import settings as house
from sidelight.request_origin import parse_host_name
from sidelight.settings import BadSetting, setting
from sidelight_model.labels import RESERVED_LABELS
from sidelight_sidecar.collector_connection import CollectorConnectionSettings
from sidelight_sidecar.state_directory import find_state_directory
from sidelight_sidecar.triggers import GrowthThreshold, TriggerRules

SAMPLING_MODES = ("auto", "gil", "blocking", "nonblocking", "command")
# Unwinding the C stack takes ten times as long: acceptable for a short capture, not for continuous sampling.
CAPTURE_MODES = (*SAMPLING_MODES, "native")
_MAX_WINDOW_SECONDS = 1800.0
MAX_TASKS_RATE = 50
"""Listing tasks costs microseconds for each, and a listing of many at once holds the event loop."""


def _parse_label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


def _parse_growth(text: str) -> GrowthThreshold:
    if text.endswith("%"):
        return GrowthThreshold(share=house.parse_positive_float(text[:-1].strip()) / 100)
    size = house.parse_byte_size(text)
    if size < 1:
        raise ValueError(f"{text!r} is no growth")
    return GrowthThreshold(size_bytes=size)


def _check_growth(text: str) -> str:
    _parse_growth(text)
    return text


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class SamplingSettings(CollectorConnectionSettings):
    """Sampling, sending and the HTTP port.

    The settings of sidecar and node agent include them.
    """

    max_processes: int = setting(
        64, "most processes to profile at the same time", parse=house.parse_nonnegative_int
    )
    label: tuple[tuple[str, str], ...] = setting(
        (), "custom label; may be repeated", parse=_parse_label, metavar="NAME=VALUE"
    )
    rate: int = setting(100, "samples per second, 1 to 1000", parse=house.parse_nonnegative_int, metavar="HZ")
    tasks_rate: float = setting(
        5.0,
        "readings of asyncio tasks per second, at most 50; 0 for none",
        parse=house.parse_nonnegative_float,
        metavar="HZ",
    )
    window_seconds: float = setting(10.0, "length of a window, 0.1 to 1800", parse=house.parse_positive_float)
    interval_seconds: float | None = setting(
        None,
        "take one window per interval of this length; without it, windows follow without a gap",
        parse=house.parse_positive_float,
    )
    jitter_seconds: float | None = setting(
        None,
        "longest random delay of a scheduled window; without it, a tenth of the interval",
        parse=house.parse_seconds,
    )
    on_demand: bool = setting(False, "sample only for captures and triggers")
    trigger_cpu_percent: float | None = setting(
        None,
        "boost sampling when a container uses more than this percentage of its CPU limit; without a "
        "limit, a process of one core",
        parse=house.parse_positive_float,
    )
    trigger_throttled_percent: float | None = setting(
        None,
        "boost sampling when a container is throttled in more than this percentage of its CPU periods",
        parse=house.parse_positive_float,
    )
    trigger_window_seconds: float = setting(
        30.0, "time over which these two triggers average, 1 to 3600", parse=house.parse_positive_float
    )
    trigger_rss_growth: str = setting(
        "",
        "boost sampling when a container's working set, or if unreadable a process's RSS, grows by this: "
        "bytes (200M) or a share (50%)",
        parse=_check_growth,
    )
    trigger_rss_window_seconds: float = setting(
        300.0,
        "time over which growth is measured, 1 to 3600; the first such time after a process's start "
        "does not count",
        parse=house.parse_positive_float,
    )
    trigger_ready: bool = setting(
        False, "boost sampling when a service that started with or after the sidecar is ready"
    )
    trigger_sigterm: bool = setting(
        False, "at SIGTERM, ship the windows in memory, also of processes that ended just before"
    )
    trigger_rate: int | None = setting(
        None,
        "samples per second after a trigger, from --rate to 1000; without it, twice --rate, at most 1000",
        parse=house.parse_nonnegative_int,
        metavar="HZ",
    )
    trigger_duration_seconds: float = setting(
        30.0, "length of the boost after a trigger, 1 to 3600", parse=house.parse_positive_float
    )
    trigger_cooldown_seconds: float = setting(
        600.0, "time after a boost in which no trigger fires on the same process", parse=house.parse_seconds
    )
    mode: str = setting(
        "auto",
        "how to read stacks: gil (stops only the thread that holds the GIL), blocking (stops all "
        "threads), nonblocking (stops none; stacks may be wrong), command (`py-spy record`), or "
        "auto: gil, blocking where its holder is unknown, command if the extension is missing",
    )
    budget_cpu_percent: float = setting(
        1.0,
        "most CPU time for sampling all processes, in percent of one core; rates adapt",
        parse=house.parse_positive_float,
    )
    budget_stop_percent: float = setting(
        1.0,
        "most time that a process is stopped, in percent of its time; its rate adapts",
        parse=house.parse_positive_float,
    )
    max_stop_ms: float = setting(
        2.0, "longest single stop of a process, 0.1 to 1000", parse=house.parse_positive_float
    )
    max_depth: int = setting(
        1024,
        "most frames of a stack, 2 to 4096; deeper stacks get a (truncated) frame",
        parse=house.parse_nonnegative_int,
    )
    max_stacks: int = setting(
        50_000,
        "most distinct stacks in one window, 100 to 100000; the rest counts as (other)",
        parse=house.parse_nonnegative_int,
    )
    preroll_seconds: float = setting(
        0.0,
        "recent seconds to keep in memory between scheduled windows and with --on-demand, for the "
        "start of a capture",
        parse=house.parse_seconds,
    )
    preroll_max_bytes: int = setting(
        16 << 20, "memory for the pre-roll, at least 64k", parse=house.parse_byte_size
    )
    pause_file: Path | None = setting(None, "file that pauses all sampling while it exists", parse=Path)
    scan_interval_seconds: float = setting(
        0.5, "time between scans for new and ended processes", parse=house.parse_positive_float
    )
    attach_retry_max_seconds: float = setting(
        60.0,
        "longest wait before another attempt to read a process",
        parse=house.parse_positive_float,
    )
    spool_dir: Path | None = setting(
        None,
        "directory for windows that are not sent yet; without it, one per port in the user's state directory",
        parse=Path,
    )
    spool_max_bytes: int = setting(
        256 << 20, "most bytes in the spool, at least 1M", parse=house.parse_byte_size
    )
    batch_max_bytes: int = setting(
        8 << 20, "most bytes of windows in one request, 64k to 32M", parse=house.parse_byte_size
    )
    send_timeout_seconds: float = setting(
        30.0, "timeout of a request to the collector", parse=house.parse_positive_float
    )
    send_backoff_max_seconds: float = setting(
        60.0, "longest wait between attempts to send", parse=house.parse_positive_float
    )
    listen: str = setting(
        "127.0.0.1:8081",
        "address of the HTTP endpoints, such as /capture and /metrics; port 0 picks a free port",
        metavar="HOST:PORT",
    )
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "name of a host that requests may be for, besides this machine; may be repeated; without it, a "
        "sidecar that listens beyond loopback answers for every host",
        parse=parse_host_name,
        metavar="HOST",
    )
    max_connections: int = setting(
        256, "most open connections to --listen", parse=house.parse_nonnegative_int, metavar="COUNT"
    )
    capture_token_file: Path | None = setting(
        None, "file with the bearer token that POST /capture, /pause and /resume require", parse=Path
    )
    capture_max_seconds: float = setting(600.0, "longest capture", parse=house.parse_positive_float)
    capture_max_rate: int = setting(
        1000,
        "highest rate of a capture, in samples per second, 1 to 10000",
        parse=house.parse_nonnegative_int,
    )
    capture_budget_percent: float = setting(
        10.0,
        "most CPU time of all captures, in percent of one core, and most stopped time of each process",
        parse=house.parse_positive_float,
    )
    captures_from_collector: bool = setting(True, "run captures that users start at the collector")
    capture_poll_timeout_seconds: float = setting(
        25.0,
        "how long the collector may hold a poll for captures open, at most 300",
        parse=house.parse_positive_float,
    )
    timeline_recording_max_bytes: int = setting(
        8 << 20,
        "largest timeline recording of one process, compressed, 64k to 64M",
        parse=house.parse_byte_size,
    )
    timeline_recording_memory_bytes: int = setting(
        64 << 20,
        "memory for timeline recordings that are not sent yet, at least 1M",
        parse=house.parse_byte_size,
    )
    timeline_recording_retry_seconds: float = setting(
        600.0,
        "how long to retry sending a timeline recording",
        parse=house.parse_positive_float,
    )
    shutdown_flush_seconds: float = setting(
        10.0, "longest time to send remaining windows at SIGTERM", parse=house.parse_seconds
    )
    log_json: bool = setting(False, "write logs as JSON lines")
    log_level: str = setting("info", "lowest level to log: debug, info, warning or error", parse=str.lower)

    def __post_init__(self) -> None:
        self.check_connection()
        _check_times(self)
        _check_bounds(self)
        _check_triggers(self)
        _ = self.listen_address
        if self.mode not in SAMPLING_MODES:
            raise BadSetting(f"--mode {self.mode!r} is not one of {', '.join(SAMPLING_MODES)}")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise BadSetting(f"--log-level {self.log_level!r} is not one of debug, info, warning, error")
        names = [name for name, _ in self.label]
        own = [name for name in names if name in ("trigger", "trigger_reason")]
        if own:
            raise BadSetting(
                f"--label {own[0]}: the sidecar says so itself what made it look closer",
                hint="Use another name.",
            )
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise BadSetting(f"--label {twice[0]} is given twice", hint="A label has one value.")
        reserved = [name for name in names if name in RESERVED_LABELS]
        if reserved:
            raise BadSetting(
                f"--label {reserved[0]}: this label has a meaning of its own",
                hint=f"Use --{reserved[0]} where there is one, or another name.",
            )

    @property
    def listen_address(self) -> tuple[str, int]:
        """`--listen` as host and port."""
        return house.parse_address(self.listen)

    @property
    def spool_directory(self) -> Path:
        """The folder of the spool, the same after each restart of this sidecar.

        Raises BadSetting if there is no directory for the state of this user.
        """
        if self.spool_dir is not None:
            return self.spool_dir
        return find_state_directory(os.environ) / "sidelight" / f"spool-{self.listen_address[1]}"

    @property
    def effective_jitter_seconds(self) -> float:
        """Seconds of jitter, short enough that a window never meets the next."""
        if self.interval_seconds is None:
            return 0.0
        room = self.interval_seconds - self.window_seconds
        return min(room, self.interval_seconds / 10) if self.jitter_seconds is None else self.jitter_seconds

    @property
    def trigger_rules(self) -> TriggerRules:
        """The triggers and their thresholds."""
        return TriggerRules(
            cpu_share=_to_share(self.trigger_cpu_percent),
            throttled_share=_to_share(self.trigger_throttled_percent),
            window_seconds=self.trigger_window_seconds,
            rss_growth=_parse_growth(self.trigger_rss_growth) if self.trigger_rss_growth else None,
            rss_growth_seconds=self.trigger_rss_window_seconds,
            fires_on_ready=self.trigger_ready,
            fires_on_sigterm=self.trigger_sigterm,
            boost_seconds=self.trigger_duration_seconds,
            cooldown_seconds=self.trigger_cooldown_seconds,
        )

    @property
    def pod_cpu_share(self) -> float:
        """The budget of each pod, as a share of one core; a sidecar has one pod."""
        return math.inf

    @property
    def trigger_rate_hz(self) -> int:
        """The rate after a trigger."""
        return min(1000, 2 * self.rate) if self.trigger_rate is None else self.trigger_rate


def _check_bounds(settings: SamplingSettings) -> None:
    if not 2 <= settings.max_depth <= 4096:
        raise BadSetting("--max-depth must be from 2 to 4096", hint="py-spy reads at most 4096 frames.")
    if not 100 <= settings.max_stacks <= 100_000:
        raise BadSetting("--max-stacks must be from 100 to 100000", hint="Collectors take 100000 at most.")
    if settings.tasks_rate > MAX_TASKS_RATE:
        raise BadSetting(f"--tasks-rate must be from 0 to {MAX_TASKS_RATE}", hint="0 reads no asyncio tasks.")
    if settings.spool_max_bytes < 1 << 20:
        raise BadSetting("--spool-max-bytes must be at least 1M")
    if not 1 << 16 <= settings.batch_max_bytes <= 32 << 20:
        raise BadSetting("--batch-max-bytes must be from 64k to 32M", hint="Collectors take 32M at most.")
    for flag, count in (
        ("--max-processes", settings.max_processes),
        ("--max-connections", settings.max_connections),
    ):
        if count < 1:
            raise BadSetting(f"{flag} must be at least 1")
    if not 1 <= settings.capture_max_rate <= 10_000:
        raise BadSetting("--capture-max-rate must be from 1 to 10000")
    for flag, percent in (
        ("--budget-cpu-percent", settings.budget_cpu_percent),
        ("--budget-stop-percent", settings.budget_stop_percent),
        ("--capture-budget-percent", settings.capture_budget_percent),
    ):
        if percent > 100:
            raise BadSetting(f"{flag} must be at most 100", hint="1 is one percent.")
    if not 0.1 <= settings.max_stop_ms <= 1000:
        raise BadSetting("--max-stop-ms must be from 0.1 to 1000")
    if settings.preroll_max_bytes < 1 << 16:
        raise BadSetting("--preroll-max-bytes must be at least 64k")
    if not 1 << 16 <= settings.timeline_recording_max_bytes <= 64 << 20:
        raise BadSetting("--timeline-recording-max-bytes must be from 64k to 64M")
    if settings.timeline_recording_memory_bytes < 1 << 20:
        raise BadSetting("--timeline-recording-memory-bytes must be at least 1M")
    if settings.capture_poll_timeout_seconds > 300:
        raise BadSetting(
            "--capture-poll-timeout-seconds must be at most 300", hint="Proxies cut longer requests."
        )


def _check_triggers(settings: SamplingSettings) -> None:
    if not settings.rate <= settings.trigger_rate_hz <= 1000:
        raise BadSetting(
            "--trigger-rate must be from --rate to 1000", hint="A closer look takes more samples, not fewer."
        )
    for flag, percent in (
        ("--trigger-cpu-percent", settings.trigger_cpu_percent),
        ("--trigger-throttled-percent", settings.trigger_throttled_percent),
    ):
        if percent is not None and percent > 100:
            raise BadSetting(f"{flag} must be at most 100", hint="50 is a half.")
    for flag, seconds in (
        ("--trigger-window-seconds", settings.trigger_window_seconds),
        ("--trigger-rss-window-seconds", settings.trigger_rss_window_seconds),
        ("--trigger-duration-seconds", settings.trigger_duration_seconds),
    ):
        if not 1 <= seconds <= 3600:
            raise BadSetting(f"{flag} must be from 1 to 3600")


def _to_share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _check_times(settings: SamplingSettings) -> None:
    if not 1 <= settings.rate <= 1000:
        raise BadSetting("--rate must be from 1 to 1000", hint="100 costs little and is enough for most.")
    if not 0.1 <= settings.window_seconds <= _MAX_WINDOW_SECONDS:
        raise BadSetting("--window-seconds must be from 0.1 to 1800", hint="Collectors take an hour at most.")
    if settings.interval_seconds is None:
        if settings.jitter_seconds is not None:
            raise BadSetting("--jitter-seconds needs --interval-seconds")
        return
    if settings.on_demand:
        raise BadSetting("--on-demand and --interval-seconds cannot go together")
    if settings.interval_seconds < settings.window_seconds:
        raise BadSetting("--interval-seconds must not be shorter than --window-seconds")
    if settings.effective_jitter_seconds > settings.interval_seconds - settings.window_seconds + 1e-9:
        raise BadSetting(
            "--jitter-seconds must fit between two windows",
            hint="It is at most --interval-seconds minus --window-seconds.",
        )
