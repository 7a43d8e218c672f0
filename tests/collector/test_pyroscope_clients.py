"""Real clients of Pyroscope against a real collector: nothing lost, nothing twice."""

from __future__ import annotations

import gzip
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from sidelight_model.import_formats.pprof_profile import PprofProfile
from sidelight_model.import_formats.protobuf_wire import iter_fields, read_bytes, read_text
from tests.collector.processes import SECONDS, Process, metric
from tests.processes import eventually

PROGRAM = Path(__file__).with_name("pyroscope_program.py")
TOKEN = "s3cret"


@dataclass
class Recorder:
    """A proxy that keeps the requests of clients and passes them on."""

    port: int
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def forward(self, path: str, headers: dict[str, str], body: bytes) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def repeat(self) -> list[int]:
        """Send every request again, as a client does whose answer was lost."""
        return [self.forward(*request) for request in self.requests]

    def profiles(self) -> Iterator[tuple[str, PprofProfile]]:
        """The metric and the profile of everything that was pushed."""
        for _, headers, body in self.requests:
            unpacked = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
            for _, series in iter_fields(memoryview(unpacked)):
                metric_name = ""
                for number, value in iter_fields(read_bytes(series)):
                    fields = dict(iter_fields(read_bytes(value)))
                    if number == 1 and read_text(fields[1]) == "__name__":
                        metric_name = read_text(fields[2])
                    if number == 2:
                        yield metric_name, PprofProfile(bytes(read_bytes(fields[1])))

    def sum_ns(self) -> int:
        return sum(
            sample.values[0]
            for metric_name, profile in self.profiles()
            if metric_name == "process_cpu"
            for sample in profile.iter_samples()
        )


@pytest.fixture
def record() -> Iterator[Callable[[int], tuple[Recorder, int]]]:
    servers: list[ThreadingHTTPServer] = []

    def begin(port: int) -> tuple[Recorder, int]:
        recorder = Recorder(port)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {
                    name.lower(): value for name, value in self.headers.items() if name.lower() != "host"
                }
                recorder.requests.append((self.path, headers, body))
                status = recorder.forward(self.path, headers, body)
                recorder.statuses.append(status)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return recorder, servers[-1].server_address[1]

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def total_ns(port: int, **query: str) -> int:
    """The CPU time of a service by the collector's own API."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    given = {"query": 'service="shop.checkout"', "type": "cpu", "from": "-1h", **query}
    connection.request("GET", f"/api/v1/flamegraph?{urlencode(given)}")
    answer = json.loads(connection.getresponse().read())
    return round(answer["sides"][0]["seconds"] * 1e9)


@pytest.mark.parametrize("kind", ["memory", "stack"])
def test_what_pyroscope_io_sends_is_counted_once(
    start: Callable[..., Process], record: Callable[[int], tuple[Recorder, int]], tmp_path: Path, kind: str
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    collector = start(str(tmp_path / "store"), "--write-tokens-file", str(tokens)).port()
    recorder, port = record(collector)
    command = [sys.executable, str(PROGRAM), f"http://127.0.0.1:{port}", TOKEN, kind]
    subprocess.run(command, check=True, timeout=SECONDS)
    eventually("all is answered", lambda: len(recorder.statuses) == len(recorder.requests), SECONDS)
    assert set(recorder.statuses) == {200}
    sent = recorder.sum_ns()
    assert sent > 0
    # A profile in which times are no multiples of the period is off by less than a nanosecond a sample.
    assert abs(total_ns(collector) - sent) <= sent // 10**5
    assert total_ns(collector, query='service="shop.checkout",version="7",region="eu"') == total_ns(collector)
    before = total_ns(collector)
    windows = metric(collector, "sidelight_windows_accepted_total")
    assert set(recorder.repeat()) == {200}
    assert total_ns(collector) == before
    assert metric(collector, "sidelight_windows_accepted_total") == windows
    assert metric(collector, "sidelight_windows_duplicate_total") == windows
    stored_memory = metric(collector, 'sidelight_pyroscope_profiles_not_stored_total{type="memory"}')
    assert (stored_memory > 0) is (kind == "memory")
