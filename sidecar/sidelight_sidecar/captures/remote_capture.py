"""One capture job of the collector, from its receipt to its last report.

The job samples as any capture does. Then it sends its recordings and waits until its windows have left the
spool: only then may the collector show the capture as ready.
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
from sidelight_sidecar.captures.captures import CaptureRegistry, LocalCapture, parse_capture_parameters
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.sampling.process_capture import ProcessCapture, list_top_functions
from sidelight_sidecar.shipping.collector_client import CollectorClient, RequestFailed
from sidelight_sidecar.shipping.ingest_response import compute_retry_delay, parse_retry_after
from sidelight_sidecar.shipping.spool import Spool
from sidelight_sidecar.windows.timeline_recording import EncodedRecording, RecordingSource, encode_recording

_CHECK_SECONDS = 0.25
_RETRIED_STATUSES = (401, 403, 408, 425, 429)
_NO_TIMELINE_PROBLEM = (
    "its samples are not kept in time order: the py-spy command, which sampled here, does not tell when each "
    "was taken"
)
_EMPTY_CONTAINER_HINT = (
    "No Python process is seen in the container that the sidecar was attached beside. If it is another "
    "container, name it (--container); that the image is distroless does not matter."
)
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.captures.remote_capture"
)


@dataclass(frozen=True, slots=True)
class CaptureContext:
    """Dependencies and limits that all capture jobs share.

    Times are in seconds; `rng` returns a number from 0 to below 1. A recording has at most
    `max_recording_bytes`. Sending it is retried for at most `upload_timeout_seconds`, with pauses of at
    most `max_backoff_seconds`.
    """

    captures: CaptureRegistry
    spool: Spool
    client: CollectorClient
    metrics: SidecarMetrics
    agent: str
    labels: Mapping[str, str]
    max_recording_bytes: int
    upload_timeout_seconds: float
    max_backoff_seconds: float
    clock: Callable[[], float]
    rng: Callable[[], float]
    is_one_shot: bool = False


class RemoteCapture:
    """A capture job and its progress; `on_change` is called when its state changes."""

    def __init__(self, job: CaptureJob, context: CaptureContext, on_change: Callable[[], None]) -> None:
        self.id = job.capture
        self.state = CaptureState.SAMPLING
        self.is_reported = False
        self._job = job
        self._context = context
        self._on_change = on_change
        self._capture: LocalCapture | None = None
        self._is_stop_requested = self._is_flushing = False
        self._recordings = 0
        self._problems: list[str] = []
        self._hint = ""

    @property
    def is_done(self) -> bool:
        return self.state in (CaptureState.DONE, CaptureState.STOPPED, CaptureState.FAILED)

    def stop(self) -> None:
        """End the capture now and keep its samples; does nothing if it has ended."""
        self._is_stop_requested = True
        if self._capture is not None and self.state is CaptureState.SAMPLING:
            self._context.captures.stop(self._capture)

    def flush_now(self) -> None:
        """Keep pauses between retries short, because the sidecar is shutting down."""
        self._is_flushing = True

    async def run(self) -> None:
        """Run the capture; raises nothing but CancelledError."""
        try:
            await self._run_capture()
        except SidelightError as error:
            self._problems, self._hint = [error.message], error.hint
            if self._context.is_one_shot and error.reason is Reason.NOTHING_TO_WATCH:
                self._hint = _EMPTY_CONTAINER_HINT
            self._finish(CaptureState.FAILED)
        except Exception:  # noqa: BLE001 - the root of one capture
            self._context.metrics.loop_errors.labels("capture").inc()
            _log.exception("an unexpected error in a capture", capture=self.id)
            self._problems, self._hint = ["an unexpected error"], "See the sidecar's log."
            self._finish(CaptureState.FAILED)
        finally:
            for process_capture in self._process_captures:
                if process_capture.recording is not None:
                    self._context.metrics.timeline_recording_dropped.inc(process_capture.recording.dropped)
                    process_capture.recording.close()

    def build_report(self) -> CaptureReport:
        """Build the progress report for the collector."""
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
        for process_capture in capture.process_captures:
            for kind, times in process_capture.errors.items():
                errors[kind] = errors.get(kind, 0) + times
        return replace(
            report,
            elapsed_seconds=capture.elapsed_seconds(self._context.captures.clock()),
            seconds=capture.parameters.seconds,
            samples=sum(process_capture.samples for process_capture in capture.process_captures),
            windows=sum(process_capture.windows for process_capture in capture.process_captures),
            errors=errors,
            processes=tuple(
                process_capture.build_report() for process_capture in capture.process_captures[:MAX_PROCESSES]
            ),
            top_functions=list_top_functions(capture.process_captures),
        )

    @property
    def _process_captures(self) -> Sequence[ProcessCapture]:
        return () if self._capture is None else self._capture.process_captures

    async def _run_capture(self) -> None:
        context = self._context
        parameters = parse_capture_parameters(self._job.request, context.captures.limits)
        with_timeline = self._job.timeline
        capture = self._capture = await context.captures.start(
            parameters, self.id, with_timeline=with_timeline
        )
        _log.info("an ordered capture begins", capture=self.id, seconds=parameters.seconds)
        if self._is_stop_requested:
            context.captures.stop(capture)
        await capture.done.wait()
        self._set_state(CaptureState.UPLOADING)
        newest_id = context.spool.newest_id
        self._collect_problems(capture)
        if with_timeline and not capture.has_timeline:
            self._problems.append(_NO_TIMELINE_PROBLEM)
        for process_capture in capture.process_captures:
            await self._send_recording(process_capture)
        await self._wait_until_shipped(newest_id)
        if (
            not any(process_capture.windows for process_capture in capture.process_captures)
            and not capture.is_stopped
        ):
            self._finish(CaptureState.FAILED)
        else:
            self._finish(CaptureState.STOPPED if capture.is_stopped else CaptureState.DONE)

    async def _wait_until_shipped(self, newest_id: str) -> None:
        """Wait until the spool holds no window up to `newest_id`."""
        while True:
            if not await asyncio.to_thread(self._context.spool.has_window_up_to, newest_id):
                return
            await asyncio.sleep(_CHECK_SECONDS)

    def _collect_problems(self, capture: LocalCapture) -> None:
        """Collect the problems of all processes, each distinct problem once."""
        pids_by_problem: dict[str, list[int]] = {}
        for process_capture in capture.process_captures:
            if process_capture.problem:
                pids_by_problem.setdefault(process_capture.problem, []).append(process_capture.pid)
                self._hint = self._hint or process_capture.hint
        for problem, pids in pids_by_problem.items():
            names = ", ".join(map(str, pids[:3])) + (f" and {len(pids) - 3} more" if len(pids) > 3 else "")
            names_process = len(pids) == len(capture.process_captures) == 1 or str(pids[0]) in problem
            self._problems.append(problem if names_process else f"process {names}: {problem}")

    async def _send_recording(self, process_capture: ProcessCapture) -> None:
        """Send a process's recording; a failure is reported and does not end the capture."""
        recording, context = process_capture.recording, self._context
        if recording is None or not (recording.samples or recording.dropped):
            return
        requested_max_bytes = self._job.max_recording_bytes or context.max_recording_bytes
        source = RecordingSource(
            self.id, context.agent, {**context.labels, "process": process_capture.role}, process_capture.pid
        )
        encoded = await asyncio.to_thread(
            encode_recording,
            recording.batches,
            source,
            dropped=recording.dropped,
            max_bytes=min(requested_max_bytes, context.max_recording_bytes),
        )
        if encoded is None:
            problem: str | None = "it is larger than it may be (--timeline-recording-max-bytes)"
        else:
            problem = await self._upload_recording(process_capture.pid, encoded)
            context.metrics.timeline_recording_dropped.inc(encoded.dropped - recording.dropped)
        context.metrics.timeline_recordings.labels("failed" if problem else "sent").inc()
        if problem:
            self._problems.append(f"the recording of process {process_capture.pid} is lost: {problem}")
            _log.warning("a recording is lost", capture=self.id, pid=process_capture.pid, problem=problem)
        else:
            self._recordings += 1

    async def _upload_recording(self, pid: int, encoded: EncodedRecording) -> str | None:
        """Retry until the collector accepts the recording; return the problem or None."""
        context = self._context
        path = f"/api/v1/captures/{self.id}/recordings/{context.agent}-{pid}"
        headers = {"Content-Type": "application/json", "Content-Encoding": "zstd"}
        deadline, attempt = context.clock() + context.upload_timeout_seconds, 0
        while True:
            wait = None
            try:
                reply = await context.client.request("PUT", path, encoded.body, headers)
            except RequestFailed as error:
                problem = error.message
            else:
                if 200 <= reply.status < 300:
                    return None
                problem = f"the collector answered {reply.status}{format_error_body(reply.body)}"
                if reply.status < 500 and reply.status not in _RETRIED_STATUSES:
                    return problem
                wait = parse_retry_after(reply.retry_after, datetime.now(UTC))
            attempt += 1
            max_seconds = 1.0 if self._is_flushing else context.max_backoff_seconds
            delay = compute_retry_delay(attempt, max_seconds, min(wait or 0.0, max_seconds), context.rng)
            if context.clock() + delay > deadline:
                return problem
            await asyncio.sleep(delay)

    def _set_state(self, state: CaptureState) -> None:
        self.state = state
        self._on_change()

    def _finish(self, state: CaptureState) -> None:
        outcome = "refused" if self._capture is None else state.value
        self._context.metrics.capture_jobs.labels(outcome).inc()
        log = _log.warning if state is CaptureState.FAILED else _log.info
        log("an ordered capture ends", capture=self.id, state=state, problems=self._problems)
        self._set_state(state)


def format_error_body(body: bytes) -> str:
    """Return ": " and the message in a response body, or "" if there is none."""
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, RecursionError, TypeError, KeyError):
        text = body[:MAX_TEXT].decode(errors="replace")
    text = " ".join(text.split())[:MAX_TEXT]
    return f": {text}" if text else ""
