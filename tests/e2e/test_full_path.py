"""From a running process to an exported profile: sidecar, collector, store and export, all real."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.segments import list_segments, read_segment
from sidelight_model.counts import STATES, Counts
from sidelight_model.folded import Stack, parse_folded
from tests.processes import (
    Collector,
    Running,
    collector,
    eventually,
    free_port,
    running,
    s3_server,
    sidelight,
)

TARGET = Path(__file__).parent / "targets" / "shares.py"
SELECTOR = quote('{service="shares"}')
PY_SPY = Path(sys.executable).with_name("py-spy")
SAMPLES = 1000
TOLERANCE = 0.1
"""Of 1,000 samples a share near one half has a standard error of 1.6 points."""
long = pytest.mark.long


@pytest.fixture
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Collector]:
    """A collector on the kind of store that the test names."""
    if request.param == "directory":
        with collector(tmp_path, str(tmp_path / "store")) as one:
            yield one
        return
    with s3_server(tmp_path / "s3") as server:
        location = f"s3://{server.create_bucket('sidelight')}/profiles"
        options = ("--s3-endpoint", server.endpoint)
        with collector(tmp_path, location, *options, env=server.environment) as one:
            yield one


@pytest.mark.parametrize(
    ("stored", "mode"),
    [
        ("directory", "command"),
        ("s3", "auto"),
        pytest.param("directory", "auto", marks=long),
        pytest.param("s3", "command", marks=long),
    ],
    indirect=["stored"],
)
def test_the_shares_of_a_known_program_come_back(stored: Collector, mode: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        target = stack.enter_context(running(tmp_path / "target.log", sys.executable, str(TARGET), "180"))
        eventually("the target runs", lambda: "ready" in target.said())
        carrier = stack.enter_context(sidecar(tmp_path, stored.url, target.pid, "--mode", mode))
        eventually("enough samples are stored", lambda: stored_samples(stored, carrier) >= SAMPLES, 120)
        assert carrier.end() == 0, carrier.said()
        total = stored_samples(stored, carrier)
        wall = exported(stored.url, "wall")
        side = stored.get(f"/api/v1/flamegraph?query={SELECTOR}&type=wall")["sides"][0]
    assert sum(count.wall for count in wall.values()) == side["samples"] == total
    seventy = sum(count.cpu for path, count in wall.items() if "seventy (" in path)
    thirty = sum(count.cpu for path, count in wall.items() if "thirty (" in path)
    assert seventy / (seventy + thirty) == pytest.approx(0.7, abs=TOLERANCE)
    if mode == "auto":
        assert seventy + thirty > 0.9 * sum(count.cpu for count in wall.values())
        idle = {path: count.off_cpu for path, count in wall.items() if count.off_cpu}
        assert sum(idle.values()) / total == pytest.approx(0.5, abs=TOLERANCE)
        assert sum(n for path, n in idle.items() if "wait (" in path) > 0.9 * sum(idle.values())
    else:
        assert "idle" in side["missing_states"]


def test_a_collector_killed_in_mid_ingest_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    """Windows of one process tile: one that is missing leaves a gap, one that is foreign an overlap."""
    store, spool = tmp_path / "store", tmp_path / "spool"
    with ExitStack() as stack:
        target = stack.enter_context(running(tmp_path / "target.log", sys.executable, str(TARGET), "180"))
        eventually("the target runs", lambda: "ready" in target.said())
        address = f"127.0.0.1:{free_port()}"
        served = stack.enter_context(collector(tmp_path, str(store), "--listen", address))
        carrier = stack.enter_context(sidecar(tmp_path, served.url, target.pid, "--window-seconds", "0.4"))
        for _ in range(2):
            grows_by(store, 4)
            served.running.end(signal.SIGKILL)
            eventually("windows wait in the spool", lambda: len(list(spool.iterdir())) >= 2)
            served = stack.enter_context(collector(tmp_path, str(store), "--listen", address))
        grows_by(store, 4)
        assert carrier.end() == 0, carrier.said()
        found = windows_in(store)
        shown = served.get(f"/api/v1/timeline?query={SELECTOR}&from=-1h&until=now&type=wall")["basis"]
    assert shown["windows"] == len(found) >= 12
    assert shown["samples"] == sum(row[state] or 0 for row in found.values() for state in STATES)
    for earlier, later in pairwise(sorted(found.values(), key=itemgetter("ts"))):
        assert later["ts"] == earlier["ts"] + earlier["duration_ns"]


def grows_by(store: Path, count: int) -> None:
    before = len(windows_in(store))
    eventually("windows are stored", lambda: len(windows_in(store)) >= before + count)


def windows_in(store: Path) -> dict[str, dict[str, Any]]:
    """The rows of `profiles` by window id, read from the store itself."""
    objects = DirectoryStore(store)
    refs = list_segments(objects, 0, 2**62)
    return {row["wid"]: row for ref in refs for row in read_segment(objects, ref, "profiles").to_pylist()}


def sidecar(folder: Path, url: str, pid: int, *options: str) -> AbstractContextManager[Running]:
    argv = sidelight(
        "sidecar", "--collector", url, "--pid", str(pid), "--service", "shares", "--version", "1",
        "--rate", "200", "--budget-cpu-percent", "100", "--budget-stop-percent", "100",
        "--spool-dir", str(folder / "spool"), "--listen", "127.0.0.1:0",
    )  # fmt: skip
    length = [] if "--window-seconds" in options else ["--window-seconds", "2"]
    return running(folder / "sidecar.log", *argv, *length, *options)


def stored_samples(stored: Collector, carrier: Running) -> int:
    assert carrier.alive() or carrier.process.returncode == 0, carrier.said()
    services = stored.get("/api/v1/services?from=-1h&until=now")["services"]
    return sum(service["samples"] for service in services if service["service"] == "shares")


def exported(url: str, kind: str) -> dict[Stack, Counts]:
    done = subprocess.run(
        sidelight("export", "--collector", url, "--format", "folded", "--type", kind,
                  "--from", "-15m", "--until", "now", '{service="shares", version="1"}'),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return parse_folded(done.stdout)


def test_what_py_spy_writes_to_a_pipe_is_stored_as_it_comes(tmp_path: Path) -> None:
    with ExitStack() as stack:
        target = stack.enter_context(running(tmp_path / "target.log", sys.executable, str(TARGET), "180"))
        eventually("the target runs", lambda: "ready" in target.said())
        stored = stack.enter_context(collector(tmp_path, str(tmp_path / "store")))
        address = f"{stored.url}/api/v1/windows?service=shares&version=1"
        pipe = (
            f"{PY_SPY} record -f raw -o /dev/stdout -d 2 --pid {target.pid} | "
            f"curl -sS --fail-with-body --data-binary @- '{address}'"
        )
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(json.loads(done.stdout)["accepted"]) == 1
        table = exported(stored.url, "cpu")
    assert any("seventy (" in path for path in table)
    assert not any("py-spy" in path for path in table)
