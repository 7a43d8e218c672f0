"""A proxy in front of a real S3 server that makes requests go wrong as networks and services do."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from urllib.parse import urlsplit

SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)


class Mishap(Enum):
    """What becomes of one request."""

    SLOW_DOWN = "503 SlowDown, and it is not forwarded"
    BROKEN = "500, and it is not forwarded"
    REFUSED = "the connection is closed before it is forwarded"
    UNTOLD = "it is forwarded, and the connection is closed without an answer"
    LATE = "it is forwarded, and the answer comes when nobody waits for it any longer"
    CUT = "half of the answer's body comes, and the connection is closed"
    FLIPPED = "one bit of the answer's body is another"


class FailingProxy:
    """Forwards to `endpoint`; while `mishaps` is not empty one of so many requests has one of them.

    It answers each request after `latency` seconds. With `unconditional` it keeps headers that begin with
    If- to itself, as services do that do not know them.
    """

    def __init__(self, endpoint: str, *, seed: int = 0, unconditional: bool = False) -> None:
        self.mishaps: Sequence[Mishap] = ()
        self.rate = 0.1
        self.latency = 0.0
        self.happened: list[tuple[Mishap, str]] = []
        self.unconditional = unconditional
        self.ended = threading.Event()
        self._to = urlsplit(endpoint)
        self._luck = Random(seed)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def serving(self) -> Iterator[FailingProxy]:
        """Answer in a thread, until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self.ended.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def drawn(self, request: str) -> Mishap | None:
        """What becomes of this request."""
        if not self.mishaps or self._luck.random() >= self.rate:
            return None
        mishap = self._luck.choice(self.mishaps)
        self.happened.append((mishap, request))
        return mishap

    def flipped(self, body: bytes) -> bytes:
        """The same but for one bit."""
        at = self._luck.randrange(len(body))
        return body[:at] + bytes([body[at] ^ (1 << self._luck.randrange(8))]) + body[at + 1 :]

    def forward(
        self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """The server's answer. The Host header is the client's: its signature covers it."""
        connection = http.client.HTTPConnection(str(self._to.hostname), self._to.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


def _handler(proxy: FailingProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:
                self.close_connection = True

        def _any(self) -> None:
            if self.headers.get("Expect", "").lower() == "100-continue":
                self.send_response_only(100)
                self.end_headers()
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if proxy.latency:
                proxy.ended.wait(proxy.latency)
            mishap = proxy.drawn(f"{self.command} {self.path}")
            if mishap is Mishap.SLOW_DOWN:
                return self._answer(503, [("Content-Type", "application/xml")], SLOW_DOWN)
            if mishap is Mishap.BROKEN:
                return self._answer(500, [], b"")
            if mishap is Mishap.REFUSED:
                return self._close()
            kept = [
                (name, value)
                for name, value in self.headers.items()
                if name.lower() != "expect" and not (proxy.unconditional and name.lower().startswith("if-"))
            ]
            status, headers, answer = proxy.forward(self.command, self.path, kept, body)
            if mishap is Mishap.UNTOLD:
                return self._close()
            if mishap is Mishap.LATE:
                proxy.ended.wait(60)
            if mishap is Mishap.FLIPPED and answer and self.command == "GET" and status == 200:
                answer = proxy.flipped(answer)
            return self._answer(status, headers, answer, cut=mishap is Mishap.CUT)

        do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = _any  # noqa: N815

        def _answer(
            self, status: int, headers: Sequence[tuple[str, str]], body: bytes, *, cut: bool = False
        ) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            if status != 204:
                length = {name.lower(): value for name, value in headers}.get("content-length")
                whole = length if self.command == "HEAD" and length else str(len(body))
                self.send_header("Content-Length", whole)
            self.end_headers()
            if self.command != "HEAD" and status != 204:
                self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self._close()

        def _close(self) -> None:
            self.close_connection = True
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    return Handler
