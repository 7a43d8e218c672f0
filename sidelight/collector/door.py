"""What every request passes: it is timed, let in or not, and any failure becomes JSON with a reason word."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from sidelight.collector.metrics import Metrics
from sidelight.settings import BadSetting
from sidelight.stacks.errors import Reason, SidelightError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = structlog.get_logger()

STATUS: Final = {
    Reason.UNAUTHORIZED: 401,
    Reason.FORBIDDEN: 403,
    Reason.NOT_FOUND: 404,
    Reason.UI_MISSING: 404,
    Reason.METHOD_NOT_ALLOWED: 405,
    Reason.REQUEST_TIMEOUT: 408,
    Reason.DUPLICATE_ID: 409,
    Reason.CAPTURE_RUNNING: 409,
    Reason.TOO_LARGE: 413,
    Reason.TOO_MANY_WINDOWS: 413,
    Reason.TOO_MANY_STACKS: 413,
    Reason.BAD_ENCODING: 415,
    Reason.UNSUPPORTED_TYPE: 415,
    Reason.BAD_LABEL: 422,
    Reason.TOO_MANY_LABELS: 422,
    Reason.CLOCK_SKEW: 422,
    Reason.TOO_OLD: 422,
    Reason.OVERLOADED: 429,
    Reason.INTERNAL: 500,
    Reason.STORE_UNAVAILABLE: 503,
    Reason.STORE_FORMAT: 503,
    Reason.ENGINE_UNAVAILABLE: 503,
    Reason.SHUTTING_DOWN: 503,
    Reason.QUERY_TIMEOUT: 503,
}
"""The HTTP status of each reason; those not named are 400, a mistake in what was sent."""

RETRY_AFTER_SECONDS: Final = {
    Reason.OVERLOADED: 2,
    Reason.QUERY_TIMEOUT: 2,
    Reason.SHUTTING_DOWN: 2,
    Reason.STORE_UNAVAILABLE: 5,
    Reason.STORE_FORMAT: 60,
    Reason.ENGINE_UNAVAILABLE: 5,
}


MAX_MESSAGE_CHARACTERS: Final = 1000


class Unauthorized(SidelightError):
    """The request carries no token, or one that is not known."""

    reason = Reason.UNAUTHORIZED


class NotFound(SidelightError):
    """There is nothing at this path."""

    reason = Reason.NOT_FOUND


class MethodNotAllowed(SidelightError):
    """There is something at this path, for other methods."""

    reason = Reason.METHOD_NOT_ALLOWED


class Access(Enum):
    """What a request asks to do."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    CAPTURE = "capture"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Who may do what: bearer tokens, or None where anybody may; none at all where nobody may."""

    write: tuple[str, ...] | None = None
    read: tuple[str, ...] | None = None
    capture: tuple[str, ...] | None = None

    def allow(self, access: Access, authorization: str) -> bool:
        """Whether a request with this Authorization header may go on; takes the same time for any token."""
        known = {
            Access.OPEN: None,
            Access.READ: self.read,
            Access.WRITE: self.write,
            Access.CAPTURE: self.capture,
        }[access]
        if known is None:
            return True
        scheme, _, given = authorization.partition(" ")
        # Headers are read as UTF-8, and a byte that is not stands as half of a surrogate pair.
        sent = given.strip().encode(errors="surrogateescape")
        matches = [hmac.compare_digest(sent, token.encode()) for token in known]
        return scheme.lower() == "bearer" and any(matches)


def access_of(method: str, route: str) -> Access:
    """Pages, probes and metrics are open; what is below /api/ is read with GET and written otherwise.

    Captures are started and ended by people, and what is put below them comes from those who write.
    Links tell what somebody looked at, so they are for readers, who also may make them.
    """
    if route.startswith("/l/") or route == "/api/v1/links":
        return Access.READ
    if not route.startswith("/api/"):
        return Access.OPEN
    if route.startswith("/api/v1/captures") and method in ("POST", "DELETE"):
        return Access.CAPTURE
    return Access.READ if method in ("GET", "HEAD", "OPTIONS") else Access.WRITE


def read_tokens(path: Path | None) -> tuple[str, ...] | None:
    """The tokens in a file, one a line; blank lines and lines that begin with # are no tokens."""
    if path is None:
        return None
    try:
        lines = [line.strip() for line in path.read_text("utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"cannot read the tokens in {path}: {error}", hint="Check the path and mode."
        ) from error
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise BadSetting(f"there is no token in {path}", hint="Write one token a line.")
    return tokens


def middlewares(metrics: Metrics, tokens: Tokens, prefix: str) -> Sequence[Middleware]:
    """What to wrap the application in, the outermost first."""

    @web.middleware
    async def timed(request: web.Request, handler: Handler) -> web.StreamResponse:
        start = time.perf_counter()
        status = 499  # nginx's word for a client that went away
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            seconds = time.perf_counter() - start
            method = request.method if request.method in _METHODS else "other"
            metrics.request_seconds.labels(_route(request), method, str(status)).observe(seconds)

    @web.middleware
    async def explained(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except SidelightError as error:
            return _refused(error)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            hint = f"Use one of: {allowed}."
            response = _refused(MethodNotAllowed(f"{request.method} is not for {request.path}", hint=hint))
            response.headers["Allow"] = allowed
            return response
        except web.HTTPNotFound:
            hint = f"The API is described at {prefix}/api/v1/openapi.json."
            return _refused(NotFound(f"there is nothing at {request.path}", hint=hint))
        except web.HTTPRedirection:
            raise
        except web.HTTPException as error:
            reason = _HTTP.get(error.status, Reason.INTERNAL)
            return _refused(SidelightError(error.text or error.reason, reason=reason), error.status)
        except Exception:  # noqa: BLE001
            _log.exception("request failed", method=request.method, path=request.path)
            return _refused(SidelightError("the collector failed to answer", hint="Its log says why."))

    @web.middleware
    async def allowed(request: web.Request, handler: Handler) -> web.StreamResponse:
        access = access_of(request.method, _route(request).removeprefix(prefix))
        if tokens.allow(access, request.headers.get("Authorization", "")):
            return await handler(request)
        if access is Access.CAPTURE and tokens.capture == ():
            raise SidelightError(
                "nobody may start captures here: anybody who reaches this address could",
                reason=Reason.FORBIDDEN,
                hint="Give it --capture-tokens-file or --read-tokens-file, or let it listen on 127.0.0.1.",
            )
        raise Unauthorized(
            f"a token is needed to {access.value} here",
            hint="Send `Authorization: Bearer TOKEN` with a token of the collector's "
            f"--{access.value}-tokens-file"
            + (", or of --read-tokens-file if there is none." if access is Access.CAPTURE else "."),
        )

    def _refused(error: SidelightError, status: int | None = None) -> web.Response:
        metrics.refusals.labels(error.reason).inc()
        return refusal(error, status)

    return [timed, explained, allowed]


def refusal(error: SidelightError, status: int | None = None) -> web.Response:
    """A failure as the client sees it: status, JSON body, and the headers that go with it."""
    body = {"error": error.reason.value, "message": _shortened(error.message), "hint": error.hint}
    response = web.Response(
        status=status or STATUS.get(error.reason, 400),
        # What a message quotes may hold half of a surrogate pair: no text, but fine JSON once escaped.
        body=json.dumps(body, ensure_ascii=False).encode(errors="backslashreplace"),
        content_type="application/json",
        charset="utf-8",
    )
    if error.reason in RETRY_AFTER_SECONDS:
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS[error.reason])
    if error.reason is Reason.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="sidelight"'
    if error.reason is Reason.BAD_ENCODING:
        response.headers["Accept-Encoding"] = "zstd, gzip, identity"
    return response


def _shortened(message: str) -> str:
    """A message without the middle of what it quotes at length."""
    half = MAX_MESSAGE_CHARACTERS // 2
    return message if len(message) <= 2 * half else f"{message[:half]} … {message[-half:]}"


_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_HTTP: Final = {413: Reason.TOO_LARGE, 415: Reason.UNSUPPORTED_TYPE, 400: Reason.BAD_PARAMETER}


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return "none" if resource is None else resource.canonical
