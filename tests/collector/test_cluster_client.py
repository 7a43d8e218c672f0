"""The client of Kubernetes where there is no cluster; tests/cluster has it with one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sidelight.settings import BadSetting
from sidelight_kubernetes.kubernetes_client import KubernetesClient, resource_of


def test_nobody_pays_for_libraries_of_clusters_and_of_tls_who_uses_neither() -> None:
    modules = "sidelight_collector.main, sidelight_kubernetes.kubernetes_client"
    code = f"import sys, {modules}; print({{'kubernetes', 'cryptography'}} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


@pytest.mark.parametrize(
    ("where", "hint"), [("in-cluster", "service account"), ("/nowhere/config", "kubectl")]
)
def test_no_way_to_a_cluster_is_a_setting_to_mend(
    where: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadSetting) as told:
        KubernetesClient.open(where)
    assert hint in told.value.hint


def test_a_broken_kubeconfig_is_a_setting_to_mend(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("clusters: [")
    with pytest.raises(BadSetting):
        KubernetesClient.open(str(tmp_path / "config"))


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/x", "namespaces"),
        ("/api/v1/namespaces/x/pods", "pods"),
        ("/api/v1/namespaces/x/pods/y", "pods"),
        ("/api/v1/namespaces/x/pods/y/ephemeralcontainers", "pods/ephemeralcontainers"),
        ("/apis/apps/v1/namespaces/x/deployments/y", "deployments"),
        ("/apis/authentication.k8s.io/v1/tokenreviews", "tokenreviews"),
        ("/version", "/version"),
    ],
)
def test_a_path_is_named_as_rules_name_its_resource(path: str, resource: str) -> None:
    assert resource_of(path) == resource
