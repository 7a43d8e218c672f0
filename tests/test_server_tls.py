"""Certificates of servers: which files are refused and why, and that no terminal is asked."""

import datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from sidelight.server_tls import BadCertificate, CertificateFiles, TlsContext
from tests.cluster.pki import Authority

HOSTS = ("localhost", "127.0.0.1")


def present() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


def files_of(certificate: Path) -> CertificateFiles:
    return CertificateFiles(certificate, certificate.with_suffix(".key"))


def test_a_certificate_and_its_key_are_read_and_served(authority):
    tls = TlsContext()
    pair = files_of(authority.server("a", HOSTS)).read(present())
    assert not tls.has_certificate
    assert tls.set_certificate(*pair)
    assert not tls.set_certificate(*pair)
    assert tls.has_certificate


def refused(files: CertificateFiles, later: datetime.timedelta = datetime.timedelta()) -> str:
    with pytest.raises(BadCertificate) as refusal:
        files.read(present() + later)
    assert refusal.value.hint
    return refusal.value.message


def test_files_that_cannot_be_served_are_refused_with_their_names_and_the_reason(authority, tmp_path):
    good, other = (authority.server(name, HOSTS) for name in ("good", "other"))
    assert refused(CertificateFiles(tmp_path / "none", good.with_suffix(".key"))) == (
        f"cannot read {tmp_path / 'none'}: No such file or directory"
    )
    assert "Is a directory" in refused(CertificateFiles(good, tmp_path))
    (tmp_path / "text").write_text("nonsense")
    assert str(tmp_path / "text") in refused(CertificateFiles(tmp_path / "text", good.with_suffix(".key")))
    assert str(tmp_path / "text") in refused(CertificateFiles(good, tmp_path / "text"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert refused(CertificateFiles(tmp_path / "binary", good)) == f"{tmp_path / 'binary'} is not PEM"
    mismatch = refused(CertificateFiles(good, other.with_suffix(".key")))
    assert mismatch.startswith("the key does not belong to the certificate")
    assert str(good) in mismatch


def test_an_expired_certificate_is_refused(authority):
    expired = authority.server("expired", HOSTS, datetime.timedelta(minutes=-1))
    assert refused(files_of(expired)).startswith(f"the certificate in {expired} expired at 20")
    lasting = files_of(authority.server("lasting", HOSTS))
    assert lasting.read(present())
    assert "expired" in refused(lasting, datetime.timedelta(days=31))


def test_a_key_with_a_password_is_refused_without_a_question_at_the_terminal(authority):
    certificate = authority.server("a", HOSTS)
    file = certificate.with_suffix(".key")
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"password")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    file.write_bytes(pem)
    assert "the key has a password" in refused(files_of(certificate))
