"""A ClickHouse for tests: the real engine behind a small server (see clickhouse_server)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engines.clickhouse.clickhouse_client import ClickHouseClient
from sidelight_collector.query.engines.clickhouse.stage1 import ClickHouseStage1, build_object_prefix
from sidelight_collector.settings.engine_url import ClickHouseUrl
from tests.processes import ROOT, eventually, running

KEPT = dict.fromkeys(("retention_raw_days", "retention_hour_days", "retention_day_days"), 36_525)
"""What is kept of a day in 2026 whenever the tests run."""

USER, PASSWORD = "sidelight", "pa55/word@of:the#reader"


def engine(
    at: ClickHouseUrl, store: str, endpoint: str, *, seconds: float = 120, fallback: bool = False
) -> ClickHouseStage1:
    """Stage 1 there, over an s3:// store."""
    return ClickHouseStage1(
        ClickHouseClient(at), build_object_prefix(at, store, endpoint), Metrics(), seconds, fallback
    )


@dataclass(frozen=True, slots=True)
class Server:
    """Where it is, and the file with the statements that it was asked."""

    url: ClickHouseUrl
    seen: Path

    def statements(self) -> list[str]:
        return self.seen.read_text().split("\0")[:-1] if self.seen.exists() else []

    def tables(self) -> list[str]:
        """Which table each statement read."""
        return [text.rpartition("/")[2].removesuffix(".parquet") for text in self.statements()]

    def with_(self, **changes: str) -> ClickHouseUrl:
        return replace(self.url, **changes)  # type: ignore[arg-type]


@contextmanager
def clickhouse(folder: Path, env: Mapping[str, str], config: str = "") -> Iterator[Server]:
    """A server with credentials of its own for S3: in its environment, or in its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    port_file, seen = folder / "port", folder / "seen"
    argv = [sys.executable, "-m", "tests.collector.clickhouse_server", "--login", f"{USER}:{PASSWORD}"]
    argv += ["--port-file", str(port_file), "--seen", str(seen)]
    if config:
        (folder / "config.xml").write_text(config)
        argv += ["--config", str(folder / "config.xml")]
    none = {name: "" for name in os.environ if name.startswith("AWS_")}
    with running(folder / "log", *argv, env={**none, **env}, cwd=ROOT) as process:

        def port() -> str:
            assert process.alive(), process.said()
            return port_file.read_text() if port_file.exists() else ""

        number = int(eventually("ClickHouse listens", port))
        yield Server(ClickHouseUrl("127.0.0.1", number, user=USER, password=PASSWORD), seen)
