"""OpenTelemetry's SDK and Collector, as their projects publish them, against a real collector."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sidelight_model.window import encode_windows
from tests.collector.processes import SECONDS, Process, metric, post
from tests.collector.test_pyroscope_clients import total_ns
from tests.processes import free_port

pytestmark = pytest.mark.long
FOLDER = Path(__file__).parent / "otlp"
PATH = "/v1development/profiles"


@pytest.fixture(scope="module")
def otelcol(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OpenTelemetry Collector, built from its Go modules (four minutes the first time)."""
    program = tmp_path_factory.mktemp("otelcol") / "otelcol"
    command = ["go", "build", "-o", str(program), "."]
    subprocess.run(command, cwd=FOLDER / "otelcol", check=True, timeout=3600)
    return program


@pytest.fixture(scope="module")
def install_sdk(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Installs the SDK with a version of opentelemetry-proto, and gives its interpreter."""

    def install(version: str) -> Path:
        folder = tmp_path_factory.mktemp("sdk")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=SECONDS)
        pip = [folder / "bin" / "pip", "install", "-q"]
        sdk = ["opentelemetry-sdk-extension-profiling==0.63b4", "opentelemetry-exporter-otlp==1.40.0"]
        subprocess.run([*pip, *sdk], check=True, timeout=SECONDS)
        # The SDK pins 1.40, and works with the messages of 1.45 unchanged.
        if version != "1.40.0":
            messages = [f"opentelemetry-proto=={version}", "protobuf>=7"]
            subprocess.run([*pip, "--no-deps", *messages], check=True, timeout=SECONDS)
        return folder / "bin" / "python"

    return install


@pytest.fixture
def forward(otelcol: Path, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts an OpenTelemetry Collector that sends to a port; gives the URL of its receiver."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(port: int, exporter: str = "otlphttp") -> str:
        own = free_port()
        target = f"endpoint: http://127.0.0.1:{port}, compression: gzip"
        if exporter == "otlp":
            target = f"endpoint: 127.0.0.1:{port}, tls: {{insecure: true}}, compression: gzip"
        configuration = tmp_path / "otelcol.yaml"
        configuration.write_text(
            f"receivers: {{otlp: {{protocols: {{http: {{endpoint: 127.0.0.1:{own}}}}}}}}}\n"
            f"exporters: {{{exporter}: {{{target}}}}}\n"
            "service:\n"
            "  telemetry: {metrics: {level: none}}\n"
            f"  pipelines: {{profiles: {{receivers: [otlp], exporters: [{exporter}]}}}}\n"
        )
        log = tmp_path / "otelcol.log"
        argv = [otelcol, "--config", configuration, "--feature-gates=service.profilesSupport"]
        started.append(subprocess.Popen(argv, stderr=log.open("wb")))
        deadline = time.monotonic() + SECONDS
        while "Everything is ready" not in log.read_text():
            assert started[-1].poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        return f"http://127.0.0.1:{own}"

    yield begin
    for process in started:
        process.terminate()
        process.wait(SECONDS)


def run(python: Path, url: str) -> str:
    command = [python, FOLDER / "program.py", f"{url}{PATH}", "4"]
    done = subprocess.run(command, check=True, timeout=SECONDS, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_an_opentelemetry_collector_sends_over_grpc(
    start: Callable[..., Process],
    forward: Callable[..., str],
    install_sdk: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    grpc_port = free_port()
    collector = start(str(tmp_path / "store"), "--otlp-grpc-listen", f"127.0.0.1:{grpc_port}").port()
    assert "Failed" not in run(install_sdk("1.45.2"), forward(grpc_port, "otlp"))
    deadline = time.monotonic() + SECONDS
    while not metric(collector, "sidelight_windows_accepted_total"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert total_ns(collector, query='service="shop",version="7"', type="wall") > 10**9


@pytest.mark.parametrize("through", ["directly", "through an OpenTelemetry Collector"])
def test_the_sdk_is_accepted_with_proto_1_45_and_refused_with_1_40(
    start: Callable[..., Process],
    forward: Callable[[int], str],
    install_sdk: Callable[[str], Path],
    tmp_path: Path,
    through: str,
) -> None:
    collector = start(str(tmp_path / "store")).port()
    url = f"http://127.0.0.1:{collector}" if through == "directly" else forward(collector)
    said = run(install_sdk("1.40.0"), url)
    assert "Failed to export profile batch code: 400" in said
    assert metric(collector, "sidelight_windows_accepted_total") == 0
    said = run(install_sdk("1.45.2"), url)
    assert "Failed" not in said
    deadline = time.monotonic() + SECONDS
    while not metric(collector, "sidelight_windows_accepted_total"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    selector = 'service="shop",version="7",namespace="shop",pod="shop-1"'
    assert total_ns(collector, query=selector, type="wall") > 10**9
    assert metric(collector, "sidelight_otlp_timestamps_ignored_total") > 0


def test_forwarded_windows_pass_an_opentelemetry_collector(
    start: Callable[..., Process], forward: Callable[[int], str], make_window: Any, tmp_path: Path
) -> None:
    receiver = start(str(tmp_path / "there")).port()
    url = forward(receiver)
    sender = start(str(tmp_path / "here"), "--forward-url", f"{url}{PATH}").port()
    window = make_window("main;f 7 | main;[idle] 20 | main;g;[gil] 3", service="shop", version="7")
    status, answer = post(sender, encode_windows([window]))
    assert status == 200, answer
    deadline = time.monotonic() + SECONDS
    while metric(receiver, "sidelight_windows_accepted_total") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    selector = 'service="shop",version="7"'
    for kind in ("cpu", "wall", "gil"):
        assert total_ns(receiver, query=selector, type=kind) == total_ns(sender, query=selector, type=kind)
    assert metric(sender, 'sidelight_forwarded_windows_total{outcome="sent"}') == 1
