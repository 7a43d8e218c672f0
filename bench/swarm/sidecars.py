"""A process that acts as thousands of sidecars.

Each ships a window per interval until it is acknowledged. A sidecar behaves as `shipping.ship` does and
uses its code for responses and pauses: it sends the oldest windows in one request, doubles its pauses,
obeys `Retry-After`, and repeats the same ids. A connection stays open for 15 s after a response, as
aiohttp's does, and a new one goes to any of the collectors, as through a Service. A share of the responses
is lost: the connection is closed shortly after the request was sent.

Bodies are cheap to make: the stacks of a window are compressed once. Its header precedes them as an
uncompressed block, in one zstd frame that has the length of its text, as that of a sidecar does.
"""

from __future__ import annotations

import asyncio
import pickle
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import uvloop
import xxhash
import zstandard
from ulid import ULID

from sidelight_model.labels import Labels
from sidelight_model.window import Window, encode_windows
from sidelight_sidecar.shipping.ingest_response import (
    IngestResponse,
    RequestOutcome,
    compute_retry_delay,
    parse_ingest_response,
)

KEPT_SECONDS: Final = 15.0
BATCH_WINDOWS: Final = 200
BATCH_BYTES: Final = 8 << 20
TIMEOUT_SECONDS: Final = 30.0
BACKOFF_MAX_SECONDS: Final = 60.0
LOST_WITHIN_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Body:
    """A window of the corpus.

    `blocks` has its compressed stacks, `text_bytes` the length of their text, and `columns` the hashes of
    its stacks and the counts of every state. Its digest leaves out states that an older collector does not
    know and that have no samples, the last `unused_bytes`.
    """

    number: int
    window: Window
    blocks: bytes
    text_bytes: int
    columns: bytes
    unused_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """The task of one process; `first` is the number of its first sidecar."""

    ports: Sequence[int]
    bodies: Sequence[Body]
    first: int
    sidecars: int
    services: int
    interval: float
    seconds: float
    drain: float
    lost: float
    seed: int


@dataclass(slots=True)
class Shipped:
    """One shipped window.

    `body` is the number of its Body, and `acknowledged` the time of its acknowledgement, if any.
    """

    id: str
    service: str
    start_ns: int
    digest: int
    body: int
    ready: float
    sent: int = 0
    acknowledged: float | None = None


@dataclass(slots=True)
class Result:
    """The result of a task.

    `answers` counts the outcomes of requests, and `took` has the seconds from a request to its response.
    `attempts` has the times at which requests begin, also those that no collector receives. `ends` says that
    no further windows are to be made.
    """

    windows: list[Shipped] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    took: list[float] = field(default_factory=list)
    attempts: list[float] = field(default_factory=list)
    late: float = 0.0
    cpu: float = 0.0
    ends: bool = False


class Link(asyncio.Protocol):
    """One connection, which stays open for further requests for a while."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer: asyncio.Future[tuple[int, str | None, bytes]] | None = None
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, rest = self._read.partition(b"\r\n\r\n")
        if not end:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        if len(rest) < int(headers.get("content-length", "0")):
            return
        self._read = b""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result((int(lines[0].split()[1]), headers.get("retry-after"), rest))
        if headers.get("connection", "").lower() == "close" and self.transport is not None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionResetError("the connection was closed"))


class Sidecar:
    """One sidecar: its pending windows and its connection."""

    def __init__(self, number: int, task: Task, result: Result) -> None:
        self.luck = random.Random(f"sidecar {task.seed} {number}")
        self.service = f"service-{number % task.services}"
        self._task = task
        self._result = result
        self._link: Link | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._waiting: list[tuple[Shipped, bytes, Body]] = []
        self._end_ns = 0
        # A service is always sampled from the same part of the corpus.
        share = max(1, len(task.bodies) // 8)
        start = number % task.services * 31
        self._bodies = [task.bodies[(start + at) % len(task.bodies)] for at in range(share)]
        own = {"service": self.service, "pod": f"{self.service}-{number:05d}"}
        self._labels = Labels({**self._bodies[0].window.labels, **own})

    async def run(self, begin: float) -> None:
        """Create a window per interval from `begin` on (loop time) and ship it.

        At the end ship the remaining windows.
        """
        task, loop = self._task, asyncio.get_running_loop()
        end = begin + task.seconds
        due = begin + self.luck.random() * task.interval
        self._end_ns = time.time_ns() + round((due - loop.time()) * 1e9)
        shipping: asyncio.Task[None] | None = None
        async with asyncio.TaskGroup() as group:
            while due < end:
                await asyncio.sleep(due - loop.time())
                if self._result.ends:
                    break
                self._take(due)
                if shipping is None or shipping.done():
                    shipping = group.create_task(self._ship(end + task.drain))
                due += task.interval
        self._cut()

    def _take(self, due: float) -> None:
        self._result.late = max(self._result.late, asyncio.get_running_loop().time() - due)
        body = self.luck.choice(self._bodies)
        # Like those of a real sidecar, windows follow each other without gaps.
        start_ns = self._end_ns - body.window.duration_ns
        self._end_ns += round(self._task.interval * 1e9)
        window = replace(
            body.window,
            id=str(ULID.from_bytes((start_ns // 10**6).to_bytes(6, "big") + self.luck.randbytes(10))),
            labels=self._labels,
            start_ns=start_ns,
        )
        header = encode_windows([window])
        digest = xxhash.xxh3_64(header)
        digest.update(body.columns[: len(body.columns) - body.unused_bytes])
        one = Shipped(window.id, self.service, window.start_ns, digest.intdigest(), body.number, due)
        self._result.windows.append(one)
        self._waiting.append((one, header, body))

    async def _ship(self, end: float) -> None:
        """Send until no window is pending."""
        loop, attempt = asyncio.get_running_loop(), 0
        while self._waiting:
            batch = self._batch()
            answer = await self._send(batch)
            self._result.answers[f"{answer.outcome} {answer.reason}".strip()] += 1
            done = answer.accepted | answer.duplicates
            if answer.outcome is RequestOutcome.ACCEPTED and done:
                attempt = 0
                for one, _, _ in batch:
                    if one.id in done:
                        one.acknowledged = loop.time()
                self._waiting = [each for each in self._waiting if each[0].acknowledged is None]
                continue
            attempt += 1
            wait = compute_retry_delay(attempt, BACKOFF_MAX_SECONDS, answer.retry_after, self.luck.random)
            if loop.time() + wait > end:
                return
            await asyncio.sleep(wait)

    def _batch(self) -> list[tuple[Shipped, bytes, Body]]:
        size, batch = 0, []
        for each in self._waiting[:BATCH_WINDOWS]:
            size += each[2].text_bytes
            if batch and size > BATCH_BYTES:
                break
            batch.append(each)
        return batch

    async def _send(self, batch: list[tuple[Shipped, bytes, Body]]) -> IngestResponse:
        loop = asyncio.get_running_loop()
        start = loop.time()
        self._result.attempts.append(start)
        content = b"".join(frame(header, body) for _, header, body in batch)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                link = await self._connected()
                link.answer = loop.create_future()
                assert link.transport is not None
                for one, _, _ in batch:
                    one.sent += 1
                link.transport.write(_HEAD % len(content) + content)
                if self.luck.random() < self._task.lost:
                    await asyncio.sleep(self.luck.random() * LOST_WITHIN_SECONDS)
                    raise ConnectionAbortedError("its answer was lost")
                status, retry_after, told = await link.answer
        except TimeoutError:
            self._cut()
            return IngestResponse(RequestOutcome.UNREACHABLE, stored=None, reason="no answer in time")
        except ConnectionAbortedError as error:
            self._cut()
            return IngestResponse(RequestOutcome.UNREACHABLE, stored=None, reason=str(error))
        except OSError as error:
            self._cut()
            return IngestResponse(RequestOutcome.UNREACHABLE, stored=None, reason=type(error).__name__)
        self._result.took.append(loop.time() - start)
        self._closing = loop.call_later(KEPT_SECONDS, self._cut)
        return parse_ingest_response(status, retry_after, told, datetime.now(UTC)).restrict_to(
            frozenset(one.id for one, _, _ in batch)
        )

    async def _connected(self) -> Link:
        if self._closing is not None:
            self._closing.cancel()
        if self._link is None or self._link.transport is None:
            port = self.luck.choice(self._task.ports)
            _, self._link = await asyncio.get_running_loop().create_connection(Link, "127.0.0.1", port)
        return self._link

    def _cut(self) -> None:
        if self._link is not None and self._link.transport is not None:
            self._link.answer = None
            self._link.transport.abort()
        self._link = None


def frame(header: bytes, body: Body) -> bytes:
    """Build one zstd frame (RFC 8878, 3.1.1) of a header and stacks.

    It is a single segment with its length in 4 bytes.
    """
    length = (len(header) + body.text_bytes).to_bytes(4, "little")
    return b"".join(
        (b"\x28\xb5\x2f\xfd\xa0", length, (len(header) << 3).to_bytes(3, "little"), header, body.blocks)
    )


def blocks(text: bytes) -> bytes:
    """Return the blocks of a zstd frame of this text, without the frame header."""
    packed = zstandard.ZstdCompressor(level=3).compress(text)
    return packed[zstandard.frame_header_size(packed) :]


_HEAD: Final = (
    b"POST /api/v1/windows HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: zstd\r\n"
    b"Content-Type: application/vnd.sidelight.windows\r\nContent-Length: %d\r\n\r\n"
)


async def swarm(task: Task) -> Result:
    """Run all sidecars of a process until the last acknowledgement; SIGTERM ends the load early."""
    result, loop = Result(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: setattr(result, "ends", True))
    begin = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(task.first, task.first + task.sidecars):
            group.create_task(Sidecar(number, task, result).run(begin))
    result.cpu = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    return result


def main() -> None:
    """Read the task from the first file, run it, and write the result to the second."""
    task = pickle.loads(Path(sys.argv[1]).read_bytes())
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(swarm(task))
        Path(sys.argv[2]).write_bytes(pickle.dumps(result))
