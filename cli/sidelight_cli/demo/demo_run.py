"""One demo, step by step: serve, watch, load, wait for profiles, measure as often as wanted.

All four services run at the same time. One after another each would have the machine to itself, but each
would meet another moment of it; at the same time all meet the same noise, and what differs between them
is theirs. The intended starts of the four loads are a quarter of their interval apart, so that requests do
not meet each other in lock-step.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import aiohttp

from sidelight_cli.demo.collector_answers import Answers, NoAnswer, Profiled
from sidelight_cli.demo.demo_screen import Screen
from sidelight_cli.demo.measurement import Measured, Progress
from sidelight_cli.demo.processes.child_process import Child
from sidelight_cli.demo.processes.load_generator import Round
from sidelight_cli.demo.processes.process_group import Crew
from sidelight_cli.demo.processes.programs import PROGRESS_SECONDS, WARM_UP_SECONDS, Programs
from sidelight_cli.demo.versions import AIOHTTP, SERVICE, TORNADO_ASYNC, VERSIONS, Version
from sidelight_model.errors import Reason, SidelightError

START_SECONDS = 60.0
ARRIVE_SECONDS = 60.0
LOAD_START_SECONDS = 0.5
LATE_SECONDS = 60.0
POLL_SECONDS = 0.2
AHEAD_SECONDS = 3600.0
PAGE_RANGE = "-15m"


class NothingArrived(SidelightError):
    """A sidecar runs, but the collector has no windows of its service."""

    reason = Reason.COLLECTOR_UNREACHABLE


@dataclass(frozen=True, slots=True)
class Measurement:
    """One round: the load of every version, and its profile from the windows that lie wholly inside.

    Times are seconds since 1970; `until` is excluded. `missing` names versions whose last windows did not
    reach the collector in time.
    """

    start: float
    until: float
    versions: tuple[Measured, ...]
    missing: tuple[str, ...]


class Demo:
    """The running parts of one demo; `crew` owns the processes, whoever made it ends them."""

    def __init__(
        self, programs: Programs, crew: Crew, session: aiohttp.ClientSession, screen: Screen
    ) -> None:
        self._programs = programs
        self._settings = programs.settings
        self._crew = crew
        self._session = session
        self._screen = screen
        self._services: list[tuple[Child, int]] = []
        self._sidecars: list[Child] = []
        self._loads: list[Child] = []
        self._rounds: dict[Version, Round] = {}
        self._watched_since = 0.0
        self.url = ""

    @property
    def page_url(self) -> str:
        """The page of the demo's service."""
        return f"{self.url}/s/{SERVICE}?from={PAGE_RANGE}"

    @property
    def compare_url(self) -> str:
        """The page that compares async Tornado with aiohttp."""
        sides = f"baseline=version:{TORNADO_ASYNC}&comparison=version:{AIOHTTP}"
        return f"{self.url}/s/{SERVICE}/compare?from={PAGE_RANGE}&{sides}"

    async def serve(self) -> None:
        """Start the collector and the four services; returns when all of them can be reached."""
        host, port = self._settings.address
        if not is_free(host, port):
            self._screen.say(f"{host}:{port} is in use or not ours to take: the collector takes a free port")
            port = 0
        collector = await self._crew.start(self._programs.collector(host, port))
        services = [await self._crew.start(self._programs.service(version)) for version in VERSIONS]
        await self._crew.guard(self._ports(reachable(host), collector, services))

    async def _ports(self, host: str, collector: Child, services: Sequence[Child]) -> None:
        """Wait until collector and services listen."""
        port = await collector.port(self._programs.port_file("collector"), START_SECONDS)
        self.url = f"http://{host}:{port}"
        self._screen.say(f"collector   {self.url}   (windows in {self._programs.store})")
        for version, child in zip(VERSIONS, services, strict=True):
            port = await child.port(self._programs.port_file(version.name), START_SECONDS)
            self._services.append((child, port))
            self._screen.say(f"service     http://127.0.0.1:{port}   {version.name}, pid {child.process.pid}")

    async def watch(self) -> None:
        """Start a sidecar on each service."""
        self._watched_since = time.time()
        for version, (service, _) in zip(VERSIONS, self._services, strict=True):
            command = self._programs.sidecar(version, service.process.pid, self.url)
            self._sidecars.append(await self._crew.start(command))
        self._screen.say(
            f"sidecars    one on each service, {self._settings.sample_rate:g} samples per second"
        )

    async def profiles(self) -> None:
        """Wait until the collector has a window of every service; raises ChildFailed when one has none."""
        missing = await self._crew.guard(self._arrived(self._watched_since))
        for sidecar, version in zip(self._sidecars, VERSIONS, strict=True):
            if version.name in missing:
                raise sidecar.failure(f"sent no window within {ARRIVE_SECONDS:g} s")

    async def load(self) -> None:
        """Start the load on each service; all begin at the same time, once all are ready."""
        settings = self._settings
        self._loads = [
            await self._crew.start(self._programs.load(version, port))
            for version, (_, port) in zip(VERSIONS, self._services, strict=True)
        ]
        await self._crew.guard(self._ready())
        start = time.time() + LOAD_START_SECONDS
        for number, load in enumerate(self._loads):
            load.send(f"{start + number / len(VERSIONS) / settings.rate:.6f}")
        self._screen.say(f"load        {settings.rate:g} requests per second on each, /50 and /125 in turn")

    async def _ready(self) -> None:
        """Wait until every load is ready to start."""
        for load in self._loads:
            await load.line(START_SECONDS)

    async def measure(self, show: Callable[[Sequence[Progress]], None] | None = None) -> Measurement:
        """Wait for the end of one more round, and for its windows; then ask the collector about it.

        `show` receives the progress of the first round, the only one whose progress the loads report.
        """
        return await self._crew.guard(self._measure(show))

    async def dismiss_sidecars(self) -> list[str]:
        """End the sidecars; what went wrong with sending their last windows, if anything did."""
        statuses = await self._crew.dismiss(*self._sidecars)
        ended = [f"the {name} ended with status {status}" for name, status in statuses.items() if status]
        left = [
            f"{version.name}: {windows} windows were not acknowledged"
            for version in VERSIONS
            if (windows := len(list(self._programs.spool(version).rglob("*.zst"))))
        ]
        return ended + left

    async def _measure(self, show: Callable[[Sequence[Progress]], None] | None) -> Measurement:
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(self._follow(show), name="progress")
            measurement = await self._collect()
            follower.cancel()
        return measurement

    async def _collect(self) -> Measurement:
        settings = self._settings
        async with asyncio.TaskGroup() as group:
            ends = [
                group.create_task(self._round(version, load), name=load.command.name)
                for version, load in zip(VERSIONS, self._loads, strict=True)
            ]
        rounds = [end.result() for end in ends]
        start, until = max(one.start for one in rounds), min(one.until for one in rounds)
        missing = await self._arrived(until - settings.window_seconds)
        answers = Answers(self._session, self.url)
        measured = [
            Measured(version, load, await answers.profiled(version, start, until - settings.window_seconds))
            for version, load in zip(VERSIONS, rounds, strict=True)
        ]
        return Measurement(start, until, tuple(measured), tuple(missing))

    async def _round(self, version: Version, load: Child) -> Round:
        """Wait for a complete round of a load."""
        within = LOAD_START_SECONDS + WARM_UP_SECONDS + self._settings.round_seconds + LATE_SECONDS
        while True:
            one = Round.parse(await load.line(within))
            self._rounds[version] = one
            if one.complete:
                return one

    async def _follow(self, show: Callable[[Sequence[Progress]], None] | None) -> None:
        """Show the progress of a round until cancelled."""
        while show is not None:
            await asyncio.sleep(PROGRESS_SECONDS)
            if self._rounds:
                show([await self._progress(version) for version in VERSIONS])

    async def _progress(self, version: Version) -> Progress:
        load = self._rounds.get(version)
        profile: Profiled | None = None
        if load is not None:
            with contextlib.suppress(NoAnswer):
                profile = await Answers(self._session, self.url).profiled(version, load.start, load.until)
        return Progress(version, load, profile if profile is not None and profile.windows else None)

    async def _arrived(self, moment: float) -> Collection[str]:
        """Wait for a window of every version that began then or later; the versions without, at the end.

        Sidecars send the oldest window first: when that one is here, those that ended before are too.
        """
        answers = Answers(self._session, self.url)
        missing: Sequence[str] = [version.name for version in VERSIONS]
        end = time.monotonic() + ARRIVE_SECONDS
        while missing and time.monotonic() < end:
            windows = await answers.windows(moment, time.time() + AHEAD_SECONDS)
            missing = [version.name for version in VERSIONS if not windows.get(version.name)]
            if missing:
                await asyncio.sleep(POLL_SECONDS)
        return missing


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def reachable(host: str) -> str:
    """The host as part of a URL on this machine."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
