"""A sidecar before a collector with TLS: windows leave it only for a collector that it trusts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidelight.main import run
from sidelight.server_tls import CertificateFiles, TlsContext
from tests.cluster.pki import Authority
from tests.processes import eventually
from tests.sidecar.conftest import Start, StartSidecar, sidecars
from tests.sidecar.fake_collector import FakeCollector, collecting
from tests.test_server_tls import present


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


@pytest.fixture
def secure_collector(authority: Authority) -> Iterator[FakeCollector]:
    certificate = authority.server("collector", ("127.0.0.1",))
    tls = TlsContext()
    tls.set_certificate(*CertificateFiles(certificate, certificate.with_suffix(".key")).read(present()))
    with collecting(tls=tls.context) as one:
        yield one


@pytest.fixture
def start_secure(tmp_path: Path, secure_collector: FakeCollector) -> Iterator[StartSidecar]:
    with sidecars(tmp_path, secure_collector) as begin:
        yield begin


def test_windows_wait_for_a_collector_that_is_trusted_and_the_file_of_authorities_may_change(
    start: Start,
    start_secure: StartSidecar,
    secure_collector: FakeCollector,
    authority: Authority,
    tmp_path: Path,
) -> None:
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(Authority(tmp_path / "stranger").certificate.read_bytes())
    (tmp_path / "token").write_text("secret\n")
    sidecar = start_secure(
        *("--pid", str(start("spin").pid), "--ca-file", str(trusted)),
        *("--token-file", str(tmp_path / "token")),
    )

    def problem() -> dict[str, str] | None:
        problems = sidecar.get("/readyz")[1]["problems"]
        return next((one for one in problems if one["error"] == "untrusted_certificate"), None)

    told = eventually("the sidecar says why windows wait", problem)
    assert "its certificate is not trusted: " in told["message"]
    assert "--ca-file" in told["hint"]
    assert secure_collector.tokens == []

    trusted.write_bytes(trusted.read_bytes() + authority.certificate.read_bytes())
    eventually("windows arrive", lambda: len(secure_collector.taken) >= 2)
    assert set(secure_collector.tokens) == {"Bearer secret"}
    eventually("the problem is gone", lambda: problem() is None)


def test_authorities_may_come_as_text_as_in_an_attached_sidecar(
    start: Start, start_secure: StartSidecar, secure_collector: FakeCollector, authority: Authority
) -> None:
    certificates = authority.certificate.read_text()
    start_secure("--pid", str(start("spin").pid), "--ca-certificates", certificates)
    eventually("windows arrive", lambda: secure_collector.taken)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--collector", "https://c:1", "--ca-file", "none"), "cannot read the CA certificates in none"),
        (("--collector", "https://c:1", "--ca-certificates", "x"), "no CA certificates in --ca-certificates"),
        (("--collector", "https://c:1", "--ca-file", "a", "--ca-certificates", "x"), "cannot go together"),
        (("--collector", "http://c:1", "--ca-file", "a"), "is not an https:// URL"),
    ],
)
def test_authorities_that_cannot_be_used_end_the_start(
    options: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sidecar", "--service", "shop", "--all", "--spool-dir", "spool", *options]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "hint: " in told
