"""Commands before a collector with TLS: each trusts the authorities in --ca-file, and names it otherwise."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sidelight.main import run
from tests.cluster.pki import Authority

COMMANDS = (
    ("query", "status"),
    ("capture", "list"),
    ("export",),
    ("compare", '{service="shop"}', "--baseline", "version:1", "--comparison", "version:2"),
)


class Refusing(BaseHTTPRequestHandler):
    """Answers every request as a collector that has no such thing."""

    def do_GET(self) -> None:
        body = b'{"error":"not_found","message":"the answer of the collector"}'
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own word
        return


class Server(ThreadingHTTPServer):
    """Says nothing of clients that do not trust it."""

    def handle_error(self, request: object, client_address: object) -> None:
        return


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def port(authority: Authority) -> Iterator[int]:
    certificate = authority.server("collector", ("localhost",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    with Server(("127.0.0.1", 0), Refusing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_command_answers_a_trusted_collector_alone(
    command: tuple[str, ...],
    authority: Authority,
    port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"https://localhost:{port}"
    assert run([*command, "--collector", url, "--ca-file", str(authority.certificate)]) != 0
    assert "the answer of the collector" in capsys.readouterr().err

    monkeypatch.setenv("SIDELIGHT_CA_FILE", str(authority.certificate))
    assert run([*command, "--collector", url]) != 0
    assert "the answer of the collector" in capsys.readouterr().err

    stranger = Authority(tmp_path / "stranger").certificate
    assert run([*command, "--collector", url, "--ca-file", str(stranger)]) != 0
    told = capsys.readouterr().err
    assert "its certificate is not trusted: " in told
    assert "--ca-file" in told


def test_the_hint_fits_the_mistake(
    authority: Authority, port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(url: str, file: Path = authority.certificate) -> str:
        assert run(["query", "status", "--collector", url, "--ca-file", str(file)]) != 0
        return capsys.readouterr().err

    assert "IP address mismatch" in told(f"https://127.0.0.1:{port}")
    assert f"cannot read the CA certificates in {tmp_path / 'none'}" in told(
        f"https://localhost:{port}", tmp_path / "none"
    )
    with Server(("127.0.0.1", 0), Refusing) as plain:
        thread = threading.Thread(target=plain.serve_forever, args=(0.05,))
        thread.start()
        text = told(f"https://localhost:{plain.server_port}")
        plain.shutdown()
        thread.join()
    assert "it does not answer with TLS" in text
    assert "http://" in text
