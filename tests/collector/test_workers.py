"""One collector of several processes: what it takes, says and counts, and what happens when one dies."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import pytest

from sidelight_collector.runtime.supervisor import CrashLoopGuard, usable_cores
from sidelight_collector.storage.backends.open_store import open_store
from sidelight_collector.storage.manifest import list_days
from sidelight_model.window import Window, encode_windows
from tests.collector.processes import SECONDS, Process, metric, post, stored, text_of, wait_for_event

Make = Callable[..., Window]
Start = Callable[..., Process]
CONNECTIONS = 24
"""So many, and each of two workers has answered some of them, but for one time in eight million."""


def children(process: Process) -> list[psutil.Process]:
    """Its workers, the oldest first."""
    found = psutil.Process(process.process.pid).children()
    return sorted((one for one in found if is_worker(one)), key=lambda one: one.create_time())


def is_worker(one: psutil.Process) -> bool:
    try:
        return any("spawn_main" in word for word in one.cmdline())
    except psutil.NoSuchProcess:
        return False


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def asked(port: int, path: str) -> list[str]:
    """What is answered on a number of connections, by one worker or another."""
    return [text_of(port, path) for _ in range(CONNECTIONS)]


def events(process: Process, name: str) -> list[dict[str, Any]]:
    lines = [line for line in process.log.read_text().splitlines() if line.startswith("{")]
    return [event for event in map(json.loads, lines) if event["event"] == name]


def test_every_acknowledged_window_is_there_once_whichever_worker_is_killed(
    start: Start, tmp_path: Path, make_window: Make
) -> None:
    root, luck, kills = tmp_path / "store", random.Random(11), 3
    options = ("--workers", "2", "--flush-seconds", "0.02", "--max-worker-restarts", str(kills))
    compacting = (
        "--compact-interval-seconds",
        "0.01",
        "--compact-max-wait-seconds",
        "0",
        "--compact-min-segments",
        "1",
    )
    process = start(str(root), *options, *compacting, "--compact-lease-seconds", "0.5")
    port, done = process.port(), threading.Event()
    acknowledged: set[str] = set()
    unsure: list[Window] = []
    lock = threading.Lock()

    def send() -> None:
        while not done.is_set():
            with lock:
                folded = f"main;f{luck.randrange(50)} {luck.randrange(9) + 1}"
                window = make_window(folded, pod=f"p{luck.randrange(9)}")
            while True:
                try:
                    status, said = post(port, encode_windows([window]))
                    break
                except (OSError, http.client.HTTPException):
                    with lock:
                        unsure.append(window)
            assert status == 200, said
            with lock:
                acknowledged.add(window.id)

    def more(than: int) -> bool:
        return len(acknowledged) >= than

    def buried(count: int) -> bool:
        return len(events(process, "worker died")) == count

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    for killed in range(kills):
        enough = len(acknowledged) + luck.randrange(20, 60)
        until(partial(more, enough), "no window is acknowledged any longer")
        children(process)[0].kill()  # the oldest: each of those that were started first, in turn
        until(partial(buried, killed + 1), "the death was not noticed")
        until(lambda: len(children(process)) == 3, "no other took its place")
    until(partial(more, len(acknowledged) + 50), "no window is acknowledged any longer")
    done.set()
    for sender in senders:
        sender.join(SECONDS)
    assert acknowledged == stored(root), "the windows sent again are the same windows"

    # Whoever answers says the same, and what was counted by the dead counts.
    until(lambda: metric(port, "sidelight_workers") == 2, "a worker is missing")
    for text in asked(port, "/metrics"):
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert float(lines["sidelight_worker_restarts_total"]) == kills
        assert float(lines["sidelight_workers"]) == 2
        assert float(lines["sidelight_ingest_pending_bytes"]) == 0
        accepted = float(lines["sidelight_windows_accepted_total"])
        assert len(acknowledged) <= accepted <= len(acknowledged) + len(unsure)
    statuses = {json.dumps({**json.loads(said), "store": ""}) for said in asked(port, "/api/v1/status")}
    assert len(statuses) == 1
    status = json.loads(statuses.pop())
    assert len(acknowledged) <= status["windows_acknowledged"] <= len(acknowledged) + len(unsure)
    assert {one["pod"] for one in status["sidecars"]} == {f"p{number}" for number in range(9)}
    answers = {json.loads(said)["basis"]["windows"] for said in asked(port, "/api/v1/services")}
    assert answers == {len(acknowledged)}
    assert metric(port, "sidelight_compacted_windows_total") > 0
    process.process.terminate()
    assert process.ended()[0] == 0
    assert "Traceback" not in process.log.read_text()


@pytest.mark.parametrize("how", ["SIGTERM to one", "SIGINT to all"])
def test_a_signal_stores_and_answers_what_waits_in_every_worker(
    start: Start, tmp_path: Path, make_window: Make, how: str
) -> None:
    process = start(str(tmp_path / "store"), "--flush-seconds", "3600", "--workers", "2", alone=True)
    port, answers = process.port(), list[int]()
    windows = [make_window(pod=f"p{number}") for number in range(CONNECTIONS)]

    def send(window: Window) -> None:
        answers.append(post(port, encode_windows([window]))[0])

    senders = [threading.Thread(target=send, args=(window,)) for window in windows]
    for sender in senders:
        sender.start()
    size = sum(len(encode_windows([window])) for window in windows)
    until(lambda: metric(port, "sidelight_ingest_decompressed_bytes_total") == size, "not all was received")
    workers = children(process)
    if how == "SIGTERM to one":
        process.process.terminate()
    else:
        os.killpg(process.process.pid, signal.SIGINT)
    status, log = process.ended()
    assert status == 0, log
    for sender in senders:
        sender.join(SECONDS)
    assert answers == [200] * len(windows)
    assert stored(tmp_path / "store") == {window.id for window in windows}
    assert "Traceback" not in log
    assert len(workers) == 3
    assert not any(one.is_running() for one in workers)


def test_workers_that_die_again_and_again_end_all_of_it(
    start: Start, tmp_path: Path, make_window: Make
) -> None:
    options = ("--workers", "2", "--max-worker-restarts", "1", "--worker-restart-window-seconds", "600")
    process = start(str(tmp_path / "store"), *options)
    port = process.port()
    children(process)[0].kill()
    until(lambda: metric(port, "sidelight_worker_restarts_total") == 1, "the death was not counted")
    until(lambda: len(children(process)) == 3, "no other took its place")
    assert post(port, encode_windows([make_window()]))[0] == 200
    workers = children(process)
    workers[-1].kill()
    status, said = process.ended()
    assert status == 1
    assert "error: workers died 2 times within 600 s" in said
    assert "with status -9\nhint: " in said
    assert "Traceback" not in said
    assert not any(one.is_running() for one in workers)


def test_workers_do_not_outlive_the_process_that_watches_over_them(
    start: Start, tmp_path: Path, make_window: Make
) -> None:
    process = start(str(tmp_path / "store"), "--flush-seconds", "3600", "--workers", "2")
    port, window, answers = process.port(), make_window(), []
    sender = threading.Thread(target=lambda: answers.append(post(port, encode_windows([window]))))
    sender.start()
    received = len(encode_windows([window]))
    until(
        lambda: metric(port, "sidelight_ingest_decompressed_bytes_total") == received, "nothing was received"
    )
    workers = children(process)
    mapped = [Path(one.path) for one in workers[0].memory_maps() if one.path.endswith(".db")]
    assert mapped
    assert all(path.exists() for path in mapped)
    process.kill()
    sender.join(SECONDS)
    assert answers == [(200, {"accepted": [window.id], "duplicates": []})]
    until(lambda: not any(one.is_running() for one in workers), "a worker goes on")
    assert not any(path.parent.exists() for path in mapped)


def test_a_port_in_use_is_noticed_also_when_it_could_be_shared(start: Start, tmp_path: Path) -> None:
    """One that workers share, by another collector of one process or several, and one that nobody shares."""
    first = start(str(tmp_path / "store"), "--workers", "2")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port, workers in ((first.port(), "1"), (first.port(), "2"), (taken.getsockname()[1], "2")):
            address = f"127.0.0.1:{port}"
            status, said = start(str(tmp_path / "store"), "--listen", address, "--workers", workers).ended()
            assert status == 1
            assert f"error: {address} is in use\nhint: " in said


@pytest.mark.parametrize("host", ["[::1]", "localhost"])
def test_workers_share_a_free_port_of_every_kind_of_address_and_are_named_in_the_log(
    start: Start, tmp_path: Path, host: str
) -> None:
    process = start(str(tmp_path / "store"), "--listen", f"{host}:0", "--workers", "2")
    port = process.port()
    assert events(process, "listening") == [wait_for_event(process, "listening")]
    assert events(process, "listening")[0]["url"] == f"http://{host}:{port}/"
    found = {info[4][0] for info in socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)}
    for name in found:
        connection = http.client.HTTPConnection(str(name), port, timeout=SECONDS)
        connection.request("GET", "/readyz")
        assert connection.getresponse().status == 200
        connection.close()
    until(lambda: len(events(process, "ids of earlier windows recalled")) == 2, process.log.read_text())
    recalled = events(process, "ids of earlier windows recalled")
    assert {event["worker"] for event in recalled} == {"1", "2"}
    assert len(events(process, "starting")) == 1


def test_a_worker_that_cannot_start_says_why_and_all_of_it_ends(tmp_path: Path) -> None:
    code = """
import sys
from sidelight.main import run
from sidelight_collector import main
from sidelight_collector.storage.backends.open_store import open_store

if __name__ == "__main__":
    root, verify = sys.argv[1], main.verify_store
    def verified(store):
        found = verify(store)
        import shutil
        shutil.rmtree(root)
        open(root, "w").close()
        return found
    main.verify_store = verified
    options = ["--listen", "127.0.0.1:0", "--workers", "2", "--max-worker-restarts", "1"]
    sys.exit(run(["collector", "--store", root, *options]))
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    said = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "store")],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert said.returncode == 1
    assert "worker ends" in said.stderr
    assert "cannot create in the store directory" in said.stderr
    assert "error: workers died 2 times within 60 s" in said.stderr
    assert "Traceback" not in said.stderr


def get(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


COMPACTING = (
    "--compact-interval-seconds",
    "0.05",
    "--compact-max-wait-seconds",
    "0",
    "--compact-min-segments",
    "1",
)


def test_collectors_serve_and_others_compact(start: Start, tmp_path: Path, make_window: Make) -> None:
    root = tmp_path / "store"
    options = ("--role", "serve", "--flush-seconds", "0", *COMPACTING)
    serving = {workers: start(str(root), *options, "--workers", workers) for workers in ("1", "2")}
    ports = {workers: process.port() for workers, process in serving.items()}
    windows = [make_window(f"main {number + 1}") for number in range(20)]

    def send(some: Sequence[Window]) -> None:
        for window, port in zip(some, cycle(ports.values()), strict=False):
            assert post(port, encode_windows([window]))[0] == 200

    send(windows[:10])
    assert list_days(open_store(str(root))) == []
    # It takes nothing, and may listen anywhere without tokens.
    compacting = [
        start(str(root), "--role", "compactor", "--listen", address, *COMPACTING)
        for address in ("127.0.0.1:0", "0.0.0.0:0")
    ]
    compactors = [process.port() for process in compacting]
    send(windows[10:])

    def compacted() -> float:
        return sum(metric(one, "sidelight_compacted_windows_total") for one in compactors)

    until(lambda: compacted() >= len(windows), "not all was compacted")
    assert stored(root) == {window.id for window in windows}
    for one in compactors:
        assert metric(one, "sidelight_compaction_errors_total") == 0
        assert metric(one, "sidelight_workers") == 0
        assert [get(one, path) for path in ("/livez", "/readyz", "/metrics")] == [200, 200, 200]
        assert [get(one, path) for path in ("/", "/api/v1/services", "/api/v1/status")] == [404, 404, 404]
        assert post(one, encode_windows(windows[:1]))[0] == 404
    for workers, port in ports.items():
        assert metric(port, "sidelight_compacted_windows_total") == 0
        assert metric(port, "sidelight_workers") == float(workers)
        answer = json.loads(text_of(port, "/api/v1/services"))
        assert answer["basis"]["windows"] == len(windows)
    compacting[1].process.terminate()
    assert compacting[1].ended()[0] == 0


def test_workers_take_windows_on_s3(
    start: Start, s3_server: Any, new_bucket: Callable[[], str], make_window: Make
) -> None:
    location = f"s3://{new_bucket()}/profiles"
    options = ("--s3-endpoint", s3_server.endpoint, "--workers", "2", "--flush-seconds", "0.1")
    port = start(location, *options).port()
    windows = [make_window(f"main {number + 1}") for number in range(CONNECTIONS)]
    for window in windows:
        assert post(port, encode_windows([window])) == (200, {"accepted": [window.id], "duplicates": []})
    answers = {json.loads(said)["basis"]["windows"] for said in asked(port, "/api/v1/services")}
    assert answers == {len(windows)}


@pytest.mark.parametrize(
    ("most", "seconds", "at", "outcome"),
    [
        (0, 60, [0], [True]),
        (1, 60, [0, 59.9], [False, True]),
        (1, 60, [0, 60, 119.9], [False, False, True]),
        (2, 10, [0, 9, 10, 18.9], [False, False, False, True]),
    ],
)
def test_more_deaths_than_may_be_within_the_time_are_too_many(
    most: int, seconds: float, at: Sequence[float], outcome: Sequence[bool]
) -> None:
    deaths = CrashLoopGuard(most, seconds)
    assert [deaths.record_death(now) for now in at] == outcome


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000\n", None),
        ("100000 100000\n", 1),
        ("50000 100000\n", 1),
        ("100001 100000\n", 2),
        ("?", None),
    ],
)
def test_usable_cores_are_those_of_the_machine_and_of_the_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int | None
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    assert usable_cores(file) == (cores or 8)
    assert usable_cores(tmp_path / "none") == 8
