"""What was injected, on a real kubelet: which processes it watches, and that it keeps nothing from ending."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from sidelight_kubernetes import label_names
from tests.cluster import images
from tests.cluster.injector_world import ASKED, Injector, await_injection, installed, sidecars
from tests.cluster.programs import Programs, eventually, guarded

Json = dict[str, Any]
SECURED = {"runAsUser": 10001, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
PYTHON = {"image": images.DEMO, "imagePullPolicy": "Never", "securityContext": SECURED}
SLEEPS = "import time\nwhile True: time.sleep(0.05)"


@pytest.fixture(scope="module")
def injector(node, tmp_path_factory) -> Iterator[Injector]:
    repository, _, tag = images.SIDECAR.rpartition(":")
    image = f"sidecar.image.repository={repository},sidecar.image.tag={tag},sidecar.image.pullPolicy=Never"
    folder = tmp_path_factory.mktemp("injector") / "programs"
    with (
        guarded(folder),
        installed(node, Programs(folder), "--set", image, host=node.place.host) as injector,
    ):
        injector.start()
        injector.ready()
        yield injector


@pytest.fixture
def shop(node, injector) -> Iterator[str]:
    with node.namespace(ASKED) as namespace:
        await_injection(node, namespace)
        yield namespace


def pod(name: str, *commands: list[str], **spec: Any) -> Json:
    containers = [
        {"name": f"c{place}", **PYTHON, "command": command} for place, command in enumerate(commands)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 1, **spec},
    }


def running(node, namespace: str, body: Json) -> Json:
    """The pod, once all of its containers run."""
    node.apply(body, namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/{body['metadata']['name']}"

    def check() -> Json | None:
        found = node.get(path)
        statuses = [
            one
            for kind in ("initContainerStatuses", "containerStatuses")
            for one in found["status"].get(kind, [])
        ]
        ready = bool(statuses) and all("running" in one["state"] for one in statuses)
        return found if ready else None

    return eventually("the pod runs", check, 120)


def watched(pod: Json) -> list[Json]:
    """The processes that the pod's sidecar says it watches."""
    try:
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8081/readyz", timeout=60) as answer:
            return json.load(answer)["processes"]
    except urllib.error.HTTPError as error:
        return json.load(error)["processes"]
    except OSError:
        return []


def test_a_container_that_is_named_is_the_only_one_that_is_watched(node, shop):
    two = [["python3", "-c", SLEEPS], ["python3", "-c", SLEEPS]]
    both = running(node, shop, pod("both", *two))
    eventually("both containers' processes are watched", lambda: len(watched(both)) == 2)
    body = pod("one", *two)
    body["metadata"]["annotations"] = {label_names.CONTAINER: "c1"}
    one = running(node, shop, body)
    found = eventually("it is read", lambda: (w := watched(one)) and any(each["reader"] for each in w) and w)
    assert len(found) == 1


def test_a_job_ends_beside_its_sidecar(node, shop):
    template = {"spec": {**pod("x", ["python3", "-c", "pass"])["spec"], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "nightly"}}
    node.apply({**job, "spec": {"template": template, "backoffLimit": 0}}, shop)
    path = f"/apis/batch/v1/namespaces/{shop}/jobs/nightly"
    eventually("the job is complete", lambda: node.get(path)["status"].get("succeeded") == 1, 120)
    [found] = node.get(f"/api/v1/namespaces/{shop}/pods?labelSelector=job-name=nightly")["items"]
    assert len(sidecars(found)) == 1


def test_pods_on_the_nodes_network_do_not_clash(node, shop):
    for name in ("first", "second"):
        found = running(node, shop, pod(name, ["python3", "-c", SLEEPS], hostNetwork=True))
        assert len(sidecars(found)) == 1
        assert all(one["restartCount"] == 0 for one in found["status"]["initContainerStatuses"])


def test_the_apps_own_security_settings_are_in_force_beside_the_sidecars(node, shop):
    strict = {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
    found = running(node, shop, pod("strict", ["python3", "-c", SLEEPS], securityContext=strict))
    eventually("its process is watched", lambda: len(watched(found)) == 1)
    told = node.kubectl("-n", shop, "exec", "strict", "-c", "c0", "--", "id")
    assert "uid=10001" in told
    assert "uid=0" in node.kubectl("-n", shop, "exec", "strict", "-c", label_names.SIDECAR, "--", "id")
    token = ("exec", "strict", "-c", label_names.SIDECAR, "--", "cat", "/etc/sidelight/token")
    assert node.kubectl("-n", shop, *token).count(".") == 2
