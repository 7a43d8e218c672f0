"""A real Alertmanager, and a webhook that keeps what it is sent."""

from __future__ import annotations

import json
import re
import shutil
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.processes import eventually, running

CONFIG = """
route: {receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers:
- name: hook
  webhook_configs: [{url: %s, send_resolved: true}]
"""
_LISTENING = re.compile(r'msg="Listening on" address=(127\.0\.0\.1:\d+)')


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
def alertmanager(folder: Path, hook: str) -> Iterator[Alertmanager]:
    """An Alertmanager on loopback that hands its notifications to a webhook."""
    binary = shutil.which("prometheus-alertmanager")
    assert binary, "these tests need Debian's prometheus-alertmanager: run `make tools`"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yml").write_text(CONFIG % json.dumps(hook))
    argv = [
        binary,
        f"--config.file={folder / 'config.yml'}",
        f"--storage.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        "--cluster.listen-address=",
    ]
    with running(folder / "alertmanager.log", *argv) as process:

        def ready() -> str:
            assert process.alive(), process.said()
            found = _LISTENING.search(process.said())
            if found is None:
                return ""
            url = f"http://{found[1]}"
            with urllib.request.urlopen(f"{url}/-/ready", timeout=30) as answer:
                return url if answer.status == 200 else ""

        yield Alertmanager(eventually("alertmanager is ready", ready))
        process.end(seconds=90.0)


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

    def forget(self) -> None:
        """Be as at the start."""
        self.got.clear()
        self.answers, self.location = 200, ""


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A webhook on loopback."""
    with webhook_away() as (kept, begin):
        begin()
        yield kept


@contextmanager
def webhook_away() -> Iterator[tuple[Webhook, Callable[[], None]]]:
    """A webhook whose connections are refused until it is told to begin; its port is its own already."""

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

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.server_bind()
    kept = Webhook(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})

    def begin() -> None:
        server.server_activate()
        thread.start()

    try:
        yield kept, begin
    finally:
        if thread.is_alive():
            server.shutdown()
            thread.join()
        server.server_close()
