"""What every request passes: it is timed, let in or not, and any failure becomes JSON with a reason word."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, Protocol

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from sidelight.settings import BadSetting
from sidelight_collector.auth.read_rules import Reader, Readers
from sidelight_collector.auth.write_identity import ONE_TIME, Writer
from sidelight_collector.metrics import Metrics
from sidelight_model.errors import Reason, SidelightError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = structlog.get_logger()

STATUS: Final = {
    Reason.UNAUTHORIZED: 401,
    Reason.FORBIDDEN: 403,
    Reason.WRONG_NAMESPACE: 403,
    Reason.WRONG_POD: 403,
    Reason.WRONG_SERVICE: 403,
    Reason.NO_POD: 403,
    Reason.NO_NAMESPACES: 403,
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
    Reason.CLUSTER_UNAVAILABLE: 503,
    Reason.CLUSTER_DENIED: 503,
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
    Reason.CLUSTER_UNAVAILABLE: 5,
    Reason.CLUSTER_DENIED: 30,
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
    """Who may do what: bearer tokens, or None where anybody may; none at all where nobody may.

    `names` says what tokens are called, where they are.
    """

    write: tuple[str, ...] | None = None
    read: tuple[str, ...] | None = None
    capture: tuple[str, ...] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    capture_apart: bool = False
    """Whether captures have tokens of their own."""

    def known(self, access: Access) -> tuple[str, ...] | None:
        """The tokens that let somebody do this."""
        if access is Access.READ:
            return self.read
        return {Access.OPEN: None, Access.WRITE: self.write, Access.CAPTURE: self.capture}[access]

    def allow(self, access: Access, authorization: str) -> bool:
        """Whether a request with this Authorization header may go on; takes the same time for any token."""
        return self.known(access) is None or self.token(access, authorization) is not None

    def token(self, access: Access, authorization: str) -> str | None:
        """The token that this header carries, if it is one of those that let somebody do this."""
        # Headers are read as UTF-8, and a byte that is not stands as half of a surrogate pair.
        sent = bearer(authorization).encode(errors="surrogateescape")
        tokens = self.known(access) or ()
        matches = [token for token in tokens if hmac.compare_digest(sent, token.encode())]
        return matches[0] if matches else None


def bearer(authorization: str) -> str:
    """The token of an Authorization header; empty without one."""
    scheme, _, given = authorization.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


class Pods(Protocol):
    """Tells which pod a token is bound to."""

    async def writer(self, token: str) -> Writer:
        """Raises SidelightError where it is none, or cannot be told now."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides who may do what, and as whom; `pods` vouches for tokens of pods, where there is a cluster."""

    tokens: Tokens = field(default_factory=Tokens)
    readers: Readers = field(default_factory=Readers)
    pods: Pods | None = None
    attached: Pods | None = None
    """Tells the same of one-time tokens, which count as such even where anybody may write."""

    async def admit(self, access: Access, request: web.Request) -> None:
        """Let a request go on as whoever asks. Raises SidelightError when it may not."""
        authorization = request.headers.get("Authorization", "")
        if access is Access.WRITE:
            request[_WRITER] = await self._writer(authorization)
        elif access is not Access.OPEN:
            request[_READER] = self._reader(access, request, authorization)

    async def _writer(self, authorization: str) -> Writer | None:
        if self.attached is not None and bearer(authorization).startswith(ONE_TIME):
            return await self.attached.writer(bearer(authorization))
        if self.tokens.allow(Access.WRITE, authorization):
            return None
        if self.pods is not None and (token := bearer(authorization)):
            return await self.pods.writer(token)
        raise self._unknown(Access.WRITE)

    def _reader(self, access: Access, request: web.Request, authorization: str) -> Reader:
        known = self.tokens.known(access)
        token = self.tokens.token(access, authorization)
        if token is not None:
            return self.readers.token(self.tokens.names.get(token, ""))
        person = self.readers.person(request.remote or "", request.headers)
        # Captures that ask for tokens of their own ask people for them too.
        if person and not (access is Access.CAPTURE and self.tokens.capture_apart):
            return self.readers.user(*person)
        if known is None:
            return self.readers.token("")
        raise self._unknown(access, request)

    def _unknown(self, access: Access, request: web.Request | None = None) -> SidelightError:
        if access is Access.CAPTURE and self.tokens.capture == () and not self.readers.proxy.user:
            return SidelightError(
                "nobody may start captures here: anybody who reaches this address could",
                reason=Reason.FORBIDDEN,
                hint="Give it --capture-tokens-file or --read-tokens-file, for sidelight capture "
                "--token-file, or let it listen on 127.0.0.1. A browser sends no token: for these pages it "
                "takes a proxy that says who reads (--read-proxy-header; collector.auth.proxy of the chart).",
            )
        user = self.readers.proxy.user
        if request is not None and user and request.headers.get(user):
            return Unauthorized(
                f"{user} counts only from a proxy of --trusted-proxies, once in a request; this one came "
                f"from {request.remote}",
                hint="Add the proxy's own address as the collector sees it, or send a token.",
            )
        return Unauthorized(
            f"a token is needed to {access.value} here",
            hint="Send `Authorization: Bearer TOKEN` with a token of the collector's "
            f"--{access.value}-tokens-file"
            + (", or of --read-tokens-file if there is none." if access is Access.CAPTURE else "."),
        )


_READER: Final = web.RequestKey("reader", Reader)
_ASKED: Final = web.RequestKey("asked for the reader", bool)
_WRITER: Final = web.RequestKey("writer", object)


def reader_of(request: web.Request) -> Reader:
    """Who reads. Whoever asks keeps its answer to what this reader sees: see `check_asked`."""
    request[_ASKED] = True
    return request[_READER]


def writer_of(request: web.Request) -> Writer | None:
    """The pod that sends; None where any may be named: by a token of a file, or where anybody may write."""
    found = request[_WRITER]
    return found if isinstance(found, Writer) else None


def check_asked(request: web.Request) -> None:
    """Raises SidelightError when an answer to a reader of some namespaces was made without asking who reads.

    Such an answer may have all namespaces in it and is not sent: a path that has nothing of any namespace to
    tell calls `reader_of` all the same.
    """
    reader = request.get(_READER)
    if reader is not None and reader.namespaces is not None and not request.get(_ASKED):
        raise SidelightError(
            "this path knows nothing of namespaces, and is not for who may read only some",
            reason=Reason.FORBIDDEN,
            hint="This is a defect: report it with the path.",
        )


def access_of(method: str, route: str) -> Access:
    """Pages, probes and metrics are open; what is below /api/ is read with GET and written otherwise.

    Captures and alerts are started and ended by people; what is put below captures comes from who writes.
    Links tell what somebody looked at, so they are for readers, who also may make them.
    """
    if route.startswith("/l/") or route == "/api/v1/links":
        return Access.READ
    if not route.startswith("/api/"):
        return Access.OPEN
    if route.startswith(("/api/v1/captures", "/api/v1/deploys")) and method in ("POST", "DELETE"):
        return Access.CAPTURE
    return Access.READ if method in ("GET", "HEAD", "OPTIONS") else Access.WRITE


def read_tokens(path: Path | None) -> tuple[str, ...] | None:
    """The tokens in a file, one a line; blank lines and lines that begin with # are no tokens."""
    named = read_named_tokens(path)
    return None if named is None else tuple(named)


def read_named_tokens(path: Path | None) -> dict[str, str] | None:
    """The same with their names: a line is a token, or a name, a blank and a token."""
    if path is None:
        return None
    try:
        lines = [line.strip() for line in path.read_text("utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"cannot read the tokens in {path}: {error}", hint="Check the path and mode."
        ) from error
    words = [line.split() for line in lines if line and not line.startswith("#")]
    if not words:
        raise BadSetting(f"there is no token in {path}", hint="Write one token a line.")
    if long := [line for line in words if len(line) > 2]:
        raise BadSetting(
            f"a line of {path} has {len(long[0])} words", hint="A line is a token, or a name and a token."
        )
    return {line[-1]: line[0] if len(line) == 2 else "" for line in words}


def middlewares(metrics: Metrics, guard: Guard, prefix: str) -> Sequence[Middleware]:
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
            metrics.http_request_seconds.labels(_route(request), method, str(status)).observe(seconds)

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
        await guard.admit(access_of(request.method, _route(request).removeprefix(prefix)), request)
        response = await handler(request)
        check_asked(request)
        return response

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
