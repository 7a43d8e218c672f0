"""OTLP over gRPC, on a port of its own.

The method is registered with generic handlers, so that no generated code is needed: messages stay bytes, and
have the parser of OTLP over HTTP. The handler takes a stream of requests, which is the same for clients: a
unary call is a stream of one message. A client is therefore authorized before its message is received.

The package `grpc` is imported when the server starts, because it is an optional dependency.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from sidelight_collector.auth.authorizer import (
    HTTP_STATUS,
    Authorizer,
    choose_retry_seconds,
    shorten_message,
    to_bearer,
)
from sidelight_collector.auth.otlp_errors import encode_status, get_status_code
from sidelight_collector.decompress import build_too_large_error
from sidelight_collector.ingest.handler import ReceiveTimeout, Upload
from sidelight_collector.ingest.memory_budget import MemoryBudget, Reservation
from sidelight_collector.ingest.otlp.otlp_dictionary import OtherLayout
from sidelight_collector.ingest.otlp.otlp_handler import VERSION_HEADER, OtlpHandler, check_version
from sidelight_collector.metrics import Metrics
from sidelight_model.errors import Reason, SidelightError

SERVICE: Final = "opentelemetry.proto.collector.profiles.v1development.ProfilesService"
METHOD: Final = "Export"
STATUS_DETAILS: Final = "grpc-status-details-bin"
"""The trailer with an encoded `google.rpc.Status`."""
MAX_STREAMS: Final = 100
"""Concurrent calls of one connection."""
MAX_IDLE_MS: Final = 620_000
"""Connections without calls are closed after this time."""

_log = structlog.get_logger()
Pair = tuple[str, str]


class OtlpGrpcServer:
    """Receives OpenTelemetry profiles over gRPC, like `OtlpHandler` over HTTP.

    Each call that is being received counts as `max_message_bytes` within `budget`. `read_certificate` returns
    the certificate and key to serve with; without it, the server does not use TLS.
    """

    def __init__(
        self,
        handler: OtlpHandler,
        authorizer: Authorizer,
        budget: MemoryBudget,
        metrics: Metrics,
        *,
        max_message_bytes: int,
        max_receive_seconds: float,
        read_certificate: Callable[[], Pair] | None = None,
    ) -> None:
        self._handler = handler
        self._authorizer = authorizer
        self._budget = budget
        self._metrics = metrics
        self._max_message_bytes = max_message_bytes
        self._max_receive_seconds = max_receive_seconds
        self._read_certificate = read_certificate
        self._server: Any = None

    async def start(self, address: tuple[str, int], *, is_shared: bool = False) -> int:
        """Listen on a host and port, and return the port.

        With `is_shared`, other processes may listen on the port too. Raises SidelightError.
        """
        import grpc

        options = [
            ("grpc.max_receive_message_length", self._max_message_bytes),
            ("grpc.max_concurrent_streams", MAX_STREAMS),
            ("grpc.max_connection_idle_ms", MAX_IDLE_MS),
            ("grpc.so_reuseport", int(is_shared)),
        ]
        server = grpc.aio.server(options=options)
        method = grpc.stream_unary_rpc_method_handler(self._export)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: method}),))
        host, port = address
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._read_certificate is None:
                bound = server.add_insecure_port(place)
            else:
                bound = server.add_secure_port(place, _build_credentials(self._read_certificate))
        except RuntimeError as error:
            raise SidelightError(
                f"cannot listen on {place} for gRPC",
                reason=Reason.PORT_IN_USE,
                hint="Stop what serves there, or choose another --otlp-grpc-listen.",
            ) from error
        await server.start()
        self._server = server
        _log.info("listening for OTLP over gRPC", address=place, port=bound)
        return int(bound)

    async def stop(self, grace_seconds: float) -> None:
        """Refuse new calls, and wait for those in progress."""
        if self._server is not None:
            await self._server.stop(grace_seconds)

    async def _export(self, messages: AsyncIterator[bytes], context: Any) -> bytes:
        """Answer a call once every profile is durable, or abort it with a status."""

        try:
            metadata = _read_metadata(context.invocation_metadata() or ())
            check_version(metadata.get(VERSION_HEADER.lower(), ()))
            authorization = next(iter(metadata.get("authorization", ())), "")
            writer = await self._authorizer.identify_writer(to_bearer(authorization))
            upload = Upload(id(context), writer, is_connected=lambda: not context.done())

            async def receive(reservation: Reservation) -> bytes:
                return await self._receive(messages, reservation)

            answer = await self._handler.export_message(upload, receive)
        except SidelightError as error:
            refusal = error
        except Exception:  # noqa: BLE001 - the root of a call
            _log.exception("request failed", method=f"{SERVICE}/{METHOD}")
            refusal = SidelightError("the collector failed to answer", hint="Its log says why.")
        else:
            self._metrics.otlp_grpc_requests.labels("OK").inc()
            return answer
        await self._abort(context, refusal)
        return b""

    async def _abort(self, context: Any, error: SidelightError) -> None:
        """End a call with the status of an error; clients retry if it has a delay."""
        import grpc

        http_status = HTTP_STATUS.get(error.reason, 400)
        message = f"{shorten_message(error.message)}. {error.hint}"
        details = encode_status(http_status, message, choose_retry_seconds(error))
        number = get_status_code(http_status)
        code = next(code for code in grpc.StatusCode if code.value[0] == number)
        self._metrics.refusals.labels(error.reason).inc()
        self._metrics.otlp_grpc_requests.labels(code.name).inc()
        await context.abort(code, message, ((STATUS_DETAILS, details),))

    async def _receive(self, messages: AsyncIterator[bytes], reservation: Reservation) -> bytes:
        with self._budget.reserve() as receiving:
            receiving.resize(self._max_message_bytes)
            try:
                async with asyncio.timeout(self._max_receive_seconds):
                    message = await anext(aiter(messages), None)
            except TimeoutError as error:
                raise ReceiveTimeout(
                    f"the message did not arrive within {self._max_receive_seconds:g} s",
                    hint="Send less at once, or raise the collector's --max-receive-seconds.",
                ) from error
        if message is None:
            raise OtherLayout("the call has no message")
        if len(message) > self._max_message_bytes:
            raise build_too_large_error(self._max_message_bytes)
        reservation.resize(len(message))
        return message


def _read_metadata(metadata: Sequence[tuple[str, str | bytes]]) -> Mapping[str, Sequence[str]]:
    """Return the texts of metadata by name; binary values are ignored."""
    texts: dict[str, list[str]] = {}
    for name, value in metadata:
        if isinstance(value, str):
            texts.setdefault(name, []).append(value)
    return texts


def _build_credentials(read_certificate: Callable[[], Pair]) -> Any:
    """Build credentials that follow a certificate that changes."""
    import grpc

    current = read_certificate()

    def build(pair: Pair) -> Any:
        certificate, key = pair
        return grpc.ssl_server_certificate_configuration([(key.encode(), certificate.encode())])

    def fetch() -> Any:
        nonlocal current
        if (pair := read_certificate()) == current:
            return None
        current = pair
        return build(pair)

    return grpc.dynamic_ssl_server_credentials(build(current), fetch)
