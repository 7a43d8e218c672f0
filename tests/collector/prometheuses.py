"""A real Prometheus with series that were counted as a test says, sent to it by remote write."""

from __future__ import annotations

import shutil
import struct
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tests.processes import eventually, free_port, running


@dataclass
class Server:
    """A running Prometheus."""

    url: str

    def send(self, name: str, points: list[tuple[Mapping[str, str], float, float]]) -> None:
        """Send points of one counter: labels, the moment in Unix seconds and the count until then."""
        series = b"".join(
            _message(1, _series({"__name__": f"{name}_total", **labels}, moment, count))
            for labels, moment, count in points
        )
        request = urllib.request.Request(
            f"{self.url}/api/v1/write",
            pa.compress(series, codec="snappy", asbytes=True),
            {
                "Content-Encoding": "snappy",
                "Content-Type": "application/x-protobuf",
                "X-Prometheus-Remote-Write-Version": "0.1.0",
            },
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 204


def _series(labels: Mapping[str, str], moment: float, value: float) -> bytes:
    """A `prometheus.TimeSeries` of one sample, as remote write 1.0 has it."""
    pairs = (_message(1, name.encode()) + _message(2, text.encode()) for name, text in sorted(labels.items()))
    sample = b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(round(moment * 1000))
    return b"".join(_message(1, pair) for pair in pairs) + _message(2, sample)


def _message(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf's wire format."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """A number in protobuf's wire format, seven bits a byte."""
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*content, value])


@contextmanager
def prometheus(folder: Path, config: str = "global: {}\n") -> Iterator[Server]:
    """A Prometheus on loopback that scrapes nothing, unless its configuration says so."""
    binary = shutil.which("prometheus")
    assert binary, "these tests need Debian's prometheus: run `make tools`"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(config)
    url = f"http://127.0.0.1:{free_port()}"
    argv = [
        binary,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--web.enable-remote-write-receiver",
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
