"""Injectors run from the chart's own YAML: its roles, its webhook, its sidecar, on a real API server."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sidelight_kubernetes import label_names
from tests.cluster.api import Api
from tests.cluster.programs import ROOT, Programs, eventually
from tests.processes import free_port

Json = dict[str, Any]
NAME = "sidelight-injector"
ASKED = {label_names.INJECT: "true"}
CHART = ROOT / "deploy" / "helm" / "sidelight"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_VALUES = (
    "kubernetes.identity=true,sidecar.serviceAccountToken.enabled=true,injector.enabled=true,"
    "collector.auth.readTokensSecret=readers"
)
_FLAGS = ("--kube-version", "1.34.0", "--set", _VALUES)


def rendered(namespace: str, *flags: str) -> list[Json]:
    """What the chart renders of the injector."""
    command = [ROOT / ".tools" / "bin" / "helm", "template", "sidelight", CHART, "--namespace", namespace]
    done = subprocess.run(
        [*map(str, command), *_FLAGS, *flags],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    documents = [one for one in yaml.safe_load_all(done.stdout) if one]
    return [one for one in documents if one["metadata"]["name"] == NAME]


def of_kind(documents: list[Json], kind: str) -> Json:
    [found] = [one for one in documents if one["kind"] == kind]
    return found


@dataclass(slots=True)
class Injector:
    """An installation: what it is made of in the cluster, and its processes on this machine."""

    api: Api
    programs: Programs
    namespace: str
    documents: list[Json]
    port: int
    host: str = "127.0.0.1"
    statuses: dict[str, int] = field(default_factory=dict)

    def start(self, name: str = "injector", *flags: str, config: Path | None = None) -> None:
        """Start one, as its Deployment would, but for addresses; speaks as the chart's service account."""
        env = of_kind(self.documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]["env"]
        variables = {one["name"]: str(one["value"]) for one in env if "value" in one}
        folder = self.programs.folder
        sidecar = folder / "sidecar.json"
        sidecar.write_text(of_kind(self.documents, "ConfigMap")["data"]["sidecar.json"])
        port = self.port if name == "injector" else free_port()
        self.statuses[name] = free_port()
        config = config or self.api.kubeconfig_of(self.namespace, NAME)
        variables |= {
            "SIDELIGHT_NAMESPACE": self.namespace,
            "SIDELIGHT_SIDECAR_FILE": str(sidecar),
            "SIDELIGHT_LISTEN": f"{self.host}:{port}",
            "SIDELIGHT_STATUS_LISTEN": f"127.0.0.1:{self.statuses[name]}",
            "SIDELIGHT_KUBERNETES": str(config),
            "SIDELIGHT_CERTIFICATE_SAN": self.host,
            "SIDELIGHT_CERTIFICATE_CHECK_INTERVAL_SECONDS": "0.2",
            "SIDELIGHT_DRAIN_SECONDS": "0",
            "SIDELIGHT_NAMESPACE_TIMEOUT_SECONDS": "4",
        }
        program = Path(os.environ.get("VIRTUAL_ENV", ROOT / ".venv")) / "bin" / "sidelight"
        self.programs.start(name, program, "injector", *flags, env=variables)

    def ready(self, name: str = "injector") -> None:
        """Wait until it says that it is ready."""

        def check() -> bool:
            self.programs.must_run(name)
            return self.status(name)[0] == 200

        eventually(f"{name} is ready", check)

    def status(self, name: str = "injector") -> tuple[int, Json]:
        """What /readyz says; 0 while nobody answers."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.statuses[name]}/readyz", timeout=60
            ) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, {}

    def number(self, metric: str, name: str = "injector") -> float:
        """A metric's value, 0 for one that was never counted."""
        url = f"http://127.0.0.1:{self.statuses[name]}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        found = [
            line.rpartition(" ")[2] for line in lines if line.startswith(f"sidelight_injector_{metric} ")
        ]
        return float(found[0]) if found else 0.0

    @property
    def webhook(self) -> Json:
        return self.api.get(f"{_WEBHOOKS}/{NAME}")

    def trusted(self) -> str:
        """Whom API servers are told to trust, as PEM; the same in every entry."""
        bundles = {entry["clientConfig"].get("caBundle", "") for entry in self.webhook["webhooks"]}
        assert len(bundles) == 1
        return base64.b64decode(bundles.pop()).decode()

    def trust(self, pem: str) -> None:
        """Tell API servers to trust somebody else."""
        text = base64.b64encode(pem.encode()).decode()
        changes = [
            {"op": "add", "path": f"/webhooks/{place}/clientConfig/caBundle", "value": text}
            for place in range(len(self.webhook["webhooks"]))
        ]
        kind = "application/json-patch+json"
        assert self.api.call("PATCH", f"{_WEBHOOKS}/{NAME}", changes, kind=kind)[0] == 200

    def secret(self) -> dict[str, str]:
        """The texts of the certificates' Secret."""
        data = self.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{NAME}").get("data") or {}
        return {name: base64.b64decode(text).decode() for name, text in data.items()}

    def keep(self, texts: Mapping[str, str]) -> None:
        """Put other texts into it."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{NAME}"
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        assert self.api.call("PUT", path, {**self.api.get(path), "data": data})[0] == 200


@contextmanager
def installed(api: Api, programs: Programs, *flags: str, host: str = "127.0.0.1") -> Iterator[Injector]:
    """The chart's injector, without its Deployment: its webhook points at a port of this machine.

    `host` is the address by which the API server reaches this machine.
    """
    port = free_port()
    with api.namespace() as namespace:
        documents = rendered(namespace, *flags)
        made = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret")
        for document in documents:
            if document["kind"] in made:
                api.apply(document)
        webhook = of_kind(documents, "MutatingWebhookConfiguration")
        for entry in webhook["webhooks"]:
            entry["clientConfig"] = {"url": f"https://{host}:{port}/mutate"}
            # The most there is: on a crowded machine an injector may stand still for the chart's 5 seconds.
            entry["timeoutSeconds"] = 30
        api.apply(webhook)
        injector = Injector(api, programs, namespace, documents, port, host)
        try:
            yield injector
        finally:
            for name in injector.statuses:
                programs.end(name)
            for kind in ("mutatingwebhookconfiguration", "clusterrole", "clusterrolebinding"):
                api.kubectl("delete", kind, NAME, "--ignore-not-found")


def pod(name: str, *, labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    """A pod as its author would write it."""
    app = {"name": "app", "image": "registry.example/checkout:2026.11.3"}
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [app], "terminationGracePeriodSeconds": 0, **spec},
    }


def made(api: Api, namespace: str, body: Json, *, dry_run: bool = False) -> Json:
    """The pod as the API server made it."""
    path = f"/api/v1/namespaces/{namespace}/pods{'?dryRun=All' if dry_run else ''}"
    status, answer = api.call("POST", path, body)
    assert status == 201, answer
    return answer


def await_injection(api: Api, namespace: str) -> None:
    """Wait until pods of a namespace get sidecars.

    Until the API server knows the webhook, and reaches its Service, it leaves them as they are.
    """
    probe = pod("probe")
    eventually("pods get sidecars", lambda: sidecars(made(api, namespace, probe, dry_run=True)))


def sidecars(pod: Json) -> list[Json]:
    """Its containers named like the sidecar, wherever they stand."""
    everywhere = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    return [one for one in everywhere if one["name"] == label_names.SIDECAR]


def told(pod: Json) -> str:
    """What the injector wrote on the pod."""
    return pod["metadata"].get("annotations", {}).get(label_names.STATUS, "")
