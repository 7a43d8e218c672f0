"""The cluster of these tests is a real one: it authenticates, allows, denies and refuses."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control import Where, start, version
from tests.cluster.programs import Programs, eventually, guarded, started_at


def pod(name: str, **security: Any) -> dict[str, Any]:
    container = {"name": "app", "image": "app", "securityContext": security}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def test_the_api_server_is_of_the_version_that_go_mod_names(api):
    assert api.get("/version")["gitVersion"] == version()


def test_an_account_may_do_what_its_role_says_and_nothing_else(api):
    with api.namespace() as namespace:
        api.service_account(namespace, "reader")
        reader = api.kubeconfig_of(namespace, "reader")
        assert "cannot list resource" in api.try_kubectl("get", "pods", config=reader).stderr

        api.kubectl("-n", namespace, "create", "role", "pods", "--verb=get,list", "--resource=pods")
        account = f"--serviceaccount={namespace}:reader"
        api.kubectl("-n", namespace, "create", "rolebinding", "pods", "--role=pods", account)

        def allowed() -> bool:
            return api.try_kubectl("auth", "can-i", "list", "pods", config=reader).returncode == 0

        eventually("the binding is in force", allowed)
        assert api.kubectl("get", "pods", "-o", "name", config=reader) == ""
        assert "cannot list resource" in api.try_kubectl("get", "secrets", config=reader).stderr


def test_a_token_bound_to_a_pod_names_it_and_is_good_for_its_audience_alone(api):
    with api.namespace() as namespace:
        api.service_account(namespace, "app")
        path = f"/api/v1/namespaces/{namespace}/pods"
        body = pod("one")
        body["spec"]["serviceAccountName"] = "app"
        assert api.call("POST", path, body)[0] == 201
        token = api.token(namespace, "app", audience="sidelight", pod="one")

        def review(audience: str) -> Any:
            spec = {"token": token, "audiences": [audience]}
            return api.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": spec})[1][
                "status"
            ]

        good = review("sidelight")
        assert good["authenticated"] is True
        assert good["user"]["username"] == f"system:serviceaccount:{namespace}:app"
        assert good["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["one"]
        assert not review("somebody-else").get("authenticated")
        assert json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))["aud"] == ["sidelight"]
        assert api.call("GET", path, token=token)[0] == 401, "no token for the API server"


@pytest.mark.parametrize(("level", "status"), [("baseline", 403), ("privileged", 201)])
def test_pod_security_baseline_refuses_sys_ptrace(api, level, status):
    with api.namespace({"pod-security.kubernetes.io/enforce": level}) as namespace:
        body = pod("traced", capabilities={"add": ["SYS_PTRACE"]})
        found, answer = api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)
        assert found == status
        assert status == 201 or "SYS_PTRACE" in answer["message"]


def test_everything_is_gone_after_a_cluster_has_ended(tmp_path: Path):
    folder = tmp_path / "cluster"
    with guarded(folder):
        programs = Programs(folder)
        api = start(programs, Where())
        pids = {name: programs.pid(name) for name in programs.names()}
        assert set(pids) == {"etcd", "kube-apiserver", "kube-controller-manager"}
        assert api.ready()
    assert [name for name, pid in pids.items() if pid is None or started_at(pid)] == []
    assert not folder.exists()
