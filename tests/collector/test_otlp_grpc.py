"""OpenTelemetry profiles over gRPC, from gRPC's own client to a whole collector."""

from __future__ import annotations

import asyncio
import queue
import shutil
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
    ExportProfilesServiceResponse,
)

from sidelight.settings import BadSetting
from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.ingest.otlp.otlp_grpc import METHOD, SERVICE, STATUS_DETAILS
from sidelight_collector.settings import otlp
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.backends.memory import MemoryStore
from tests.cluster.pki import Authority
from tests.collector.conftest import Serve
from tests.collector.fake_sidecars import until
from tests.collector.otlp_bodies import Request
from tests.collector.processes import SECONDS, Process, metric, wait_for_event
from tests.collector.test_otlp_ingest import OLD_SDK_REQUEST, request
from tests.collector.test_pyroscope_ingest import stored
from tests.processes import eventually, free_port

PATH = f"/{SERVICE}/{METHOD}"
MIB = 1 << 20


def export(
    port: int, message: bytes, *metadata: tuple[str, str], path: str = PATH, **options: Any
) -> tuple[str, str, ExportProfilesServiceResponse]:
    """Send a message; return the name of the status code, its text, and the response."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(path, response_deserializer=ExportProfilesServiceResponse.FromString)
        try:
            response = call(message, metadata=metadata, timeout=SECONDS, wait_for_ready=True, **options)
        except grpc.RpcError as error:
            return error.code().name, error.details() or "", ExportProfilesServiceResponse()
        return "OK", "", response


class Messages:
    """The messages of a call that is open until one is sent."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def send(self, message: bytes) -> None:
        self._queue.put(message)
        self._queue.put(None)

    def __enter__(self) -> Messages:
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)

    def __iter__(self) -> Iterator[bytes]:
        while (message := self._queue.get()) is not None:
            yield message


def encoded() -> bytes:
    return bytes(request().message.SerializeToString())


async def test_profiles_are_stored_once_whatever_their_compression(serving: Serve) -> None:
    store, port, message = MemoryStore(), free_port(), encoded()
    async with serving(store, otlp_grpc_listen=f"127.0.0.1:{port}") as collector:
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            answer = await asyncio.to_thread(export, port, message, compression=compression)
            assert answer == ("OK", "", ExportProfilesServiceResponse())
        assert await collector.metric('sidelight_otlp_grpc_requests_total{code="OK"}') == 2
        assert await collector.metric("sidelight_windows_duplicate_total") == 1
        assert await collector.metric("sidelight_otlp_timestamps_ignored_total") == 6
        code, _, _ = await asyncio.to_thread(export, port, message, path=f"/{SERVICE}/Other")
        assert code == "UNIMPLEMENTED"
    [window] = stored(store)
    assert sum(window["stacks"].values()) == 10


async def test_writers_need_their_token_and_values_other_than_time_are_rejected(serving: Serve) -> None:
    store, port = MemoryStore(), free_port()
    built = Request()
    built.sample(built.profile(("memory", "bytes"), ("space", "bytes")), "main", [5])
    tokens = BearerTokens(write=("writer",))
    async with serving(store, tokens, otlp_grpc_listen=f"127.0.0.1:{port}") as collector:
        for sent, code in (
            ((), "UNAUTHENTICATED"),
            (("Bearer other",), "UNAUTHENTICATED"),
            (("Bearer writer",), "OK"),
        ):
            metadata = [("authorization", value) for value in sent]
            name, text, _ = await asyncio.to_thread(export, port, encoded(), *metadata)
            assert name == code, text
        assert await collector.metric('sidelight_refusals_total{reason="unauthorized"}') == 2
        authorized = ("authorization", "Bearer writer")
        message = built.message.SerializeToString()
        name, _, response = await asyncio.to_thread(export, port, message, authorized)
        assert (name, response.partial_success.rejected_profiles) == ("OK", 1)
        assert "memory" in response.partial_success.error_message
    assert len(stored(store)) == 1


async def test_other_layouts_versions_and_sizes_are_refused_before_anything_is_stored(serving: Serve) -> None:
    store, port = MemoryStore(), free_port()
    large = ExportProfilesServiceRequest()
    large.dictionary.string_table.extend(["", "x" * 2 * MIB])
    limits = {"otlp_grpc_max_message_bytes": MIB, "otlp_grpc_listen": f"127.0.0.1:{port}"}
    async with serving(store, **limits) as collector:
        for message, metadata, compression, code, part in (
            (OLD_SDK_REQUEST.read_bytes(), (), None, "INVALID_ARGUMENT", "a number is expected"),
            (b"\xff\xff", (), None, "INVALID_ARGUMENT", ""),
            (encoded(), (("otlp-profiles-development-version", "2"),), None, "INVALID_ARGUMENT", "version 1"),
            (large.SerializeToString(), (), None, "RESOURCE_EXHAUSTED", "larger than max"),
            (large.SerializeToString(), (), grpc.Compression.Gzip, "RESOURCE_EXHAUSTED", "larger than max"),
        ):
            answer = await asyncio.to_thread(export, port, message, *metadata, compression=compression)
            assert answer[0] == code, answer
            assert part in answer[1]
        assert (await asyncio.to_thread(export, port, encoded()))[0] == "OK"
        assert await collector.metric('sidelight_refusals_total{reason="internal"}') == 0
    assert len(stored(store)) == 1


async def test_calls_beyond_the_memory_are_told_when_to_retry(serving: Serve) -> None:
    port, size = free_port(), MIB
    limits = {
        "max_body_bytes": size,
        "max_pending_bytes": size,
        "otlp_grpc_max_message_bytes": size,
        "otlp_grpc_listen": f"127.0.0.1:{port}",
    }
    async with serving(MemoryStore(), **limits) as collector:
        with closing(grpc.insecure_channel(f"127.0.0.1:{port}")) as channel, Messages() as messages:
            # This call has its memory, and sends nothing yet.
            pending = channel.stream_unary(PATH).future(iter(messages), timeout=SECONDS)

            async def is_received() -> bool:
                return await collector.metric("sidelight_ingest_pending_bytes") > 0

            await until("the call is received", is_received)
            with pytest.raises(grpc.RpcError) as refusal:
                await asyncio.to_thread(channel.unary_unary(PATH), encoded(), timeout=SECONDS)
            assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert b"google.rpc.RetryInfo" in dict(refusal.value.trailing_metadata())[STATUS_DETAILS]
            assert await collector.metric('sidelight_refusals_total{reason="overloaded"}') == 1
            messages.send(encoded())
            assert await asyncio.to_thread(pending.result) == b""
            assert (await asyncio.to_thread(export, port, encoded()))[0] == "OK"


async def test_a_renewed_certificate_is_served_to_new_connections(serving: Serve, tmp_path: Path) -> None:
    authority, port = Authority(tmp_path / "pki"), free_port()
    certificates = [authority.server(name, ("localhost",)) for name in ("first", "second")]
    served = tmp_path / "tls.crt", tmp_path / "tls.key"

    def put(certificate: Path) -> None:
        for source, target in zip((certificate.with_suffix(".key"), certificate), served[::-1], strict=True):
            shutil.copy(source, target)

    def read_served() -> bytes:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        context.set_alpn_protocols(["h2"])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            return secure.getpeercert(binary_form=True) or b""

    put(certificates[0])
    settings = {
        "tls_cert_file": served[0],
        "tls_key_file": served[1],
        "tls_check_interval_seconds": 0.05,
        "otlp_grpc_listen": f"127.0.0.1:{port}",
    }
    async with serving(MemoryStore(), **settings):
        trusted = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
        with closing(grpc.secure_channel(f"localhost:{port}", trusted)) as channel:
            call = channel.unary_unary(PATH)
            assert await asyncio.to_thread(call, encoded(), timeout=SECONDS) == b""
            before = await asyncio.to_thread(read_served)
            put(certificates[1])

            async def is_renewed() -> bool:
                return await asyncio.to_thread(read_served) != before

            await until("the new certificate is served", is_renewed)
            assert await asyncio.to_thread(call, encoded(), timeout=SECONDS) == b""


def test_a_call_in_progress_at_the_end_of_a_collector_is_told_to_retry(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    port = free_port()
    collector = start(str(tmp_path / "store"), "--otlp-grpc-listen", f"127.0.0.1:{port}")
    http_port = collector.port()
    with closing(grpc.insecure_channel(f"127.0.0.1:{port}")) as channel, Messages() as messages:
        pending = channel.stream_unary(PATH).future(iter(messages), timeout=SECONDS)
        eventually("the call is received", lambda: metric(http_port, "sidelight_ingest_pending_bytes") > 0)
        collector.process.send_signal(signal.SIGTERM)
        wait_for_event(collector, "stopping")
        messages.send(encoded())
        error = pending.exception(timeout=SECONDS)
    assert isinstance(error, grpc.RpcError)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert b"google.rpc.RetryInfo" in dict(error.trailing_metadata())[STATUS_DETAILS]
    assert collector.process.wait(SECONDS) == 0


def test_without_the_package_the_error_has_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp, "find_spec", lambda _: None)
    with pytest.raises(BadSetting) as failure:
        Settings(store="given", otlp_grpc_listen="127.0.0.1:4317")
    assert "pip install 'sidelight-collector[grpc]'" in failure.value.hint


def test_an_address_that_everybody_reaches_needs_writers() -> None:
    with pytest.raises(BadSetting, match=r"anybody who reaches 0\.0\.0\.0 could write profiles over gRPC"):
        Settings(store="given", otlp_grpc_listen="0.0.0.0:4317")
    with pytest.raises(ValueError, match="otlp_grpc_max_message_bytes"):
        Settings(store="given", otlp_grpc_listen="127.0.0.1:4317", otlp_grpc_max_message_bytes=0)
    Settings(store="given", otlp_grpc_listen="0.0.0.0:4317", allow_anonymous_writes=True)
