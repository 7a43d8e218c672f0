"""Slow and many clients of a guarded server: real sockets, both event loops, with and without TLS."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import uvloop
from aiohttp import web

from sidelight.connection_guard import PROBE_RESERVE, ConnectionGuard, ConnectionLimits
from sidelight.connection_listener import accept_connections, open_listeners
from sidelight.connection_phases import CloseReason, ConnectionTimeouts
from sidelight_injector.certificates.certificates import CertificatePolicy, make_authority, make_leaf
from sidelight_model.errors import SidelightError

LONG = 60.0
PATIENT = ConnectionTimeouts(LONG, LONG, LONG, LONG, LONG)
LARGE_BYTES = 32 << 20
HANGS_SECONDS = 90.0
"""How long a scenario may take on a crowded machine; none waits for it."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    policy = CertificatePolicy(("127.0.0.1",), day, 3 * day, day)
    leaf = make_leaf(make_authority(now, policy.authority_lifetime), now, policy)
    pair = tmp_path_factory.mktemp("tls") / "pair.pem"
    pair.write_text(f"{leaf.key}\n{leaf.certificate}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    return context


@dataclass
class Client:
    """One connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, text: str) -> None:
        self.writer.write(text.encode())
        await self.writer.drain()

    async def ask(self, text: str) -> tuple[int, str]:
        """Send a request, or the rest of it; return the status and the whole answer."""
        await self.send(text)
        return await self.answer()

    async def answer(self) -> tuple[int, str]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        size = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        return int(head.split()[1]), head + (await self.reader.readexactly(size)).decode()

    async def is_closed(self) -> bool:
        """Wait for the end of the connection."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


@dataclass
class Server:
    """A guarded server on a free port, and why it closed connections."""

    port: int = 0
    tls: ssl.SSLContext | None = None
    closed: list[CloseReason] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    busy: int = 0
    clients: list[Client] = field(default_factory=list)

    async def connect(self, *, handshake: bool = True) -> Client:
        context = None
        if self.tls and handshake:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port, ssl=context)))
        return self.clients[-1]

    async def fill(self, count: int) -> list[Client]:
        """Connections whose requests are all in progress."""
        clients = [await self.connect() for _ in range(count)]
        for client in clients:
            await client.send(get("/work"))
        while self.busy < count:
            await asyncio.sleep(0.01)
        return clients


Scenario = Callable[[Server], Awaitable[None]]


def get(path: str, headers: str = "") -> str:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"


def post(path: str, size: int) -> str:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"


@asynccontextmanager
async def serving(limits: ConnectionLimits, context: ssl.SSLContext | None) -> AsyncIterator[Server]:
    server = Server(tls=context)

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def work(_: web.Request) -> web.Response:
        server.busy += 1
        await server.release.wait()
        return web.Response(text="done")

    async def count(request: web.Request) -> web.Response:
        try:
            return web.Response(text=str(len(await request.read())))
        except SidelightError as error:
            return web.Response(status=408, text=error.message)

    async def large(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(LARGE_BYTES)})
        await response.prepare(request)
        for _ in range(LARGE_BYTES >> 20):
            await response.write(bytes(1 << 20))
        return response

    app = web.Application(client_max_size=1 << 30)
    app.add_routes([web.get("/livez", livez), web.get("/work", work)])
    app.add_routes([web.post("/count", count), web.get("/large", large)])
    guard = ConnectionGuard(limits, server.closed.append)
    guard.protect(app)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await accept_connections(guard, runner, open_listeners("127.0.0.1", 0), context)
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        server.release.set()
        for client in server.clients:
            client.writer.transport.abort()
        await runner.cleanup()
    while len(guard.table):
        await asyncio.sleep(0.01)


@pytest.fixture(params=["asyncio", "uvloop with TLS"])
def play(request: pytest.FixtureRequest, tls: ssl.SSLContext) -> Callable[[ConnectionLimits, Scenario], None]:
    """Plays a scenario on a server with these limits, on one of the event loops."""

    async def run(limits: ConnectionLimits, scenario: Scenario) -> None:
        async with (
            asyncio.timeout(HANGS_SECONDS),
            serving(limits, tls if "TLS" in request.param else None) as server,
        ):
            await scenario(server)

    def play_scenario(limits: ConnectionLimits, scenario: Scenario) -> None:
        loop = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(run(limits, scenario))

    return play_scenario


def timeouts(**short: float) -> ConnectionLimits:
    values = dict.fromkeys(("header", "body_pause", "whole_body", "response_pause", "idle"), LONG) | short
    return ConnectionLimits(100, ConnectionTimeouts(**{f"{name}_seconds": s for name, s in values.items()}))


Play = Callable[[ConnectionLimits, Scenario], None]


def test_a_head_that_is_never_complete_ends_its_connection(play: Play) -> None:
    async def scenario(server: Server) -> None:
        silent = await server.connect(handshake=False)
        half = await server.connect()
        await half.send(get("/livez")[:-2] + "X-A: ")
        finished = await server.connect()
        await finished.send(get("/work")[:-4])
        await finished.send(get("/work")[-4:])
        assert await silent.is_closed()
        assert await half.is_closed()
        server.release.set()
        assert (await finished.answer())[0] == 200
        assert server.closed == [CloseReason.HEADER_TIMEOUT] * 2

    play(timeouts(header=0.5), scenario)


def test_a_connection_without_requests_is_closed_and_one_with_requests_is_not(play: Play) -> None:
    async def scenario(server: Server) -> None:
        client = await server.connect()
        for _ in range(3):
            assert (await client.ask(get("/livez")))[0] == 200
        assert await client.is_closed()
        assert server.closed == [CloseReason.IDLE]

    play(timeouts(idle=0.3), scenario)


def test_a_body_that_pauses_is_answered_with_408(play: Play) -> None:
    async def scenario(server: Server) -> None:
        client = await server.connect()
        status, text = await client.ask(post("/count", 100) + "half")
        assert (status, "did not arrive in time" in text) == (408, True)
        assert await client.is_closed()
        assert server.closed == [CloseReason.BODY_TIMEOUT]

    play(timeouts(body_pause=0.3), scenario)


def test_a_body_that_trickles_for_ever_is_answered_with_408(play: Play) -> None:
    async def scenario(server: Server) -> None:
        client = await server.connect()
        await client.send(post("/count", 1 << 20))
        answer = asyncio.create_task(client.answer())
        while not answer.done():
            client.writer.write(b"x")
            await asyncio.sleep(0.02)
        assert (await answer)[0] == 408
        assert server.closed == [CloseReason.BODY_TIMEOUT]

    play(timeouts(body_pause=5.0, whole_body=0.5), scenario)


def test_a_slow_body_arrives_and_the_connection_takes_another_request(play: Play) -> None:
    async def scenario(server: Server) -> None:
        client = await server.connect()
        await client.send(post("/count", 10))
        for _ in range(9):
            await client.send("x")
            await asyncio.sleep(0.02)
        status, text = await client.ask("x")
        assert (status, text[-2:]) == (200, "10")
        assert (await client.ask(get("/livez")))[0] == 200
        assert server.closed == []

    play(timeouts(body_pause=10.0, whole_body=20.0), scenario)


def test_a_client_that_does_not_read_its_response_is_closed(play: Play) -> None:
    async def scenario(server: Server) -> None:
        stalled = await server.connect()
        stalled.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await stalled.send(get("/large"))
        reading = await server.connect()
        await reading.send(get("/large"))
        await reading.reader.readuntil(b"\r\n\r\n")
        assert len(await reading.reader.readexactly(LARGE_BYTES)) == LARGE_BYTES
        while not server.closed:
            await asyncio.sleep(0.02)
        assert server.closed == [CloseReason.RESPONSE_TIMEOUT]

    play(timeouts(response_pause=2.0), scenario)


def test_a_new_client_takes_the_place_of_the_one_that_waited_longest(play: Play) -> None:
    async def scenario(server: Server) -> None:
        oldest, younger = await server.connect(), await server.connect()
        for client in oldest, younger:
            assert (await client.ask(get("/livez")))[0] == 200
        await asyncio.sleep(0.3)  # the age from which a connection may be closed
        new = await server.connect()
        assert (await new.ask(get("/livez")))[0] == 200
        assert await oldest.is_closed()
        assert (await younger.ask(get("/livez")))[0] == 200
        assert server.closed == [CloseReason.LIMIT]

    play(ConnectionLimits(2, PATIENT), scenario)


def test_probes_are_answered_while_all_connections_have_requests_in_progress(play: Play) -> None:
    async def scenario(server: Server) -> None:
        busy = await server.fill(2)
        for _ in range(3):
            probe = await server.connect()
            assert (await probe.ask(get("/livez")))[0] == 200
        refused = await server.connect()
        status, text = await refused.ask(get("/work"))
        assert (status, "Retry-After: " in text, '"overloaded"' in text) == (503, True, True)
        assert await refused.is_closed()
        assert set(server.closed) == {CloseReason.LIMIT}
        server.release.set()
        assert [(await client.answer())[0] for client in busy] == [200, 200]
        late = await server.connect()
        assert (await late.ask(get("/work")))[0] == 200

    play(ConnectionLimits(2, PATIENT), scenario)


def test_half_open_connections_do_not_take_the_reserve_from_probes(play: Play) -> None:
    async def scenario(server: Server) -> None:
        busy = await server.fill(2)
        for _ in range(3 * PROBE_RESERVE):
            await server.connect(handshake=False)
        probe = await server.connect()
        assert (await probe.ask(get("/livez")))[0] == 200
        server.release.set()
        assert [(await client.answer())[0] for client in busy] == [200, 200]

    play(ConnectionLimits(2, PATIENT), scenario)


def test_large_heads_do_not_fill_the_memory(play: Play) -> None:
    async def scenario(server: Server) -> None:
        large, small = await server.connect(), await server.connect()
        await small.send(get("/livez")[:-2])
        for number in range(8):
            await large.send(f"X-{number}: {'x' * 8000}\r\n" if number else get("/livez")[:-2])
        assert await large.is_closed()
        assert (await small.ask("\r\n"))[0] == 200
        assert server.closed == [CloseReason.LIMIT]

    play(ConnectionLimits(100, PATIENT, max_head_bytes=30_000), scenario)


def test_a_port_is_the_same_on_every_address_of_a_host() -> None:
    listeners = open_listeners("localhost", 0)
    assert len({listener.getsockname()[1] for listener in listeners}) == 1
    for listener in listeners:
        listener.close()
