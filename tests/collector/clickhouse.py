"""A ClickHouse for tests: the real engine behind a small server (see clickhouse_server)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sidelight_collector.settings.engine import ClickHouseUrl
from tests.processes import ROOT, eventually, running

USER, PASSWORD = "sidelight", "pa55/word@of:the#reader"


@dataclass(frozen=True, slots=True)
class Server:
    """Where it is."""

    url: ClickHouseUrl

    def url_of(self, store: str) -> ClickHouseUrl:
        return self.url

    def with_(self, **changes: str) -> ClickHouseUrl:
        return replace(self.url, **changes)  # type: ignore[arg-type]


@contextmanager
def clickhouse(folder: Path, env: Mapping[str, str], config: str = "") -> Iterator[Server]:
    """A server with credentials of its own for S3: in its environment, or in its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    port_file = folder / "port"
    argv = [sys.executable, "-m", "tests.collector.clickhouse_server", "--login", f"{USER}:{PASSWORD}"]
    argv += ["--port-file", str(port_file)]
    if config:
        (folder / "config.xml").write_text(config)
        argv += ["--config", str(folder / "config.xml")]
    none = {name: "" for name in os.environ if name.startswith("AWS_")}
    with running(folder / "log", *argv, env={**none, **env}, cwd=ROOT) as process:

        def port() -> str:
            assert process.alive(), process.said()
            return port_file.read_text() if port_file.exists() else ""

        number = int(eventually("ClickHouse listens", port))
        yield Server(ClickHouseUrl("127.0.0.1", number, user=USER, password=PASSWORD))
