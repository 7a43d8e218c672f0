"""The whole demo, for real: every service is profiled, and nobody is left when it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import psutil
import pytest

from sidelight_cli.demo.versions import VERSIONS
from tests.cli.local.terminals import terminal
from tests.processes import Running, collector, eventually, running, sidelight

QUICK = ("--no-browser", "--listen", "127.0.0.1:0", "--rate", "20")
RUN_SECONDS = 240.0


class Finished(NamedTuple):
    """A demo that measured once: its process, its report, its directory, the port it could not have."""

    demo: Running
    report: dict[str, Any]
    kept: Path
    port_in_use: int


def measure_once(folder: Path, *options: str) -> Finished:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        argv = sidelight("demo", "--no-browser", "--listen", f"127.0.0.1:{port}", *options)
        argv += ["--report", str(folder / "out.json"), "--keep", str(folder / "kept")]
        with running(folder / "demo.log", *argv) as demo:
            assert demo.process.wait(RUN_SECONDS) == 0, demo.said()
    return Finished(demo, json.loads((folder / "out.json").read_text()), folder / "kept", port)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A demo that measured for five seconds, without a terminal, where another server had its port."""
    return measure_once(tmp_path_factory.mktemp("demo"), "--rate", "20", "--seconds", "5")


@contextmanager
def started(tmp_path: Path, *options: str, after: str) -> Iterator[tuple[Running, list[psutil.Process]]]:
    """A demo that has just said `after`, and its children; they are killed if they stay."""
    with running(tmp_path / "demo.log", *sidelight("demo", *QUICK, *options)) as demo:
        eventually(f"the demo says {after!r}", lambda: after in demo.said() or not demo.alive(), RUN_SECONDS)
        assert demo.alive(), demo.said()
        children = psutil.Process(demo.pid).children(recursive=True)
        try:
            yield demo, children
        finally:
            for child in children:
                if child.is_running():
                    child.kill()


def left(children: list[psutil.Process]) -> list[psutil.Process]:
    return [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def test_a_run_profiles_every_service_and_reports_it(finished: Finished) -> None:
    report = finished.report
    assert report["ok"] is True
    assert report["problems"] == []
    assert [one["version"] for one in report["versions"]] == [version.name for version in VERSIONS]
    for one in report["versions"]:
        load, profile = one["load"], one["profile"]
        assert profile["tasks"]["mean"] >= 1
        assert load["sent"] == 100
        assert load["overall"]["answered"] + sum(load["errors"].values()) == 100
        assert load["paths"]["/50"]["p50_ms"] > 49
        assert load["paths"]["/125"]["p50_ms"] > 124
        assert profile["samples"] == sum(profile["states"].values()) > 0
        assert profile["cpu_cores"] > 0
    assert report["command"][:4] == ["sidelight", "demo", "--no-browser", "--listen"]
    assert report["libraries"].keys() == {"sidelight", "aiohttp", "tornado", "uvloop", "py-spy"}
    assert report["machine"]["python"] == sys.version.split()[0]
    assert report["settings"] == {"seconds": 5.0, "rate": 20.0, "sample_rate": 100.0, "window_seconds": 1.25}
    assert 0 < report["until"] - report["from"] <= 5


def test_every_documented_field_is_in_the_report(finished: Finished) -> None:
    page = (Path(__file__).parents[3] / "docs" / "demo.md").read_text()
    version = finished.report["versions"][0]
    fields = {*finished.report, *version, *version["profile"], *version["load"]}
    assert sorted(field for field in fields if f"`{field}`" not in page) == []


def test_without_a_terminal_it_prints_addresses_and_tables_as_plain_lines(finished: Finished) -> None:
    said = finished.demo.said()
    sides = "baseline=version:tornado-async&comparison=version:aiohttp"
    assert f"127.0.0.1:{finished.port_in_use} is in use" in said
    assert re.search(r"^collector +http://127.0.0.1:\d+ ", said, re.MULTILINE)
    assert re.search(rf"compare +http://127.0.0.1:\d+/s/demo/compare\?from=-15m&{sides}\n", said)
    tables = said.split("measuring ")[1].count("tornado-coroutines ")
    assert tables >= 2, "while it fills, and when it is complete"
    for version in VERSIONS:
        assert re.search(
            rf"^{version.name} +\d+\.\d( +\d\S*){{4}} +\d+\.\d %( +\S+){{3,}}$", said, re.MULTILINE
        )
    assert "CPU (" in said
    assert "\x1b" not in said


def test_a_kept_demo_has_its_windows_and_a_log_of_each_child(finished: Finished) -> None:
    kept = finished.kept
    assert list((kept / "store").rglob("samples.parquet"))
    assert not list((kept / "spool").rglob("*.zst")), "every window was acknowledged"
    assert len(list(kept.glob("*.log"))) == 1 + 3 * len(VERSIONS)
    assert f" collector --store {kept / 'store'}\n" in finished.demo.said()


def test_every_pair_of_versions_of_a_demo_is_compared_on_first_open(
    finished: Finished, tmp_path: Path
) -> None:
    """Two versions and no times, in wall time: a version may have no busy sample in five seconds."""
    with collector(tmp_path, str(finished.kept / "store")) as running:
        for baseline, comparison in permutations(VERSIONS, 2):
            sides = {"baseline": baseline.name, "comparison": comparison.name}
            query = urlencode(
                {"query": '{service="demo"}', "type": "wall", "lines": "0"}
                | {side: f'{{version="{name}"}}' for side, name in sides.items()}
            )
            with urllib.request.urlopen(f"{running.url}/api/v1/compare?{query}", timeout=60) as answer:
                found = json.load(answer)
            assert [side["samples"] > 0 for side in found["sides"]] == [True, True]
            verdict = found["verdict"]
            assert verdict["basis"] == "concurrent", "the demo runs all versions at the same time"
            assert verdict["direction"] not in ("no_data", "not_comparable")
            assert verdict["functions"]["function"]


def test_a_live_demo_opens_the_page_and_redraws_its_table_until_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/part && mv {tmp_path}/part {tmp_path}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("DISPLAY", ":0")
    dashes = re.compile(r"aiohttp(-uvloop)?( +\N{EN DASH}){9}\r\n")
    figures = re.compile(r"aiohttp +\d+\.\d( +\d+\.\d){4} +\d+\.\d %")
    with terminal("demo", "--listen", "127.0.0.1:0", "--rate", "20", columns=80) as screen:
        eventually("an empty table is drawn", lambda: dashes.search(screen.text), RUN_SECONDS)
        eventually("the page is opened", (tmp_path / "opened").exists, RUN_SECONDS)
        eventually("the table is filled", lambda: figures.search(screen.text), RUN_SECONDS)
        children = psutil.Process(screen.process.pid).children(recursive=True)
        assert re.search(r"\x1b\[\d+F\x1b\[J", screen.text), "it is redrawn in place"
        assert re.fullmatch(r"http://127.0.0.1:\d+/s/demo/compare\?.*\n", (tmp_path / "opened").read_text())
        screen.type("\x03")
        eventually("it ends", lambda: screen.process.poll() is not None, 60)
        assert screen.process.returncode == 0, screen.text
        assert len(children) == 1 + 3 * len(VERSIONS)
        assert left(children) == []
        assert "Traceback" not in screen.text


def test_ctrl_c_while_services_start_leaves_nothing_behind(tmp_path: Path) -> None:
    with started(tmp_path, "--seconds", "60", after="collector ") as (demo, children):
        assert children
        assert demo.end(signal.SIGINT, seconds=60) == 130
        assert left(children) == []
        assert "Traceback" not in demo.said()
        store = re.search(r"windows in (\S+)/store", demo.said())
        assert store is not None
        assert not Path(store[1]).exists()


def test_a_child_that_dies_ends_the_demo_and_is_named(tmp_path: Path) -> None:
    with started(tmp_path, after="collector ") as (demo, children):
        # A child has no arguments, or its parent's, until it has executed its own program.
        def services() -> list[psutil.Process]:
            every = psutil.Process(demo.pid).children(recursive=True)
            return [one for one in every if one.cmdline()[1:2] and "aiohttp_uvloop.py" in one.cmdline()[1]]

        (service,) = eventually("the service runs", services)
        service.kill()
        assert demo.process.wait(60) == 1
        assert "error: the service aiohttp-uvloop was ended by SIGKILL; its last output:" in demo.said()
        assert "hint:" in demo.said()
        assert left(children) == []


def test_a_collector_that_cannot_start_is_named_with_its_log(tmp_path: Path) -> None:
    before = psutil.Process().children(recursive=True)
    argv = sidelight("demo", "--no-browser", "--seconds", "5", "--listen", "203.0.113.1:8080")
    with running(tmp_path / "demo.log", *argv) as demo:
        assert demo.process.wait(60) == 1
        assert "the collector ended with exit status" in demo.said()
        assert "hint: Try another address with --listen" in demo.said()
        assert set(left(psutil.Process().children(recursive=True))) <= set(before)


@pytest.mark.long
def test_children_end_when_the_demo_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, "--keep", str(tmp_path / "kept"), after="measuring") as (demo, children):
        assert len(children) >= 1 + 3 * len(VERSIONS)
        demo.end(signal.SIGKILL)
        eventually("all children are gone", lambda: not left(children), 40)


@pytest.mark.long
def test_a_longer_run_keeps_its_rate_and_samples_busy_stacks(tmp_path: Path) -> None:
    report = measure_once(tmp_path, "--rate", "60", "--seconds", "10").report
    for one in report["versions"]:
        assert one["load"]["arrival_rate"] == pytest.approx(60, rel=0.1)
        assert one["load"]["paths"]["/50"]["answered"] == one["load"]["paths"]["/125"]["answered"] == 300
        assert one["profile"]["samples"] > 300
        assert 0 < one["profile"]["cpu_cores"] < 1
    # At 60 requests a second a version is busy for 1 to 2 % of its time: one alone may show no busy sample.
    busy = [one["profile"] for one in report["versions"] if one["profile"]["busy_samples"]]
    assert busy
    assert all(profile["depth_mean"] > 1 for profile in busy)
    assert report["until"] - report["from"] == pytest.approx(10, abs=0.1)
