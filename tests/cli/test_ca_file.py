"""Commands before a collector with TLS: each trusts the authorities in --ca-file, and names it otherwise."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidelight.main import run
from tests.cluster.pki import Authority
from tests.loopback_server import LoopbackHandler, serving

COMMANDS = (
    ("query", "status"),
    ("capture", "list"),
    ("export",),
    ("compare", '{service="shop"}', "--baseline", "version:1", "--comparison", "version:2"),
)


class Refusing(LoopbackHandler):
    """Answers every request as a collector that has no such thing."""

    def do_GET(self) -> None:
        self.answer(404, b'{"error":"not_found","message":"the answer of the collector"}')


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def port(authority: Authority) -> Iterator[int]:
    certificate = authority.server("collector", ("localhost",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    with serving(Refusing, tls=context) as port:
        yield port


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
    with serving(Refusing) as plain:
        text = told(f"https://localhost:{plain}")
    assert "it does not answer with TLS" in text
    assert "http://" in text
