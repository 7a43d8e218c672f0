"""docs/security.md has a row for each permission of the chart, and none for a permission that nothing has."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidelight_collector.captures.attach.ephemeral_container import SECURITY_CONTEXT

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
HELM = ROOT / "deploy" / "helm"
CONTAINERS = {
    "collector": "collector",
    "compactor": "compactor",
    "injector": "injector",
    "agent": "agent",
    "sidelight": "sidecar",
}
PLACE = (
    "--namespace",
    "profiling",
    "--kube-version",
    "1.34.0",
    "--set",
    "collector.auth.readTokensSecret=read",
)
NO_PERMISSION = ("fsGroupChangePolicy",)
"""Parts of a security context that permit nothing: when the kubelet changes a volume's group."""
S3 = ("collector.store.kind=s3", "collector.store.s3.url=s3://bucket/prefix")
CA = "collector.store.s3.endpoint=https://s3.internal,collector.store.s3.caBundle"
VARIANTS = (
    ("injector.enabled=true", "injector.certificates.kind=certManager"),
    ("injector.enabled=true", "sidecar.goFirst=true", "sidecar.gilWaits=true"),
    ("injector.enabled=true", "sidecar.serviceAccountToken.enabled=false", "sidecar.tokenSecret=sidelight"),
    (*S3, "compactor.enabled=true", f"{CA}.secret=ca"),
    (*S3, "compactor.enabled=true", f"{CA}.configMap=ca", "collector.deploys.webhookSecret=webhook"),
    ("collector.deploys.webhookSecret=webhook",),
    ("injector.enabled=true", "sidecar.collector=https://elsewhere", "sidecar.caBundle.configMap=ca"),
    ("injector.enabled=true", "sidecar.collector=https://elsewhere", "sidecar.caBundle.secret=ca"),
    ("kubernetes.namespaces={shop}",),
    ("kubernetes.identity=false", "kubernetes.discovery=false", "collector.auth.writeTokensSecret=tokens"),
    ("agent.enabled=true", "collector.tls.existingSecret=tls"),
    ("agent.enabled=true", "agent.collector=https://elsewhere", "agent.caBundle.configMap=ca"),
    ("kubernetes.attach=true", "kubernetes.attachNamespaces={*}"),
)
"""Values that give permissions which no mode of deploy/helm/modes has."""

Row = tuple[str, ...]


@pytest.fixture(scope="module")
def manifests(helm, chart) -> list[Mapping[str, Any]]:
    """Everything that the chart renders, in all modes and variants."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((HELM / "rendered").glob("*.yaml"))]
    for values in VARIANTS:
        flags = [part for value in values for part in ("--set", value)]
        texts.append(helm("template", "sidelight", chart, *PLACE, *flags).stdout)
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def test_every_rule_of_the_roles_has_a_row(manifests):
    roles = [document for document in manifests if document["kind"] in ("Role", "ClusterRole")]
    assert {row for role in roles for row in read_rules(role)} == read_table("Kubernetes API", 5)


def test_every_setting_of_the_security_contexts_has_a_row(manifests):
    pods = list(find_pods(manifests))
    assert {row for pod, name in pods for row in read_settings(pod, name)} == read_table("Containers", 2)


def test_every_mounted_volume_has_a_row(manifests):
    pods = list(find_pods(manifests))
    assert {row for pod, name in pods for row in read_mounts(pod, name)} == read_table("Volumes", 4)


def read_rules(role: Mapping[str, Any]) -> Iterator[Row]:
    component = role["metadata"]["labels"]["app.kubernetes.io/component"]
    scope = "cluster" if role["kind"] == "ClusterRole" else "namespace"
    for rule in role["rules"]:
        where = f"{scope}, by name" if rule.get("resourceNames") else scope
        groups = [group or "core" for group in rule["apiGroups"]]
        yield from product([component], [where], groups, rule["resources"], rule["verbs"])


def find_pods(manifests: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Find each pod that has a container of Sidelight, and that container's name."""
    for document in manifests:
        pod = ((document.get("spec") or {}).get("template") or {}).get("spec")
        if document["kind"] == "ConfigMap" and "sidecar.json" in document["data"]:
            sidecar = yaml.safe_load(document["data"]["sidecar.json"])
            pod = {"containers": [sidecar["container"]], "volumes": sidecar["volumes"]}
            pod["shareProcessNamespace"] = True  # by the injector
        for container in (pod or {}).get("containers", []) + (pod or {}).get("initContainers", []):
            if container["name"] in CONTAINERS:
                yield pod, container["name"]
    attached = {"name": "sidelight", "securityContext": SECURITY_CONTEXT, "volumeMounts": []}
    yield {"containers": [attached], "volumes": []}, "sidelight"


def read_settings(pod: Mapping[str, Any], name: str) -> Iterator[Row]:
    [container] = [part for part in all_containers(pod) if part["name"] == name]
    own = name != "sidelight"  # the rest of a sidecar's pod is the service's
    settings = {**(pod.get("securityContext", {}) if own else {}), **container["securityContext"]}
    pods = ("automount", "host", "share") if own else ("host", "share")
    settings |= {key: value for key, value in pod.items() if key.startswith(pods)}
    for key, value in settings.items():
        if key == "capabilities":
            yield from ((CONTAINERS[name], f"capabilities.{k}: {v}") for k in value for v in value[k])
        elif key not in NO_PERMISSION:
            text = value["type"] if key == "seccompProfile" else str(value)
            yield CONTAINERS[name], f"{key}: {text.lower() if isinstance(value, bool) else text}"


def read_mounts(pod: Mapping[str, Any], name: str) -> Iterator[Row]:
    kinds = {volume["name"]: next(key for key in volume if key != "name") for volume in pod["volumes"]}
    [container] = [part for part in all_containers(pod) if part["name"] == name]
    for mount in container["volumeMounts"]:
        access = "read" if mount.get("readOnly") else "write"
        yield CONTAINERS[name], mount["mountPath"], kinds[mount["name"]], access


def all_containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*pod.get("containers", []), *pod.get("initContainers", [])]


def read_table(heading: str, columns: int) -> set[Row]:
    """Read the first columns of the table below a heading; a cell with several values is several rows."""
    [section] = re.findall(
        rf"^### {heading}$(.*?)(?=^#|\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    rows: set[Row] = set()
    for line in lines:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1 : columns + 1]]
        assert all(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]), f"an empty cell: {line}"
        rows |= set(product(*(re.findall(r"`([^`]+)`", cell) for cell in cells)))
    return rows
