"""A collector with the variables of mode s3-compatible, on a real S3 server with a certificate of its own."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests import processes
from tests.cluster.pki import Authority

RENDERED = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "rendered" / "s3-compatible.yaml"
KEYS = {"AWS_ACCESS_KEY_ID": "sidelight-tests", "AWS_SECRET_ACCESS_KEY": "sidelight-tests-secret"}
WINDOW = "?service=shop&version=1&rate=100&duration=10"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def endpoint(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """versitygw over TLS, with the bucket that the mode names."""
    folder = tmp_path_factory.mktemp("s3")
    (folder / "buckets" / "profiles").mkdir(parents=True)
    certificate = authority.server("s3", ["127.0.0.1"])
    port = processes.free_port()
    binary = processes.tool("versitygw")
    keys = ["--access", KEYS["AWS_ACCESS_KEY_ID"], "--secret", KEYS["AWS_SECRET_ACCESS_KEY"]]
    tls = ["--cert", str(certificate), "--key", str(certificate.with_suffix(".key"))]
    argv = [str(binary), "--port", f"127.0.0.1:{port}", *keys, *tls, "--quiet"]
    with processes.running(folder / "log", *argv, "posix", str(folder / "buckets")) as process:

        def listens() -> bool:
            assert process.alive(), process.said()
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        processes.eventually("the S3 server listens", listens)
        yield f"https://127.0.0.1:{port}"


def environment(endpoint: str, bundle: str) -> Mapping[str, str]:
    """The variables of the rendered container that are about the store, at this server and bundle."""
    [deployment] = [
        document
        for document in yaml.safe_load_all(RENDERED.read_text(encoding="utf-8"))
        if document["kind"] == "Deployment"
    ]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    given = {entry["name"]: entry["value"] for entry in container["env"]}
    assert given["SIDELIGHT_S3_ENDPOINT"].startswith("https://")
    names = ("SIDELIGHT_STORE", "AWS_DEFAULT_REGION", "SIDELIGHT_S3_ENDPOINT", "AWS_CA_BUNDLE")
    own = {"SIDELIGHT_S3_ENDPOINT": endpoint, "AWS_CA_BUNDLE": bundle}
    return {**{name: given[name] for name in names}, **own, **KEYS}


def test_a_collector_keeps_windows_in_a_store_with_a_certificate_of_ones_own(authority, endpoint, tmp_path):
    told = environment(endpoint, str(authority.certificate))
    with processes.collector(tmp_path, told["SIDELIGHT_STORE"], env=told) as collector:
        request = urllib.request.Request(f"{collector.url}/api/v1/windows{WINDOW}", b"main;work 3\n")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200


def test_a_collector_without_the_certificate_says_what_is_wrong(endpoint, tmp_path):
    other = Authority(tmp_path / "other")
    told = environment(endpoint, str(other.certificate))
    with processes.running(tmp_path / "log", *processes.sidelight("collector"), env=told) as process:
        processes.eventually("the collector has ended", lambda: not process.alive())
    assert "certificate verify failed" in process.said().lower()
