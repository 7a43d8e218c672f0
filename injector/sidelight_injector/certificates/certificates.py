"""The certificates of the webhook, and when each is to be made anew. Pure but for the keys' chance.

A certificate that the API server is shown (the *leaf*) is signed by an authority of this installation's
own. Both are made anew when two thirds of their time are over. An authority is not replaced at once,
for API servers take a moment to learn of a new one: first it is `next` and only trusted beside the one
in use; when it has been trusted by everybody for a while it signs the leaf; and the `former` one is
trusted for as long again, for replicas that have not yet read the new leaf.

What is made passes Python 3.13's strict checks of X.509 (RFC 5280): key usage, basic constraints, and
the identifiers of the subject's and the authority's keys.
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

BACKDATED: Final = datetime.timedelta(minutes=5)
"""A certificate counts from before it was made: clocks differ."""
_NAME: Final = "Sidelight injector"
_PARTS: Final = {
    "authority": ("ca.crt", "ca.key"),
    "next": ("next.crt", "next.key"),
    "leaf": ("tls.crt", "tls.key"),
}
_FORMER: Final = "former.crt"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as PEM."""

    certificate: str
    key: str

    @property
    def parsed(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate.encode())

    @property
    def private(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self.key.encode(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the private key is of another kind")
        return key

    @property
    def made(self) -> datetime.datetime:
        return self.parsed.not_valid_before_utc + BACKDATED

    @property
    def ends(self) -> datetime.datetime:
        return self.parsed.not_valid_after_utc

    def old(self, now: datetime.datetime) -> bool:
        """Whether two thirds of its time are over."""
        return now >= self.made + (self.ends - self.made) * 2 / 3


@dataclass(frozen=True, slots=True)
class Plan:
    """For which names, how long certificates last, and how long old and new authorities overlap."""

    names: Sequence[str]
    leaf: datetime.timedelta
    authority: datetime.timedelta
    overlap: datetime.timedelta


@dataclass(frozen=True, slots=True)
class Keyring:
    """What all replicas share: the authority in use, its leaf, and the authorities before and after."""

    authority: Pair
    leaf: Pair
    next: Pair | None = None
    former: str = ""

    @property
    def trusted(self) -> str:
        """The certificates API servers are to trust, as PEM, the one in use first."""
        following = self.next.certificate if self.next else ""
        return self.authority.certificate + following + self.former


def renewed(keyring: Keyring | None, now: datetime.datetime, plan: Plan, *, trusted: str) -> Keyring:
    """The keyring that should be there now; the same one when nothing is due.

    `trusted` is what API servers have been told to trust, as PEM: an authority that is not in there
    signs nothing that they are shown.
    """
    if keyring is None or keyring.authority.ends <= now:
        authority = make_authority(now, plan.authority)
        return Keyring(authority, make_leaf(authority, now, plan))
    following = keyring.next
    if following is not None and _settled(following, now, plan, trusted):
        keyring = Keyring(following, make_leaf(following, now, plan), former=keyring.authority.certificate)
    elif following is None and keyring.authority.old(now):
        keyring = replace(keyring, next=make_authority(now, plan.authority))
    if keyring.former and now >= keyring.authority.made + 2 * plan.overlap:
        keyring = replace(keyring, former="")
    if keyring.leaf.old(now) or not _fits(keyring, plan):
        keyring = replace(keyring, leaf=make_leaf(keyring.authority, now, plan))
    return keyring


def _settled(authority: Pair, now: datetime.datetime, plan: Plan, trusted: str) -> bool:
    return authority.certificate in trusted and now >= authority.made + plan.overlap


def _fits(keyring: Keyring, plan: Plan) -> bool:
    """Whether the leaf has the names that are wanted, its own key, and the authority's signature."""
    leaf, authority = keyring.leaf.parsed, keyring.authority.parsed
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    try:
        leaf.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return set(names) == set(_names(plan.names)) and leaf.public_key() == keyring.leaf.private.public_key()


def make_authority(now: datetime.datetime, lasts: datetime.timedelta) -> Pair:
    """An authority that signs certificates and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = _usage(key_cert_sign=True, crl_sign=True)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_NAME} authority {now:%Y-%m-%d %H:%M}")])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = _builder(subject, subject, key.public_key(), now, now + lasts)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True).add_extension(identifier, critical=False)
    return _signed(builder, key, key)


def make_leaf(authority: Pair, now: datetime.datetime, plan: Plan) -> Pair:
    """A server's certificate for the plan's names; it never outlives its authority."""
    issuer, key = authority.parsed, ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    ends = min(now + plan.leaf, authority.ends)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.private.public_key())
    builder = _builder(subject, issuer.subject, key.public_key(), now, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(_names(plan.names)), critical=False)
    builder = builder.add_extension(identifier, critical=False)
    return _signed(builder, authority.private, key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    ends: datetime.datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - BACKDATED).not_valid_after(ends)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _signed(
    builder: x509.CertificateBuilder, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePrivateKey
) -> Pair:
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.decode(), private.decode())


def _usage(
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


def _names(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_address(name) or x509.DNSName(name) for name in names]


def _address(name: str) -> x509.IPAddress | None:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return None


def written(keyring: Keyring) -> dict[str, str]:
    """The keyring as the texts of a Secret. `ca.crt` and `tls.*` are where others look for them."""
    pairs = {"authority": keyring.authority, "leaf": keyring.leaf, "next": keyring.next}
    texts = {_FORMER: keyring.former}
    for part, (certificate, key) in _PARTS.items():
        pair = pairs[part]
        texts |= {certificate: pair.certificate, key: pair.key} if pair else {certificate: "", key: ""}
    return {name: text for name, text in texts.items() if text}


def read(texts: Mapping[str, str]) -> Keyring | None:
    """The keyring in a Secret's texts; None when it is empty. Raises ValueError when it cannot be used."""
    if not any(texts.get(name) for names in _PARTS.values() for name in names):
        return None
    pairs = {
        part: Pair(texts.get(certificate, ""), texts.get(key, ""))
        for part, (certificate, key) in _PARTS.items()
        if part != "next" or texts.get(certificate)
    }
    for part, pair in pairs.items():
        if pair.parsed.public_key() != pair.private.public_key():
            raise ValueError(f"the {part}'s certificate and key do not belong together")
    return Keyring(pairs["authority"], pairs["leaf"], pairs.get("next"), texts.get(_FORMER, ""))
