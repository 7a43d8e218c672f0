"""Middlewares for every request: timing, authorization, and errors as JSON."""

from __future__ import annotations

import hmac
import json
import random
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, Protocol

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from sidelight.request_origin import OriginPolicy
from sidelight.settings import BadSetting
from sidelight_collector.auth.otlp_errors import OTLP_PATH, PROTOBUF_TYPE, encode_status
from sidelight_collector.auth.read_rules import Principal, ReadPolicy
from sidelight_collector.auth.write_identity import ONE_TIME_PREFIX, WriterIdentity
from sidelight_collector.metrics import Metrics
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.terminal_width import escape_json

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = structlog.get_logger()

HTTP_STATUS: Final = {
    Reason.UNAUTHORIZED: 401,
    Reason.FORBIDDEN: 403,
    Reason.WRONG_NAMESPACE: 403,
    Reason.WRONG_POD: 403,
    Reason.WRONG_SERVICE: 403,
    Reason.WRONG_NODE: 403,
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
    Reason.TOO_MANY_RECORDINGS: 413,
    Reason.TOO_MANY_NOTES: 413,
    Reason.BAD_ENCODING: 415,
    Reason.UNSUPPORTED_TYPE: 415,
    Reason.BAD_LABEL: 422,
    Reason.TOO_MANY_LABELS: 422,
    Reason.CLOCK_SKEW: 422,
    Reason.TOO_OLD: 422,
    Reason.OVERLOADED: 429,
    Reason.INTERNAL: 500,
    Reason.NOT_IMPLEMENTED: 501,
    Reason.STORE_UNAVAILABLE: 503,
    Reason.STORE_FORMAT: 503,
    Reason.ENGINE_UNAVAILABLE: 503,
    Reason.CLUSTER_UNAVAILABLE: 503,
    Reason.CLUSTER_DENIED: 503,
    Reason.SHUTTING_DOWN: 503,
    Reason.QUERY_TIMEOUT: 503,
}
"""The HTTP status of each reason; the others have 400, an error in the request."""

CONNECT_CODES: Final = {
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    408: "deadline_exceeded",
    409: "already_exists",
    429: "resource_exhausted",
    500: "internal",
    501: "unimplemented",
    503: "unavailable",
}
"""The error code of each HTTP status (https://connectrpc.com/docs/protocol); others are invalid arguments."""

RETRY_AFTER_SECONDS: Final[Mapping[Reason, int]] = {
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
PUSH_PATH: Final = "/push.v1.PusherService/Push"
QUERIER_PREFIX: Final = "/querier.v1.QuerierService/"
CONNECT_ROUTE: Final = "/{service}/{method}"
"""Any other method of the Connect protocol."""
PYROSCOPE_PATHS: Final = (PUSH_PATH, "/ingest", "/pyroscope/ingest")
"""Paths to which clients of Pyroscope send profiles."""
PROFILE_METRICS_PATH: Final = "/metrics/profiles"
RENDER_PATHS: Final = ("/pyroscope/render", "/pyroscope/render-diff", "/pyroscope/label-values")
"""Paths of Pyroscope's older read API."""


class Unauthorized(SidelightError):
    """The request has no token, or an unknown one."""

    reason = Reason.UNAUTHORIZED


class NotFound(SidelightError):
    """There is nothing at this path."""

    reason = Reason.NOT_FOUND


class MethodNotAllowed(SidelightError):
    """The resource at this path does not support the method."""

    reason = Reason.METHOD_NOT_ALLOWED


class Permission(Enum):
    """The permission that a request needs."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    CAPTURE = "capture"


@dataclass(frozen=True, slots=True)
class BearerTokens:
    """The bearer tokens for each permission.

    None means that no token is needed; an empty tuple means that no token suffices. `token_names` has the
    names of tokens that have one.
    """

    write: tuple[str, ...] | None = None
    read: tuple[str, ...] | None = None
    capture: tuple[str, ...] | None = None
    token_names: Mapping[str, str] = field(default_factory=dict)

    def tokens_for(self, permission: Permission) -> tuple[str, ...] | None:
        """Return the tokens that grant this permission; None if none is needed."""
        if permission is Permission.READ:
            return self.read
        return {Permission.OPEN: None, Permission.WRITE: self.write, Permission.CAPTURE: self.capture}[
            permission
        ]

    def is_allowed(self, permission: Permission, authorization: str) -> bool:
        """Whether a request with this Authorization header is allowed, in constant time."""
        return self.tokens_for(permission) is None or self.find_token(permission, authorization) is not None

    def find_token(self, permission: Permission, authorization: str) -> str | None:
        """Return the token of this header if it grants the permission, else None."""
        # aiohttp decodes headers as UTF-8, and represents invalid bytes as lone surrogates.
        sent = parse_bearer(authorization).encode(errors="surrogateescape")
        tokens = self.tokens_for(permission) or ()
        matches = [token for token in tokens if hmac.compare_digest(sent, token.encode())]
        return matches[0] if matches else None


def parse_bearer(authorization: str) -> str:
    """Return the token of an Authorization header; empty if it has none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def to_bearer(authorization: str) -> str:
    """Turn HTTP Basic authentication into a bearer token: its password.

    Many clients of Pyroscope send a user and a password, and nothing else. Another header is returned as it
    is.
    """
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return authorization
    try:
        decoded = b64decode(encoded.strip(), validate=True).decode(errors="surrogateescape")
    except ValueError:
        return ""
    return f"Bearer {decoded.partition(':')[2]}"


class PodIdentities(Protocol):
    """Identifies pods by their tokens."""

    async def identify(self, token: str) -> WriterIdentity:
        """Return the pod that a token is bound to.

        Raises SidelightError if there is none, or if it cannot be determined now.
        """


@dataclass(slots=True)
class Authorizer:
    """Authorizes requests, and determines their principal or writer.

    `tokens` and `read_policy` change when their files do. `pod_identities` identifies pods by their tokens,
    in a cluster.
    """

    tokens: BearerTokens = field(default_factory=BearerTokens)
    read_policy: ReadPolicy = field(default_factory=ReadPolicy)
    pod_identities: PodIdentities | None = None
    one_time_identities: PodIdentities | None = None
    """Identifies pods by one-time tokens, also if writes need no token."""

    async def authorize(self, permission: Permission, request: web.Request, route: str = "") -> None:
        """Authorize a request, and attach its identity. Raises SidelightError if denied."""
        authorization = request.headers.get("Authorization", "")
        if permission is Permission.WRITE or is_connect(route) or route in RENDER_PATHS:
            authorization = to_bearer(authorization)
        if permission is Permission.WRITE:
            request[_WRITER_KEY] = await self.identify_writer(authorization)
        elif permission is not Permission.OPEN:
            request[_PRINCIPAL_KEY] = self._identify_principal(permission, request, authorization)

    async def identify_writer(self, authorization: str) -> WriterIdentity | None:
        """Return the pod that sends; None if the sender may write any labels.

        Raises SidelightError if denied.
        """
        token = parse_bearer(authorization)
        # No identity has a token that is not ASCII, and its bytes may not even be UTF-8.
        if self.one_time_identities is not None and token.isascii() and token.startswith(ONE_TIME_PREFIX):
            return await self.one_time_identities.identify(token)
        if self.tokens.is_allowed(Permission.WRITE, authorization):
            return None
        if self.pod_identities is not None and token and token.isascii():
            return await self.pod_identities.identify(token)
        raise self._build_denial(Permission.WRITE)

    def _identify_principal(
        self, permission: Permission, request: web.Request, authorization: str
    ) -> Principal:
        tokens = self.tokens.tokens_for(permission)
        token = self.tokens.find_token(permission, authorization)
        if token is not None:
            return self.read_policy.principal_from_token(self.tokens.token_names.get(token, ""))
        user = self.read_policy.parse_proxy_headers(request.remote or "", request.headers)
        if user:
            if permission is Permission.CAPTURE:
                self.read_policy.proxy.check_capture(*user)
            return self.read_policy.principal_from_proxy(*user)
        if tokens is None:
            return self.read_policy.principal_from_token("")
        raise self._build_denial(permission, request)

    def _build_denial(self, permission: Permission, request: web.Request | None = None) -> SidelightError:
        if (
            permission is Permission.CAPTURE
            and self.tokens.capture == ()
            and not self.read_policy.proxy.user_header
        ):
            return SidelightError(
                "nobody may start captures or write notes here: anybody who reaches this address could",
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
_PRINCIPAL_USED_KEY: Final = web.RequestKey("requested the reader", bool)
_WRITER_KEY: Final = web.RequestKey("writer", object)


def get_principal(request: web.Request) -> Principal:
    """Return the user who reads.

    The caller must limit its response to what the user may read; see `check_principal_used`.
    """
    request[_PRINCIPAL_USED_KEY] = True
    return request[_PRINCIPAL_KEY]


def get_writer(request: web.Request) -> WriterIdentity | None:
    """Return the pod that sends; None if the sender may write any labels.

    That is a sender with a token of the tokens file, or any sender if writes need no token.
    """
    writer = request[_WRITER_KEY]
    return writer if isinstance(writer, WriterIdentity) else None


def check_principal_used(request: web.Request) -> None:
    """Raise SidelightError if a handler ignored the namespaces that the user may read.

    Its response may contain all namespaces, and is not sent. A handler whose responses are independent of
    namespaces must call `get_principal` too.
    """
    principal = request.get(_PRINCIPAL_KEY)
    if principal is not None and principal.namespaces is not None and not request.get(_PRINCIPAL_USED_KEY):
        raise SidelightError(
            "this path knows nothing of namespaces, and is not for who may read only some",
            reason=Reason.FORBIDDEN,
            hint="This is a defect: report it with the path.",
        )


def is_connect(route: str) -> bool:
    """Whether the clients of a route speak the Connect protocol."""
    return route in (PUSH_PATH, CONNECT_ROUTE) or route.startswith(QUERIER_PREFIX)


_FILE_PATHS: Final = ("/api/v1/files/flamegraph", "/api/v1/files/compare")


def required_permission(method: str, route: str) -> Permission:
    """Return the permission that a request with this method needs for a route.

    Pages, probes and the collector's own metrics are open; metrics from profiles need READ. Clients of
    Pyroscope and OTLP need WRITE to send, and READ to query. Below /api/, GET needs READ and other methods
    need WRITE. Users start and end captures, so POST, PATCH and DELETE of captures, deploys and notes need
    CAPTURE; sidecars PUT results with WRITE. A link reveals a query of a user, so links need READ, also to
    create one. Files are not stored, so they need READ. Tools for agents need READ; each request that they
    send is checked by itself.
    """
    if route.startswith("/l/") or route in ("/api/v1/links", "/mcp", PROFILE_METRICS_PATH, *_FILE_PATHS):
        return Permission.READ
    if route in (*PYROSCOPE_PATHS, OTLP_PATH):
        return Permission.WRITE
    if route in RENDER_PATHS or is_connect(route):
        return Permission.READ
    if not route.startswith("/api/"):
        return Permission.OPEN
    is_of_users = route.startswith(("/api/v1/captures", "/api/v1/deploys", "/api/v1/notes"))
    if is_of_users and method in ("POST", "PATCH", "DELETE"):
        return Permission.CAPTURE
    return Permission.READ if method in ("GET", "HEAD", "OPTIONS") else Permission.WRITE


def read_tokens(path: Path | None) -> tuple[str, ...] | None:
    """Read the tokens of a file, one per line, without blank lines and # comments."""
    named_tokens = read_named_tokens(path)
    return None if named_tokens is None else tuple(named_tokens)


def read_named_tokens(path: Path | None) -> dict[str, str] | None:
    """Read tokens with their names: a line is a token, or a name, a blank and a token.

    Raises BadSetting.
    """
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


def build_middlewares(
    metrics: Metrics, authorizer: Authorizer, prefix: str, origin_policy: OriginPolicy
) -> Sequence[Middleware]:
    """Build the middlewares of the application, outermost first."""

    @web.middleware
    async def measure_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        start = time.perf_counter()
        status = 499  # nginx's status for a client that closed the connection
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
            return count_and_refuse(request, error)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            hint = f"Use one of: {allowed}."
            response = count_and_refuse(
                request, MethodNotAllowed(f"{request.method} is not for {request.path}", hint=hint)
            )
            response.headers["Allow"] = allowed
            return response
        except web.HTTPNotFound:
            hint = f"The API is described at {prefix}/api/v1/openapi.json."
            return count_and_refuse(request, NotFound(f"there is nothing at {request.path}", hint=hint))
        except web.HTTPRedirection:
            raise
        except web.HTTPException as error:
            reason = _REASON_BY_STATUS.get(error.status, Reason.INTERNAL)
            refusal = SidelightError(error.text or error.reason, reason=reason)
            return count_and_refuse(request, refusal, error.status)
        except Exception:  # noqa: BLE001
            _log.exception("request failed", method=request.method, path=request.path)
            return count_and_refuse(
                request, SidelightError("the collector failed to answer", hint="Its log says why.")
            )

    @web.middleware
    async def authorize_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin_policy.check(request.method, request.headers)
        route = _route_name(request).removeprefix(prefix)
        await authorizer.authorize(required_permission(request.method, route), request, route)
        response = await handler(request)
        check_principal_used(request)
        return response

    def count_and_refuse(
        request: web.Request, error: SidelightError, status: int | None = None
    ) -> web.Response:
        metrics.refusals.labels(error.reason).inc()
        route = _route_name(request).removeprefix(prefix)
        response = build_error_response(error, status, with_code=is_connect(route))
        if route == OTLP_PATH and request.content_type.lower() == PROTOBUF_TYPE:
            response.body = encode_status(response.status, f"{shorten_message(error.message)}. {error.hint}")
            response.headers["Content-Type"] = PROTOBUF_TYPE
        return response

    return [measure_request, handle_errors, authorize_request]


def build_error_response(
    error: SidelightError, status: int | None = None, *, with_code: bool = False
) -> web.Response:
    """Build the response for an error: status, JSON body and headers.

    With `with_code`, the body has the error code of the Connect protocol too, and the hint in its message.
    """
    status = status or HTTP_STATUS.get(error.reason, 400)
    body = {"error": error.reason.value, "message": shorten_message(error.message), "hint": error.hint}
    if with_code:
        body["code"] = CONNECT_CODES.get(status, "invalid_argument")
        body["message"] = f"{body['message']}. {error.hint}"
    response = web.Response(
        status=status,
        # A message may quote control characters, and lone surrogates, which are not valid UTF-8.
        body=escape_json(json.dumps(body, ensure_ascii=False)).encode(),
        content_type="application/json",
        charset="utf-8",
    )
    if seconds := choose_retry_seconds(error):
        response.headers["Retry-After"] = str(seconds)
    if error.reason is Reason.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="sidelight"'
    if error.reason is Reason.BAD_ENCODING:
        response.headers["Accept-Encoding"] = "zstd, gzip, identity"
    return response


def choose_retry_seconds(error: SidelightError) -> int:
    """Choose the seconds until a client may try again, at random; 0: never."""
    # Clients that were refused together must not all return in the same second.
    seconds = error.retry_after_seconds or RETRY_AFTER_SECONDS.get(error.reason, 0)
    return random.randint(seconds, 2 * seconds)


def shorten_message(message: str) -> str:
    """Cut the middle out of a long message."""
    half = MAX_MESSAGE_CHARACTERS // 2
    return message if len(message) <= 2 * half else f"{message[:half]} … {message[-half:]}"


_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_REASON_BY_STATUS: Final = {413: Reason.TOO_LARGE, 415: Reason.UNSUPPORTED_TYPE, 400: Reason.BAD_PARAMETER}


def _route_name(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return "none" if resource is None else resource.canonical
