"""What tests ask of a cluster's API: kubectl, plain HTTP, namespaces, accounts and their tokens."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from tests.cluster.pki import Authority, kubeconfig
from tests.cluster.programs import eventually

if TYPE_CHECKING:
    from sidelight_kubernetes.kubernetes_client import KubernetesClient


class Api:
    """A cluster's API, as its administrator unless a token says otherwise."""

    def __init__(self, url: str, authority: Authority, admin: Path, kubectl: Path) -> None:
        self.url = url
        self.authority = authority
        self.ca = authority.certificate
        self.kubeconfig = admin
        self._kubectl = kubectl
        self._trust = ssl.create_default_context(cafile=self.ca)
        self._admin = ssl.create_default_context(cafile=self.ca)
        self._admin.load_cert_chain(self.ca.parent / "admin.crt", self.ca.parent / "admin.key")

    def call(
        self, method: str, path: str, body: object = None, *, token: str = "", kind: str = "application/json"
    ) -> tuple[int, Any]:
        """One request: the status and the answer, as JSON or else as text."""
        host = urlsplit(self.url)
        trust = self._trust if token else self._admin
        connection = http.client.HTTPSConnection(str(host.hostname), host.port, timeout=30, context=trust)
        headers = {"content-type": kind} | ({"authorization": f"Bearer {token}"} if token else {})
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = "json" in answer.headers.get("content-type", "")
            return answer.status, json.loads(text) if is_json else text
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """What the administrator sees at a path."""
        status, answer = self.call("GET", path)
        assert status == 200, (path, status, answer)
        return answer

    def ready(self) -> bool:
        try:
            return self.call("GET", "/readyz") == (200, "ok")
        except OSError:
            return False

    def kubectl(
        self,
        *arguments: object,
        input: str | None = None,  # noqa: A002
        config: Path | None = None,
    ) -> str:
        """What kubectl prints; fails with what it complained about."""
        done = self.try_kubectl(*arguments, input=input, config=config)
        assert done.returncode == 0, f"kubectl {' '.join(map(str, arguments))}:\n{done.stderr}{done.stdout}"
        return done.stdout

    def try_kubectl(
        self,
        *arguments: object,
        input: str | None = None,  # noqa: A002
        config: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """The same, for those who want to see how it is refused."""
        argv = [self._kubectl, "--kubeconfig", config or self.kubeconfig, *arguments]
        return subprocess.run(
            [str(part) for part in argv],
            input=input,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def apply(self, what: str | Mapping[str, Any], namespace: str = "") -> str:
        """Apply YAML, or an object (a `List` is one too)."""
        text = what if isinstance(what, str) else yaml.safe_dump(dict(what))
        return self.kubectl("apply", *(["-n", namespace] if namespace else []), "-f", "-", input=text)

    @contextmanager
    def namespace(self, labels: Mapping[str, str] | None = None, name: str = "") -> Iterator[str]:
        """A fresh namespace that is deleted afterwards; its default account is there, so it takes pods."""
        name = name or f"t-{secrets.token_hex(4)}"
        body = {"metadata": {"name": name, "labels": dict(labels or {})}}
        status, answer = self.call("POST", "/api/v1/namespaces", body)
        assert status == 201, answer
        path = f"/api/v1/namespaces/{name}"
        try:
            eventually(
                f"{name} has an account",
                lambda: self.call("GET", f"{path}/serviceaccounts/default")[0] == 200,
            )
            yield name
        finally:
            self.call("DELETE", path)

    def service_account(self, namespace: str, name: str) -> str:
        status, answer = self.call(
            "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}}
        )
        assert status in (201, 409), answer
        return name

    def token(
        self,
        namespace: str,
        account: str,
        audience: str | None = None,
        pod: str | None = None,
        seconds: int = 600,
    ) -> str:
        """A token of an account, for an audience (else the API server's own), bound to a pod when given."""
        spec: dict[str, Any] = {"expirationSeconds": seconds}
        if audience is not None:
            spec["audiences"] = [audience]
        if pod is not None:
            uid = self.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["metadata"]["uid"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        status, answer = self.call("POST", path, {"spec": spec})
        assert status == 201, answer
        return str(answer["status"]["token"])

    def kubeconfig_of(self, namespace: str, account: str) -> Path:
        """A kubeconfig that speaks as an account, to see what it may do and what not."""
        path = self.ca.parent / f"{namespace}-{account}-{secrets.token_hex(4)}.kubeconfig"
        return kubeconfig(
            path, self.url, self.ca, {"token": self.token(namespace, account, seconds=3600)}, namespace
        )

    def cluster(self, namespace: str | None = None, account: str | None = None) -> KubernetesClient:
        """The product's own client, as the administrator or as an account."""
        from sidelight_kubernetes.kubernetes_client import KubernetesClient

        if namespace and account:
            return KubernetesClient.open(str(self.kubeconfig_of(namespace, account)))
        return KubernetesClient.open(str(self.kubeconfig))
