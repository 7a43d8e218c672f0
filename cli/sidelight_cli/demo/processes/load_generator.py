"""An open-loop load generator: it sends requests at a constant rate.

The rate does not depend on the service's responses. Every request has an intended start, fixed in advance.
Latency counts from the intended start, not from the time of sending. If a service stalls for a second, every
request that should have started meanwhile includes its part of that second. A closed-loop generator, which
waits for each response, omits those requests and reports a stalling service as fast ("coordinated omission").

It runs as a separate process, so that its work appears in no profile:

    python -m sidelight_cli.demo.processes.load_generator --url http://127.0.0.1:8000 --rate 150 --seconds 20

It writes one line of JSON per round to standard output, when the last request of the round was answered or
timed out. With --progress-seconds it also writes lines during the first round, which are not `complete`. With
--wait it first writes a line (`READY_LINE`) and then reads the time to start from standard input. This lets
several generators start together, however long each takes to get ready. It ends by itself: rounds, requests
in flight and the wait for a response are limited.
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
    """The requests to send: URL, rate and duration."""

    url: str = setting("", "URL of the service, without a path", required=True)
    path: tuple[str, ...] = setting(("/50", "/125"), "path to request, in turn; may be repeated")
    rate: float = setting(150.0, "requests per second, over all paths", parse=house.parse_positive_float)
    seconds: float = setting(20.0, "length of a round", parse=house.parse_positive_float)
    rounds: int = setting(
        1, "number of rounds, without a pause between them", parse=house.parse_nonnegative_int
    )
    warm_up_seconds: float = setting(
        0.0, "load before the first round, not measured", parse=house.parse_nonnegative_float
    )
    progress_seconds: float = setting(
        0.0, "time between reports within the first round; 0: none", parse=house.parse_nonnegative_float
    )
    start_at: float = setting(
        0.0,
        "time of the first request, in Unix seconds; 0: now; late requests are sent at once",
        parse=house.parse_nonnegative_float,
        metavar="T",
    )
    wait: bool = setting(
        False, "write a line when ready, then read the time of the first request from standard input"
    )
    timeout_seconds: float = setting(10.0, "timeout of a request", parse=house.parse_positive_float)
    max_in_flight: int = setting(
        800,
        "most open requests; above it, requests are counted instead of sent",
        parse=house.parse_nonnegative_int,
    )

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.requests_per_round < 1:
            raise BadSetting("there is nothing to send", hint="Raise --rate, --seconds or --rounds.")
        if self.requests_per_round * self.rounds > MAX_REQUESTS:
            raise BadSetting(f"over {MAX_REQUESTS} requests", hint="Lower --rate, --seconds or --rounds.")

    @property
    def requests_per_round(self) -> int:
        """Number of requests in one round."""
        return round(self.rate * self.seconds)


@dataclass(frozen=True, slots=True)
class LoadRound:
    """The results of one round of load.

    The round covers [start, until) in Unix seconds; rates are per second. If it is not `complete`, it covers
    the time so far, and its latencies are those of the latest requests.
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
        """Number of requests without a successful response, for any reason."""
        return sum(self.errors.values())

    def to_json_line(self) -> str:
        """Encode the round as one line of JSON."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, line: str | bytes) -> LoadRound:
        """Parse a line written by `to_json_line`."""
        document = json.loads(line)
        paths = {path: Latency(**latency) for path, latency in document.pop("paths").items()}
        return cls(overall=Latency(**document.pop("overall")), paths=paths, **document)


@dataclass(slots=True)
class _RoundTally:
    """The results of a round so far; times are seconds of the event loop's clock."""

    latencies_by_path: dict[str, list[float]]
    send_delays: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    last_sent_at: float = 0.0


class LoadGenerator:
    """Sends the requests of a plan.

    `emit` receives the progress of the first round, and every round at its end.
    """

    def __init__(
        self, plan: LoadPlan, session: aiohttp.ClientSession, emit: Callable[[LoadRound], None]
    ) -> None:
        self._plan = plan
        self._session = session
        self._emit = emit
        self._clock = asyncio.get_running_loop().time
        self._in_flight = 0

    async def run(self) -> None:
        """Send all requests; returns when the last one was answered or timed out."""
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
        """Wait until `moment` on the event loop's clock, if it is in the future."""
        if (wait := moment - self._clock()) > 0:
            await asyncio.sleep(wait)

    def _summarize_round(
        self, tally: _RoundTally, start: float, epoch: float, requests: int | None = None
    ) -> LoadRound:
        """Summarize a round; without `requests`, it is still going on.

        An unfinished round includes only its latest latencies: sorting all would delay the next request.
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
    """Run a plan over persistent connections, without a limit to their number."""
    connector = aiohttp.TCPConnector(limit=0, force_close=False)
    timeout = aiohttp.ClientTimeout(total=plan.timeout_seconds)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        if plan.wait:
            plan = dataclasses.replace(plan, start_at=await read_start_time())
        await LoadGenerator(plan, session, emit).run()


async def read_start_time() -> float:
    """Write `READY_LINE`, then read the start time in Unix seconds.

    Raises EOFError if standard input ends first.
    """
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
    """Run the command line's load; returns the exit code.

    It is 0 if the plan was completed, 2 for a wrong option, and 130 if interrupted.
    """
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
