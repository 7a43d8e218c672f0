"""One run of the demo, step by step.

The steps are: start the collector and the services, attach sidecars, start the load, wait for profiles, and
measure one or more rounds.

All four services run at the same time. Run one after another, each would have the machine to itself, but at a
different time with different noise. Run together, all see the same noise, so differences come from the
services. The schedules of the four loads are shifted by a quarter of the interval between requests, so that
requests do not start in lock-step.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import aiohttp

from sidelight_cli.demo.collector_answers import DemoQueries, DemoQueryFailed, VersionProfile
from sidelight_cli.demo.demo_screen import DemoScreen
from sidelight_cli.demo.measurement import MeasuredVersion, VersionProgress
from sidelight_cli.demo.processes.child_process import ChildProcess
from sidelight_cli.demo.processes.load_generator import LoadRound
from sidelight_cli.demo.processes.process_group import ProcessGroup
from sidelight_cli.demo.processes.programs import PROGRESS_SECONDS, WARM_UP_SECONDS, DemoCommands
from sidelight_cli.demo.versions import AIOHTTP, SERVICE, TORNADO_ASYNC, VERSIONS, DemoVersion

START_TIMEOUT_SECONDS = 60.0
ARRIVAL_TIMEOUT_SECONDS = 60.0
LOAD_START_DELAY_SECONDS = 0.5
ROUND_GRACE_SECONDS = 60.0
POLL_SECONDS = 0.2
QUERY_LOOKAHEAD_SECONDS = 3600.0
PAGE_RANGE = "-15m"


@dataclass(frozen=True, slots=True)
class RoundMeasurement:
    """The load and the profile of every version in one round.

    Profiles consist of the windows that lie completely inside the round. Times are Unix seconds; `until` is
    excluded. `missing_versions` names versions whose last windows did not reach the collector in time.
    """

    start: float
    until: float
    versions: tuple[MeasuredVersion, ...]
    missing_versions: tuple[str, ...]


class DemoRun:
    """The running parts of one demo.

    `process_group` owns the processes. Its creator must stop them.
    """

    def __init__(
        self,
        programs: DemoCommands,
        process_group: ProcessGroup,
        session: aiohttp.ClientSession,
        screen: DemoScreen,
    ) -> None:
        self._programs = programs
        self._settings = programs.settings
        self._process_group = process_group
        self._session = session
        self._screen = screen
        self._services: list[tuple[ChildProcess, int]] = []
        self._sidecars: list[ChildProcess] = []
        self._loads: list[ChildProcess] = []
        self._latest_rounds: dict[DemoVersion, LoadRound] = {}
        self._sidecars_started_at = 0.0
        self.url = ""

    @property
    def page_url(self) -> str:
        """The URL of the demo service's page."""
        return f"{self.url}/s/{SERVICE}?from={PAGE_RANGE}"

    @property
    def compare_url(self) -> str:
        """The URL of the page that compares async Tornado with aiohttp."""
        sides = f"baseline=version:{TORNADO_ASYNC}&comparison=version:{AIOHTTP}"
        return f"{self.url}/s/{SERVICE}/compare?from={PAGE_RANGE}&{sides}"

    async def start_services(self) -> None:
        """Start the collector and the four services; returns when all of them listen."""
        host, port = self._settings.listen_address
        if not is_port_free(host, port):
            self._screen.print_line(
                f"{host}:{port} is in use or not ours to take: the collector takes a free port"
            )
            port = 0
        collector = await self._process_group.start(self._programs.build_collector_command(host, port))
        services = [
            await self._process_group.start(self._programs.build_service_command(version))
            for version in VERSIONS
        ]
        await self._process_group.run_guarded(self._wait_for_ports(build_url_host(host), collector, services))

    async def _wait_for_ports(
        self, host: str, collector: ChildProcess, services: Sequence[ChildProcess]
    ) -> None:
        """Wait until collector and services listen."""
        port = await collector.wait_for_port(
            self._programs.build_port_file_path("collector"), START_TIMEOUT_SECONDS
        )
        self.url = f"http://{host}:{port}"
        self._screen.print_line(f"collector   {self.url}   (windows in {self._programs.store_directory})")
        for version, child in zip(VERSIONS, services, strict=True):
            port = await child.wait_for_port(
                self._programs.build_port_file_path(version.name), START_TIMEOUT_SECONDS
            )
            self._services.append((child, port))
            self._screen.print_line(
                f"service     http://127.0.0.1:{port}   {version.name}, pid {child.process.pid}"
            )

    async def start_sidecars(self) -> None:
        """Start a sidecar for each service."""
        self._sidecars_started_at = time.time()
        for version, (service, _) in zip(VERSIONS, self._services, strict=True):
            command = self._programs.build_sidecar_command(version, service.process.pid, self.url)
            self._sidecars.append(await self._process_group.start(command))
        self._screen.print_line(
            f"sidecars    one on each service, {self._settings.sample_rate:g} samples per second"
        )

    async def wait_for_profiles(self) -> None:
        """Wait until the collector has a window of every service.

        Raises ChildFailed if a service has none after `ARRIVAL_TIMEOUT_SECONDS`.
        """
        missing = await self._process_group.run_guarded(self._wait_for_windows(self._sidecars_started_at))
        for sidecar, version in zip(self._sidecars, VERSIONS, strict=True):
            if version.name in missing:
                raise sidecar.make_failure(f"sent no window within {ARRIVAL_TIMEOUT_SECONDS:g} s")

    async def start_load(self) -> None:
        """Start the load on each service, at the same time once all generators are ready."""
        settings = self._settings
        self._loads = [
            await self._process_group.start(self._programs.build_load_command(version, port))
            for version, (_, port) in zip(VERSIONS, self._services, strict=True)
        ]
        await self._process_group.run_guarded(self._wait_for_ready())
        start = time.time() + LOAD_START_DELAY_SECONDS
        for number, load in enumerate(self._loads):
            load.write_line(f"{start + number / len(VERSIONS) / settings.rate:.6f}")
        self._screen.print_line(
            f"load        {settings.rate:g} requests per second on each, /50 and /125 in turn"
        )

    async def _wait_for_ready(self) -> None:
        """Wait until every load generator is ready to start."""
        for load in self._loads:
            await load.read_line(START_TIMEOUT_SECONDS)

    async def measure_round(
        self, show: Callable[[Sequence[VersionProgress]], None] | None = None
    ) -> RoundMeasurement:
        """Wait for the end of the next round and its windows, then query its profiles.

        `show` receives the progress of the first round; load generators report no progress of later rounds.
        """
        return await self._process_group.run_guarded(self._measure_with_progress(show))

    async def stop_sidecars(self) -> list[str]:
        """Stop the sidecars; returns the problems with sending their last windows."""
        statuses = await self._process_group.stop(*self._sidecars)
        failures = [f"the {name} ended with status {status}" for name, status in statuses.items() if status]
        unacknowledged = [
            f"{version.name}: {windows} windows were not acknowledged"
            for version in VERSIONS
            if (windows := len(list(self._programs.build_spool_path(version).rglob("*.zst"))))
        ]
        return failures + unacknowledged

    async def _measure_with_progress(
        self, show: Callable[[Sequence[VersionProgress]], None] | None
    ) -> RoundMeasurement:
        async with asyncio.TaskGroup() as group:
            progress_task = group.create_task(self._show_progress(show), name="progress")
            measurement = await self._collect_round()
            progress_task.cancel()
        return measurement

    async def _collect_round(self) -> RoundMeasurement:
        settings = self._settings
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._wait_for_round(version, load), name=load.command.name)
                for version, load in zip(VERSIONS, self._loads, strict=True)
            ]
        rounds = [task.result() for task in tasks]
        start = max(load_round.start for load_round in rounds)
        until = min(load_round.until for load_round in rounds)
        missing = await self._wait_for_windows(until - settings.window_seconds)
        queries = DemoQueries(self._session, self.url)
        measured = [
            MeasuredVersion(
                version, load, await queries.fetch_profile(version, start, until - settings.window_seconds)
            )
            for version, load in zip(VERSIONS, rounds, strict=True)
        ]
        return RoundMeasurement(start, until, tuple(measured), tuple(missing))

    async def _wait_for_round(self, version: DemoVersion, load: ChildProcess) -> LoadRound:
        """Wait for the next complete round of a load generator."""
        timeout_seconds = (
            LOAD_START_DELAY_SECONDS + WARM_UP_SECONDS + self._settings.round_seconds + ROUND_GRACE_SECONDS
        )
        while True:
            load_round = LoadRound.parse(await load.read_line(timeout_seconds))
            self._latest_rounds[version] = load_round
            if load_round.complete:
                return load_round

    async def _show_progress(self, show: Callable[[Sequence[VersionProgress]], None] | None) -> None:
        """Show the progress of a round until cancelled."""
        while show is not None:
            await asyncio.sleep(PROGRESS_SECONDS)
            if self._latest_rounds:
                show([await self._fetch_progress(version) for version in VERSIONS])

    async def _fetch_progress(self, version: DemoVersion) -> VersionProgress:
        load = self._latest_rounds.get(version)
        profile: VersionProfile | None = None
        if load is not None:
            with contextlib.suppress(DemoQueryFailed):
                profile = await DemoQueries(self._session, self.url).fetch_profile(
                    version, load.start, load.until
                )
        return VersionProgress(version, load, profile if profile is not None and profile.windows else None)

    async def _wait_for_windows(self, moment: float) -> Collection[str]:
        """Wait until every version has a window that starts at `moment` or later.

        `moment` is in Unix seconds. Returns the versions still without such a window after
        `ARRIVAL_TIMEOUT_SECONDS`. Sidecars send the oldest window first, so earlier windows have arrived too.
        """
        queries = DemoQueries(self._session, self.url)
        missing: Sequence[str] = [version.name for version in VERSIONS]
        deadline = time.monotonic() + ARRIVAL_TIMEOUT_SECONDS
        while missing and time.monotonic() < deadline:
            windows = await queries.count_windows(moment, time.time() + QUERY_LOOKAHEAD_SECONDS)
            missing = [version.name for version in VERSIONS if not windows.get(version.name)]
            if missing:
                await asyncio.sleep(POLL_SECONDS)
        return missing


def is_port_free(host: str, port: int) -> bool:
    """Whether a server could listen on this address now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def build_url_host(host: str) -> str:
    """Format a listen address's host for a URL used on this machine."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
