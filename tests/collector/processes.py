"""Collectors as an operator starts them, and what tests ask of them."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.live_objects import list_live_objects
from sidelight_collector.storage.segments import read_segment

SECONDS = 300.0
"""Longer than anything takes on a machine that is crowded; whoever waits goes on when it is there."""


class Process:
    """`sidelight collector` as an operator starts it."""

    def __init__(self, scratch: Path, store: str, *options: str, alone: bool = False) -> None:
        """`alone` in a process group, as one started by a shell is."""
        self.port_file = scratch / f"port-{random.randrange(1 << 30)}"
        self.log = scratch / f"log-{self.port_file.name}"
        command = [sys.executable, "-m", "sidelight.main", "collector", "--store", store]
        address = [] if "--listen" in options else ["--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, *address, "--port-file", str(self.port_file), "--log-json", *options],
            stderr=self.log.open("wb"),
            start_new_session=alone,
        )

    def port(self) -> int:
        deadline = time.monotonic() + SECONDS
        while not self.port_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the collector did not start: {self.log.read_text()}")
            time.sleep(0.01)
        return int(self.port_file.read_text())

    def ended(self) -> tuple[int, str]:
        """Its exit status and what it said, once it has ended by itself."""
        return self.process.wait(SECONDS), self.log.read_text()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]

    def lines(self) -> list[str]:
        """What it said, without a line that it is writing."""
        return self.log.read_text().rpartition("\n")[0].splitlines()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)


def post(port: int, body: bytes, query: str = "", prefix: str = "") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("POST", f"{prefix}/api/v1/windows{query}", body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def text_of(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def stored(root: Path) -> set[str]:
    """Ids of the windows in what counts."""
    store = DirectoryStore(root)
    ids: set[str] = set()
    for ref in list_live_objects(store, 0, 2**63 - 1).refs:
        in_profiles = set(read_segment(store, ref, "profiles")["wid"].to_pylist())
        in_samples = set(read_segment(store, ref, "samples")["wid"].to_pylist())
        assert in_profiles == in_samples
        ids.update(in_profiles)
    return ids


def metric(port: int, name: str) -> float:
    """The value of a metric without labels."""
    lines = (line.split() for line in text_of(port, "/metrics").splitlines())
    return float(next(words[1] for words in lines if words[0] == name))


def wait_for_event(process: Process, event: str) -> dict[str, Any]:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for line in process.lines():
            if line.startswith("{") and json.loads(line).get("event") == event:
                return dict(json.loads(line))
        time.sleep(0.01)
    raise AssertionError(f"{event!r} was not logged: {process.log.read_text()}")
