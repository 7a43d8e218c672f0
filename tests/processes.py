"""Real processes for tests: started on loopback, watched through their log, ended by their own id."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
ROOT = Path(__file__).parent.parent
CHROMIUM = "/usr/bin/chromium-headless-shell"
"""Debian's Chromium without a browser's own windows, which take as much CPU as the pages in them."""


def eventually(what: str, check: Callable[[], T | None], seconds: float = 90.0) -> T:
    """Wait until `check` returns something true; fails after `seconds` saying what was awaited.

    On a crowded machine a program may need half a minute to start.
    """
    deadline = time.monotonic() + seconds
    while True:
        if found := check():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


_held: list[socket.socket] = []


def free_port() -> int:
    """A port of loopback that nobody listens on, and that no other program gets before this process ends.

    A server that reuses addresses may listen on it, also again and again, as those of asyncio and in Go do.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return int(holder.getsockname()[1])


def building() -> bool:
    """Whether `make test` builds programs beside the tests: it holds a lock for as long as it does."""
    lock = ROOT / ".tools" / "building.lock"
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def wait_for_builds() -> None:
    """Wait until nothing is built beside the tests."""
    while building():
        time.sleep(0.2)


def tool(name: str) -> Path:
    """A program below `.tools/bin`; waits if it is still to be built, and fails the test if it is missing."""
    return made(f"bin/{name}")


def made(pattern: str) -> Path:
    """The first file below `.tools` that matches; waits while `make test` builds, else fails without one."""
    while True:
        still = building()
        if found := next((ROOT / ".tools").glob(pattern), None):
            return found
        assert still, f".tools/{pattern} is missing: run `make tools`"
        time.sleep(0.2)


@dataclass
class Running:
    """A started process and the file that takes what it prints."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self, with_signal: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Send a signal and wait; returns the exit code."""
        if self.alive():
            self.process.send_signal(with_signal)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(
                f"still running {seconds} s after signal {with_signal}:\n{self.said()}"
            ) from None


@contextmanager
def running(
    log: Path, *argv: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[Running]:
    """Start a process; whatever happens, it is gone afterwards."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
    try:
        yield Running(process, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def sidelight(*argv: str) -> list[str]:
    """The console script as a command of this interpreter."""
    return [sys.executable, "-m", "sidelight.main", *argv]


@dataclass
class Collector:
    """A running collector and its URL."""

    running: Running
    url: str

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return json.load(answer)


@contextmanager
def collector(
    folder: Path, store: str, *options: str, env: Mapping[str, str] | None = None
) -> Iterator[Collector]:
    """A collector on a free port (or the one in `options`), ready to serve."""
    folder.mkdir(parents=True, exist_ok=True)
    port_file = folder / "port"
    port_file.unlink(missing_ok=True)
    argv = sidelight("collector", "--store", store, "--port-file", str(port_file), *options)
    if "--listen" not in options:
        argv += ["--listen", "127.0.0.1:0"]
    with running(folder / "collector.log", *argv, env=env) as process:

        def port() -> int | None:
            assert process.alive(), process.said()
            return (
                int(port_file.read_text()) if port_file.exists() and port_file.read_text().strip() else None
            )

        url = f"http://127.0.0.1:{eventually('the collector listens', port, 300.0)}"
        yield Collector(process, url)


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running S3 server: its endpoint, the variables a client reads, and the folder of its buckets."""

    running: Running
    endpoint: str
    environment: Mapping[str, str]
    buckets: Path

    def create_bucket(self, name: str) -> str:
        (self.buckets / name).mkdir()
        return name


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A real S3 server (versitygw) on a free port, with no bucket yet."""
    binary = str(tool("versitygw"))
    buckets = folder / "buckets"
    buckets.mkdir(parents=True)
    keys = ("sidelight-tests", "sidelight-tests-secret")
    access = ["--access", keys[0], "--secret", keys[1], "--quiet", "posix", str(buckets)]
    port = free_port()
    with running(folder / "s3.log", binary, "--port", f"127.0.0.1:{port}", *access) as process:

        def answers() -> bool:
            assert process.alive(), process.said()
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        eventually("the S3 server listens", answers)
        environment = {
            "AWS_ACCESS_KEY_ID": keys[0],
            "AWS_SECRET_ACCESS_KEY": keys[1],
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        yield S3Server(process, f"http://127.0.0.1:{port}", environment, buckets)
