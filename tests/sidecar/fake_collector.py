"""A small collector for the sidecar's side of the contract: real HTTP, windows read and remembered."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import zstandard

from sidelight_model.window import Window, decode_windows


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: status, headers and JSON."""

    status: int
    told: dict[str, object] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


Decide = Callable[[list[Window]], Reply | None]


class FakeCollector:
    """Takes every window, unless `decide` answers otherwise; knows each id it has taken."""

    def __init__(self) -> None:
        self.windows: dict[str, Window] = {}
        self.requests: list[list[str]] = []
        self.tokens: list[str] = []
        self.decide: Decide = lambda windows: None
        self.url = ""
        self._mutex = threading.Lock()

    def answer(self, body: bytes, token: str) -> Reply:
        windows = decode_windows(body)
        with self._mutex:
            self.requests.append([window.id for window in windows])
            self.tokens.append(token)
            reply = self.decide(windows)
            if reply is not None:
                return reply
            accepted = [window.id for window in windows if window.id not in self.windows]
            duplicates = [window.id for window in windows if window.id in self.windows]
            self.windows |= {window.id: window for window in windows}
            return Reply(200, {"accepted": accepted, "duplicates": duplicates})

    @property
    def taken(self) -> list[Window]:
        with self._mutex:
            return sorted(self.windows.values(), key=lambda window: (window.start_ns, window.id))


@contextmanager
def collecting(port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[FakeCollector]:
    """A FakeCollector that listens on loopback."""
    collector = FakeCollector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/api/v1/agents/poll":
                # As a collector that knows no captures.
                reply = Reply(404, {"error": "not_found", "message": "there is no such path"})
            else:
                assert self.path == "/api/v1/windows"
                assert self.headers["Content-Encoding"] == "zstd"
                reply = collector.answer(
                    zstandard.ZstdDecompressor().decompress(raw), self.headers.get("Authorization", "")
                )
            content = json.dumps(reply.told).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own word
            return

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    collector.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
