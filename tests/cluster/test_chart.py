"""The chart on a real API server: what it renders is taken, releases come, change, go back and go.

There is no node, so pods are admitted and wait; what runs in them is tested elsewhere.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidelight_collector.kubernetes_discovery.k8s_objects import ResourceKind
from tests.cluster.api import Api
from tests.cluster.programs import eventually

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "sidelight"
RENDERED = ROOT / "deploy" / "helm" / "rendered"
MODES = sorted(path.stem for path in RENDERED.glob("*.yaml"))
TOKENS = "collector.auth.writeTokensSecret=tokens"
S3 = "collector.store.kind=s3,collector.store.s3.url=s3://profiles"


@dataclass(frozen=True)
class Release:
    """A release of the chart in a namespace of its own."""

    api: Api
    namespace: str
    name: str = "sidelight"

    def helm(self, command: str, *arguments: object, check: bool = True) -> str:
        place = ["--kubeconfig", self.api.kubeconfig, "--namespace", self.namespace]
        argv = [ROOT / ".tools" / "bin" / "helm", command, self.name, *arguments, *place]
        done = subprocess.run(
            [str(part) for part in argv], capture_output=True, text=True, timeout=120, check=False
        )
        assert not check or done.returncode == 0, done.stderr + done.stdout
        return done.stdout + done.stderr

    def install(self, *values: str) -> str:
        return self.helm("install", CHART, *_sets(values))

    def upgrade(self, *values: str) -> str:
        return self.helm("upgrade", CHART, *_sets(values))

    def get(self, kind: str, name: str = "sidelight-collector") -> dict[str, Any]:
        text = self.api.kubectl("-n", self.namespace, "get", kind, name, "-o", "json")
        return json.loads(text)

    def names(self, kind: str) -> set[str]:
        text = self.api.kubectl("-n", self.namespace, "get", kind, "-o", "name")
        return {line.rpartition("/")[2] for line in text.split()}

    def may(self, verb: str, what: str, *, namespace: str = "", anywhere: bool = False) -> bool:
        """Whether the collectors may do something, in their own namespace unless another is named."""
        account = f"system:serviceaccount:{self.namespace}:sidelight-collector"
        place = ["--all-namespaces"] if anywhere else ["-n", namespace or self.namespace]
        kind, _, part = what.partition("/")
        place += [f"--subresource={part}"] if part else []
        done = self.api.try_kubectl("auth", "can-i", verb, kind, "--as", account, *place)
        return done.stdout.strip() == "yes"

    def must(self, verb: str, what: str, *, namespace: str = "", anywhere: bool = False) -> None:
        """Wait until they may: the API server hears of its own roles a little later."""
        eventually(f"may {verb} {what}", lambda: self.may(verb, what, namespace=namespace, anywhere=anywhere))


def _sets(values: tuple[str, ...]) -> list[str]:
    everything = ("collector.auth.readTokensSecret=readers", *values)
    return [part for value in everything for part in ("--set", value)]


@pytest.fixture(scope="session")
def definitions(api: Api) -> None:
    """The kinds that are not Kubernetes' own."""
    for path in (ROOT / ".tools" / "crds").glob("*.yaml"):
        api.kubectl("apply", "--server-side", "-f", path)
    api.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")


@pytest.fixture
def release(api: Api, definitions: None) -> Iterator[Release]:
    with api.namespace() as namespace:
        made = Release(api, namespace)
        yield made
        made.helm("uninstall", "--ignore-not-found")


@pytest.mark.parametrize("mode", MODES)
def test_the_api_server_takes_what_is_rendered(mode: str, api: Api, definitions: None) -> None:
    with api.namespace() as namespace:
        text = (RENDERED / f"{mode}.yaml").read_text(encoding="utf-8")
        documents = [document for document in yaml.safe_load_all(text) if document]
        for document in documents:
            if "namespace" in document["metadata"]:
                document["metadata"]["namespace"] = namespace
        taken = api.kubectl(
            *("apply", "--dry-run=server", "--validate=strict", "-n", namespace, "-f", "-"),
            input=yaml.safe_dump_all(documents),
        )
    assert taken.count("server dry run") == len(documents)


def test_a_release_is_installed_changed_taken_back_and_removed(release: Release) -> None:
    release.install(TOKENS)
    assert release.get("deployment")["spec"]["replicas"] == 1
    assert release.names("persistentvolumeclaims") == {"sidelight-collector"}

    release.upgrade(TOKENS, S3, "collector.replicas=3", "compactor.enabled=true")
    assert release.get("deployment")["spec"]["replicas"] == 3
    assert release.names("deployments") == {"sidelight-collector", "sidelight-compactor"}
    assert "sidelight-collector" in release.names("poddisruptionbudgets")

    release.helm("rollback", 1)
    assert release.names("deployments") == {"sidelight-collector"}
    assert release.get("deployment")["spec"]["strategy"] == {"type": "Recreate"}

    release.helm("uninstall")
    assert release.names("deployments") == set()
    assert release.names("services") == set()
    assert release.names("serviceaccounts") == {"default"}


def test_data_outlives_every_step_and_is_taken_up_again(release: Release) -> None:
    release.install(TOKENS)
    before = release.get("persistentvolumeclaim")["metadata"]["uid"]
    release.upgrade(TOKENS, S3)
    release.helm("rollback", 1)
    release.helm("uninstall")
    assert release.get("persistentvolumeclaim")["metadata"]["uid"] == before
    release.install(TOKENS)
    assert release.get("persistentvolumeclaim")["metadata"]["uid"] == before


def test_a_claim_that_is_not_to_be_kept_goes_with_the_release(release: Release) -> None:
    release.install(TOKENS, "collector.store.directory.keep=false")
    release.helm("uninstall")
    # The claim is protected while a pod that waits for a node names it.
    eventually("the claim is gone", lambda: release.names("persistentvolumeclaims") == set())


def test_two_releases_of_one_name_live_in_two_namespaces(release: Release, api: Api) -> None:
    with api.namespace() as elsewhere:
        other = Release(api, elsewhere)
        asks = ("kubernetes.identity=true", "kubernetes.discovery=true")
        release.install(TOKENS, *asks)
        other.install(TOKENS, *asks)
        other.helm("uninstall")
        release.must("list", "pods", anywhere=True)


def test_collectors_may_look_and_review_tokens_and_nothing_else(release: Release) -> None:
    release.install()
    release.must("create", "tokenreviews.authentication.k8s.io")
    release.must("get", "pods", anywhere=True)
    for kind in ResourceKind:
        for verb in ("list", "watch"):
            what = f"{kind}.{kind.group}" if kind.group else kind
            release.must(verb, what, anywhere=True)
    for verb, kind in (
        ("delete", "pods"),
        ("create", "pods/exec"),
        ("patch", "pods/ephemeralcontainers"),
        ("get", "secrets"),
        ("get", "configmaps"),
        ("patch", "deployments.apps"),
        ("create", "subjectaccessreviews.authorization.k8s.io"),
    ):
        assert not release.may(verb, kind), (verb, kind)


def test_collectors_of_some_namespaces_see_nothing_of_others(release: Release, api: Api) -> None:
    with api.namespace() as shop:
        release.install(
            TOKENS,
            "kubernetes.identity=true",
            "kubernetes.discovery=true",
            "kubernetes.attach=true",
            f"kubernetes.namespaces={{{shop}}}",
        )
        release.must("watch", "pods", namespace=shop)
        release.must("patch", "pods/ephemeralcontainers", namespace=shop)
        release.must("create", "tokenreviews.authentication.k8s.io")
        assert not release.may("list", "pods", anywhere=True)
        assert not release.may("get", "pods")


def test_collectors_that_ask_nothing_of_the_cluster_may_nothing(release: Release) -> None:
    release.install(TOKENS, "kubernetes.identity=false", "kubernetes.discovery=false")
    assert not release.may("create", "tokenreviews.authentication.k8s.io")
    assert not release.may("get", "pods")


@pytest.mark.parametrize("mode", ["directory", "s3", "s3-compatible"])
def test_collectors_run_where_pod_security_is_restricted(mode: str, api: Api, definitions: None) -> None:
    with api.namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        [pod] = [_pod(document) for document in _deployments(mode)]
        taken = _try_pod(api, namespace, pod)
        assert taken.returncode == 0, taken.stderr


def test_a_sidecar_with_sys_ptrace_needs_a_namespace_that_lets_it(api: Api) -> None:
    [pod] = [_pod(document) for document in _deployments("sidecar")]
    for level in ("restricted", "baseline"):
        with api.namespace({"pod-security.kubernetes.io/enforce": level}) as namespace:
            refused = _try_pod(api, namespace, pod)
            assert refused.returncode != 0
            assert "SYS_PTRACE" in refused.stderr
    with api.namespace({"pod-security.kubernetes.io/enforce": "privileged"}) as namespace:
        taken = _try_pod(api, namespace, pod)
        assert taken.returncode == 0, taken.stderr


def test_a_sidecar_that_is_the_services_user_is_taken_where_pod_security_is_restricted(api: Api) -> None:
    [pod] = [_pod(document) for document in _deployments("sidecar-native")]
    for container in pod["spec"]["containers"]:
        container["securityContext"]["seccompProfile"] = {"type": "RuntimeDefault"}
    with api.namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        taken = _try_pod(api, namespace, pod)
        assert taken.returncode == 0, taken.stderr


def _deployments(mode: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((RENDERED / f"{mode}.yaml").read_text(encoding="utf-8"))
    return [document for document in documents if document["kind"] == "Deployment"]


def _pod(deployment: dict[str, Any]) -> dict[str, Any]:
    template = deployment["spec"]["template"]
    spec = {**template["spec"]}
    spec.pop("serviceAccountName", None)
    labels = template["metadata"]["labels"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try", "labels": labels}, "spec": spec}


def _try_pod(api: Api, namespace: str, pod: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return api.try_kubectl("-n", namespace, "apply", "--dry-run=server", "-f", "-", input=yaml.safe_dump(pod))
