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
from sidelight_collector.auth.read_rules import Principal, ReadPolicy
from sidelight_collector.auth.write_identity import ONE_TIME_PREFIX, WriterIdentity
from sidelight_collector.metrics import Metrics
from sidelight_model.errors import Reason, SidelightError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = structlog.get_logger()

HTTP_STATUS: Final = {
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


class Permission(Enum):
    """What a request asks to do."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    CAPTURE = "capture"


@dataclass(frozen=True, slots=True)
class BearerTokens:
    """Who may do what: bearer tokens, or None where anybody may; none at all where nobody may.

    `token_names` says what tokens are called, where they are.
    """

    write: tuple[str, ...] | None = None
    read: tuple[str, ...] | None = None
    capture: tuple[str, ...] | None = None
    token_names: Mapping[str, str] = field(default_factory=dict)
    has_capture_tokens: bool = False
    """Whether captures have tokens of their own."""

    def tokens_for(self, permission: Permission) -> tuple[str, ...] | None:
        """The tokens that let somebody do this."""
        if permission is Permission.READ:
            return self.read
        return {Permission.OPEN: None, Permission.WRITE: self.write, Permission.CAPTURE: self.capture}[
            permission
        ]

    def is_allowed(self, permission: Permission, authorization: str) -> bool:
        """Whether a request with this Authorization header may go on; takes the same time for any token."""
        return self.tokens_for(permission) is None or self.find_token(permission, authorization) is not None

    def find_token(self, permission: Permission, authorization: str) -> str | None:
        """The token that this header carries, if it is one of those that let somebody do this."""
        # Headers are read as UTF-8, and a byte that is not stands as half of a surrogate pair.
        sent = parse_bearer(authorization).encode(errors="surrogateescape")
        tokens = self.tokens_for(permission) or ()
        matches = [token for token in tokens if hmac.compare_digest(sent, token.encode())]
        return matches[0] if matches else None


def parse_bearer(authorization: str) -> str:
    """The token of an Authorization header; empty without one."""
    scheme, _, given = authorization.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


class PodIdentities(Protocol):
    """Tells which pod a token is bound to."""

    async def identify(self, token: str) -> WriterIdentity:
        """Raises SidelightError where it is none, or cannot be told now."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Decides who may do what, and as whom; `pod_identities` vouches for tokens of pods, where there is a
    cluster.
    """

    tokens: BearerTokens = field(default_factory=BearerTokens)
    read_policy: ReadPolicy = field(default_factory=ReadPolicy)
    pod_identities: PodIdentities | None = None
    one_time_identities: PodIdentities | None = None
    """Tells the same of one-time tokens, which count as such even where anybody may write."""

    async def authorize(self, permission: Permission, request: web.Request) -> None:
        """Let a request go on as whoever asks. Raises SidelightError when it may not."""
        authorization = request.headers.get("Authorization", "")
        if permission is Permission.WRITE:
            request[_WRITER_KEY] = await self._identify_writer(authorization)
        elif permission is not Permission.OPEN:
            request[_PRINCIPAL_KEY] = self._identify_principal(permission, request, authorization)

    async def _identify_writer(self, authorization: str) -> WriterIdentity | None:
        if self.one_time_identities is not None and parse_bearer(authorization).startswith(ONE_TIME_PREFIX):
            return await self.one_time_identities.identify(parse_bearer(authorization))
        if self.tokens.is_allowed(Permission.WRITE, authorization):
            return None
        if self.pod_identities is not None and (token := parse_bearer(authorization)):
            return await self.pod_identities.identify(token)
        raise self._build_denial(Permission.WRITE)

    def _identify_principal(
        self, permission: Permission, request: web.Request, authorization: str
    ) -> Principal:
        known = self.tokens.tokens_for(permission)
        token = self.tokens.find_token(permission, authorization)
        if token is not None:
            return self.read_policy.principal_from_token(self.tokens.token_names.get(token, ""))
        person = self.read_policy.parse_proxy_headers(request.remote or "", request.headers)
        # Captures that ask for tokens of their own ask people for them too.
        if person and not (permission is Permission.CAPTURE and self.tokens.has_capture_tokens):
            return self.read_policy.principal_from_proxy(*person)
        if known is None:
            return self.read_policy.principal_from_token("")
        raise self._build_denial(permission, request)

    def _build_denial(self, permission: Permission, request: web.Request | None = None) -> SidelightError:
        if (
            permission is Permission.CAPTURE
            and self.tokens.capture == ()
            and not self.read_policy.proxy.user_header
        ):
            return SidelightError(
                "nobody may start captures here: anybody who reaches this address could",
                reason=Reason.FORBIDDEN,
                hint="Give it --capture-tokens-file or --read-tokens-file, for sidelight capture "
                "--token-file, or let it listen on 127.0.0.1. A browser sends no token: for these pages it "
                "takes a proxy that says who reads (--read-proxy-header; collector.auth.proxy of the chart).",
            )
        user = self.read_policy.proxy.user_header
        if request is not None and user and request.headers.get(user):
            return Unauthorized(
                f"{user} counts only from a proxy of --trusted-proxies, once in a request; this one came "
                f"from {request.remote}",
                hint="Add the proxy's own address as the collector sees it, or send a token.",
            )
        return Unauthorized(
            f"a token is needed to {permission.value} here",
            hint="Send `Authorization: Bearer TOKEN` with a token of the collector's "
            f"--{permission.value}-tokens-file"
            + (", or of --read-tokens-file if there is none." if permission is Permission.CAPTURE else "."),
        )


_PRINCIPAL_KEY: Final = web.RequestKey("reader", Principal)
_PRINCIPAL_USED_KEY: Final = web.RequestKey("asked for the reader", bool)
_WRITER_KEY: Final = web.RequestKey("writer", object)


def get_principal(request: web.Request) -> Principal:
    """Who reads. Whoever asks keeps its answer to what this reader sees: see `check_principal_used`."""
    request[_PRINCIPAL_USED_KEY] = True
    return request[_PRINCIPAL_KEY]


def get_writer(request: web.Request) -> WriterIdentity | None:
    """The pod that sends; None where any may be named: by a token of a file, or where anybody may write."""
    found = request[_WRITER_KEY]
    return found if isinstance(found, WriterIdentity) else None


def check_principal_used(request: web.Request) -> None:
    """Raises SidelightError when an answer to a reader of some namespaces was made without asking who reads.

    Such an answer may have all namespaces in it and is not sent: a path that has nothing of any namespace to
    tell calls `get_principal` all the same.
    """
    reader = request.get(_PRINCIPAL_KEY)
    if reader is not None and reader.namespaces is not None and not request.get(_PRINCIPAL_USED_KEY):
        raise SidelightError(
            "this path knows nothing of namespaces, and is not for who may read only some",
            reason=Reason.FORBIDDEN,
            hint="This is a defect: report it with the path.",
        )


def required_permission(method: str, route: str) -> Permission:
    """Pages, probes and metrics are open; what is below /api/ is read with GET and written otherwise.

    Captures and alerts are started and ended by people; what is put below captures comes from who writes.
    Links tell what somebody looked at, so they are for readers, who also may make them.
    """
    if route.startswith("/l/") or route == "/api/v1/links":
        return Permission.READ
    if not route.startswith("/api/"):
        return Permission.OPEN
    if route.startswith(("/api/v1/captures", "/api/v1/deploys")) and method in ("POST", "DELETE"):
        return Permission.CAPTURE
    return Permission.READ if method in ("GET", "HEAD", "OPTIONS") else Permission.WRITE


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


def build_middlewares(metrics: Metrics, authorizer: Authorizer, prefix: str) -> Sequence[Middleware]:
    """What to wrap the application in, the outermost first."""

    @web.middleware
    async def measure_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        start = time.perf_counter()
        status = 499  # nginx's word for a client that went away
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            seconds = time.perf_counter() - start
            method = request.method if request.method in _METHODS else "other"
            metrics.http_request_seconds.labels(_route_name(request), method, str(status)).observe(seconds)

    @web.middleware
    async def handle_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except SidelightError as error:
            return count_and_refuse(error)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            hint = f"Use one of: {allowed}."
            response = count_and_refuse(
                MethodNotAllowed(f"{request.method} is not for {request.path}", hint=hint)
            )
            response.headers["Allow"] = allowed
            return response
        except web.HTTPNotFound:
            hint = f"The API is described at {prefix}/api/v1/openapi.json."
            return count_and_refuse(NotFound(f"there is nothing at {request.path}", hint=hint))
        except web.HTTPRedirection:
            raise
        except web.HTTPException as error:
            reason = _REASON_BY_STATUS.get(error.status, Reason.INTERNAL)
            return count_and_refuse(SidelightError(error.text or error.reason, reason=reason), error.status)
        except Exception:  # noqa: BLE001
            _log.exception("request failed", method=request.method, path=request.path)
            return count_and_refuse(
                SidelightError("the collector failed to answer", hint="Its log says why.")
            )

    @web.middleware
    async def authorize_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        await authorizer.authorize(
            required_permission(request.method, _route_name(request).removeprefix(prefix)), request
        )
        response = await handler(request)
        check_principal_used(request)
        return response

    def count_and_refuse(error: SidelightError, status: int | None = None) -> web.Response:
        metrics.refusals.labels(error.reason).inc()
        return build_error_response(error, status)

    return [measure_request, handle_errors, authorize_request]


def build_error_response(error: SidelightError, status: int | None = None) -> web.Response:
    """A failure as the client sees it: status, JSON body, and the headers that go with it."""
    body = {"error": error.reason.value, "message": _shorten(error.message), "hint": error.hint}
    response = web.Response(
        status=status or HTTP_STATUS.get(error.reason, 400),
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


def _shorten(message: str) -> str:
    """A message without the middle of what it quotes at length."""
    half = MAX_MESSAGE_CHARACTERS // 2
    return message if len(message) <= 2 * half else f"{message[:half]} … {message[-half:]}"


_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_REASON_BY_STATUS: Final = {413: Reason.TOO_LARGE, 415: Reason.UNSUPPORTED_TYPE, 400: Reason.BAD_PARAMETER}


def _route_name(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return "none" if resource is None else resource.canonical
