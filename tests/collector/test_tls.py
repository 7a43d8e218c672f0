"""A collector with TLS: real processes and sockets, and certificates that change as in Kubernetes."""

from __future__ import annotations

import datetime
import http.client
import json
import os
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from sidelight.main import run
from tests.cluster.pki import Authority
from tests.collector.processes import SECONDS, Process, wait_for_event
from tests.processes import eventually

HOSTS = ("localhost", "127.0.0.1")
Start = Callable[..., Process]


class MountedSecret:
    """A folder as the kubelet mounts a Secret: names are links into `..data`, which is swapped as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        folder.mkdir()
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(Path("..data", name))

    def put(self, certificate: Path, key: Path | None = None) -> None:
        self._count += 1
        version = self.folder / f"..version_{self._count}"
        version.mkdir()
        (version / "tls.crt").write_bytes(certificate.read_bytes())
        (version / "tls.key").write_bytes((key or certificate.with_suffix(".key")).read_bytes())
        (self.folder / "..next").symlink_to(version.name)
        (self.folder / "..next").rename(self.folder / "..data")

    @property
    def options(self) -> tuple[str, ...]:
        files = (self.folder / "tls.crt", self.folder / "tls.key")
        return ("--tls-cert-file", str(files[0]), "--tls-key-file", str(files[1]))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


@pytest.fixture
def secret(tmp_path: Path, authority: Authority) -> MountedSecret:
    mounted = MountedSecret(tmp_path / "mounted")
    mounted.put(authority.server("first", HOSTS))
    return mounted


class Client:
    """A connection that trusts one authority, and the serial number of the certificate that it was shown."""

    def __init__(self, authority: Authority, port: int) -> None:
        trust = ssl.create_default_context(cafile=authority.certificate)
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=SECONDS, context=trust)
        self.connection.connect()
        assert isinstance(self.connection.sock, ssl.SSLSocket)
        self.serial = (self.connection.sock.getpeercert() or {})["serialNumber"]

    def get(self, path: str) -> str:
        self.connection.request("GET", path)
        return self.connection.getresponse().read().decode()


def metrics(authority: Authority, port: int) -> dict[str, float]:
    text = Client(authority, port).get("/metrics")
    return {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", text, re.MULTILINE)}


EXPIRATION = "sidelight_certificate_expiration_timestamp_seconds"
RELOADS = 'sidelight_certificate_reloads_total{outcome="%s"}'


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_changed_certificate_reaches_new_connections_and_open_ones_live_on(
    start: Start, tmp_path: Path, authority: Authority, secret: MountedSecret, workers: str
) -> None:
    options = (*secret.options, "--tls-check-interval-seconds", "0.1", "--workers", workers)
    process = start(str(tmp_path / "store"), *options)
    port = process.port()
    assert wait_for_event(process, "listening")["url"] == f"https://127.0.0.1:{port}/"
    early = Client(authority, port)
    assert early.get("/livez") == "ok\n"

    secret.put(authority.server("second", HOSTS, datetime.timedelta(days=5)))

    def everybody_shows_another() -> bool:
        # Each worker accepts some of the connections.
        return all(Client(authority, port).serial != early.serial for _ in range(20))

    eventually("new connections get the new certificate", everybody_shows_another)
    assert early.get("/readyz") == "ok\n"
    left = metrics(authority, port)[EXPIRATION] - datetime.datetime.now(datetime.UTC).timestamp()
    assert 4 * 86400 < left < 6 * 86400
    assert metrics(authority, port)[RELOADS % "loaded"] >= int(workers)
    assert process.process.poll() is None


def test_a_certificate_that_cannot_be_served_is_counted_and_the_one_before_serves_on(
    start: Start, tmp_path: Path, authority: Authority, secret: MountedSecret
) -> None:
    process = start(str(tmp_path / "store"), *secret.options, "--tls-check-interval-seconds", "0.1")
    port = process.port()
    first = Client(authority, port)
    good, other = (authority.server(name, HOSTS) for name in ("good", "other"))
    secret.put(good, other.with_suffix(".key"))
    eventually("a failure is counted", lambda: metrics(authority, port)[RELOADS % "failed"] >= 3)
    client = Client(authority, port)
    assert client.serial == first.serial
    ok, problem = client.get("/readyz").splitlines()
    assert (ok, "does not belong" in problem) == ("ok", True)

    secret.put(good)
    eventually("the repaired pair is loaded", lambda: Client(authority, port).serial != first.serial)
    eventually("the problem is gone", lambda: Client(authority, port).get("/readyz") == "ok\n")
    failures = [event for event in process.events() if event["event"] == "certificate not loaded"]
    assert len(failures) == 1
    assert failures[0]["hint"]


def test_who_speaks_no_tls_gets_no_answer_and_harms_nobody(
    start: Start, tmp_path: Path, authority: Authority, secret: MountedSecret
) -> None:
    port = start(str(tmp_path / "store"), *secret.options).port()
    with socket.create_connection(("127.0.0.1", port), SECONDS) as plain:
        plain.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        try:
            while more := plain.recv(4096):
                received += more
        except ConnectionResetError:
            pass
    assert b"HTTP" not in received
    stranger = Authority(tmp_path / "stranger")
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(stranger, port)
    assert Client(authority, port).get("/livez") == "ok\n"


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--tls-cert-file", "good.crt"), 2, "tls_cert_file and tls_key_file go together"),
        (("--tls-key-file", "good.key"), 2, "tls_cert_file and tls_key_file go together"),
        (("--tls-cert-file", "none", "--tls-key-file", "good.key"), 1, "cannot read none"),
        (("--tls-cert-file", "good.crt", "--tls-key-file", "other.key"), 1, "does not belong"),
        (("--tls-cert-file", "old.crt", "--tls-key-file", "old.key"), 1, "old.crt expired at"),
        (("--workers", "2", "--tls-cert-file", "old.crt", "--tls-key-file", "old.key"), 1, "expired at"),
    ],
)
def test_files_that_cannot_be_served_end_the_start_with_the_reason(
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    for name in ("good", "other"):
        authority.server(name, HOSTS)
    authority.server("old", HOSTS, datetime.timedelta(minutes=-1))
    monkeypatch.chdir(authority.folder)
    store = str(tmp_path / "store")
    assert run(["collector", "--store", store, "--listen", "127.0.0.1:0", *options]) == status
    told = capsys.readouterr().err
    assert said in told
    assert "hint: " in told
    assert not os.path.lexists(store)


def test_windows_of_a_client_that_trusts_it_are_stored(
    start: Start, tmp_path: Path, authority: Authority, secret: MountedSecret
) -> None:
    client = Client(authority, start(str(tmp_path / "store"), *secret.options).port())
    client.connection.request("POST", "/api/v1/windows?service=shop", b"main 1\n")
    answer = client.connection.getresponse()
    assert (answer.status, len(json.loads(answer.read())["accepted"])) == (200, 1)
