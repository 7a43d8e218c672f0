"""Collectors that pods send to, the pods, their tokens, and a way to the API server that can fail."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from ulid import ULID

from tests.cluster.api import Api
from tests.collector.processes import Process

JSON = {"Content-Type": "application/json"}
REVIEWS = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


class Relay:
    """A way to the API server that can be cut, held up and mended; TLS goes through it untouched."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: list[socket.socket] = []
        self._free = threading.Event()
        self._free.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._begin()

    def _begin(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = listener.accept()
                other = socket.create_connection(("127.0.0.1", self._to))
                self._open += [one, other]
                for pair in ((one, other), (other, one)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._free.wait()
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        self._free.clear()

    def go_on(self) -> None:
        self._free.set()

    def cut(self) -> None:
        with contextlib.suppress(OSError):  # cut already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()
        self._free.set()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._begin()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def refusal(self) -> tuple[int, str]:
        return self.status, self.json.get("error", "")


@dataclass
class Collector:
    """A collector in a namespace of its own, as an account with the rules it was given."""

    api: Api
    process: Process
    namespace: str
    relay: Relay
    tokens: Path
    known: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        token: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.process.port(), timeout=60)
        sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    def send(self, token: str, window_id: str = "", **labels: str) -> Answer:
        """Send a window with these labels."""
        start_ns = time.time_ns() - 10**9
        header = {
            "format": 1,
            "id": window_id or str(ULID.from_timestamp(start_ns // 10**6)),
            "labels": labels,
            "start_ns": start_ns,
            "duration_ns": 10**9,
            "period_ns": 10**7,
        }
        return self.ask("POST", "/api/v1/windows", f"# {json.dumps(header)}\nmain;f 3\n".encode(), token)

    def poll(self, token: str, agent: str, *reports: Mapping[str, object], **labels: str) -> Answer:
        body = {"v": 1, "agent": agent, "labels": labels, "timeout_seconds": 0}
        body |= {"ready": True, "modes": ["auto"]}
        told = json.dumps({**body, "reports": list(reports)}).encode()
        return self.ask("POST", "/api/v1/agents/poll", told, token, JSON)

    def windows(self) -> list[dict[str, str]]:
        """The labels of what was stored, from what readers are told."""
        found = []
        for pod in self.values("pod"):
            names = ("namespace", "service", "version")
            found.append({"pod": pod, **{name: "".join(self.values(name, pod)) for name in names}})
        return found

    def values(self, name: str, pod: str = "") -> list[str]:
        query = f"?query=pod%3D%22{pod}%22" if pod else ""
        return list(self.ask("GET", f"/api/v1/labels/{name}/values{query}").json["values"])

    def metric(self, line: str) -> float:
        found = re.search(rf"^{re.escape(line)} (\S+)$", self.ask("GET", "/metrics").text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def allow(self, *rules: Mapping[str, object]) -> None:
        """Give the collector's account a cluster role with these rules, and no other."""
        name = f"collector-{self.namespace}"
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": list(rules),
        }
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "collector", "namespace": self.namespace}],
        }
        self.api.apply({"apiVersion": "v1", "kind": "List", "items": [role, binding]})


def pod(
    api: Api,
    namespace: str,
    name: str,
    *,
    node: str = "",
    account: str = "shop",
    container: str = "web",
    **metadata: Any,
) -> str:
    """Make a pod of the service shop, version 7; the token that the kubelet would mount into it.

    With `node` it runs there, as far as the API server knows.
    """
    labels = {"app.kubernetes.io/name": "shop", "app.kubernetes.io/version": "7"}
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **metadata},
        "spec": {
            "serviceAccountName": account,
            "containers": [{"name": container, "image": "shop:7"}],
            "terminationGracePeriodSeconds": 0,
            **({"nodeName": node} if node else {}),
        },
    }
    status, answer = api.call("POST", f"/api/v1/namespaces/{namespace}/pods", made)
    assert status == 201, answer
    return api.token(namespace, account, audience="sidelight", pod=name)


def resigned(api: Api, token: str, **claims: object) -> str:
    """The token with other claims, signed by the cluster's own key."""
    header, body, _ = token.split(".")
    raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    changed = (
        base64.urlsafe_b64encode(json.dumps({**json.loads(raw), **claims}).encode()).rstrip(b"=").decode()
    )
    key = next(api.ca.parent.glob("*sa*.key"), None) or next(api.ca.parent.glob("sign*.key"))
    private: Any = serialization.load_pem_private_key(key.read_bytes(), None)
    text = f"{header}.{changed}".encode()
    signature = private.sign(text, padding.PKCS1v15(), hashes.SHA256())
    return f"{header}.{changed}." + base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


def reviews(api: Api) -> int:
    """How many tokens the API server has reviewed."""
    counted = re.findall(
        r'^apiserver_request_total\{[^}]*resource="tokenreviews"[^}]*\} (\d+)',
        api.get("/metrics"),
        re.MULTILINE,
    )
    return sum(map(int, counted))


TARGET = """
import time
def spin():
    end = time.monotonic() + 300
    while time.monotonic() < end:
        sum(range(1000))
        time.sleep(0.01)
spin()
"""


def readiness(port: int) -> dict[str, Any]:
    """What a sidecar says of itself; nothing before it listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/readyz")
        return dict(json.loads(connection.getresponse().read()))
    except OSError:
        return {}
    finally:
        connection.close()


def words(port: int) -> set[str]:
    return {problem["error"] for problem in readiness(port).get("problems", [])}
