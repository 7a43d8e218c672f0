"""The sidecar's own HTTP port: captures, pauses, health and metrics."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
from aiohttp import web

from sidelight_model.errors import Reason, SidelightError
from sidelight_sidecar.captures.captures import Capture, Captures, read_wish
from sidelight_sidecar.captures.trigger_monitor import Lookout
from sidelight_sidecar.health import Board
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.overhead.pause_control import Switches
from sidelight_sidecar.samplers.sampler import COMMAND, Sampler
from sidelight_sidecar.sampling.process_watcher import Fleet

_MAX_BODY = 64 << 10
_TICK_SECONDS = 1.0
_SLOW_CLIENT_SECONDS = 10.0
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
    Reason.TOO_LARGE: 413,
    Reason.NOTHING_TO_WATCH: 503,
    Reason.SAMPLER_MISSING: 503,
}
_HTTP_REASONS = {404: Reason.NOT_FOUND, 405: Reason.METHOD_NOT_ALLOWED, 413: Reason.TOO_LARGE}
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.server")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """The handlers, with what they need."""

    def __init__(
        self,
        captures: Captures,
        fleet: Fleet,
        board: Board,
        metrics: Metrics,
        switches: Switches,
        lookout: Lookout,
        sampler: Sampler,
        fell_back: bool,
        capture_token_file: Path | None,
    ) -> None:
        self._captures = captures
        self._fleet = fleet
        self._board = board
        self._metrics = metrics
        self._switches = switches
        self._lookout = lookout
        self._sampler = sampler
        self._fell_back = fell_back
        self._token_file = capture_token_file

    def app(self) -> web.Application:
        app = web.Application(client_max_size=_MAX_BODY, middlewares=[self._refusals])
        app.router.add_get("/livez", self.livez)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_post("/capture", self.capture)
        app.router.add_get("/capture/{id}", self.capture_state)
        app.router.add_post("/pause", self.pause)
        app.router.add_post("/resume", self.resume)
        return app

    async def livez(self, request: web.Request) -> web.Response:
        """200 as long as the event loop turns."""
        return web.json_response({"live": True})

    async def readyz(self, request: web.Request) -> web.Response:
        """200 when windows are taken and sent; else 503 with what is wrong and what to do."""
        problems = [
            {"about": subject, "error": problem.reason, "message": problem.message, "hint": problem.hint}
            | ({"lacks": problem.lacks} if problem.lacks else {})
            for subject, problem in self._board.problems.items()
        ]
        watches = self._fleet.watches
        processes = [watch.told for watch in watches]
        told = {
            "ready": not problems,
            "degraded": self._fell_back or any(one["reduced"] for one in processes),
            "paused": list(self._switches.on),
            "triggers": self._lookout.told,
            "problems": problems,
            "notices": [*notices(self._sampler, fell_back=self._fell_back), *self._pauses()],
            "sampler": {"name": self._sampler.name, "mode": self._sampler.mode},
            "missing_states": list(self._sampler.missing_states),
            "pids": [watch.key.pid for watch in watches],
            "processes": processes,
        }
        return web.json_response(told, status=503 if problems else 200)

    async def metrics(self, request: web.Request) -> web.Response:
        body = self._metrics.render()
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def capture(self, request: web.Request) -> web.StreamResponse:
        """Start a capture and tell how it goes, a JSON object a line; it goes on if the client leaves."""
        await self._allow(request)
        try:
            raw = json.loads(await request.read() or b"{}")
        except (ValueError, RecursionError) as error:
            raise SidelightError(
                f"the body is not JSON: {error}", reason=Reason.BAD_JSON, hint='{"seconds": 30}'
            ) from error
        capture = await self._captures.start(read_wish(raw, self._captures.bounds))
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.headers["Location"] = f"/capture/{capture.id}"
        try:
            await response.prepare(request)
            while not capture.done.is_set():
                await self._line(response, capture)
                await _wait(capture.done, _TICK_SECONDS)
            await self._line(response, capture)
            await response.write_eof()
        except (ConnectionError, TimeoutError):
            _log.info("the client of a capture has left; the capture goes on", capture=capture.id)
        return response

    async def pause(self, request: web.Request) -> web.Response:
        """Detach from every process until POST /resume; again: the same."""
        await self._allow(request)
        self._switches.turn("api", True)
        return web.json_response({"paused": list(self._switches.on)})

    async def resume(self, request: web.Request) -> web.Response:
        """Undo POST /pause; refused while another switch goes on pausing."""
        await self._allow(request)
        self._switches.turn("api", False)
        if self._switches.paused:
            raise self._switches.refuse()
        return web.json_response({"paused": []})

    async def capture_state(self, request: web.Request) -> web.Response:
        """A capture's state, running or done."""
        return web.json_response(self._captures.get(request.match_info["id"]).told(self._captures.clock()))

    async def _line(self, response: web.StreamResponse, capture: Capture) -> None:
        async with asyncio.timeout(_SLOW_CLIENT_SECONDS):
            await response.write(json.dumps(capture.told(self._captures.clock())).encode() + b"\n")

    async def _allow(self, request: web.Request) -> None:
        """For whoever has the token or, without one, for this machine; never for web pages."""
        if "Origin" in request.headers:
            raise SidelightError(
                "a web page may not do this", reason=Reason.FORBIDDEN, hint="Use curl or a script."
            )
        if self._token_file is None:
            if not _local(request.remote):
                raise SidelightError(
                    "sampling is controlled from this machine only",
                    reason=Reason.FORBIDDEN,
                    hint="Use kubectl port-forward, or give --capture-token-file.",
                )
            return
        token = await asyncio.to_thread(_token, self._token_file)
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise SidelightError(
                "the bearer token is missing or wrong",
                reason=Reason.UNAUTHORIZED,
                hint="Send Authorization: Bearer with the content of --capture-token-file.",
            )

    @web.middleware
    async def _refusals(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except SidelightError as error:
            return self._refusal(_STATUS.get(error.reason, 500), error.reason, error.message, error.hint)
        except web.HTTPException as error:
            reason = _HTTP_REASONS.get(error.status, Reason.BAD_PARAMETER)
            hint = "There are /capture, /capture/ID, /pause, /resume, /livez, /readyz and /metrics."
            if reason is Reason.TOO_LARGE:
                hint = f"A body has at most {_MAX_BODY >> 10} KiB."
            refusal = self._refusal(error.status, reason, error.reason, hint)
            if "Allow" in error.headers:
                refusal.headers["Allow"] = error.headers["Allow"]
            return refusal
        except Exception:  # noqa: BLE001 - the root of a request
            self._metrics.loop_errors.labels("http").inc()
            _log.exception("an unexpected error in a request", path=request.path)
            return self._refusal(500, Reason.INTERNAL, "an unexpected error", "See the sidecar's log.")

    def _pauses(self) -> list[str]:
        if not self._switches.paused:
            return []
        return [f"Sampling is paused by: {', '.join(self._switches.on)}. {self._switches.hint}"]

    def _refusal(self, status: int, reason: Reason, message: str, hint: str) -> web.Response:
        self._metrics.http_refusals.labels(reason.value).inc()
        return web.json_response({"error": reason, "message": message, "hint": hint}, status=status)


def notices(sampler: Sampler, *, fell_back: bool) -> list[str]:
    """What an operator should know though nothing is wrong."""
    said = []
    if sampler.mode == COMMAND:
        why = "sidelight_native is not built for this Python (make native)" if fell_back else "as was asked"
        said.append(
            f"The py-spy command samples, in its blocking mode, not the extension: {why}. "
            f"It has missing states: {', '.join(sampler.missing_states)}; a short gap lies between windows."
        )
    if sampler.mode == "nonblocking":
        said.append("Nonblocking sampling does not stop the target, and many of its stacks may be wrong.")
    return said


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _local(remote: str | None) -> bool:
    try:
        return remote is not None and ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False


def _token(file: Path) -> str:
    try:
        token = file.read_text().strip()
    except (OSError, ValueError) as error:
        _log.error("the capture token cannot be read", file=str(file), problem=str(error))
        token = ""
    if not token:
        # An empty token must not let in whoever sends an empty one.
        raise SidelightError(
            "the capture token cannot be read", reason=Reason.FORBIDDEN, hint="Check --capture-token-file."
        )
    return token
