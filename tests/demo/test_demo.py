"""The whole demo, for real: every service is profiled, and nobody is left when it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from sidelight.demo.versions import VERSIONS
from tests.running import Running, eventually, running, sidelight

QUICK = ("--no-browser", "--listen", "127.0.0.1:0", "--rate", "60")
RUN_SECONDS = 120.0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Running, dict[str, Any], Path]:
    """A demo that measured once for five seconds: the process, its report, the directory it kept."""
    folder = tmp_path_factory.mktemp("demo")
    argv = sidelight("demo", *QUICK, "--seconds", "5", "--report", str(folder / "out.json"))
    with running(folder / "demo.log", *argv, "--keep", str(folder / "kept")) as demo:
        assert demo.process.wait(RUN_SECONDS) == 0, demo.said()
    return demo, json.loads((folder / "out.json").read_text()), folder / "kept"


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


def test_a_run_profiles_every_service(finished: tuple[Running, dict[str, Any], Path]) -> None:
    _, report, _ = finished
    assert report["ok"] is True
    assert report["problems"] == []
    assert [one["version"] for one in report["versions"]] == [version.name for version in VERSIONS]
    for one in report["versions"]:
        assert one["load"]["arrival_rate"] == pytest.approx(60, rel=0.1)
        assert one["load"]["paths"]["/50"]["answered"] == one["load"]["paths"]["/125"]["answered"] == 150
        assert one["load"]["paths"]["/50"]["p50_ms"] > 49
        assert one["load"]["paths"]["/125"]["p50_ms"] > 124
        assert one["profile"]["samples"] > 100
        assert 0 < one["profile"]["cpu_cores"] < 1
    # At 60 requests a second a version is busy for 1 to 2 % of its time: one alone may show no busy sample.
    busy = [one["profile"] for one in report["versions"] if one["profile"]["busy_samples"]]
    assert busy
    assert all(profile["depth_mean"] > 1 for profile in busy)


def test_its_report_says_what_was_run_where(finished: tuple[Running, dict[str, Any], Path]) -> None:
    _, report, _ = finished
    assert report["command"][:4] == ["sidelight", "demo", "--no-browser", "--listen"]
    assert report["libraries"].keys() == {"sidelight", "aiohttp", "tornado", "uvloop", "py-spy"}
    assert report["machine"]["python"] == sys.version.split()[0]
    assert report["settings"] == {"seconds": 5.0, "rate": 60.0, "sample_rate": 100.0, "window_seconds": 1.25}
    assert report["until"] - report["from"] == pytest.approx(5, abs=0.1)


def test_it_prints_the_page_and_the_table_without_terminal_codes(
    finished: tuple[Running, dict[str, Any], Path],
) -> None:
    said = finished[0].said()
    sides = "a=version:tornado-async&b=version:aiohttp"
    assert re.search(rf"compare +http://127.0.0.1:\d+/s/demo/compare\?from=-15m&{sides}\n", said)
    for version in VERSIONS:
        assert re.search(rf"^{version.name} +\d+\.\d( +\S+){{8,}}$", said, re.MULTILINE)
    assert "CPU (" in said
    assert "\x1b" not in said


def test_what_is_kept_holds_the_windows_and_a_log_of_each_child(
    finished: tuple[Running, dict[str, Any], Path],
) -> None:
    demo, _, kept = finished
    assert list((kept / "store").rglob("samples.parquet"))
    assert not list((kept / "spool").rglob("*.zst")), "every window was acknowledged"
    assert len(list(kept.glob("*.log"))) == 1 + 3 * len(VERSIONS)
    assert f"sidelight collector --store {kept / 'store'}" in demo.said()


def test_every_documented_field_is_in_the_report(finished: tuple[Running, dict[str, Any], Path]) -> None:
    _, report, _ = finished
    page = (Path(__file__).parents[2] / "docs" / "demo.md").read_text()
    fields = {
        *report,
        *report["versions"][0],
        *report["versions"][0]["profile"],
        *report["versions"][0]["load"],
    }
    assert sorted(field for field in fields if f"`{field}`" not in page) == []


@pytest.mark.parametrize(("after", "options"), [("collector ", ("--seconds", "60")), ("measuring", ())])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, after: str, options: tuple[str, ...]) -> None:
    with started(tmp_path, *options, after=after) as (demo, children):
        assert children
        assert demo.end(signal.SIGINT, seconds=60) == (130 if options else 0)
        assert left(children) == []
        assert "Traceback" not in demo.said()
        store = re.search(r"windows in (\S+)/store", demo.said())
        assert store is not None
        assert not Path(store[1]).exists()


def test_children_end_when_the_demo_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, "--keep", str(tmp_path / "kept"), after="measuring") as (demo, children):
        assert len(children) >= 1 + 3 * len(VERSIONS)
        demo.end(signal.SIGKILL)
        eventually("all children are gone", lambda: not left(children), 40)


def test_a_child_that_dies_ends_the_demo_and_is_named(tmp_path: Path) -> None:
    with started(tmp_path, after="measuring") as (demo, children):
        (sidecar,) = [
            child
            for child in children
            if {"sidecar", "aiohttp"} <= set(child.cmdline()) and child.ppid() == demo.pid
        ]
        sidecar.kill()
        assert demo.process.wait(60) == 1
        assert "error: the sidecar aiohttp was ended by SIGKILL; the last it said:" in demo.said()
        assert "a process is watched" in demo.said()
        assert "hint:" in demo.said()
        assert left(children) == []


def test_a_collector_that_cannot_start_is_told_with_its_log(tmp_path: Path) -> None:
    before = psutil.Process().children(recursive=True)
    argv = sidelight("demo", "--no-browser", "--seconds", "5", "--listen", "203.0.113.1:8080")
    with running(tmp_path / "demo.log", *argv) as demo:
        assert demo.process.wait(60) == 1
        assert "the collector ended with exit status" in demo.said()
        assert "hint: Try another address with --listen" in demo.said()
        assert set(left(psutil.Process().children(recursive=True))) <= set(before)


def test_a_port_in_use_is_said_and_another_one_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        argv = sidelight("demo", "--no-browser", "--seconds", "60", "--listen", address)
        with running(tmp_path / "demo.log", *argv) as demo:
            eventually("the services run", lambda: "service " in demo.said() or not demo.alive(), 60)
            assert f"{address} is in use" in demo.said()
            assert re.search(r"collector +http://127.0.0.1:\d+ ", demo.said())
            assert demo.end(signal.SIGTERM, seconds=60) == 130
