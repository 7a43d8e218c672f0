"""Collector, sidecar and injector as processes, and their slow and many clients."""

from __future__ import annotations

import datetime
import json
import re
import socket
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidelight_injector.certificates.certificates import CertificatePolicy, make_authority, make_leaf
from tests.processes import Running, eventually, running, sidelight

CLIENTS = 300
ANSWER_SECONDS = 60.0
HALF_HEAD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: "
HALF_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01"
LIMITED = ("bash", "-c", 'ulimit -n 256 && exec "$@"', "bash")
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: none, user: {token: none}}]
"""
SIDECAR = {
    "container": {
        "name": "sidelight",
        "image": "sidelight",
        "env": [
            {"name": "SIDELIGHT_COLLECTOR", "value": "http://collector:8080"},
            {"name": "SIDELIGHT_ALL", "value": "true"},
        ],
    },
    "volumes": [],
}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "1", "kind": {"kind": "Pod"}, "operation": "UPDATE"},
}


@dataclass
class Service:
    """A running server: its ports (the last one for `body_path`), and a request that is not a probe."""

    process: Running
    ports: list[int]
    prefix: str
    body_path: str
    ask: Callable[[], int]
    trust: ssl.SSLContext | None = None

    def send(self, text: str) -> Iterator[bytes]:
        """Send a part of a request, and return what the server answers until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.ports[-1]), timeout=ANSWER_SECONDS) as plain:
            client = self.trust.wrap_socket(plain, server_hostname="127.0.0.1") if self.trust else plain
            client.sendall(text.encode())
            yield b""
            answer = b""
            while block := client.recv(65536):
                answer += block
            yield answer

    def get(self, path: str) -> tuple[int, str]:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.ports[0]}{path}", timeout=ANSWER_SECONDS
        ) as answer:
            return answer.status, answer.read().decode()

    def closed(self, reason: str) -> float:
        _, text = self.get("/metrics")
        name = rf'{self.prefix}_connections_closed_total{{reason="{reason}"}}'
        return sum(map(float, re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)))


def find_ports(process: Running, count: int) -> list[int]:
    def listens() -> list[int] | None:
        assert process.alive(), process.said()
        ports = [int(port) for port in re.findall(r"listening\S*\s+url=\S+?:(\d+)", process.said())]
        return ports if len(ports) == count else None

    return eventually(f"{process.log.name}: the server listens", listens)


def status_of(request: str | urllib.request.Request, context: ssl.SSLContext | None = None) -> int:
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=context) as answer:
        return answer.status


@contextmanager
def collector(folder: Path, *options: str) -> Iterator[Service]:
    argv = sidelight("collector", "--store", str(folder / "store"), "--listen", "127.0.0.1:0")
    with running(folder / "collector.log", *LIMITED, *argv, *options) as process:
        ports = find_ports(process, 1)
        services = f"http://127.0.0.1:{ports[0]}/api/v1/services"
        yield Service(
            process, ports, "sidelight", "/api/v1/windows?service=shop", lambda: status_of(services)
        )


@contextmanager
def sidecar(folder: Path, *options: str) -> Iterator[Service]:
    argv = sidelight("sidecar", "--collector", "http://127.0.0.1:1", "--service", "shop", "--on-demand")
    argv += ["--match", "no such process", "--listen", "127.0.0.1:0", "--spool-dir", str(folder / "spool")]
    with running(folder / "sidecar.log", *LIMITED, *argv, *options) as process:
        ports = find_ports(process, 1)
        resume = urllib.request.Request(f"http://127.0.0.1:{ports[0]}/resume", method="POST")
        yield Service(process, ports, "sidelight_sidecar", "/capture", lambda: status_of(resume))


@contextmanager
def injector(folder: Path, *options: str) -> Iterator[Service]:
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    policy = CertificatePolicy(("127.0.0.1",), day, 3 * day, day)
    authority = make_authority(now, policy.authority_lifetime)
    leaf = make_leaf(authority, now, policy)
    for name, text in (
        ("tls.crt", leaf.certificate),
        ("tls.key", leaf.key),
        ("config", KUBECONFIG),
        ("sidecar.json", json.dumps(SIDECAR)),
    ):
        (folder / name).write_text(text)
    argv = sidelight("injector", "--sidecar-file", str(folder / "sidecar.json"), "--no-events")
    argv += ["--kubernetes", str(folder / "config"), "--native-sidecars", "always"]
    argv += ["--certificate-dir", str(folder), "--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0"]
    trust = ssl.create_default_context(cadata=authority.certificate)
    with running(folder / "injector.log", *LIMITED, *argv, *options) as process:
        ports = find_ports(process, 2)
        eventually("a certificate", lambda: "certificate was taken into use" in process.said())
        review = urllib.request.Request(
            f"https://127.0.0.1:{ports[1]}/mutate",
            json.dumps(REVIEW).encode(),
            {"Content-Type": "application/json"},
        )
        yield Service(
            process, ports, "sidelight_injector", "/mutate", lambda: status_of(review, trust), trust
        )


@pytest.mark.parametrize("start", [collector, sidecar, injector])
def test_clients_that_never_finish_a_request_keep_nobody_else_out(
    start: Callable[..., AbstractContextManager[Service]], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        service = stack.enter_context(start(tmp_path))
        for port in service.ports:
            for number in range(CLIENTS):
                client = stack.enter_context(
                    socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
                )
                if number % 2:
                    is_tls = service.trust is not None and port == service.ports[-1]
                    client.sendall(HALF_HANDSHAKE if is_tls else HALF_HEAD)
        assert service.get("/livez")[0] == 200
        assert service.ask() == 200
        closed = service.closed("limit") + service.closed("header_timeout")
        assert closed >= len(service.ports) * CLIENTS - 256
        assert service.process.alive()
        assert "no connection can be accepted" not in service.process.said()


@pytest.mark.parametrize("start", [collector, sidecar, injector])
def test_a_client_that_stops_in_a_request_is_closed_and_counted(
    start: Callable[..., AbstractContextManager[Service]], tmp_path: Path
) -> None:
    options = [
        word for name in ("header", "body", "response", "idle") for word in (f"--{name}-timeout-seconds", "2")
    ]
    with start(tmp_path, *options) as service:
        path = service.body_path
        half = service.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        body = service.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{")
        idle = service.send("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for client in half, body, idle:
            next(client)
        assert next(half) == b""
        assert next(body).startswith(b"HTTP/1.1 408 ")
        assert next(idle).startswith(b"HTTP/1.1 404 ")
        assert service.closed("header_timeout") >= 1
        assert service.closed("body_timeout") == 1
        assert service.closed("idle") >= 1
        assert "error" not in service.process.said().partition("listening")[2]
