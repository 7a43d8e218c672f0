"""A small collector for the sidecar's side of the contract: real HTTP, windows read and remembered."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import zstandard

from sidelight_model.window import Window, decode_windows
from tests.loopback_server import LoopbackHandler, serving


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

    class Handler(LoopbackHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.read_body()
            if self.path == "/api/v1/agents/poll":
                # As a collector that knows no captures.
                reply = Reply(404, {"error": "not_found", "message": "there is no such path"})
            else:
                assert self.path == "/api/v1/windows"
                assert self.headers["Content-Encoding"] == "zstd"
                reply = collector.answer(
                    zstandard.ZstdDecompressor().decompress(raw), self.headers.get("Authorization", "")
                )
            self.answer(reply.status, json.dumps(reply.told).encode(), reply.headers)

    with serving(Handler, port, tls) as listening:
        collector.url = f"{'https' if tls else 'http'}://127.0.0.1:{listening}"
        yield collector
