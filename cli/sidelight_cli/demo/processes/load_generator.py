"""A load generator that does not wait for answers: requests at a constant rate, whatever the service does.

Every request has an intended start, fixed before the first is sent. Latency is counted from there, not
from when the request went out: a service that stalls for a second is charged with that second by every
request that should have started meanwhile. (A generator that sends the next request when the last was
answered leaves those out, and reports a stalling service as fast: "coordinated omission".)

It runs as a process of its own, so that its work is in nobody's profile:

    python -m sidelight_cli.demo.processes.load_generator --url http://127.0.0.1:8000 --rate 150 --seconds 20

One line of JSON per round goes to standard output when the last request of the round was answered or
given up; with --progress-seconds also lines about the first round while it lasts, which are not `complete`.
With --wait it writes READY first, and starts at the time that it then reads from standard input, so that
several generators start together however long each took to get ready. It ends by itself: rounds, requests
in flight and the wait for an answer all have a limit.
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
from sidelight.settings import BadSetting, setting
from sidelight_cli.demo.processes.latency import Latency
from sidelight_model.errors import SidelightError

MAX_REQUESTS = 50_000_000
MAX_SORTED_LATENCIES = 10_000
READY_LINE = b"ready\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """What to ask, how often and for how long."""

    url: str = setting("", "the service, without a path", required=True)
    path: tuple[str, ...] = setting(("/50", "/125"), "asked in turn; may be repeated")
    rate: float = setting(150.0, "requests per second, all paths together", parse=house.parse_positive_float)
    seconds: float = setting(20.0, "length of a round", parse=house.parse_positive_float)
    rounds: int = setting(1, "how many rounds, one right after the other", parse=house.parse_nonnegative_int)
    warm_up_seconds: float = setting(
        0.0, "send for so long before the first round, uncounted", parse=house.parse_seconds
    )
    progress_seconds: float = setting(
        0.0, "write the first round's figures so far, so often; 0: never", parse=house.parse_seconds
    )
    start_at: float = setting(
        0.0,
        "time of the first request, in seconds since 1970; late requests go at once; 0: now",
        parse=house.parse_seconds,
        metavar="T",
    )
    wait: bool = setting(
        False, "write a line when ready, then read the time of the first request from standard input"
    )
    timeout_seconds: float = setting(
        10.0, "give up a request so long after sending it", parse=house.parse_positive_float
    )
    max_in_flight: int = setting(
        800, "with so many unanswered, count instead of sending", parse=house.parse_nonnegative_int
    )

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.requests_per_round < 1:
            raise BadSetting("there is nothing to send", hint="Raise --rate, --seconds or --rounds.")
        if self.requests_per_round * self.rounds > MAX_REQUESTS:
            raise BadSetting(f"over {MAX_REQUESTS} requests", hint="Lower --rate, --seconds or --rounds.")

    @property
    def requests_per_round(self) -> int:
        """Requests in one round."""
        return round(self.rate * self.seconds)


@dataclass(frozen=True, slots=True)
class LoadRound:
    """What one round of load saw. Times are seconds since 1970; the round covers [start, until).

    A round that is not `complete` goes on: it covers the time so far, and its latencies are those of the
    latest requests.
    """

    start: float
    until: float
    asked_rate: float
    arrival_rate: float
    sent: int
    errors: dict[str, int]
    late_p99_ms: float
    overall: Latency
    paths: dict[str, Latency]
    complete: bool = True

    @property
    def failed_requests(self) -> int:
        """Requests without a good answer, for whatever reason."""
        return sum(self.errors.values())

    def to_json_line(self) -> str:
        """One line of JSON."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, line: str | bytes) -> LoadRound:
        """Read what `to_json_line` wrote."""
        document = json.loads(line)
        paths = {path: Latency(**latency) for path, latency in document.pop("paths").items()}
        return cls(overall=Latency(**document.pop("overall")), paths=paths, **document)


@dataclass(slots=True)
class _RoundTally:
    """What is seen of a round while it goes on; times in seconds of the event loop's clock."""

    latencies_by_path: dict[str, list[float]]
    send_delays: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    last_sent_at: float = 0.0


class LoadGenerator:
    """Sends the requests of a plan; `emit` receives the first round's progress, and each round, in order."""

    def __init__(
        self, plan: LoadPlan, session: aiohttp.ClientSession, emit: Callable[[LoadRound], None]
    ) -> None:
        self._plan = plan
        self._session = session
        self._emit = emit
        self._clock = asyncio.get_running_loop().time
        self._in_flight = 0

    async def run(self) -> None:
        """Send everything; returns when the last request was answered or given up."""
        plan = self._plan
        now = time.time()
        epoch = now - self._clock()
        begin = (plan.start_at or now) - epoch
        warm_up = round(plan.rate * plan.warm_up_seconds)
        first = begin + warm_up / plan.rate
        async with asyncio.TaskGroup() as rounds:
            warm_up_tally = _RoundTally({path: [] for path in plan.path})
            rounds.create_task(self._send_requests(warm_up_tally, begin, warm_up), name="warm up")
            for number in range(plan.rounds):
                start = first + number * plan.requests_per_round / plan.rate
                await self._sleep_until(start - 0.01)
                progress = plan.progress_seconds if number == 0 else 0.0
                rounds.create_task(self._run_round(start, epoch, progress), name=f"round {number}")

    async def _run_round(self, start: float, epoch: float, progress_seconds: float) -> None:
        tally = _RoundTally({path: [] for path in self._plan.path})
        async with asyncio.TaskGroup() as group:
            progress = group.create_task(self._report_progress(tally, start, epoch, progress_seconds))
            await self._send_requests(tally, start, self._plan.requests_per_round)
            progress.cancel()
        self._emit(self._summarize_round(tally, start, epoch, self._plan.requests_per_round))

    async def _report_progress(
        self, tally: _RoundTally, start: float, epoch: float, every_seconds: float
    ) -> None:
        while every_seconds:
            await asyncio.sleep(every_seconds)
            if tally.send_delays:
                self._emit(self._summarize_round(tally, start, epoch))

    async def _send_requests(self, tally: _RoundTally, start: float, requests: int) -> None:
        plan = self._plan
        async with asyncio.TaskGroup() as group:
            for number in range(requests):
                intended = start + number / plan.rate
                await self._sleep_until(intended)
                path = plan.path[number % len(plan.path)]
                tally.last_sent_at = self._clock()
                tally.send_delays.append(tally.last_sent_at - intended)
                if self._in_flight < plan.max_in_flight:
                    self._in_flight += 1
                    group.create_task(self._send_request(path, intended, tally))
                else:
                    tally.errors["not_sent"] += 1

    async def _send_request(self, path: str, intended: float, tally: _RoundTally) -> None:
        try:
            async with self._session.get(self._plan.url + path) as answer:
                await answer.read()
                if answer.status == 200:
                    tally.latencies_by_path[path].append(self._clock() - intended)
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

    async def _sleep_until(self, moment: float) -> None:
        """Wait for that moment; when it has passed already, go on at once."""
        if (wait := moment - self._clock()) > 0:
            await asyncio.sleep(wait)

    def _summarize_round(
        self, tally: _RoundTally, start: float, epoch: float, requests: int | None = None
    ) -> LoadRound:
        """The figures of a round; of one that goes on when the number of its requests is not given.

        A round that goes on sums up its latest latencies only: sorting all would hold up the next request.
        """
        plan, complete = self._plan, requests is not None
        started = len(tally.send_delays) if requests is None else requests
        elapsed = tally.last_sent_at - start + 1 / plan.rate
        answered = {
            path: latencies if complete else latencies[-MAX_SORTED_LATENCIES:]
            for path, latencies in tally.latencies_by_path.items()
        }
        return LoadRound(
            start=start + epoch,
            until=start + epoch + started / plan.rate,
            asked_rate=plan.rate,
            arrival_rate=round((started - tally.errors["not_sent"]) / elapsed, 3),
            sent=started - tally.errors["not_sent"],
            errors={reason: count for reason, count in sorted(tally.errors.items()) if count},
            late_p99_ms=Latency.summarize(
                tally.send_delays if complete else tally.send_delays[-MAX_SORTED_LATENCIES:]
            ).p99_ms
            or 0.0,
            overall=Latency.summarize([latency for path in answered.values() for latency in path]),
            paths={path: Latency.summarize(latencies) for path, latencies in answered.items()},
            complete=complete,
        )


async def run_load(plan: LoadPlan, emit: Callable[[LoadRound], None]) -> None:
    """Carry out a plan over connections that are kept open, as many as are needed at once."""
    connector = aiohttp.TCPConnector(limit=0, force_close=False)
    timeout = aiohttp.ClientTimeout(total=plan.timeout_seconds)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        if plan.wait:
            plan = dataclasses.replace(plan, start_at=await read_start_time())
        await LoadGenerator(plan, session, emit).run()


async def read_start_time() -> float:
    """Write READY and read a start time, in seconds since 1970; raises EOFError when there is none."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    try:
        sys.stdout.write(READY_LINE.decode())
        sys.stdout.flush()
        if line := await reader.readline():
            return float(line)
        raise EOFError("standard input ended before the start time")
    finally:
        transport.close()


def main(argv: Sequence[str]) -> int:
    """Run the load of a command line; 0 when the plan was carried out."""
    try:
        plan = house.parse_settings(LoadPlan, "demo.load", "Ask a service at a constant rate.", argv, {})
    except SidelightError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt, EOFError):
        asyncio.run(run_load(plan, _print_round))
        return 0
    return 130


def _print_round(load_round: LoadRound) -> None:
    sys.stdout.write(load_round.to_json_line() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
