"""A real Alertmanager, and a webhook that keeps what it is sent."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.running import eventually, running

CONFIG = """
route: {receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers:
- name: hook
  webhook_configs: [{url: %s, send_resolved: true}]
"""


@dataclass
class Alertmanager:
    """A running Alertmanager."""

    url: str

    def alerts(self) -> list[dict[str, Any]]:
        """Those that it has and that have not ended."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            return found


@contextmanager
def alertmanager(folder: Path, hook: str, port: int = 0) -> Iterator[Alertmanager]:
    """An Alertmanager on loopback that hands its notifications to a webhook."""
    binary = shutil.which("prometheus-alertmanager")
    assert binary, "these tests need Debian's prometheus-alertmanager: run `make tools`"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yml").write_text(CONFIG % json.dumps(hook))
    port = port or free_port()
    argv = [
        binary,
        f"--config.file={folder / 'config.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    url = f"http://127.0.0.1:{port}"
    with running(folder / "alertmanager.log", *argv) as process:

        def ready() -> bool:
            assert process.alive(), process.said()
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        eventually("alertmanager is ready", ready)
        yield Alertmanager(url)
        process.end()


@dataclass
class Sent:
    """One request that a webhook got."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Webhook:
    """A server that keeps what it is sent and answers as it is told to."""

    port: int
    got: list[Sent] = field(default_factory=list)
    answers: int = 200
    location: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def events(self) -> list[str]:
        return [one.json["event"] for one in self.got]


@contextmanager
def webhook(port: int = 0) -> Iterator[Webhook]:
    """A webhook on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            kept.got.append(Sent(self.path, dict(self.headers), self.rfile.read(length)))
            self.send_response(kept.answers)
            if kept.location:
                self.send_header("Location", kept.location)
            self.end_headers()
            self.wfile.write(b"said \x1b[31mso\n")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    kept = Webhook(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
