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

from sidelight.demo.versions import VERSIONS, Version, services_directory
from sidelight.stacks.errors import SidelightError
from tests.running import ROOT, Running, eventually, running


@pytest.fixture(params=VERSIONS, ids=lambda version: version.name, scope="module")
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    version: Version = request.param
    folder = tmp_path_factory.mktemp(version.name)
    program = str(services_directory() / version.program)
    argv = (sys.executable, program, "--port-file", str(folder / "port"))
    with running(folder / "service.log", *argv) as process:
        eventually("the service writes its port", (folder / "port").exists)
        yield process


def asked(service: Running, path: str) -> tuple[str, float]:
    """The body of an answer and how long it took, in seconds."""
    port = (service.log.parent / "port").read_text().strip()
    began = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode(), time.monotonic() - began


def test_50_waits_50_milliseconds(service: Running) -> None:
    body, took = asked(service, "/50")
    assert json.loads(body) == {"waited_ms": 50}
    assert took >= 0.049


def test_125_waits_for_one_then_for_two_at_once_then_gives_one_up(service: Running) -> None:
    body, took = asked(service, "/125")
    assert json.loads(body) == {"waited_ms": [50, 50, 50], "gave_up": True}
    assert 0.123 <= took < 0.149 + 1.0


def test_the_two_waits_at_once_do_not_add_up(service: Running) -> None:
    assert min(asked(service, "/125")[1] for _ in range(10)) < 0.15


def test_healthz_says_that_the_service_is_up(service: Running) -> None:
    assert asked(service, "/healthz")[0] == "ok\n"


def test_an_unknown_path_is_refused(service: Running) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        asked(service, "/nothing")


def test_only_this_machine_can_reach_a_service(service: Running) -> None:
    sockets = psutil.Process(service.pid).net_connections("inet")
    listening = [one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]


def test_sigterm_ends_a_service(tmp_path: Path) -> None:
    for version in VERSIONS:
        port_file = tmp_path / version.name
        program = str(services_directory() / version.program)
        with running(tmp_path / "log", sys.executable, program, "--port-file", str(port_file)) as process:
            eventually("the service writes its port", port_file.exists)
            assert process.end() in (0, -15)


def test_services_are_found_in_a_source_tree_and_in_an_installed_package(tmp_path: Path) -> None:
    assert services_directory() == ROOT / "examples"
    installed = tmp_path / "site-packages" / "sidelight" / "demo"
    (installed / "services").mkdir(parents=True)
    for version in VERSIONS:
        (installed / "services" / version.program).touch()
    assert services_directory(installed) == installed / "services"


def test_missing_services_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SidelightError, match="neither") as caught:
        services_directory(tmp_path / "sidelight" / "demo")
    assert "Reinstall" in caught.value.hint
