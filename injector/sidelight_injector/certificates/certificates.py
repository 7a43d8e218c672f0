"""Certificates of the webhook and the rules of their renewal.

This module is pure but for the random numbers in keys and serial numbers. The certificate that the API
server sees (the *leaf*) is signed by an authority that belongs to this installation. Both are renewed after
two thirds of their lifetime. API servers take a moment to learn of a new authority, so it is not replaced
at once. First it is `next`: trusted beside the authority in use, and not signing. After the overlap it
signs the leaf. The `former` authority stays trusted for as long again, for replicas that have not yet read
the new leaf.

The certificates pass Python 3.13's strict X.509 checks (RFC 5280): key usage, basic constraints, and the
identifiers of the subject's and the authority's keys.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCK_SKEW: Final = datetime.timedelta(minutes=5)
"""A certificate is valid from this long before its creation, because clocks differ."""
_COMMON_NAME: Final = "Sidelight injector"
_SECRET_KEYS: Final = {
    "authority": ("ca.crt", "ca.key"),
    "next": ("next.crt", "next.key"),
    "leaf": ("tls.crt", "tls.key"),
}
_FORMER_KEY: Final = "former.crt"


@dataclass(frozen=True, slots=True)
class CertificateKeyPair:
    """A certificate and its private key, as PEM."""

    certificate: str
    key: str

    @property
    def x509_certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate.encode())

    @property
    def private_key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self.key.encode(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the private key is of another kind")
        return key

    @property
    def issued_at(self) -> datetime.datetime:
        return self.x509_certificate.not_valid_before_utc + CLOCK_SKEW

    @property
    def expires_at(self) -> datetime.datetime:
        return self.x509_certificate.not_valid_after_utc

    def is_due_for_renewal(self, now: datetime.datetime) -> bool:
        """Return whether two thirds of its lifetime are over."""
        return now >= self.issued_at + (self.expires_at - self.issued_at) * 2 / 3


@dataclass(frozen=True, slots=True)
class CertificatePolicy:
    """Names and lifetimes of the certificates.

    `authority_overlap` is how long API servers trust an old and a new authority side by side.
    """

    names: Sequence[str]
    leaf_lifetime: datetime.timedelta
    authority_lifetime: datetime.timedelta
    authority_overlap: datetime.timedelta


@dataclass(frozen=True, slots=True)
class Keyring:
    """The certificates that all replicas share.

    `authority` is in use and signed `leaf`. `next` is the authority after it; `former` is the certificate
    of the one that it replaced, as PEM.
    """

    authority: CertificateKeyPair
    leaf: CertificateKeyPair
    next: CertificateKeyPair | None = None
    former: str = ""

    @property
    def ca_bundle(self) -> str:
        """The certificates for API servers to trust, as PEM, the authority in use first."""
        following = self.next.certificate if self.next else ""
        return self.authority.certificate + following + self.former


def renew_keyring(
    keyring: Keyring | None, now: datetime.datetime, policy: CertificatePolicy, *, ca_bundle: str
) -> Keyring:
    """Return the keyring for `now`, or the same one if no certificate is due.

    `ca_bundle` is what API servers trust, as PEM. An authority that is not in it signs no leaf.
    """
    if keyring is None or keyring.authority.expires_at <= now:
        authority = make_authority(now, policy.authority_lifetime)
        return Keyring(authority, make_leaf(authority, now, policy))
    following = keyring.next
    if following is not None and _is_trusted_everywhere(following, now, policy, ca_bundle):
        keyring = Keyring(following, make_leaf(following, now, policy), former=keyring.authority.certificate)
    elif following is None and keyring.authority.is_due_for_renewal(now):
        keyring = replace(keyring, next=make_authority(now, policy.authority_lifetime))
    if keyring.former and now >= keyring.authority.issued_at + 2 * policy.authority_overlap:
        keyring = replace(keyring, former="")
    if keyring.leaf.is_due_for_renewal(now) or not _is_leaf_valid(keyring, policy):
        keyring = replace(keyring, leaf=make_leaf(keyring.authority, now, policy))
    return keyring


def _is_trusted_everywhere(
    authority: CertificateKeyPair, now: datetime.datetime, policy: CertificatePolicy, ca_bundle: str
) -> bool:
    return authority.certificate in ca_bundle and now >= authority.issued_at + policy.authority_overlap


def _is_leaf_valid(keyring: Keyring, policy: CertificatePolicy) -> bool:
    """Return whether names, key and signature of the leaf fit the policy and keyring."""
    leaf, authority = keyring.leaf.x509_certificate, keyring.authority.x509_certificate
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    try:
        leaf.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return (
        set(names) == set(_to_general_names(policy.names))
        and leaf.public_key() == keyring.leaf.private_key.public_key()
    )


def make_authority(now: datetime.datetime, lifetime: datetime.timedelta) -> CertificateKeyPair:
    """Create an authority that signs certificates and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = _build_key_usage(key_cert_sign=True, crl_sign=True)
    subject = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"{_COMMON_NAME} authority {now:%Y-%m-%d %H:%M}")]
    )
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = _start_builder(subject, subject, key.public_key(), now, now + lifetime)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True).add_extension(identifier, critical=False)
    return _sign(builder, key, key)


def make_leaf(
    authority: CertificateKeyPair, now: datetime.datetime, policy: CertificatePolicy
) -> CertificateKeyPair:
    """Create a server certificate for the names of `policy`.

    It never outlives its authority.
    """
    issuer, key = authority.x509_certificate, ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _COMMON_NAME)])
    ends = min(now + policy.leaf_lifetime, authority.expires_at)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.private_key.public_key())
    builder = _start_builder(subject, issuer.subject, key.public_key(), now, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_build_key_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(
        x509.SubjectAlternativeName(_to_general_names(policy.names)), critical=False
    )
    builder = builder.add_extension(identifier, critical=False)
    return _sign(builder, authority.private_key, key)


def _start_builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    expires_at: datetime.datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - CLOCK_SKEW).not_valid_after(expires_at)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _sign(
    builder: x509.CertificateBuilder, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePrivateKey
) -> CertificateKeyPair:
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return CertificateKeyPair(certificate.decode(), private.decode())


def _build_key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _to_general_names(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_parse_ip_address(name) or x509.DNSName(name) for name in names]


def _parse_ip_address(name: str) -> x509.IPAddress | None:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return None


def encode_keyring(keyring: Keyring) -> dict[str, str]:
    """Encode the keyring as the texts of a Secret.

    Other programs expect `ca.crt` and `tls.*` under these names.
    """
    pairs = {"authority": keyring.authority, "leaf": keyring.leaf, "next": keyring.next}
    texts = {_FORMER_KEY: keyring.former}
    for part, (certificate, key) in _SECRET_KEYS.items():
        pair = pairs[part]
        texts |= {certificate: pair.certificate, key: pair.key} if pair else {certificate: "", key: ""}
    return {name: text for name, text in texts.items() if text}


def decode_keyring(texts: Mapping[str, str]) -> Keyring | None:
    """Decode the keyring from a Secret's texts; None if the Secret is empty.

    Raises ValueError if it cannot be used.
    """
    if not any(texts.get(name) for names in _SECRET_KEYS.values() for name in names):
        return None
    pairs = {
        part: CertificateKeyPair(texts.get(certificate, ""), texts.get(key, ""))
        for part, (certificate, key) in _SECRET_KEYS.items()
        if part != "next" or texts.get(certificate)
    }
    for part, pair in pairs.items():
        if pair.x509_certificate.public_key() != pair.private_key.public_key():
            raise ValueError(f"the {part}'s certificate and key do not belong together")
    return Keyring(pairs["authority"], pairs["leaf"], pairs.get("next"), texts.get(_FORMER_KEY, ""))
