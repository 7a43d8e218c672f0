"""`sidelight capture` against a real collector and a real sidecar that samples a real program."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from sidelight.main import run
from sidelight.settings import BadSetting, format_flag
from sidelight_cli.capture_command import (
    CaptureProgressLine,
    CaptureSettings,
    format_capture,
    format_export_command,
    format_progress,
    parse_pods,
)
from sidelight_cli.download import FORMATS_BY_SUFFIX, parse_output_path
from tests.e2e.test_full_path import TARGET, sidecar
from tests.processes import Collector, collector, eventually, running, sidelight
from tests.tools.site import read_page


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector that a sidecar of the service `shares` asks for captures."""
    tmp_path = tmp_path_factory.mktemp("served")
    with ExitStack() as stack:
        target = stack.enter_context(running(tmp_path / "target.log", sys.executable, str(TARGET), "1800"))
        eventually("the target runs", lambda: "ready" in target.said())
        one = stack.enter_context(
            collector(tmp_path, str(tmp_path / "store"), "--capture-check-interval-seconds", "0.3")
        )
        stack.enter_context(sidecar(tmp_path, one.url, target.pid, "--window-seconds", "1"))
        eventually("the sidecar asks", lambda: one.get("/api/v1/agents")["agents"], 60)
        yield one


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector that nobody asks for captures."""
    tmp_path = tmp_path_factory.mktemp("alone")
    with collector(tmp_path, str(tmp_path / "store"), "--capture-wait-seconds", "0.5") as one:
        yield one


def told(url: str, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SIDELIGHT_COLLECTOR": url}
    return subprocess.run(
        sidelight("capture", *argv), capture_output=True, text=True, timeout=120, env=environment, check=False
    )


def test_a_capture_ends_with_an_address_and_an_export_that_works(served: Collector) -> None:
    done = told(served.url, "--seconds", "6", "--rate", "50", "shares")
    assert done.returncode == 0, done.stderr
    address, export = done.stdout.splitlines()
    capture_id = address.rpartition("/")[2]
    assert address == f"{served.url}/captures/{capture_id}"
    assert re.search(
        rf"^{capture_id}  shares  ready: [\d,]+ samples in \d+\.\d s$", done.stderr, re.MULTILINE
    )
    words = {line.partition(" ")[0] for line in done.stderr.splitlines()[1:]}
    assert "sampling" in words  # a line for each state, without a terminal
    command, _, file = export.partition(" > ")
    assert file == f"{capture_id}.folded"
    command = command.replace("sidelight", " ".join(sidelight()), 1)
    folded = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert "seventy (" in folded
    again = told(served.url, "show", capture_id, "--json")
    shown = json.loads(again.stdout)
    assert (again.returncode, shown["state"], shown["rate"]) == (0, "ready", 50)
    listed = told(served.url, "list").stdout.splitlines()
    assert listed[0].split() == ["id", "state", "service", "created", "seconds", "pods", "samples"]
    assert listed[1].split()[:3] == [capture_id, "ready", "shares"]
    assert told(served.url, "delete", capture_id).returncode == 0
    assert told(served.url, "show", capture_id).returncode == 1


def test_ctrl_c_ends_a_capture_and_keeps_what_was_sampled(served: Collector, tmp_path: Path) -> None:
    argv = sidelight("capture", "--collector", served.url, "--seconds", "300", "shares")
    with running(tmp_path / "capture.log", *argv) as command:
        eventually("it samples", lambda: "sampling" in command.said(), 60)

        def sampled() -> int:
            return int(served.get("/api/v1/captures")["captures"][0]["samples"])

        eventually("there are samples", sampled, 60)
        assert command.end(signal.SIGINT, 90) == 0, command.said()
        assert "what was sampled is kept" in command.said()
        assert "stopped: " in command.said()
    capture = served.get("/api/v1/captures")["captures"][0]
    assert capture["state"] == "stopped"
    assert capture["samples"] > 0


def test_on_a_terminal_one_line_is_written_over(served: Collector) -> None:
    leader, follower = pty.openpty()
    argv = sidelight("capture", "--collector", served.url, "--seconds", "5", "--json", "shares")
    with subprocess.Popen(argv, stderr=follower, stdout=subprocess.PIPE) as command:
        os.close(follower)
        said = b""
        while True:
            try:
                said += os.read(leader, 4096)
            except OSError:  # the terminal's other side is closed
                break
        assert command.stdout is not None
        assert json.loads(command.stdout.read())["state"] == "ready"
    os.close(leader)
    written_over = said.decode().split("\r\x1b[K")
    assert any(line.startswith("sampling · ") for line in written_over)
    assert command.returncode == 0


@pytest.mark.parametrize(("name", "begins"), [("p.json", '{"$schema"'), ("p.folded", ""), ("p.svg", "<")])
def test_a_result_is_saved_in_the_format_that_the_name_says(
    served: Collector,
    tmp_path: Path,
    name: str,
    begins: str,
) -> None:
    file = tmp_path / name
    done = told(served.url, "--seconds", "1", "--save", str(file), "shares")
    assert done.returncode == 0, done.stderr
    assert f"written to {file}" in done.stderr
    text = file.read_text()
    assert "seventy" in text
    assert text.startswith(begins)
    if name.endswith(".json"):
        assert json.loads(text)["profiles"]
    assert [one.name for one in tmp_path.glob("*p.*part")] == []


def test_a_name_that_says_no_format_and_a_place_that_takes_no_file_are_refused(
    served: Collector,
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match="does not end with"):
        parse_output_path("profile.bin")
    assert set(FORMATS_BY_SUFFIX.values()) == {"folded", "speedscope", "pprof", "svg", "html", "csv"}
    refused = told(served.url, "--save", "p.bin", "shares")
    assert refused.returncode == 2
    failed = told(served.url, "--seconds", "1", "--save", str(tmp_path / "none" / "p.svg"), "shares")
    assert failed.returncode == 1
    assert "cannot write" in failed.stderr


def test_what_does_not_go_together_is_refused(served: Collector) -> None:
    for argv in (("--detach", "--open"), ("--container", "app")):
        assert told(served.url, *argv, "shares").returncode == 2
    refused = told(served.url, "--attach", "shares")
    assert refused.returncode == 1
    assert "--attach-image" in refused.stderr


def test_a_capture_that_fails_says_why_and_ends_with_1(alone: Collector) -> None:
    done = told(alone.url, "ghost")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error: no sidecar took it within 0.5 s: no sidecar polls this collector" in done.stderr
    assert "hint: See that the sidecar runs" in done.stderr


def test_a_capture_may_be_left_and_stopped_from_elsewhere(served: Collector) -> None:
    done = told(served.url, "--detach", "start", "list")
    capture_id, address = done.stdout.splitlines()
    assert address.endswith(capture_id)
    shown = told(served.url, "stop", capture_id)
    assert "it was stopped before a sidecar took it" in shown.stdout
    assert json.loads(told(served.url, "list", "--json").stdout)[0]["service"] == "list"


def test_what_the_collector_refuses_is_said_and_wrong_options_too(alone: Collector) -> None:
    refused = told(alone.url, "--pods", "6", "shop")
    assert (refused.returncode, "--capture-max-pods" in refused.stderr) == (1, True)
    assert told("http://127.0.0.1:9", "shop").returncode == 1
    assert told(alone.url, "--pods", "a,,b", "shop").returncode == 2
    for argv in ([], ["show"], ["shop", "cart"], ["list", "c_1"], ["start"]):
        assert told(alone.url, *argv).returncode == 2, argv


def test_what_a_sidecar_is_called_moves_no_cursor() -> None:
    capture = {
        "id": "c_1", "service": "\x1b[2Jshop", "state": "sampling", "elapsed_seconds": 3.4, "seconds": 60.0,
        "samples": 1234, "pods": 2, "problem": "", "hint": "",
        "parts": [
            {"agent": "a", "labels": {"pod": "\x07p\r"}, "state": "sampling", "problem": "", "hint": "",
             "samples": 1234, "errors": {"read": 2},
             "top_functions": [{"function": "f\x1b[0m", "self_samples": 7}]}
        ],
    }  # fmt: skip
    line = format_progress(capture)
    assert line == r"sampling · 3/60 s · 1,234 samples · 2 pods · most in f\x1b[0m (7)"
    assert not any(ord(letter) < 32 for line in format_capture(capture) for letter in line)


def test_without_a_terminal_a_line_comes_with_each_state_and_now_and_then() -> None:
    said: list[str] = []
    now = [0.0]
    progress = CaptureProgressLine(False, said.append, lambda: now[0])
    capture = {"state": "queued", "pods": 0, "parts": []}
    for state, at in (("queued", 0), ("queued", 5), ("scheduled", 6), ("scheduled", 15), ("scheduled", 16)):
        now[0] = at
        progress.show({**capture, "state": state})
    assert said == ["queued", "scheduled", "scheduled"]


def test_an_export_line_names_exactly_the_time_of_the_capture() -> None:
    capture: Mapping[str, object] = {"id": "c_1", "from": 10, "until": 20}
    assert format_export_command("http://c", capture) == (
        "sidelight export --collector http://c --from 10 --until 20 "
        "--type wall '{capture=\"c_1\"}' > c_1.folded"
    )


def test_pods_are_a_number_names_or_all() -> None:
    assert [parse_pods(text) for text in ("all", "3", "a, b")] == ["all", 3, ["a", "b"]]
    with pytest.raises(ValueError, match="names"):
        parse_pods("a,")
    with pytest.raises(BadSetting):
        CaptureSettings(what="show", collector="http://c")


def test_the_variables_of_a_sidecar_are_not_those_of_a_capture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIDELIGHT_RATE", "1000")
    monkeypatch.setenv("SIDELIGHT_COLLECTOR", "not an address")
    assert run(["capture", "shop"]) == 2
    assert "'not an address' is not the address of a collector" in capsys.readouterr().err
    assert CaptureSettings(what="shop", collector="x").rate == 100


def test_every_option_is_documented_and_no_other() -> None:
    page = read_page(Path(__file__).parents[2] / "docs" / "captures.md")
    listed = dict(re.findall(r"^\| `(--[a-z0-9-]+)` \| .* \| (.*) \|$", page, re.MULTILINE))
    fields = [field for field in dataclasses.fields(CaptureSettings) if not field.metadata["positional"]]
    assert listed == {format_flag(field): field.metadata["help"] for field in fields}
