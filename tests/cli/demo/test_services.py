"""The example services, each as a real process."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sidelight_cli.demo.versions import VERSIONS, DemoVersion, find_services_directory
from sidelight_model.errors import SidelightError
from tests.processes import ROOT, Running, eventually, running


@pytest.fixture(params=VERSIONS, ids=lambda version: version.name)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    version: DemoVersion = request.param
    program = str(find_services_directory() / version.program)
    argv = (sys.executable, program, "--port-file", str(tmp_path / "port"))
    with running(tmp_path / "service.log", *argv) as process:
        eventually("the service writes its port", lambda: (tmp_path / "port").exists() or not process.alive())
        assert process.alive(), process.said()
        yield process


def get(service: Running, path: str) -> tuple[str, float]:
    """The body of an answer and how long it took, in seconds."""
    port = (service.log.parent / "port").read_text().strip()
    began = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read().decode(), time.monotonic() - began


def test_a_service_answers_after_its_waits_on_loopback_and_ends_at_sigterm(service: Running) -> None:
    body, seconds = get(service, "/50")
    assert json.loads(body) == {"waited_ms": 50}
    assert seconds >= 0.049
    body, seconds = get(service, "/125")
    assert json.loads(body) == {"waited_ms": [50, 50, 50], "gave_up": True}
    assert seconds >= 0.123, "one wait of 50 ms, two at once, and 25 ms of the one given up"
    assert get(service, "/healthz")[0] == "ok\n"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(service, "/nothing")
    sockets = psutil.Process(service.pid).net_connections("inet")
    assert [one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN] == ["127.0.0.1"]
    assert service.end() in (0, -15)


@pytest.mark.long
def test_the_two_simultaneous_waits_of_125_do_not_add_up(service: Running) -> None:
    assert min(get(service, "/125")[1] for _ in range(10)) < 0.15


def test_services_are_found_in_a_source_tree_and_in_an_installed_package(tmp_path: Path) -> None:
    assert find_services_directory() == ROOT / "examples"
    installed = tmp_path / "site-packages" / "sidelight_cli" / "demo"
    (installed / "services").mkdir(parents=True)
    for version in VERSIONS:
        (installed / "services" / version.program).touch()
    assert find_services_directory(installed) == installed / "services"


def test_missing_services_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SidelightError, match="neither") as caught:
        find_services_directory(tmp_path / "cli" / "sidelight_cli" / "demo")
    assert "Reinstall" in caught.value.hint
