"""The chart's injector, installed and upgraded by helm on a real API server, and the YAML to paste."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from sidelight_kubernetes import label_names
from tests.cluster.api import Api
from tests.cluster.injector_world import CHART, NAME, Injector, pod, rendered, sidecars
from tests.cluster.programs import ROOT, Programs, eventually, guarded
from tests.processes import free_port

VALUES = (
    "kubernetes.identity=true,sidecar.serviceAccountToken.enabled=true,injector.enabled=true,"
    "collector.auth.readTokensSecret=readers"
)


def helm(api: Api, namespace: str, *arguments: object) -> str:
    command = [
        ROOT / ".tools" / "bin" / "helm",
        "--kubeconfig",
        api.kubeconfig,
        "--namespace",
        namespace,
        *arguments,
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_upgrade_leaves_certificates_and_trust_alone_and_an_uninstall_nothing_behind(api, tmp_path: Path):
    with guarded(tmp_path / "programs") as folder, api.namespace() as namespace:
        helm(api, namespace, "install", "sidelight", CHART, "--set", VALUES)
        injector = Injector(api, Programs(folder), namespace, rendered(namespace), free_port())
        injector.start()
        injector.ready()
        secret, trusted = injector.secret(), injector.trusted()
        assert trusted in secret["ca.crt"]

        helm(api, namespace, "upgrade", "sidelight", CHART, "--set", f"{VALUES},sidecar.settings.rate=50")
        assert injector.secret() == secret
        assert injector.trusted() == trusted
        assert injector.number('certificates_issued_total{kind="leaf"}') == 1
        helm(api, namespace, "rollback", "sidelight")
        assert injector.secret() == secret
        assert injector.trusted() == trusted

        injector.programs.end("injector")
        helm(api, namespace, "uninstall", "sidelight")
        for kind in ("mutatingwebhookconfigurations", "clusterroles", "clusterrolebindings"):
            assert NAME not in api.kubectl("get", kind, "-o", "name")
        assert NAME not in api.kubectl(
            "-n", namespace, "get", "secret,configmap,deployment,service", "-o", "name"
        )


def test_every_object_of_the_injector_is_taken_by_the_api_server(api):
    with api.namespace() as namespace:
        flags = ("--set", "networkPolicy.egress.enabled=true")
        documents: list[dict[str, Any]] = rendered(namespace, *flags)
        for document in documents:
            text = yaml.safe_dump(document)
            api.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)
        kinds = {one["kind"] for one in documents}
        assert kinds >= {"Deployment", "MutatingWebhookConfiguration", "NetworkPolicy", "PodDisruptionBudget"}


def test_the_yaml_to_paste_patches_a_deployment(api):
    template = {"metadata": {"labels": {"app": "checkout"}}, "spec": pod("x")["spec"]}
    template["spec"].pop("terminationGracePeriodSeconds")
    template["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "checkout"},
        "spec": {"selector": {"matchLabels": {"app": "checkout"}}, "template": template},
    }
    patch = ROOT / "deploy" / "helm" / "rendered" / "paste" / "sidecar.yaml"
    with api.namespace() as namespace:
        api.apply(deployment, namespace)
        for _ in range(2):
            api.kubectl("-n", namespace, "patch", "deployment", "checkout", "--patch-file", patch)

        def pods() -> list[dict[str, Any]]:
            found = json.loads(api.kubectl("-n", namespace, "get", "pods", "-o", "json"))["items"]
            return [one for one in found if sidecars(one)]

        [found] = eventually("a pod with the sidecar is there", pods)
        assert [one["name"] for one in found["spec"]["containers"]] == ["app"]
        assert {"own", label_names.SIDECAR} <= {one["name"] for one in found["spec"]["volumes"]}
        assert found["spec"]["shareProcessNamespace"] is True
