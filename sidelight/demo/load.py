"""A load generator that does not wait for answers: requests at a constant rate, whatever the service does.

Every request has an intended start, fixed before the first is sent. Latency is counted from there, not
from when the request went out: a service that stalls for a second is charged with that second by every
request that should have started meanwhile. (A generator that sends the next request when the last was
answered leaves those out, and reports a stalling service as fast: "coordinated omission".)

It runs as a process of its own, so that its work is in nobody's profile:

    python -m sidelight.demo.load --url http://127.0.0.1:8000 --rate 150 --seconds 20

One line of JSON per round goes to standard output when the last request of the round was answered or
given up. It ends by itself: rounds, requests in flight and the wait for an answer all have a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import aiohttp

from sidelight import settings as house
from sidelight.demo.latency import Latency
from sidelight.settings import BadSetting, setting
from sidelight.stacks.errors import SidelightError

MOST_REQUESTS = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to ask, how often and for how long."""

    url: str = setting("", "the service, without a path", required=True)
    path: tuple[str, ...] = setting(("/50", "/125"), "asked in turn; may be repeated")
    rate: float = setting(150.0, "requests per second, all paths together", read=house.positive)
    seconds: float = setting(20.0, "length of a round", read=house.positive)
    rounds: int = setting(1, "how many rounds, one right after the other", read=house.whole)
    warm_up_seconds: float = setting(
        0.0, "send for so long before the first round, uncounted", read=house.seconds
    )
    start_at: float = setting(
        0.0,
        "when to send the first request, in seconds since 1970; past: at once",
        read=house.seconds,
        metavar="T",
    )
    timeout_seconds: float = setting(10.0, "give up a request so long after sending it", read=house.positive)
    max_in_flight: int = setting(800, "with so many unanswered, count instead of sending", read=house.whole)

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.per_round < 1:
            raise BadSetting("there is nothing to send", hint="Raise --rate, --seconds or --rounds.")
        if self.per_round * self.rounds > MOST_REQUESTS:
            raise BadSetting(f"over {MOST_REQUESTS} requests", hint="Lower --rate, --seconds or --rounds.")

    @property
    def per_round(self) -> int:
        """Requests in one round."""
        return round(self.rate * self.seconds)


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of load saw. Times are seconds since 1970; the round covers [start, until)."""

    start: float
    until: float
    asked_rate: float
    arrival_rate: float
    sent: int
    errors: dict[str, int]
    late_p99_ms: float
    overall: Latency
    paths: dict[str, Latency]

    @property
    def failed(self) -> int:
        """Requests without a good answer, for whatever reason."""
        return sum(self.errors.values())

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, line: str | bytes) -> Round:
        """Read what `line` wrote."""
        read = json.loads(line)
        paths = {path: Latency(**latency) for path, latency in read.pop("paths").items()}
        return cls(overall=Latency(**read.pop("overall")), paths=paths, **read)


@dataclass(slots=True)
class _Tally:
    """What is seen of a round while it goes on; times in seconds of the event loop's clock."""

    answered: dict[str, list[float]]
    late: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    last_sent: float = 0.0


class Load:
    """Sends the requests of a plan; `emit` receives each round as it is complete, in order."""

    def __init__(self, plan: Plan, session: aiohttp.ClientSession, emit: Callable[[Round], None]) -> None:
        self._plan = plan
        self._session = session
        self._emit = emit
        self._clock = asyncio.get_running_loop().time
        self._in_flight = 0

    async def run(self) -> None:
        """Send everything; returns when the last request was answered or given up."""
        plan = self._plan
        epoch = time.time() - self._clock()
        begin = max(plan.start_at, time.time()) - epoch
        warm_up = round(plan.rate * plan.warm_up_seconds)
        first = begin + warm_up / plan.rate
        async with asyncio.TaskGroup() as rounds:
            rounds.create_task(self._send(begin, warm_up, epoch), name="warm up")
            for number in range(plan.rounds):
                start = first + number * plan.per_round / plan.rate
                await self._until(start - 0.01)
                rounds.create_task(self._round(start, epoch), name=f"round {number}")

    async def _round(self, start: float, epoch: float) -> None:
        self._emit(await self._send(start, self._plan.per_round, epoch))

    async def _send(self, start: float, requests: int, epoch: float) -> Round:
        plan = self._plan
        tally = _Tally({path: [] for path in plan.path})
        async with asyncio.TaskGroup() as group:
            for number in range(requests):
                intended = start + number / plan.rate
                await self._until(intended)
                path = plan.path[number % len(plan.path)]
                tally.last_sent = self._clock()
                tally.late.append(tally.last_sent - intended)
                if self._in_flight < plan.max_in_flight:
                    self._in_flight += 1
                    group.create_task(self._ask(path, intended, tally))
                else:
                    tally.errors["not_sent"] += 1
        return self._summed(tally, start, requests, epoch)

    async def _ask(self, path: str, intended: float, tally: _Tally) -> None:
        try:
            async with self._session.get(self._plan.url + path) as answer:
                await answer.read()
                if answer.status == 200:
                    tally.answered[path].append(self._clock() - intended)
                else:
                    tally.errors[f"status_{answer.status}"] += 1
        except TimeoutError:
            tally.errors["timeout"] += 1
        except aiohttp.ClientConnectorError:
            tally.errors["not_connected"] += 1
        except aiohttp.ClientError:
            tally.errors["broken_off"] += 1
        finally:
            self._in_flight -= 1

    async def _until(self, moment: float) -> None:
        """Wait for that moment; when it has passed already, go on at once."""
        if (wait := moment - self._clock()) > 0:
            await asyncio.sleep(wait)

    def _summed(self, tally: _Tally, start: float, requests: int, epoch: float) -> Round:
        plan = self._plan
        spent = tally.last_sent - start + 1 / plan.rate
        return Round(
            start=start + epoch,
            until=start + epoch + requests / plan.rate,
            asked_rate=plan.rate,
            arrival_rate=round((requests - tally.errors["not_sent"]) / spent, 3) if requests else 0.0,
            sent=requests - tally.errors["not_sent"],
            errors={reason: count for reason, count in sorted(tally.errors.items()) if count},
            late_p99_ms=Latency.of(tally.late).p99_ms or 0.0,
            overall=Latency.of([latency for path in tally.answered.values() for latency in path]),
            paths={path: Latency.of(latencies) for path, latencies in tally.answered.items()},
        )


async def offer(plan: Plan, emit: Callable[[Round], None]) -> None:
    """Carry out a plan over connections that are kept open, as many as are needed at once."""
    connector = aiohttp.TCPConnector(limit=0, force_close=False)
    timeout = aiohttp.ClientTimeout(total=plan.timeout_seconds)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await Load(plan, session, emit).run()


def main(argv: Sequence[str]) -> int:
    """Entry point of `python -m sidelight.demo.load`; 0 when the plan was carried out."""
    try:
        plan = house.parse(Plan, "demo.load", "Ask a service at a constant rate.", argv, {})
    except SidelightError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(offer(plan, _write))
        return 0
    return 130


def _write(finished: Round) -> None:
    sys.stdout.write(finished.line() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
