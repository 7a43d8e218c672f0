"""What taking in a window costs: CPU milliseconds per window of about 333 KB, end to end through aiohttp.

    python bench/ingest.py [--windows 192] [--repeats 5] [--store DIR]

A collector process with a directory store is sent zstd windows over 32 connections; its CPU time (user and
system, all threads) is read from the kernel before and after. The client's time is not in it. The limit is
the one the store was chosen by: 2.3 to 3.6 ms per window. As there, a window has about 370 stacks.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import zstandard
from ulid import ULID

from sidelight.stacks.counts import Counts
from sidelight.stacks.folded import Stack
from sidelight.stacks.labels import Labels
from sidelight.stacks.window import Quality, Window, encode

LIMIT_MS = (2.3, 3.6)
TEXT_BYTES = 333_000
PODS = 4
CONNECTIONS = 32


def functions(luck: random.Random) -> list[str]:
    """Frames as py-spy writes them, of a service with some hundred functions."""
    words = [
        "handle",
        "fetch",
        "render",
        "query",
        "decode",
        "schedule",
        "merge",
        "validate",
        "lookup",
        "send",
    ]
    return [
        f"{luck.choice(words)}_{luck.choice(words)} ({luck.choice(words)}/{luck.choice(words)}.py:{number})"
        for number in range(600)
    ]


def all_stacks(luck: random.Random, count: int) -> list[Stack]:
    """Stacks of 10 to 32 frames that share their roots, as those of one service do."""
    names = functions(luck)
    grown: list[list[str]] = [[names[0]]]
    while len(grown) < count * 3:
        base = luck.choice(grown)
        depth = luck.randint(1, 12)
        grown.append([*base[:30], *luck.choices(names, k=depth)][:32])
    return [Stack(";".join(frames)) for frames in grown if len(frames) >= 10][:count]


def window(luck: random.Random, stacks: list[Stack], pod: int, start_ns: int) -> Window:
    """One window of about TEXT_BYTES of folded text."""
    counts: dict[Stack, Counts] = {}
    size = 0
    while size < TEXT_BYTES:
        stack = luck.choice(stacks)
        if stack not in counts:
            counts[stack] = luck.choice((Counts(idle=40), Counts(running=5), Counts(gil=3)))
            size += len(stack.encode()) + 8
    labels = Labels({"service": "shop", "version": "1", "pod": f"shop-{pod}"})
    quality = Quality(attempts=6000, samples=6000, mode="blocking", sampler="py-spy 0.4.3", python="3.11.7")
    return Window(str(ULID()), labels, start_ns, 60 * 10**9, 10**7, counts, quality)


def start(store: str, port_file: Path) -> subprocess.Popen[bytes]:
    arguments = ["--listen", "127.0.0.1:0", "--store", store, "--port-file", str(port_file)]
    code = "import sys; from sidelight.collector.command import run; sys.exit(run(sys.argv[1:]))"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.DEVNULL)
    while not port_file.exists():
        if process.poll() is not None:
            raise SystemExit("the collector did not start")
        time.sleep(0.02)
    return process


def send(port: int, bodies: list[bytes]) -> None:
    """Send the bodies over a few connections, as as many sidecars would."""

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=192)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--store", default="")
    options = parser.parse_args()
    luck = random.Random(1)
    stacks = all_stacks(luck, 6000)
    compressor = zstandard.ZstdCompressor(level=3)
    with tempfile.TemporaryDirectory() as scratch:
        port_file = Path(scratch, "port")
        process = start(options.store or str(Path(scratch, "store")), port_file)
        try:
            port = int(port_file.read_text())
            kernel = psutil.Process(process.pid)
            costs = []
            for turn in range(options.repeats + 1):
                now_ns = time.time_ns()
                made = [
                    window(luck, stacks, number % PODS, now_ns - 60 * 10**9)
                    for number in range(options.windows)
                ]
                texts = [encode([one]) for one in made]
                before = sum(kernel.cpu_times()[:2])
                send(port, [compressor.compress(text) for text in texts])
                cost = (sum(kernel.cpu_times()[:2]) - before) * 1000 / options.windows
                if turn:  # the first turn warms up
                    costs.append(cost)
            size = statistics.mean(map(len, texts))
            lines = statistics.mean(text.count(b"\n") for text in texts)
        finally:
            process.terminate()
            process.wait()
    median = statistics.median(costs)
    print(
        f"windows of {size / 1000:.0f} KB, {lines:.0f} lines; {options.repeats} repeats of {options.windows}"
    )
    print(f"CPU per window: median {median:.2f} ms (from {min(costs):.2f} to {max(costs):.2f})")
    print(f"named limit {LIMIT_MS[0]}-{LIMIT_MS[1]} ms: {median / LIMIT_MS[1]:.2f} of its upper end")


if __name__ == "__main__":
    main()
