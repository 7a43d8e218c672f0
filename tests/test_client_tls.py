"""The authorities that a client trusts: from a file that may change, as text, or the system's."""

import ssl

import pytest

from sidelight.client_tls import MAX_EXPORT_BYTES, CaBundle, explain_tls_error
from sidelight.settings import BadSetting
from sidelight_model.errors import Reason
from tests.cluster.pki import Authority


def test_a_file_is_read_again_when_it_changes(tmp_path):
    first, second = (Authority(tmp_path / name).certificate.read_text() for name in ("a", "b"))
    file = tmp_path / "ca.crt"
    file.write_text(first)
    bundle = CaBundle(file)
    context = bundle.get_context()
    assert len(context.get_ca_certs()) == 1
    assert bundle.get_context() is context
    file.write_text(first + second)
    assert len(bundle.get_context().get_ca_certs()) == 2


def test_text_takes_the_place_of_a_file_and_the_system_that_of_both(tmp_path):
    text = Authority(tmp_path).certificate.read_text()
    assert len(CaBundle(text=text).get_context().get_ca_certs()) == 1
    assert CaBundle().get_context().verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("content", [None, "", "nonsense", b"\xff\xfe"])
def test_a_file_without_certificates_is_refused_with_its_name(tmp_path, content):
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(BadSetting) as refusal:
        CaBundle(file).get_context()
    assert str(file) in refusal.value.message


def test_only_certificates_are_handed_on_and_no_more_than_a_variable_holds(tmp_path):
    certificate = Authority(tmp_path).certificate
    file = tmp_path / "bundle"
    file.write_text(f"# $(HOME)\n{certificate.with_suffix('.key').read_text()}{certificate.read_text()}")
    assert CaBundle(file).export_certificates() == certificate.read_text()
    file.write_text(certificate.read_text() * (MAX_EXPORT_BYTES // certificate.stat().st_size + 1))
    with pytest.raises(BadSetting, match="of at most"):
        CaBundle(file).export_certificates()


def test_other_errors_than_those_of_tls_are_not_explained():
    assert explain_tls_error(ConnectionRefusedError()) is None
    problem = explain_tls_error(ssl.SSLCertVerificationError(1, "it is not trusted"))
    assert problem is not None
    assert problem.reason is Reason.UNTRUSTED_CERTIFICATE
    assert "--ca-file" in problem.hint
