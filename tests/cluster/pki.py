"""The throw-away certificates of a cluster: an authority, servers, and a client for each program."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=30)


class Authority:
    """Signs certificates into a folder: `<name>.crt` and `<name>.key`, and its own as `ca.crt`.

    Each carries what Python 3.13's strict verification asks for: key identifiers of subject and issuer.
    """

    def __init__(self, folder: Path, name: str = "kubernetes") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        builder = _builder(subject, subject, self._key, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self._certificate = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.certificate = _write(folder / "ca", self._key, self._certificate)

    def server(self, name: str, hosts: Sequence[str], valid: datetime.timedelta = VALID) -> Path:
        """A certificate for a server that answers to these names and addresses; returns its path."""
        return self._sign(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, hosts, valid)

    def client(self, name: str, user: str, group: str = "") -> Path:
        """A certificate with which Kubernetes knows its bearer as `user`, a member of `group`."""
        return self._sign(name, _name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def _sign(
        self,
        name: str,
        subject: x509.Name,
        use: x509.ObjectIdentifier,
        hosts: Sequence[str],
        valid: datetime.timedelta = VALID,
    ) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._certificate.subject, key, self._key, valid)
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return _write(self.folder / name, key, builder.sign(self._key, hashes.SHA256()))


def signing_key(folder: Path) -> tuple[Path, Path]:
    """The pair with which service-account tokens are signed and checked."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = folder / "sa.key", folder / "sa.pub"
    private.write_bytes(_pem(key))
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def kubeconfig(path: Path, url: str, ca: Path, user: dict[str, str], namespace: str = "default") -> Path:
    """Write a kubeconfig with one context; `user` as Kubernetes names its fields."""
    context = {"cluster": "cluster", "user": "user", "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "context", "context": context}],
        "current-context": "context",
    }
    path.touch(0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def _name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    valid: datetime.timedelta = VALID,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(stem: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Path:
    path = stem.with_name(f"{stem.name}.key")
    path.touch(0o600)
    path.write_bytes(_pem(key))
    path = stem.with_name(f"{stem.name}.crt")
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path
