"""One demo, step by step: serve, watch, load, measure as often as wanted.

All four services run at the same time. One after another each would have the machine to itself, but each
would meet another moment of it; at the same time all meet the same noise, and what differs between them
is theirs. The intended starts of the four loads are a quarter of their interval apart, so that requests do
not meet each other in lock-step.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import aiohttp

from sidelight.demo.answers import Answers
from sidelight.demo.children import Child
from sidelight.demo.crew import Crew
from sidelight.demo.load import Round
from sidelight.demo.measured import Measured
from sidelight.demo.programs import WARM_UP_SECONDS, Programs
from sidelight.demo.screen import Screen
from sidelight.demo.versions import AIOHTTP, SERVICE, TORNADO_ASYNC, VERSIONS
from sidelight.stacks.errors import Reason, SidelightError

START_SECONDS = 30.0
ARRIVE_SECONDS = 30.0
LOAD_START_SECONDS = 2.0
LATE_SECONDS = 30.0
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
        self.url = ""

    @property
    def page_url(self) -> str:
        """The page of the demo's service."""
        return f"{self.url}/s/{SERVICE}?from={PAGE_RANGE}"

    @property
    def compare_url(self) -> str:
        """The page that compares async Tornado with aiohttp."""
        return (
            f"{self.url}/s/{SERVICE}/compare?from={PAGE_RANGE}&a=version:{TORNADO_ASYNC}&b=version:{AIOHTTP}"
        )

    async def serve(self) -> None:
        """Start the collector and the four services; returns when all of them can be reached."""
        host, port = self._settings.address
        if not is_free(host, port):
            self._screen.say(f"{host}:{port} is in use or not ours to take: the collector takes a free port")
            port = 0
        collector = await self._crew.start(self._programs.collector(host, port))
        found = await collector.port(self._programs.port_file("collector"), START_SECONDS)
        self.url = f"http://{reachable(host)}:{found}"
        self._screen.say(f"collector   {self.url}   (windows in {self._programs.store})")
        started = [(version, await self._crew.start(self._programs.service(version))) for version in VERSIONS]
        for version, child in started:
            port = await child.port(self._programs.port_file(version.name), START_SECONDS)
            self._services.append((child, port))
            self._screen.say(f"service     http://127.0.0.1:{port}   {version.name}, pid {child.process.pid}")

    async def watch(self) -> None:
        """Start a sidecar on each service; returns when windows of each are stored."""
        began = time.time()
        for version, (service, _) in zip(VERSIONS, self._services, strict=True):
            command = self._programs.sidecar(version, service.process.pid, self.url)
            self._sidecars.append(await self._crew.start(command))
        self._screen.say(
            f"sidecars    one on each service, {self._settings.sample_rate:g} samples per second"
        )
        missing = await self._crew.guard(self._arrived(began))
        for sidecar, version in zip(self._sidecars, VERSIONS, strict=True):
            if version.name in missing:
                raise sidecar.failure(f"sent no window within {ARRIVE_SECONDS:g} s")

    async def load(self) -> None:
        """Start the load on each service; all begin at the same moment, a little later."""
        settings = self._settings
        start = time.time() + LOAD_START_SECONDS
        for number, (version, (_, port)) in enumerate(zip(VERSIONS, self._services, strict=True)):
            offset = number / len(VERSIONS) / settings.rate
            self._loads.append(await self._crew.start(self._programs.load(version, port, start + offset)))
        self._screen.say(f"load        {settings.rate:g} requests per second on each, /50 and /125 in turn")

    async def measure(self) -> Measurement:
        """Wait for the end of one more round, and for its windows; then ask the collector about it."""
        return await self._crew.guard(self._measure())

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

    async def _measure(self) -> Measurement:
        settings = self._settings
        within = LOAD_START_SECONDS + WARM_UP_SECONDS + settings.round_seconds + LATE_SECONDS
        async with asyncio.TaskGroup() as group:
            lines = [group.create_task(load.line(within), name=load.command.name) for load in self._loads]
        rounds = [Round.parse(line.result()) for line in lines]
        start, until = max(one.start for one in rounds), min(one.until for one in rounds)
        missing = await self._arrived(until - settings.window_seconds)
        answers = Answers(self._session, self.url)
        measured = [
            Measured(version, load, await answers.profiled(version, start, until - settings.window_seconds))
            for version, load in zip(VERSIONS, rounds, strict=True)
        ]
        return Measurement(start, until, tuple(measured), tuple(missing))

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
