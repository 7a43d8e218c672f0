"""The cost of ingest: CPU milliseconds per window of 340 KB, through aiohttp.

    python bench/ingest.py [--windows 192] [--repeats 5] [--store DIR]

The script sends zstd windows of the corpus (bench/corpus, about 340 KB each) over 32 connections to a
collector process with a directory store. It reads the collector's CPU time (user and system, all threads)
from the kernel before and after. The client's time does not count.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path

import psutil
import zstandard
from ulid import ULID

from bench.corpus import Corpus, Shape
from sidelight_model.window import encode_windows

LIMIT_MS = 2.2
CONNECTIONS = 32


def start(store: str, port_file: Path) -> subprocess.Popen[bytes]:
    arguments = ["--listen", "127.0.0.1:0", "--store", store, "--port-file", str(port_file)]
    code = "import sys; from sidelight_collector.command import run; sys.exit(run(sys.argv[1:]))"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.DEVNULL)
    while not port_file.exists():
        if process.poll() is not None:
            raise SystemExit("the collector did not start")
        time.sleep(0.02)
    return process


def send(port: int, bodies: list[bytes]) -> None:
    """Send the bodies over a few connections, as that number of sidecars would."""

    def share(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for body in bodies[number::CONNECTIONS]:
            connection.request("POST", "/api/v1/windows", body, {"Content-Encoding": "zstd"})
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 200 or len(json.loads(said)["accepted"]) != 1:
                raise SystemExit(f"refused: {answer.status} {said[:300]!r}")

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(share, range(CONNECTIONS)))


def measure(shape: Shape, *, windows: int, repeats: int, store: str = "") -> list[float]:
    """Measure a collector's CPU milliseconds per window, for each repeat."""
    compressor, rows, corpus = zstandard.ZstdCompressor(level=3), [], Corpus(shape)
    while len(rows) < windows:
        rows += islice(corpus.windows(), windows - len(rows))
    costs = []
    with tempfile.TemporaryDirectory() as scratch:
        port_file = Path(scratch, "port")
        process = start(store or str(Path(scratch, "store")), port_file)
        try:
            port = int(port_file.read_text())
            kernel = psutil.Process(process.pid)
            for turn in range(repeats + 1):
                began_ns = time.time_ns() - shape.window_seconds * 10**9
                made = [
                    replace(
                        corpus.window(row), id=str(ULID.from_timestamp(began_ns // 10**6)), start_ns=began_ns
                    )
                    for row in rows
                ]
                bodies = [compressor.compress(encode_windows([one])) for one in made]
                before = sum(kernel.cpu_times()[:2])
                send(port, bodies)
                cost = (sum(kernel.cpu_times()[:2]) - before) * 1000 / windows
                if turn:  # the first turn warms up
                    costs.append(cost)
        finally:
            process.terminate()
            process.wait()
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=192)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--store", default="")
    options = parser.parse_args()
    costs = measure(
        Shape(days=1, versions=1), windows=options.windows, repeats=options.repeats, store=options.store
    )
    median = statistics.median(costs)
    print(f"{options.repeats} repeats of {options.windows} windows")
    print(f"CPU per window: median {median:.2f} ms (from {min(costs):.2f} to {max(costs):.2f})")
    print(f"asked: {LIMIT_MS} ms, so {median / LIMIT_MS:.2f} of it")


if __name__ == "__main__":
    main()
