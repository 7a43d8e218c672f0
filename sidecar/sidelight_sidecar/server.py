"""The sidecar's own HTTP port: captures, pauses, health and metrics."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import structlog
from aiohttp import web

from sidelight.request_origin import ANY_HOST, OriginPolicy, is_loopback
from sidelight.waiting import wait_for_event
from sidelight_model.errors import Reason, SidelightError
from sidelight_sidecar.captures.captures import CaptureRegistry, LocalCapture, parse_capture_parameters
from sidelight_sidecar.captures.trigger_monitor import TriggerMonitor
from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead.pause_control import PauseControl
from sidelight_sidecar.samplers.sampler import COMMAND_MODE, Sampler
from sidelight_sidecar.sampling.process_watcher import ProcessWatcher

_MAX_BODY = 64 << 10
_PROGRESS_SECONDS = 1.0
_WRITE_TIMEOUT_SECONDS = 10.0
_STATUS = {
    Reason.BAD_JSON: 400,
    Reason.BAD_PARAMETER: 400,
    Reason.UNAUTHORIZED: 401,
    Reason.FORBIDDEN: 403,
    Reason.NOT_FOUND: 404,
    Reason.PID_GONE: 404,
    Reason.METHOD_NOT_ALLOWED: 405,
    Reason.CAPTURE_RUNNING: 409,
    Reason.PAUSED: 409,
    Reason.REQUEST_TIMEOUT: 408,
    Reason.TOO_LARGE: 413,
    Reason.NOTHING_TO_WATCH: 503,
    Reason.SAMPLER_MISSING: 503,
}
_HTTP_REASONS = {404: Reason.NOT_FOUND, 405: Reason.METHOD_NOT_ALLOWED, 413: Reason.TOO_LARGE}
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.server")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DefaultSampler(NamedTuple):
    """The sampler of processes, and whether it replaces one that cannot be used."""

    sampler: Sampler
    is_fallback: bool


class SidecarServer:
    """The HTTP handlers and their dependencies."""

    def __init__(
        self,
        captures: CaptureRegistry,
        process_watcher: ProcessWatcher,
        health: HealthBoard,
        metrics: SidecarMetrics,
        pause_control: PauseControl,
        trigger_monitor: TriggerMonitor,
        default_sampler: DefaultSampler,
        capture_token_file: Path | None,
    ) -> None:
        self._captures = captures
        self._process_watcher = process_watcher
        self._health = health
        self._metrics = metrics
        self._pause_control = pause_control
        self._trigger_monitor = trigger_monitor
        self._sampler = default_sampler.sampler
        self._is_fallback = default_sampler.is_fallback
        self._token_file = capture_token_file

    def build_app(self, origin_policy: OriginPolicy = ANY_HOST) -> web.Application:
        @web.middleware
        async def check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
            origin_policy.check(request.method, request.headers)
            return await handler(request)

        app = web.Application(client_max_size=_MAX_BODY, middlewares=[self._handle_errors, check_origin])
        app.router.add_get("/livez", self.livez)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_post("/capture", self.capture)
        app.router.add_get("/capture/{id}", self.get_capture)
        app.router.add_post("/pause", self.pause)
        app.router.add_post("/resume", self.resume)
        return app

    async def livez(self, request: web.Request) -> web.Response:
        """Return 200 while the event loop runs."""
        return web.json_response({"live": True})

    async def readyz(self, request: web.Request) -> web.Response:
        """Return 200 if windows are sampled and sent, else 503 with problems and hints."""
        problems = [
            {"about": subject, "error": problem.reason, "message": problem.message, "hint": problem.hint}
            | ({"lacks": problem.missing_permission} if problem.missing_permission else {})
            for subject, problem in self._health.issues.items()
        ]
        process_samplers = self._process_watcher.process_samplers
        processes = [watch.status for watch in process_samplers]
        fields = {
            "ready": self._health.is_ready,
            "degraded": self._is_fallback or any(status["reduced"] for status in processes),
            "paused": list(self._pause_control.active_switches),
            "triggers": self._trigger_monitor.status,
            "problems": problems,
            "notices": [
                *list_notices(self._sampler, is_fallback=self._is_fallback),
                *self._list_pause_notices(),
            ],
            "sampler": {"name": self._sampler.name, "mode": self._sampler.mode},
            "missing_states": list(self._sampler.missing_states),
            "pids": [watch.key.pid for watch in process_samplers],
            "processes": processes,
        }
        return web.json_response(fields, status=200 if self._health.is_ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        body = self._metrics.render()
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def capture(self, request: web.Request) -> web.StreamResponse:
        """Start a capture and stream its progress, one JSON object per line.

        The capture goes on if the client disconnects.
        """
        await self._authorize(request)
        try:
            raw = json.loads(await request.read() or b"{}")
        except (ValueError, RecursionError) as error:
            raise SidelightError(
                f"the body is not JSON: {error}", reason=Reason.BAD_JSON, hint='{"seconds": 30}'
            ) from error
        capture = await self._captures.start(parse_capture_parameters(raw, self._captures.limits))
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.headers["Location"] = f"/capture/{capture.id}"
        try:
            await response.prepare(request)
            while not capture.done.is_set():
                await self._write_progress(response, capture)
                await wait_for_event(capture.done, _PROGRESS_SECONDS)
            await self._write_progress(response, capture)
            await response.write_eof()
        except (ConnectionError, TimeoutError):
            _log.info("the client of a capture has left; the capture goes on", capture=capture.id)
        return response

    async def pause(self, request: web.Request) -> web.Response:
        """Detach from every process until POST /resume; idempotent."""
        await self._authorize(request)
        self._pause_control.set_switch("api", True)
        return web.json_response({"paused": list(self._pause_control.active_switches)})

    async def resume(self, request: web.Request) -> web.Response:
        """Undo POST /pause; an error while another switch keeps sampling paused."""
        await self._authorize(request)
        self._pause_control.set_switch("api", False)
        if self._pause_control.is_paused:
            raise self._pause_control.make_paused_error()
        return web.json_response({"paused": []})

    async def get_capture(self, request: web.Request) -> web.Response:
        """Return the state of a capture that runs or has ended."""
        return web.json_response(self._captures.get(request.match_info["id"]).to_json(self._captures.clock()))

    async def _write_progress(self, response: web.StreamResponse, capture: LocalCapture) -> None:
        async with asyncio.timeout(_WRITE_TIMEOUT_SECONDS):
            await response.write(json.dumps(capture.to_json(self._captures.clock())).encode() + b"\n")

    async def _authorize(self, request: web.Request) -> None:
        """Allow clients with the token or, without a token, clients on this machine.

        Web pages are never allowed.
        """
        if "Origin" in request.headers:
            raise SidelightError(
                "a web page may not do this", reason=Reason.FORBIDDEN, hint="Use curl or a script."
            )
        if self._token_file is None:
            if not is_loopback(request.remote or ""):
                raise SidelightError(
                    "sampling is controlled from this machine only",
                    reason=Reason.FORBIDDEN,
                    hint="Use kubectl port-forward, or give --capture-token-file.",
                )
            return
        token = await asyncio.to_thread(_read_token, self._token_file)
        authorization = request.headers.get("Authorization", "")
        if not hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
            raise SidelightError(
                "the bearer token is missing or wrong",
                reason=Reason.UNAUTHORIZED,
                hint="Send Authorization: Bearer with the content of --capture-token-file.",
            )

    @web.middleware
    async def _handle_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except SidelightError as error:
            return self._build_error_response(
                _STATUS.get(error.reason, 500), error.reason, error.message, error.hint
            )
        except web.HTTPException as error:
            reason = _HTTP_REASONS.get(error.status, Reason.BAD_PARAMETER)
            hint = "There are /capture, /capture/ID, /pause, /resume, /livez, /readyz and /metrics."
            if reason is Reason.TOO_LARGE:
                hint = f"A body has at most {_MAX_BODY >> 10} KiB."
            refusal = self._build_error_response(error.status, reason, error.reason, hint)
            if "Allow" in error.headers:
                refusal.headers["Allow"] = error.headers["Allow"]
            return refusal
        except Exception:  # noqa: BLE001 - the root of a request
            self._metrics.loop_errors.labels("http").inc()
            _log.exception("an unexpected error in a request", path=request.path)
            return self._build_error_response(
                500, Reason.INTERNAL, "an unexpected error", "See the sidecar's log."
            )

    def _list_pause_notices(self) -> list[str]:
        if not self._pause_control.is_paused:
            return []
        return [
            f"Sampling is paused by: {', '.join(self._pause_control.active_switches)}. "
            f"{self._pause_control.hint}"
        ]

    def _build_error_response(self, status: int, reason: Reason, message: str, hint: str) -> web.Response:
        self._metrics.http_refusals.labels(reason.value).inc()
        return web.json_response({"error": reason, "message": message, "hint": hint}, status=status)


def list_notices(sampler: Sampler, *, is_fallback: bool) -> list[str]:
    """Return notices for an operator that are no problems."""
    messages = []
    if sampler.mode == COMMAND_MODE:
        cause = (
            "sidelight_native is not built for this Python (make native)" if is_fallback else "as was asked"
        )
        messages.append(
            f"The py-spy command samples, in its blocking mode, not the extension: {cause}. "
            f"It has missing states: {', '.join(sampler.missing_states)}; a short gap lies between windows."
        )
    elif "poll" in sampler.missing_states:
        messages.append(
            "All waiting threads count as idle, whatever they wait for: /proc/PID/task/TID/syscall cannot be "
            "read. Add the capability DAC_READ_SEARCH."
        )
    elif "gil" not in sampler.missing_states and "gil_wait" in sampler.missing_states:
        messages.append(
            "Threads that wait for a lock or the GIL count as idle: the C library is musl, or py-spy reads "
            "the process."
        )
    if sampler.mode != COMMAND_MODE and "gil" in sampler.missing_states:
        messages.append(
            "A free-threaded Python has no states gil and gil_wait, and its asyncio tasks are not read."
        )
    if sampler.mode == "nonblocking":
        messages.append("Nonblocking sampling does not stop the target, and many of its stacks may be wrong.")
    return messages


def _read_token(file: Path) -> str:
    try:
        token = file.read_text().strip()
    except (OSError, ValueError) as error:
        _log.error("the capture token cannot be read", file=str(file), problem=str(error))
        token = ""
    if not token:
        # An empty token must not allow requests that send an empty one.
        raise SidelightError(
            "the capture token cannot be read", reason=Reason.FORBIDDEN, hint="Check --capture-token-file."
        )
    return token
