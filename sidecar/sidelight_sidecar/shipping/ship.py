"""Sends windows from the spool to the collector until it has acknowledged them.

At least once: a window leaves the spool when the collector has named its id as accepted or as a
duplicate, and is sent again otherwise. A batch that is refused is sent again window by window, so
that one bad window costs only itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import aiohttp
import structlog
import zstandard

from sidelight_model.errors import Reason
from sidelight_sidecar.health import Board, Problem
from sidelight_sidecar.metrics import Metrics, known_reason
from sidelight_sidecar.shipping.collector_client import Reach, Route, Unanswered
from sidelight_sidecar.shipping.ingest_response import NOT_OURS, Answer, Outcome, pause, read_answer
from sidelight_sidecar.shipping.spool import Entry, Spool

_MAX_WINDOWS = 200
_IDLE_SECONDS = 5.0
_DRAIN_PAUSE_SECONDS = 1.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.shipping.ship")


class Shipper:
    """The loop between the spool and the collector."""

    def __init__(
        self,
        spool: Spool,
        route: Route,
        http: aiohttp.ClientSession,
        metrics: Metrics,
        board: Board,
        luck: Callable[[], float],
    ) -> None:
        self._spool = spool
        self._route = route
        self._reach = Reach(route, http)
        self._metrics = metrics
        self._board = board
        self._luck = luck
        self._suspects: set[str] = set()
        self._arrived = asyncio.Event()
        self._draining = asyncio.Event()

    def wake(self) -> None:
        """A window has arrived in the spool."""
        self._arrived.set()

    def drain(self) -> None:
        """Let `run` return as soon as the spool is empty."""
        self._draining.set()
        self._arrived.set()

    async def run(self) -> None:
        """Send for ever, or after `drain` until nothing is left."""
        attempt, answer = 0, None
        while True:
            self._arrived.clear()
            try:
                batch = await asyncio.to_thread(self._batch)
                if not batch:
                    if self._draining.is_set() and not len(self._spool):
                        return
                    await _wait(self._arrived, _IDLE_SECONDS)
                    continue
                answer = await self._send(batch)
                self._metrics.sends.labels(answer.outcome.value).inc()
                settled = await asyncio.to_thread(self._settle, batch, answer)
            except OSError as error:
                # Whatever the disk does, sampling goes on, and so do windows when it is mended.
                settled, answer = False, None
                self._disk_fails(error)
            else:
                self._board.clear("sending from the spool")
            if settled:
                attempt = 0
                continue
            attempt += 1
            wait = pause(attempt, self._route.backoff_max, self._luck())
            await self._rest(max(wait, answer.retry_after or 0.0) if answer else wait)

    async def _rest(self, seconds: float) -> None:
        """Wait before another try; once draining there is little time, and no try is put off for long."""
        if self._draining.is_set():
            await asyncio.sleep(min(seconds, _DRAIN_PAUSE_SECONDS))
        else:
            await _wait(self._draining, seconds)

    def _batch(self) -> list[tuple[Entry, bytes]]:
        entries = self._spool.oldest(_MAX_WINDOWS)
        if entries and entries[0].id in self._suspects:
            entries = entries[:1]
        batch: list[tuple[Entry, bytes]] = []
        size = 0
        for entry in entries:
            if batch and entry.id in self._suspects:
                break
            # Marked before it is read: from here on it may not be merged into another id.
            self._spool.mark_sent([entry], sent=True)
            body = self._spool.read(entry)
            if body is None:
                continue
            if batch and size + len(body) > self._route.batch_max_bytes:
                self._spool.mark_sent([entry], sent=entry.sent)
                break
            batch.append((entry, body))
            size += len(body)
        return batch

    async def _send(self, batch: list[tuple[Entry, bytes]]) -> Answer:
        headers = {"Content-Encoding": "zstd", "Content-Type": "application/vnd.sidelight.windows"}
        body = await asyncio.to_thread(_packed, [body for _, body in batch])
        try:
            reply = await self._reach.ask("POST", "/api/v1/windows", body, headers)
        except Unanswered as none:
            return Answer(none.outcome, stored=none.stored, reason=none.reason, message=none.message)
        sent = frozenset(entry.id for entry, _ in batch)
        return read_answer(reply.status, reply.retry_after, reply.body, datetime.now(UTC)).to(sent)

    def _settle(self, batch: list[tuple[Entry, bytes]], answer: Answer) -> bool:
        """Act on an answer; true when the next batch may follow at once."""
        entries = [entry for entry, _ in batch]
        ids = {entry.id for entry in entries}
        if answer.outcome is Outcome.ACCEPTED:
            done = ids & (answer.accepted | answer.duplicates)
            self._metrics.shipped.labels("accepted").inc(len(ids & answer.accepted))
            self._metrics.shipped.labels("duplicate").inc(len(done - answer.accepted))
            self._metrics.last_shipped.set_to_current_time()
            self._mended()
            self._board.clear("labels")
            self._suspects -= done
            self._spool.delete(done)
            return bool(done)
        if answer.stored is False:
            # As it was before this try: an earlier one may have ended in doubt.
            for entry in entries:
                self._spool.mark_sent([entry], sent=entry.sent)
        if answer.outcome is not Outcome.REFUSED:
            self._broken(answer)
            return False
        self._mended()
        if len(entries) > 1:
            self._suspects |= ids
        else:
            self._refuse(entries[0], answer)
        return True

    def _refuse(self, entry: Entry, answer: Answer) -> None:
        self._suspects.discard(entry.id)
        self._metrics.refused.labels(known_reason(answer.reason)).inc()
        self._spool.refuse(entry, answer.reason, answer.message)
        if answer.reason in NOT_OURS:
            # Each window that follows will be refused for the same: that is more than a bad window.
            self._board.report("labels", Problem(Reason(answer.reason), answer.message, answer.hint))
        _log.warning(
            "the collector refused a window", window=entry.id, reason=answer.reason, message=answer.message
        )

    def _disk_fails(self, error: OSError) -> None:
        problem = Problem(
            Reason.SPOOL_UNWRITABLE,
            f"windows wait: the spool cannot be changed: {error.strerror}",
            "Make the volume of --spool-dir writable again.",
        )
        if self._board.report("sending from the spool", problem):
            _log.error("windows cannot be taken from the spool", problem=problem.message)

    def _mended(self) -> None:
        if self._board.clear("collector"):
            _log.info("the collector takes windows again", collector=self._route.collector)

    def _broken(self, answer: Answer) -> None:
        problem = _problem(self._route.collector, answer)
        if self._board.report("collector", problem):
            _log.warning("windows are kept in the spool", problem=problem.message, hint=problem.hint)


def _problem(collector: str, answer: Answer) -> Problem:
    if answer.outcome is Outcome.UNAUTHORIZED:
        return Problem(
            _word(answer, Reason.UNAUTHORIZED, Reason.NO_POD),
            f"{collector} does not let this sidecar send windows: {answer.message}",
            answer.hint or "Check --token-file: the collector must know the token in it.",
        )
    if answer.outcome is Outcome.BUSY:
        word = _word(answer, Reason.OVERLOADED, Reason.CLUSTER_UNAVAILABLE, Reason.CLUSTER_DENIED)
        return Problem(word, f"{collector} cannot take windows now: {answer.message}", answer.hint)
    if answer.outcome is Outcome.UNEXPECTED:
        return Problem(
            Reason.COLLECTOR_UNREACHABLE,
            f"{collector} did not answer as a collector does: {answer.message}",
            "Check --collector: it is the base URL, without /api/v1.",
        )
    return Problem(
        Reason.COLLECTOR_UNREACHABLE,
        f"{collector} cannot be reached: {answer.message}",
        "Check --collector, the network, and that the collector runs; windows wait in the spool.",
    )


def _word(answer: Answer, usual: Reason, *others: Reason) -> Reason:
    """The collector's own word where it is one of these."""
    return next((word for word in others if word == answer.reason), usual)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _packed(bodies: list[bytes]) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(b"".join(bodies))
