"""Gives captures out to the sidecars that ask one process, and notices when they have ended.

A sidecar's question is held until there is something to say, so that a capture that is asked for here begins
at once. Those asked for elsewhere, of other collectors or processes of this one, are found by looking at the
store every few seconds as long as sidecars ask here. Who writes a sidecar into a capture first has it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Final, TypeVar

import structlog

from sidelight_collector.captures.agent_polls import Polls, TooMany
from sidelight_collector.captures.agents import Agent, Agents, able, tell, why_nobody
from sidelight_collector.captures.capture import (
    FINAL,
    STORE_SECONDS,
    Capture,
    Claim,
    Outcome,
    Part,
    Parts,
    Rules,
    Seen,
    Wish,
    finished,
    later,
    news,
    order,
    room,
    seen,
    shipped,
    stopped,
    taken,
)
from sidelight_collector.captures.capture_repository import NoCapture, Shelf, new_id, unix_now
from sidelight_collector.metrics import Metrics
from sidelight_model.capture_protocol import (
    AgentPoll,
    AgentPollResponse,
    CaptureJob,
    CaptureReport,
    CaptureState,
)
from sidelight_model.errors import SidelightError

WRITE_SECONDS: Final = 1.5
"""A report that says nothing new but numbers is written when the last one is so old."""
AGENTS_SECONDS: Final = 15.0
"""So often other processes are told which sidecars ask here."""
MOMENT_SECONDS: Final = 0.5
AGAIN_SECONDS: Final = 1.0
"""So often a sidecar is told what it has not confirmed."""
_log = structlog.get_logger()
T = TypeVar("T")

Found = Callable[[Capture, float], Awaitable[int]]
"""How many windows of a capture a query finds that began by this moment (Unix seconds)."""


@dataclass(slots=True)
class _Open:
    """A capture that has not ended, as far as this process knows, and what it heard of it."""

    capture: Capture
    parts: dict[str, Part] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    ordered: dict[str, float] = field(default_factory=dict)
    """When each sidecar was last told to begin it, or to end what it has not begun."""


class Desk:
    """The captures that go on, as one process sees them; for one event loop."""

    def __init__(
        self,
        shelf: Shelf,
        rules: Rules,
        metrics: Metrics,
        found: Found,
        *,
        max_polls: int,
        hold_seconds: float,
        look_seconds: float,
        clock: Callable[[], float] = unix_now,
    ) -> None:
        self._shelf = shelf
        self.rules = rules
        self._metrics = metrics
        self._found = found
        self._hold_seconds = hold_seconds
        self._look_seconds = look_seconds
        self._clock = clock
        self._holder = token_hex(8)
        self._agents = Agents(2 * max_polls)
        self._open: dict[str, _Open] = {}
        self._polls = Polls(max_polls, metrics)
        self._giving = asyncio.Lock()
        self._look_now = asyncio.Event()
        self._told_at = 0.0
        self.closed = False
        self.advice: Callable[[Wish], str] = lambda _: ""
        """What else could be done where no sidecar took a capture; empty if nothing."""

    async def begin(self, wish: Wish, by: str = "", given: str = "") -> Capture:
        """Make a capture, of a `given` id if any, and give it out. Raises TooMany, ObjectExists."""
        now = self._clock()
        await self._look(always=True)
        if len(self._open) >= self.rules.max_running:
            raise TooMany(
                f"{len(self._open)} captures are running already",
                hint="Wait for one to end, stop one, or raise the collector's --capture-max-running.",
            )
        capture = Capture(given or new_id(now), wish, now, by)
        await asyncio.to_thread(self._shelf.create, capture)
        self._metrics.captures_started.inc()
        _log.info("capture asked for", capture=capture.id, service=wish.service, seconds=wish.seconds)
        self._learn(capture)
        await self._give(capture.id)
        self._look_now.set()
        return self._open[capture.id].capture if capture.id in self._open else capture

    async def claim(self, capture_id: str, claims: Sequence[Claim]) -> Capture:
        """Write sidecars that are to be attached into a capture that has room. Raises NoCapture."""
        now = self._clock()
        async with self._giving:
            capture = await asyncio.to_thread(
                self._shelf.change, capture_id, lambda one: taken(one, claims, self.rules, now)
            )
            self._update(capture)
        return capture

    async def fail(self, capture_id: str, agent: str, problem: str, hint: str) -> None:
        """Say of a sidecar that has said nothing itself why its part fails. Raises NoCapture."""
        report = CaptureReport(capture_id, CaptureState.FAILED, problem=problem, hint=hint)
        await self._hear(agent, report)

    def heard(self, capture_id: str, agent: str) -> bool:
        """Whether a sidecar has told anything of a capture, or there is no need for it any more."""
        known = self._open.get(capture_id)
        return known is None or known.capture.stop_at is not None or agent in known.parts

    async def stop(self, capture_id: str) -> Capture:
        """End a capture early and keep what there is. Raises NoCapture."""
        now = self._clock()
        capture = await asyncio.to_thread(self._shelf.change, capture_id, lambda one: stopped(one, now))
        self._update(capture)
        self._look_now.set()
        return capture

    async def delete(self, capture_id: str) -> None:
        """Remove a capture; sidecars still at it are told to end. Raises NoCapture."""
        await asyncio.to_thread(self._shelf.delete, capture_id)
        gone = self._open.pop(capture_id, None)
        if gone:
            self._polls.wake(claim.agent for claim in gone.capture.claims)

    async def poll(
        self, poll: AgentPoll, gone: Callable[[], bool] = lambda: False, dedicated_capture: str = ""
    ) -> AgentPollResponse:
        """What a sidecar is to do: at once if there is something, else when there is, or after a while.

        `gone` says whether it has given up waiting; `dedicated_capture` is the one that it was attached for.
        Raises TooMany.
        """
        now, name = self._clock(), poll.status.agent
        agent = self._agents.saw(poll, now, dedicated_capture)
        unknown = [one for one in [await self._hear(name, report) for report in poll.reports] if one]
        deadline = asyncio.get_running_loop().time() + min(poll.timeout_seconds, self._hold_seconds)
        known = {report.capture for report in poll.reports}
        for one in list(self._open.values()):
            if self._is_free(agent, one.capture) and able([agent], one.capture.wish):
                await self._give(one.capture.id)
        while True:
            now = await self._confirm(agent, known)
            orders, pending = self._orders(agent, known, unknown, now)
            left = deadline - asyncio.get_running_loop().time()
            if orders or left <= 0 or self.closed:
                return orders
            await self._polls.wait(name, min(left, AGAIN_SECONDS) if pending else left, gone)

    def all_agents(self) -> list[Agent]:
        """The sidecars that ask for work, here and elsewhere."""
        return self._agents.all(self._clock())

    async def look_up(self, capture_id: str) -> tuple[Capture, Seen, Parts]:
        """A capture and how far it has come. Raises NoCapture."""
        capture, parts = await asyncio.to_thread(self._shelf.whole, capture_id)
        self._fresher(capture_id, parts)
        # Nobody may be looking after it: the collector that did may have ended.
        forgotten = capture.ended is None and capture_id not in self._open
        if forgotten and (outcome := await self._outcome(capture, parts)):
            capture = await self._end(capture_id, outcome, parts)
        return capture, self.judged(capture, parts), parts

    def judged(self, capture: Capture, parts: Parts) -> Seen:
        """How far a capture has come, with what is known of sidecars where none took it."""
        told = seen(capture, parts, self.rules, self._clock())
        if told.state is CaptureState.FAILED and not capture.claims and capture.ended is None:
            problem, hint = why_nobody(self.all_agents(), capture.wish)
            hint = self.advice(capture.wish) or hint
            return replace(told, problem=f"{told.problem}: {problem}", hint=hint)
        return told

    async def run(self, stop: asyncio.Event) -> None:
        """Look at the store now and then until `stop` is set: a root task. A failing store is waited for."""
        while not stop.is_set():
            self._look_now.clear()
            try:
                await self._look()
                if any(not one.capture.claims for one in self._open.values()):
                    await self.learn_agents()
                await self._settle()
                await self._tell()
            except SidelightError as error:
                self._failed(error)
            self._metrics.connected_sidecars.set(len(self._agents.own(self._clock())))
            await self._pause()

    def close(self) -> None:
        """Answer all that are held."""
        self.closed = True
        self._look_now.set()
        self._polls.wake_all()

    async def leave(self) -> None:
        """Say that no sidecar asks here any longer."""
        if self._told_at:
            try:
                await asyncio.to_thread(self._shelf.drop_agents, self._holder)
            except SidelightError as error:
                self._failed(error)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._look_seconds):
                await self._look_now.wait()
        except TimeoutError:
            return

    async def _look(self, *, always: bool = False) -> None:
        """Learn of captures of others, and give those out that are new."""
        if not (always or self._agents.own(self._clock()) or self._open):
            return
        now = self._clock()
        kept = await asyncio.to_thread(self._shelf.since, now - self.rules.longest)
        going = {one.id: one for one in kept if one.ended is None}
        for capture_id in [one for one in self._open if one not in going]:
            # One made since the list was asked for is not in it.
            if self._open[capture_id].capture.created < now - MOMENT_SECONDS:
                gone = self._open.pop(capture_id)
                self._polls.wake(claim.agent for claim in gone.capture.claims)
        for capture in going.values():
            self._learn(capture)
        for capture_id in list(going):
            await self._give(capture_id)

    async def _give(self, capture_id: str) -> None:
        """Write sidecars that ask here into a capture that has room, and wake them."""
        async with self._giving:
            known = self._open.get(capture_id)
            if known is None or not room(known.capture, self.rules, self._clock()):
                return
            now = self._clock()
            agents, wish = self._agents.own(now), known.capture.wish
            free = [one for one in agents if self._is_free(one, known.capture)]
            free = await asyncio.to_thread(able, free, wish)
            if not free:
                return
            random.shuffle(free)
            claims = [Claim(one.status.agent, dict(one.status.labels), now) for one in free]
            try:
                capture = await asyncio.to_thread(
                    self._shelf.change, capture_id, lambda one: taken(one, claims, self.rules, now)
                )
            except NoCapture:
                self._open.pop(capture_id, None)
                return
            self._update(capture)

    def _learn(self, capture: Capture) -> _Open:
        """Keep a capture as it was read or written, unless it was changed here meanwhile; wake its polls."""
        known, old = self._open.setdefault(capture.id, _Open(capture)), None
        if known.capture is not capture:
            old, known.capture = known.capture, later(capture, known.capture)
        if old is None or (old.stop_at, old.claims) != (known.capture.stop_at, known.capture.claims):
            self._polls.wake(claim.agent for claim in known.capture.claims)
        return known

    def _update(self, capture: Capture) -> None:
        """Learn more of a capture, if it goes on as far as this process knows."""
        if capture.id in self._open:
            self._learn(capture)

    async def _confirm(self, agent: Agent, known: set[str]) -> float:
        """Read the captures again that this poll would hand out; returns the time of that, in Unix seconds.

        Another collector may have stopped or deleted one, and said so to whoever asked for it.
        """
        confirmed: set[str] = set()
        while True:
            now = self._clock()
            due = [one.capture for one in self._open.values() if self._is_due(one, agent, known, now)]
            unread = [one.id for one in due if one.stop_at is None and one.id not in confirmed]
            if not unread:
                return now
            confirmed |= set(unread)
            for capture_id in unread:
                try:
                    capture = await asyncio.to_thread(self._shelf.capture, capture_id)
                except NoCapture:
                    self._open.pop(capture_id, None)
                    continue
                if capture.ended is not None:
                    self._open.pop(capture_id, None)
                self._update(capture)

    def _is_due(self, one: _Open, agent: Agent, known: set[str], now: float) -> bool:
        """Whether a sidecar has a capture that it did not tell of, and was not told of lately."""
        name = agent.status.agent
        return (
            name not in one.parts
            and one.capture.id not in known
            and now >= one.ordered.get(name, 0.0) + AGAIN_SECONDS
            and any(claim.agent == name for claim in one.capture.claims)
        )

    def _is_free(self, agent: Agent, capture: Capture) -> bool:
        """Whether a capture has room for this sidecar, which is there and has nothing else to do."""
        now = self._clock()
        if not room(capture, self.rules, now) or agent.last_seen < now - self._hold_seconds - AGENTS_SECONDS:
            return False
        name = agent.status.agent
        if self._polls.is_gone(name):
            return False
        for one in self._open.values():
            part = one.parts.get(name)
            at_work = part is None or part.report.state not in FINAL
            if at_work and any(claim.agent == name for claim in one.capture.claims):
                return False
        return True

    def _orders(
        self, agent: Agent, known: set[str], unknown: Iterable[str], now: float
    ) -> tuple[AgentPollResponse, bool]:
        """What there is for a sidecar that told of these captures, of which some are unknown here.

        And whether it has been told lately of what it has not confirmed.
        """
        name, pending = agent.status.agent, False
        jobs: list[CaptureJob] = []
        stop = list(unknown)
        for one in self._open.values():
            capture, part = one.capture, one.parts.get(name)
            if not any(claim.agent == name for claim in capture.claims):
                continue
            if part is not None or capture.id in known:
                # While it samples it asks about once a second.
                sampling = part is None or part.report.state is CaptureState.SAMPLING
                stop += [capture.id] if sampling and capture.stop_at is not None else []
            elif not self._is_due(one, agent, known, now):
                pending = True
            else:
                # One that is to stop may have been ordered just now.
                one.ordered[name] = now
                if capture.stop_at is None:
                    jobs.append(order(capture, self.rules))
                else:
                    stop.append(capture.id)
        return AgentPollResponse(tuple(jobs), tuple(dict.fromkeys(stop))), pending

    async def _hear(self, agent: str, report: CaptureReport) -> str:
        """Take a report; the id of its capture if there is no such capture, or not for this sidecar."""
        now = self._clock()
        known = self._open.get(report.capture)
        old = known.parts.get(agent) if known else None
        part = Part(agent, now, report)
        if known and old and not news(old, report) and now < known.written[agent] + WRITE_SECONDS:
            known.parts[agent] = part
            return ""
        try:
            capture = known.capture if known else await asyncio.to_thread(self._shelf.capture, report.capture)
            if not any(claim.agent == agent for claim in capture.claims):
                capture = await asyncio.to_thread(self._shelf.capture, report.capture)
            if not any(claim.agent == agent for claim in capture.claims):
                return "" if report.state in FINAL else report.capture
            if capture.ended and capture.ended.state is not CaptureState.FAILED:
                return "" if report.state in FINAL else report.capture
            await asyncio.to_thread(self._shelf.tell, report.capture, part)
            if (
                capture.ended
                and capture.ended.state is CaptureState.FAILED
                and report.state is not CaptureState.FAILED
            ):
                # It was given up and is heard again.
                capture = await asyncio.to_thread(
                    self._shelf.change, capture.id, lambda one: replace(one, ended=None)
                )
        except NoCapture:
            return "" if report.state in FINAL else report.capture
        if capture.ended is None:
            known = self._learn(capture)
            known.parts[agent], known.written[agent] = part, now
        if report.state in FINAL:
            self._look_now.set()
        return ""

    def _fresher(self, capture_id: str, parts: dict[str, Part]) -> None:
        """Put what this process heard in the place of what it wrote before."""
        known = self._open.get(capture_id)
        for agent, part in known.parts.items() if known else ():
            if agent not in parts or parts[agent].last_seen <= part.last_seen:
                parts[agent] = part

    async def _settle(self) -> None:
        """Write down of captures that have ended that and how they did."""
        for capture_id, known in list(self._open.items()):
            try:
                capture, parts = await asyncio.to_thread(self._shelf.whole, capture_id)
                self._fresher(capture_id, parts)
                for agent, part in parts.items():
                    known.parts[agent] = part
                    known.written.setdefault(agent, part.last_seen)
                if capture.ended is None and (outcome := await self._outcome(capture, parts)):
                    await self._end(capture_id, outcome, parts)
            except NoCapture:
                self._open.pop(capture_id, None)
                self._polls.wake(claim.agent for claim in known.capture.claims)
            except SidelightError as error:
                self._failed(error)

    async def _outcome(self, capture: Capture, parts: Parts) -> Outcome | None:
        """How a capture has ended; None if it goes on."""
        now, told = self._clock(), self.judged(capture, parts)
        if told.final:
            return Outcome(told.state, now, told.problem, told.hint)
        if any(part.state not in FINAL for part in told.parts) or not told.parts:
            return None
        found, wanted = await self._found(capture, now), shipped(parts)
        last = max(part.at for part in told.parts)
        if found < wanted and now < last + STORE_SECONDS:
            return None
        if not found:
            return Outcome(
                CaptureState.FAILED,
                now,
                f"the sidecars shipped {wanted} windows, and a query finds none of them",
                "See that they ship to a collector with the same --store, and that pods' clocks are right.",
            )
        return finished(capture, parts, told, now)

    async def _end(self, capture_id: str, outcome: Outcome, parts: Parts) -> Capture:
        first = False
        reports = [part.report for part in parts.values()]
        outcome = replace(
            outcome,
            samples=sum(one.samples for one in reports),
            elapsed_seconds=max((one.elapsed_seconds for one in reports), default=0.0),
        )

        def end(one: Capture) -> Capture | None:
            nonlocal first
            first = one.ended is None
            return replace(one, ended=outcome) if first else None

        capture = await asyncio.to_thread(self._shelf.change, capture_id, end)
        self._open.pop(capture_id, None)
        if first:
            self._metrics.captures_ended.labels(outcome.state).inc()
            _log.info(
                "capture ended", capture=capture_id, outcome=str(outcome.state), problem=outcome.problem
            )
        return capture

    async def _tell(self) -> None:
        """Exchange with other processes which sidecars ask where."""
        now = self._clock()
        own = self._agents.own(now)
        if now < self._told_at + AGENTS_SECONDS:
            return
        if own or self._told_at:
            await asyncio.to_thread(self._shelf.put_agents, self._holder, tell(own))
            self._told_at = now

    async def learn_agents(self) -> None:
        """Read what other processes told of the sidecars that ask them."""
        now = self._clock()
        told = await asyncio.to_thread(self._shelf.agents, self._holder, now - 4 * AGENTS_SECONDS)
        self._agents.hear(told, now)

    def _failed(self, error: SidelightError) -> None:
        self._metrics.capture_errors.inc()
        _log.warning("captures not looked after", error=error.message, hint=error.hint)
