"""A real Prometheus with series that were counted as a test says, sent to it as OpenTelemetry does."""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.collector.alertmanagers import free_port
from tests.running import ROOT, eventually, running


@dataclass
class Server:
    """A running Prometheus."""

    url: str

    def send(self, name: str, points: list[tuple[Mapping[str, str], float, float]]) -> None:
        """Points of one counter: labels, the moment in Unix seconds and the count until then."""
        values = [
            {
                "asDouble": count,
                "timeUnixNano": str(round(moment * 1e9)),
                "startTimeUnixNano": str(round(points[0][1] * 1e9)),
                "attributes": [
                    {"key": key, "value": {"stringValue": value}} for key, value in labels.items()
                ],
            }
            for labels, moment, count in points
        ]
        # 2: each point has all that was counted until then.
        total: dict[str, Any] = {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": values}
        body = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": name, "sum": total}]}]}]}
        request = urllib.request.Request(
            f"{self.url}/api/v1/otlp/v1/metrics",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200


@contextmanager
def prometheus(folder: Path) -> Iterator[Server]:
    """A Prometheus on loopback that scrapes nothing."""
    binary = shutil.which("prometheus", path=f"{ROOT / '.tools' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert binary, "these tests need Prometheus: run `make tools`"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text("global: {}\n")
    url = f"http://127.0.0.1:{free_port()}"
    argv = [
        binary,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--web.enable-otlp-receiver",
    ]
    with running(folder / "prometheus.log", *argv) as process:

        def ready() -> bool:
            assert process.alive(), process.said()
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        eventually("prometheus is ready", ready)
        yield Server(url)
        process.end()
