"""The collector's side of captures for tests: real HTTP, orders given out, reports and recordings kept."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import zstandard

from sidelight_model.window import decode_windows
from tests.loopback_server import LoopbackHandler, serving
from tests.sidecar.fake_collector import FakeCollector, Reply


class OrderingCollector(FakeCollector):
    """Gives an order out until a report names it; `refuse` answers questions, `puts` recordings."""

    def __init__(self) -> None:
        super().__init__()
        self.polls: list[dict[str, Any]] = []
        self.orders: dict[str, dict[str, Any]] = {}
        self.stops: list[str] = []
        self.reports: dict[str, list[dict[str, Any]]] = {}
        self.recordings: dict[str, dict[str, Any]] = {}
        self.sizes: dict[str, int] = {}
        self.tries: list[str] = []
        self.refuse: Reply | None = None
        self.puts: list[Reply] = []
        self.waiting = 0
        self.changed = threading.Condition()

    def order(self, capture: str, /, **fields: object) -> None:
        with self.changed:
            self.orders[capture] = {"capture": capture, "seconds": 1, "rate": 100, "mode": "auto", "pids": []}
            self.orders[capture] |= fields
            self.changed.notify_all()

    def forget(self) -> None:
        """Be as it was before the first order; what was asked last stands."""
        with self.changed:
            for kept in (self.orders, self.stops, self.reports, self.recordings, self.sizes, self.tries):
                kept.clear()
            self.puts = []
            self.windows.clear()
            del self.polls[:-1]

    def state(self, capture: str) -> str:
        """What was said last of a capture."""
        return str(self.last(capture).get("state", ""))

    def last(self, capture: str) -> dict[str, Any]:
        return self.reports.get(capture, [{}])[-1]

    def poll(self, asked: dict[str, Any]) -> Reply:
        with self.changed:
            self.polls.append(asked)
            if self.refuse is not None:
                return self.refuse
            for report in asked["reports"]:
                self.reports.setdefault(report["capture"], []).append(report)
            deadline = time.monotonic() + float(asked["timeout_seconds"])
            while not self.open(asked) and (left := deadline - time.monotonic()) > 0:
                self.waiting += 1
                self.changed.wait(left)
                self.waiting -= 1
            return Reply(200, {"capture_jobs": self.open(asked), "stop_captures": list(self.stops)})

    def open(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        return [order for capture, order in self.orders.items() if capture not in self.reports]

    def put(self, path: str, body: bytes) -> Reply:
        self.tries.append(path)
        if self.puts:
            return self.puts.pop(0)
        name = path.removeprefix("/api/v1/captures/")
        self.sizes[name] = len(body)
        self.recordings[name] = json.loads(zstandard.ZstdDecompressor().decompress(body))
        return Reply(200)


@contextmanager
def ordering(port: int = 0, collector: OrderingCollector | None = None) -> Iterator[OrderingCollector]:
    """An OrderingCollector that listens on loopback."""
    collector = collector or OrderingCollector()

    class Handler(LoopbackHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw, token = self.read_body(), self.headers.get("Authorization", "")
            if self.path == "/api/v1/agents/poll":
                self.reply(collector.poll(json.loads(raw)))
                return
            assert self.path == "/api/v1/windows"
            body = zstandard.ZstdDecompressor().decompress(raw)
            assert decode_windows(body)
            self.reply(collector.answer(body, token))

        def do_PUT(self) -> None:
            raw = self.read_body()
            assert (self.headers["Content-Encoding"], self.headers["Content-Type"]) == (
                "zstd",
                "application/json",
            )
            self.reply(collector.put(self.path, raw))

        def reply(self, reply: Reply) -> None:
            self.answer(reply.status, json.dumps(reply.told).encode(), reply.headers)

    with serving(Handler, port) as listening:
        collector.url = f"http://127.0.0.1:{listening}"
        yield collector
