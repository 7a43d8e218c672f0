"""One capture that the collector ordered: from its order to the last report of it.

It samples as any capture does. Then its recordings are sent, and it waits until its windows have left the
spool: only then may the collector call it ready.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from sidelight_model.capture_protocol import MAX_PROCESSES, MAX_TEXT, CaptureJob, CaptureReport, CaptureState
from sidelight_model.errors import Reason, SidelightError
from sidelight_sidecar.captures.captures import Capture, Captures, read_wish
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.sampling.capture_job import Part, top
from sidelight_sidecar.shipping.collector_client import Reach, Unanswered
from sidelight_sidecar.shipping.ingest_response import pause, seconds_of
from sidelight_sidecar.shipping.spool import Spool
from sidelight_sidecar.windows.timeline_recording import About, Document, document

_LOOK_SECONDS = 0.25
_RETRIED = (401, 403, 408, 425, 429)
_NOT_TIMED = (
    "its samples are not kept in time order: the py-spy command, which sampled here, does not tell when each "
    "was taken"
)
_BESIDE = (
    "No Python process is seen in the container that the sidecar was attached beside. If it is another "
    "container, name it (--container); that the image is distroless does not matter."
)
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.captures.remote_capture"
)


@dataclass(frozen=True, slots=True)
class Means:
    """What every ordered capture works with; times in seconds, `luck` a number from 0 to below 1.

    A recording has at most `max_recording_bytes` and is sent for at most `send_seconds`, with pauses of at
    most `backoff_max` between two tries.
    """

    captures: Captures
    spool: Spool
    reach: Reach
    metrics: Metrics
    agent: str
    labels: Mapping[str, str]
    max_recording_bytes: int
    send_seconds: float
    backoff_max: float
    clock: Callable[[], float]
    luck: Callable[[], float]
    attached: bool = False


class Ordered:
    """One order and what came of it; `told` is called whenever its state changes."""

    def __init__(self, job: CaptureJob, means: Means, told: Callable[[], None]) -> None:
        self.id = job.capture
        self.state = CaptureState.SAMPLING
        self.reported = False
        self._job = job
        self._means = means
        self._told = told
        self._capture: Capture | None = None
        self._stop = self._hurried = False
        self._recordings = 0
        self._problems: list[str] = []
        self._hint = ""

    @property
    def over(self) -> bool:
        return self.state in (CaptureState.DONE, CaptureState.STOPPED, CaptureState.FAILED)

    def stop(self) -> None:
        """End it now and keep what was sampled; again, or when it is over: nothing."""
        self._stop = True
        if self._capture is not None and self.state is CaptureState.SAMPLING:
            self._means.captures.stop(self._capture)

    def hurry(self) -> None:
        """The sidecar ends: no pause between tries is long any more."""
        self._hurried = True

    async def run(self) -> None:
        """Never raises but CancelledError."""
        try:
            await self._run()
        except SidelightError as error:
            self._problems, self._hint = [error.message], error.hint
            if self._means.attached and error.reason is Reason.NOTHING_TO_WATCH:
                self._hint = _BESIDE
            self._end(CaptureState.FAILED)
        except Exception:  # noqa: BLE001 - the root of one capture
            self._means.metrics.loop_errors.labels("capture").inc()
            _log.exception("an unexpected error in a capture", capture=self.id)
            self._problems, self._hint = ["an unexpected error"], "See the sidecar's log."
            self._end(CaptureState.FAILED)
        finally:
            for part in self._parts:
                if part.recording is not None:
                    self._means.metrics.timeline_recording_dropped.inc(part.recording.dropped)
                    part.recording.close()

    def report(self) -> CaptureReport:
        """How it goes, for the collector."""
        capture = self._capture
        report = CaptureReport(
            self.id,
            self.state,
            recordings=self._recordings,
            problem="; ".join(self._problems)[:MAX_TEXT],
            hint=self._hint[:MAX_TEXT],
        )
        if capture is None:
            return report
        errors: dict[str, int] = {}
        for part in capture.parts:
            for kind, times in part.errors.items():
                errors[kind] = errors.get(kind, 0) + times
        return replace(
            report,
            elapsed_seconds=capture.elapsed_seconds(self._means.captures.clock()),
            seconds=capture.wish.seconds,
            samples=sum(part.samples for part in capture.parts),
            windows=sum(part.windows for part in capture.parts),
            errors=errors,
            processes=tuple(part.report() for part in capture.parts[:MAX_PROCESSES]),
            top_functions=top(capture.parts),
        )

    @property
    def _parts(self) -> Sequence[Part]:
        return () if self._capture is None else self._capture.parts

    async def _run(self) -> None:
        means = self._means
        wish = read_wish(self._job.request, means.captures.bounds)
        recorded = self._job.timeline
        capture = self._capture = await means.captures.start(wish, self.id, recorded=recorded)
        _log.info("an ordered capture begins", capture=self.id, seconds=wish.seconds)
        if self._stop:
            means.captures.stop(capture)
        await capture.done.wait()
        self._state(CaptureState.UPLOADING)
        until = means.spool.newest
        self._sum_up(capture)
        if recorded and not capture.timed:
            self._problems.append(_NOT_TIMED)
        for part in capture.parts:
            await self._send(part)
        await self._shipped(until)
        if not any(part.windows for part in capture.parts) and not capture.stopped:
            self._end(CaptureState.FAILED)
        else:
            self._end(CaptureState.STOPPED if capture.stopped else CaptureState.DONE)

    async def _shipped(self, until: str) -> None:
        """Wait until no window that is as old as this one waits in the spool."""
        while True:
            if not await asyncio.to_thread(self._means.spool.has_until, until):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _sum_up(self, capture: Capture) -> None:
        """What went wrong on which process, each thing said once."""
        said: dict[str, list[int]] = {}
        for part in capture.parts:
            if part.problem:
                said.setdefault(part.problem, []).append(part.pid)
                self._hint = self._hint or part.hint
        for problem, pids in said.items():
            names = ", ".join(map(str, pids[:3])) + (f" and {len(pids) - 3} more" if len(pids) > 3 else "")
            everywhere = len(pids) == len(capture.parts) == 1 or str(pids[0]) in problem
            self._problems.append(problem if everywhere else f"process {names}: {problem}")

    async def _send(self, part: Part) -> None:
        """Send a part's recording. That it cannot be sent is said, and ends nothing."""
        recording, means = part.recording, self._means
        if recording is None or not (recording.samples or recording.dropped):
            return
        most = self._job.max_recording_bytes or means.max_recording_bytes
        about = About(self.id, means.agent, {**means.labels, "process": part.role}, part.pid)
        written = await asyncio.to_thread(
            document,
            recording.kept,
            about,
            dropped=recording.dropped,
            max_bytes=min(most, means.max_recording_bytes),
        )
        if written is None:
            problem: str | None = "it is larger than it may be (--timeline-recording-max-bytes)"
        else:
            problem = await self._put(part.pid, written)
            means.metrics.timeline_recording_dropped.inc(written.dropped - recording.dropped)
        means.metrics.timeline_recordings.labels("failed" if problem else "sent").inc()
        if problem:
            self._problems.append(f"the recording of process {part.pid} is lost: {problem}")
            _log.warning("a recording is lost", capture=self.id, pid=part.pid, problem=problem)
        else:
            self._recordings += 1

    async def _put(self, pid: int, written: Document) -> str | None:
        """Try until it is taken; why it was not."""
        means = self._means
        path = f"/api/v1/captures/{self.id}/recordings/{means.agent}-{pid}"
        headers = {"Content-Type": "application/json", "Content-Encoding": "zstd"}
        deadline, attempt = means.clock() + means.send_seconds, 0
        while True:
            wait = None
            try:
                reply = await means.reach.ask("PUT", path, written.body, headers)
            except Unanswered as none:
                problem = none.message
            else:
                if 200 <= reply.status < 300:
                    return None
                problem = f"the collector answered {reply.status}{said(reply.body)}"
                if reply.status < 500 and reply.status not in _RETRIED:
                    return problem
                wait = seconds_of(reply.retry_after, datetime.now(UTC))
            attempt += 1
            longest = 1.0 if self._hurried else means.backoff_max
            rest = max(pause(attempt, longest, means.luck()), min(wait or 0.0, longest))
            if means.clock() + rest > deadline:
                return problem
            await asyncio.sleep(rest)

    def _state(self, state: CaptureState) -> None:
        self.state = state
        self._told()

    def _end(self, state: CaptureState) -> None:
        outcome = "refused" if self._capture is None else state.value
        self._means.metrics.capture_jobs.labels(outcome).inc()
        log = _log.warning if state is CaptureState.FAILED else _log.info
        log("an ordered capture ends", capture=self.id, state=state, problems=self._problems)
        self._state(state)


def said(body: bytes) -> str:
    """As much of an answer's body as a person needs: ": message"."""
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, RecursionError, TypeError, KeyError):
        text = body[:MAX_TEXT].decode(errors="replace")
    text = " ".join(text.split())[:MAX_TEXT]
    return f": {text}" if text else ""
