"""Certificates: that strict clients take them, and that none ends before its successor is trusted."""

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sidelight.server_tls import BadCertificate, TlsContext
from sidelight_injector.certificates.certificates import (
    CertificatePolicy,
    Keyring,
    decode_keyring,
    encode_keyring,
    make_authority,
    make_leaf,
    renew_keyring,
)

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
DAY = datetime.timedelta(days=1)
NAME = "sidelight-injector.profiling.svc"
PLAN = CertificatePolicy((NAME, "127.0.0.1"), 30 * DAY, 365 * DAY, datetime.timedelta(minutes=10))


@pytest.fixture(scope="module")
def first() -> Keyring:
    return renew_keyring(None, NOW, PLAN, ca_bundle="")


@pytest.fixture
def served() -> Iterator[tuple[TlsContext, int]]:
    """A TLS server whose certificate may change, and its port."""
    tls = TlsContext()
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            try:
                with tls.context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1)
            except OSError:
                connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    yield tls, listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(10)


def shown(port: int, trusted: str, name: str = NAME) -> bytes:
    """What a strict client is shown (Python 3.13 is one by default); raises where it would not trust it."""
    context = ssl.create_default_context(cadata=trusted)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
        context.wrap_socket(connection, server_hostname=name) as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""


@pytest.mark.parametrize("name", [NAME, "127.0.0.1"])
def test_a_strict_client_trusts_what_is_made(name, first, served):
    tls, port = served
    assert tls.set_certificate(first.leaf.certificate, first.leaf.key)
    assert shown(port, first.ca_bundle, name)


def test_another_authoritys_certificate_is_not_trusted(first, served):
    tls, port = served
    tls.set_certificate(first.leaf.certificate, first.leaf.key)
    other = renew_keyring(None, NOW, PLAN, ca_bundle="")
    with pytest.raises(ssl.SSLCertVerificationError):
        shown(port, other.ca_bundle)


def test_a_certificate_is_changed_while_the_server_runs(first, served):
    tls, port = served
    tls.set_certificate(first.leaf.certificate, first.leaf.key)
    before = shown(port, first.ca_bundle)
    later = replace(first, leaf=make_leaf(first.authority, NOW, PLAN))
    assert tls.set_certificate(later.leaf.certificate, later.leaf.key)
    assert not tls.set_certificate(later.leaf.certificate, later.leaf.key)
    assert shown(port, first.ca_bundle) not in (b"", before)


def test_a_key_of_another_certificate_is_refused_and_the_one_before_serves_on(first, served):
    tls, port = served
    tls.set_certificate(first.leaf.certificate, first.leaf.key)
    before = shown(port, first.ca_bundle)
    other = make_leaf(first.authority, NOW, PLAN)
    with pytest.raises(BadCertificate):
        tls.set_certificate(other.certificate, first.leaf.key)
    assert shown(port, first.ca_bundle) == before


def test_nothing_is_made_anew_before_it_is_due(first):
    assert renew_keyring(first, NOW + 19 * DAY, PLAN, ca_bundle=first.ca_bundle) is first


def test_a_certificate_is_made_anew_when_two_thirds_of_its_time_are_over(first):
    later = renew_keyring(
        first, NOW + 20 * DAY + datetime.timedelta(minutes=9), PLAN, ca_bundle=first.ca_bundle
    )
    assert later.authority == first.authority
    assert later.leaf != first.leaf
    assert later.leaf.expires_at > first.leaf.expires_at


def test_a_new_authority_signs_only_when_it_was_trusted_for_the_overlap(first):
    due = NOW + 244 * DAY
    announced = renew_keyring(first, due, PLAN, ca_bundle=first.ca_bundle)
    assert announced.next is not None
    assert announced.authority == first.authority
    assert first.authority.certificate in announced.ca_bundle
    assert announced.next.certificate in announced.ca_bundle

    soon, late = due + PLAN.authority_overlap / 2, due + PLAN.authority_overlap
    assert renew_keyring(announced, soon, PLAN, ca_bundle=announced.ca_bundle).authority == first.authority
    assert renew_keyring(announced, late, PLAN, ca_bundle=first.ca_bundle).authority == first.authority

    promoted = renew_keyring(announced, late, PLAN, ca_bundle=announced.ca_bundle)
    assert promoted.authority == announced.next
    assert promoted.next is None
    assert first.authority.certificate in promoted.ca_bundle
    promoted.leaf.x509_certificate.verify_directly_issued_by(promoted.authority.x509_certificate)

    done = renew_keyring(promoted, due + 2 * PLAN.authority_overlap, PLAN, ca_bundle=promoted.ca_bundle)
    assert done.ca_bundle == promoted.authority.certificate


def test_over_three_years_every_certificate_is_trusted_before_it_is_shown(first):
    """What is shown is always in time, and signed by what was trusted at the look before."""
    keyring, trusted, now = first, first.ca_bundle, NOW
    authorities = set()
    for _ in range(3 * 365 * 24 // 6):
        now += datetime.timedelta(hours=6)
        keyring = renew_keyring(keyring, now, PLAN, ca_bundle=trusted)
        assert keyring.leaf.expires_at > now
        assert keyring.authority.certificate in trusted
        trusted = keyring.ca_bundle
        assert trusted.count("BEGIN CERTIFICATE") <= 2
        authorities.add(keyring.authority.certificate)
    assert len(authorities) == 5


def test_a_certificate_for_other_names_or_of_another_authority_is_made_anew(first):
    elsewhere = replace(PLAN, names=("other.profiling.svc",))
    assert renew_keyring(first, NOW, elsewhere, ca_bundle=first.ca_bundle).leaf != first.leaf
    stranger = make_leaf(make_authority(NOW, DAY), NOW, PLAN)
    mended = renew_keyring(replace(first, leaf=stranger), NOW, PLAN, ca_bundle=first.ca_bundle)
    mended.leaf.x509_certificate.verify_directly_issued_by(first.authority.x509_certificate)


def test_an_authority_that_has_ended_is_begun_anew_at_once(first):
    anew = renew_keyring(first, NOW + 366 * DAY, PLAN, ca_bundle=first.ca_bundle)
    assert anew.authority != first.authority
    assert anew.leaf.expires_at > NOW + 366 * DAY


def test_a_keyring_comes_back_from_its_secret_as_it_was(first):
    announced = renew_keyring(first, NOW + 244 * DAY, PLAN, ca_bundle=first.ca_bundle)
    for keyring in (first, announced, replace(first, former=announced.authority.certificate)):
        assert decode_keyring(encode_keyring(keyring)) == keyring
    assert decode_keyring({}) is None


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_a_secret_that_somebody_damaged_is_seen_to_be_so(name, first):
    other = encode_keyring(renew_keyring(None, NOW, PLAN, ca_bundle=""))
    for text in ("", "nonsense", other[name]):
        with pytest.raises(ValueError):
            decode_keyring({**encode_keyring(first), name: text})


def test_a_leaf_never_outlives_its_authority():
    authority = make_authority(NOW, 10 * DAY)
    assert make_leaf(authority, NOW, PLAN).expires_at == authority.expires_at
