"""A real collector process: how it starts, how it refuses to, how it stops, and how it dies."""

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
from pathlib import Path
from typing import Any

import pytest

from sidelight import logs
from sidelight.main import run
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.open_store import CONFIG_KEY, open_store
from sidelight_collector.storage.segments import list_segments, read_segment
from sidelight_model.window import Window, encode_windows
from tests.collector.processes import SECONDS, Process, metric, post, stored, text_of, wait_for_event
from tests.processes import eventually

Make = Callable[..., Window]
Ended = tuple[int, str]
SENDERS = 6


COMPACTING = (
    *("--compact-interval-seconds", "0.01", "--compact-max-wait-seconds", "0", "--compact-min-segments", "1"),
    *("--compact-lease-seconds", "0.5"),
)


@pytest.mark.parametrize(("kills", "options"), [(1, ()), (3, COMPACTING)], ids=["segments", "compacting"])
def test_every_acknowledged_window_is_there_exactly_once_after_kill_9(
    start: Callable[..., Process], tmp_path: Path, make_window: Make, kills: int, options: Sequence[str]
) -> None:
    root, luck = tmp_path / "store", random.Random(7)
    made: dict[str, Window] = {}
    unsent: list[Window] = []
    acknowledged: set[str] = set()
    lock = threading.Lock()

    def send(port: int, killed: threading.Event) -> None:
        while not killed.is_set():
            with lock:
                window = (
                    unsent.pop()
                    if unsent
                    else make_window(f"main;f{luck.randrange(50)} {luck.randrange(9) + 1}")
                )
                made[window.id] = window
            try:
                status, said = post(port, encode_windows([window]))
            except (OSError, http.client.HTTPException):
                status = 0
            with lock:
                if status == 200:
                    assert [*said["accepted"], *said["duplicates"]] == [window.id]
                    acknowledged.add(window.id)
                else:
                    unsent.append(window)

    for _ in range(kills):
        process = start(str(root), "--flush-seconds", "0.02", *options)
        port, killed = process.port(), threading.Event()
        senders = [threading.Thread(target=send, args=(port, killed)) for _ in range(SENDERS)]
        enough = len(acknowledged) + luck.randrange(5, 60)
        for sender in senders:
            sender.start()
        deadline = time.monotonic() + SECONDS
        while len(acknowledged) < enough and time.monotonic() < deadline:
            time.sleep(luck.random() / 500)
        process.kill()
        killed.set()
        for sender in senders:
            sender.join(SECONDS)
        ids = stored(root)
        assert acknowledged <= ids
        assert ids <= acknowledged | {window.id for window in unsent}
    assert unsent, "no window was caught in mid-ingest"

    process = start(str(root), *options)
    port = process.port()
    wait_for_event(process, "ids of earlier windows recalled")
    for window in unsent:
        status, said = post(port, encode_windows([window]))
        assert status == 200, said
    ids = stored(root)
    assert ids == acknowledged | {window.id for window in unsent}
    # A window whose answer was lost may lie in two segments; every answer counts it once.
    answer = json.loads(text_of(port, "/api/v1/services"))
    assert answer["basis"]["windows"] == len(ids)
    assert answer["services"][0]["samples"] == sum(made[one].total.wall for one in ids)
    if options:
        deadline = time.monotonic() + SECONDS
        while metric(port, "sidelight_compacted_windows_total") == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert metric(port, "sidelight_compacted_windows_total") > 0
        assert metric(port, "sidelight_compaction_errors_total") == 0
        assert json.loads(text_of(port, "/api/v1/services"))["services"] == answer["services"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stores_and_answers_what_is_waiting_and_ends_with_0(
    start: Callable[..., Process], tmp_path: Path, make_window: Make, number: signal.Signals
) -> None:
    process = start(str(tmp_path / "store"), "--flush-seconds", "3600")
    port, first, window, answers = process.port(), make_window(pod="p1"), make_window(pod="p2"), []
    assert post(port, encode_windows([first]))[0] == 200  # alone, and the next one waits for others
    sender = threading.Thread(target=lambda: answers.append(post(port, encode_windows([window]))))
    sender.start()
    deadline = time.monotonic() + SECONDS
    size = sum(len(encode_windows([sent])) for sent in (first, window))
    received = f"sidelight_ingest_decompressed_bytes_total {size}.0"
    while received not in text_of(port, "/metrics"):
        assert time.monotonic() < deadline
    process.process.send_signal(number)
    assert process.ended()[0] == 0
    sender.join(SECONDS)
    assert answers == [(200, {"accepted": [window.id], "duplicates": []})]
    assert stored(tmp_path / "store") == {first.id, window.id}


def test_a_port_in_use_is_one_clear_line(start: Callable[..., Process], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, said = start(str(tmp_path / "store"), "--listen", address).ended()
    assert status == 1
    assert f"error: {address} is in use\nhint: " in said
    assert "Traceback" not in said


@pytest.fixture
def failing_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Starts a collector that cannot start, in this process; its exit status and what it said."""
    monkeypatch.setattr(logs, "configure", lambda **_: None)

    def begin(store: Path | str, *options: str) -> Ended:
        status = run(["collector", "--store", str(store), "--listen", "127.0.0.1:0", *options])
        return status, capsys.readouterr().err

    return begin


def test_a_store_that_cannot_be_used_ends_it_with_the_cause(
    failing_start: Callable[..., Ended], tmp_path: Path, s3_server: Any
) -> None:
    (tmp_path / "file").write_text("")
    later = DirectoryStore(tmp_path / "later")
    later.put(CONFIG_KEY, b'{"format": 9}')
    for store, options, cause in [
        (str(tmp_path / "file"), (), "error: cannot create in the store directory"),
        (str(tmp_path / "later"), (), "is in format 9"),
        ("ftp://host", (), "is not a store"),
        ("s3://no-such-bucket", ("--s3-endpoint", s3_server.endpoint), "NoSuchBucket"),
        (
            "s3://bucket",
            ("--s3-endpoint", "http://127.0.0.1:1", "--store-timeout-seconds", "1"),
            "does not answer",
        ),
    ]:
        status, said = failing_start(store, *options)
        assert status == 1
        assert cause in said
        assert "\nhint: " in said


def test_anonymous_access_is_refused_unless_nobody_else_gets_here_or_it_is_accepted(
    start: Callable[..., Process], failing_start: Callable[..., Ended], tmp_path: Path
) -> None:
    anywhere = ("--listen", "0.0.0.0:0", "--allow-anonymous-writes")
    for options, missing in ((anywhere[:2], "--write-tokens-file"), (anywhere, "--read-tokens-file")):
        status, said = failing_start(tmp_path / "store", *options)
        assert status == 2
        assert missing in said
    start(str(tmp_path / "store"), *anywhere, "--allow-anonymous-reads").port()


@pytest.mark.parametrize("content", [None, "", "# nobody\n"])
def test_a_file_without_tokens_ends_it(
    failing_start: Callable[..., Ended], tmp_path: Path, content: str | None
) -> None:
    tokens = tmp_path / "tokens"
    if content is not None:
        tokens.write_text(content)
    status, said = failing_start(tmp_path / "store", "--write-tokens-file", str(tokens))
    assert status == 2
    assert str(tokens) in said


def test_a_start_is_logged_with_settings_kernel_and_address_and_without_tokens(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("# who may write\n\na-secret-token\n")
    options = ("--listen", "0.0.0.0:0", "--write-tokens-file", str(tokens), "--path-prefix", "/profiles/")
    process = start(str(tmp_path / "store"), *options, "--allow-anonymous-reads")
    port = process.port()
    assert wait_for_event(process, "listening")["url"] == f"http://0.0.0.0:{port}/profiles/"
    assert post(port, b"main 1\n", "?service=shop", prefix="/profiles")[0] == 401
    starting = [event for event in process.events() if event["event"] == "starting"]
    assert len(starting) == 1
    assert starting[0]["flush_bytes"] == 16 << 20
    (kernel,) = [event for event in process.events() if "kernel" in event["event"]]
    assert (kernel["event"], kernel["level"]) == ("native kernel in use", "info")
    assert "a-secret-token" not in process.log.read_text()


def test_the_log_says_why_the_native_kernel_is_not_used(
    start: Callable[..., Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sidelight_native.py").write_text("raise ImportError('not for this machine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = start(str(tmp_path / "store"))
    process.port()
    (said,) = [event for event in process.events() if "kernel" in event["event"]]
    assert (said["event"], said["level"]) == ("native kernel not in use", "warning")
    assert said["cause"] == "not for this machine"
    assert said["hint"]


def test_when_a_root_task_dies_the_process_ends_and_not_with_0(tmp_path: Path) -> None:
    code = """
import sys
from sidelight_collector.storage.lifecycle import retention
from sidelight.main import run

async def dies(self, stop):
    raise RuntimeError("a defect in retention")

async def ends(self, stop):
    return None

retention.Retention.run = {"dies": dies, "ends": ends}[sys.argv.pop(1)]
sys.exit(run(["collector", *sys.argv[1:]]))
"""
    for how, words in (("dies", "a defect in retention"), ("ends", "the retention task ended")):
        said = subprocess.run(
            [sys.executable, "-c", code, how, "--listen", "127.0.0.1:0", "--store", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert said.returncode == 1
        assert words in said.stderr


def test_a_collector_on_s3_acknowledges_what_is_in_the_bucket(
    start: Callable[..., Process], s3_server: Any, new_bucket: Callable[[], str], make_window: Make
) -> None:
    location = f"s3://{new_bucket()}/profiles"
    process = start(location, "--s3-endpoint", s3_server.endpoint)
    window = make_window("main;f 3")
    assert post(process.port(), encode_windows([window])) == (
        200,
        {"accepted": [window.id], "duplicates": []},
    )
    process.kill()
    store = open_store(location, s3_endpoint=s3_server.endpoint)
    (ref,) = list_segments(store, 0, 2**63 - 1)
    assert read_segment(store, ref, "profiles")["wid"].to_pylist() == [window.id]


def test_an_s3_server_that_goes_away_is_answered_503_until_it_is_back(
    start: Callable[..., Process],
    s3_server: Any,
    new_bucket: Callable[[], str],
    make_window: Make,
) -> None:
    process = start(
        f"s3://{new_bucket()}", "--s3-endpoint", s3_server.endpoint, "--store-timeout-seconds", "4"
    )
    port, body = process.port(), encode_windows([make_window("main 1")])
    wait_for_event(process, "ids of earlier windows recalled")
    os.kill(s3_server.running.pid, signal.SIGSTOP)
    try:
        status, said = post(port, body)
        assert (status, said["error"]) == (503, "store_unavailable")
    finally:
        os.kill(s3_server.running.pid, signal.SIGCONT)
    eventually("the window is stored", lambda: post(port, body)[0] == 200, SECONDS)
